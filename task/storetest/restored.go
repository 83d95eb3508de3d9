package storetest

import (
	"testing"

	"github.com/askback-mcp/askback/task"
)

// RunLostCommits runs the suite of what a [task.Store] does when its database has lost commits, as an asynchronous
// failover or a restored backup does: the next claim has the number of a lost one, and only the nonces differ. Database
// is called for each test, as by [Run]. Its second function saves the database, and returns one that puts it back as it
// was then: with PostgreSQL a template, with SQLite a copy of the file. No handle is open while either of them runs.
func RunLostCommits(
	t *testing.T, database func(t *testing.T) (open func(*testing.T) task.Store,
		save func(*testing.T) (restore func(*testing.T))),
) {
	for _, test := range restoredTests {
		parallel(t, test.says, func(in suite) {
			open, save := database(in.T)
			test.run(&restored{fixture: fixture{suite: in, database: open, ttl: long}, save: save})
		})
	}
}

type restored struct {
	fixture
	save func(*testing.T) (restore func(*testing.T))
}

// with opens a handle for a part of a test.
func (r *restored) with(do func(s task.Store)) {
	s := r.database(r.T)
	do(s)
	r.ok("Close", s.Close())
}

// lose does what the database then loses.
func (r *restored) lose(do func(s task.Store)) {
	restore := r.save(r.T)
	r.with(do)
	restore(r.T)
}

var restoredTests = []struct {
	says string
	run  func(r *restored)
}{
	{"under a claim that was lost nothing is written, although the next one has its number", func(r *restored) {
		claims := map[string]func(s task.Store, t *task.Task) *task.Task{
			"Claim": func(s task.Store, t *task.Task) *task.Task { return r.claimThis(s, t.ID, long) },
			"Update": func(s task.Store, t *task.Task) *task.Task {
				t = r.get(s, t.ID)
				r.update(s, t, task.Update{Lease: long})
				return t
			},
		}
		for first, claim := range claims {
			for second, claimAgain := range claims {
				var t, lost *task.Task
				r.with(func(s task.Store) { t = r.add(s, "alice") })
				r.lose(func(s task.Store) { lost = claim(s, t) })
				r.with(func(s task.Store) {
					current := claimAgain(s, t)
					r.require(lost.Fence == current.Fence && lost.Nonce != current.Nonce,
						"%s made the claim %v, which was lost, and then %s made %v", first, lost.Claim, second, current.Claim)
					r.append(s, t.ID, current.Claim, "mine")
					r.wantAppend(s, t.ID, lost.Claim, 1, task.ErrLeaseLost)
					r.wantRenew(s, t.ID, lost.Claim, task.ErrLeaseLost)
					r.wantRefused(s, lost, current.Version, lost.Claim, task.ErrLeaseLost, task.Update{Leased: true, Due: -1})
					r.wantJournal(s, t.ID, "mine")
					r.noneDue(s)
					current.Attempts = 0
					r.wantRow(s, current)
					r.update(s, current, task.Update{Leased: true, Due: -1})
				})
			}
		}
	}},
	{"under a claim that was lost nothing is written before there is another", func(r *restored) {
		var t, lost *task.Task
		r.with(func(s task.Store) { t = r.add(s, "alice") })
		r.lose(func(s task.Store) { lost = r.claimThis(s, t.ID, long) })
		r.with(func(s task.Store) {
			r.wantAppend(s, t.ID, lost.Claim, 0, task.ErrLeaseLost)
			r.wantRow(s, t)
			r.wantJournal(s, t.ID)
		})
	}},
	{"a claim that was kept still counts, and what was lost is written again", func(r *restored) {
		var c *task.Task
		r.with(func(s task.Store) {
			c = r.addLeased(s)
			r.append(s, c.ID, c.Claim, "kept")
		})
		r.lose(func(s task.Store) { r.append(s, c.ID, c.Claim, "lost") })
		r.with(func(s task.Store) {
			r.wantAppend(s, c.ID, c.Claim, 2, task.ErrConflict)
			r.append(s, c.ID, c.Claim, "again")
			r.wantJournal(s, c.ID, "kept", "again")
			r.renew(s, c, long)
		})
	}},
}
