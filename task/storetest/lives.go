package storetest

import (
	"fmt"
	"time"

	"github.com/askback-mcp/askback/task"
)

// wantLives requires that a task lives so long from now, by the store's clock, which wrote at this time.
func (f *fixture) wantLives(what string, s task.Store, id string, from time.Time, d time.Duration) {
	left := f.get(s, id).Expires.Sub(from)
	f.check(left >= d-patience && left <= d+patience, "%s: the task lives %v longer, want %v", what, left, d)
}

// How long a task lives.
var liveTests = []test{
	{"Expires is the store's, counts a TTL from the update, and never gets earlier", func(f *fixture, s task.Store) {
		t := f.add(s, "alice")
		born := t.Expires
		t.Expires = t.Created.Add(-100 * long)
		f.update(s, t, task.Update{Keep: true})
		f.check(t.Expires.Equal(born), "Expires is %v, and was %v", t.Expires, born)
		f.wantRow(s, t)
		f.update(s, t, task.Update{Keep: true, TTL: time.Minute})
		f.check(t.Expires.Equal(born), "a shorter TTL made Expires %v, and it was %v", t.Expires, born)
		f.update(s, t, task.Update{Keep: true, TTL: 3 * long})
		f.wantLives("with a TTL", s, t.ID, t.Updated, 3*long)
		f.wantRow(s, t)
	}},
	{"a task that goes on after it was parked has its whole time to live, or the longest that an update gave it",
		func(f *fixture, s task.Store) {
			for _, given := range []time.Duration{0, 3 * long} {
				t := f.past().addRunning(s, "alice")
				f.updateStatus(s, t, task.InputRequired, task.Update{Leased: true, Due: -1, TTL: given})
				f.updateStatus(s, t, task.InputRequired, task.Update{Due: -1})
				at := t.Expires
				f.updateStatus(s, t, task.Working, task.Update{Due: -1})
				if given > 0 {
					f.wantLives("woken", s, t.ID, t.Updated, given)
				} else if t.Expires.Sub(at) > patience {
					f.Errorf("it lives %v longer", t.Expires.Sub(at))
				}
				at = t.Expires
				f.update(s, t, task.Update{Due: -1})
				f.updateStatus(s, t, task.Completed, task.Update{Due: -1})
				f.check(t.Expires.Equal(at), "a task that has not been parked lives until %v, want %v", t.Expires, at)
			}
		}},
	{"an update that is for the end of a time to live is ErrEarly before it, and then nothing is written",
		func(f *fixture, s task.Store) {
			for _, leased := range []bool{false, true} {
				t := f.addRunning(s, "alice")
				want := clone(t)
				t.Status = task.Failed
				u := task.Update{Expired: true, Leased: leased, Keep: true, Entries: list("x")}
				f.wantUpdate(s, t, u, task.ErrEarly)
				f.wantRow(s, want)
				f.wantJournal(s, t.ID)
				past := f.past().addRunning(s, "alice")
				past.Status = task.Failed
				f.update(s, past, u)
				f.wantRow(s, past)
				// A task that has ended stays so.
				past.Status = task.Cancelled
				f.wantUpdate(s, past, u, task.ErrEnded)
			}
		}},
	{"a question that is new or moved lets its task outlive its deadline, and one that is there does not",
		func(f *fixture, s task.Store) {
			q := within(5*long, "key", "user:bob")
			t := f.addAsking(s, "alice", q)
			f.wantLives("asked", s, t.ID, t.Updated, 5*long+task.AfterDeadline)
			f.wantRow(s, t)
			at := t.Expires
			f.wake(s, t)
			f.tick(s, t.Updated)
			f.park(s, t, q)
			f.check(t.Expires.Equal(at), "asked again, it lives until %v, and did until %v", t.Expires, at)
			open := f.edit(s, t.ID, "key", func(q *task.Question) { q.Votes = []byte("vote") })
			f.wantRow(s, t)
			open.Deadline = open.Deadline.Add(long)
			f.change(s, open)
			t.Expires = open.Deadline.Add(task.AfterDeadline)
			f.wantRow(s, t)
			f.wantQuestion(s, open)
			open.Deadline = open.Deadline.Add(-2 * long)
			f.change(s, open)
			f.wantRow(s, t)
		}},
	{"a decision leaves the task its whole time to live, whether it is parked or runs, and so does a deadline",
		func(f *fixture, s task.Store) {
			for _, runs := range []bool{false, true} {
				for _, late := range []bool{false, true} {
					// It was given three hours, of which all but a moment are over.
					t, asks := f.past().addRunning(s, "alice"), forBob("key")
					if late {
						asks[0].Within = time.Millisecond
					}
					f.updateStatus(s, t, task.InputRequired, task.Update{Leased: true, Due: -1, TTL: 3 * long, Ask: asks})
					other := f.past().addAsking(s, "alice", question("key", "user:bob"))
					if runs {
						f.wake(s, t)
					}
					f.tick(s, t.Updated.Add(5*time.Millisecond))
					before := f.get(s, t.ID)
					f.wantChange(s, f.decision(s, t.ID, "key"), late, nil)
					decided := f.question(s, t.ID, "key").Changed
					f.wantLives(fmt.Sprintf("decided, runs: %v, late: %v", runs, late), s, t.ID, decided, 3*long)
					after := f.get(s, t.ID).Expires
					f.check(after.After(before.Expires), "it lives until %v, as before the decision", after)
					f.wantRow(s, other)
				}
			}
		}},
	{"a decision of a task whose time to live has ended keeps it from being expired", func(f *fixture, s task.Store) {
		t := f.past().addRunning(s, "alice")
		f.updateStatus(s, t, task.InputRequired,
			task.Update{Leased: true, Due: -1, TTL: time.Millisecond, Ask: forBob("key")})
		f.eventually("it has expired", func() bool { return len(f.expired(s, 10)) == 1 })
		stale := f.get(s, t.ID)
		f.decide(s, t.ID, "key")
		f.update(s, f.get(s, t.ID), task.Update{Keep: true, TTL: long})
		stale.Version = f.get(s, t.ID).Version
		stale.Status = task.Failed
		f.wantUpdate(s, stale, task.Update{Expired: true}, task.ErrEarly)
		f.check(len(f.expired(s, 10)) == 0, "it is still among those that have expired")
	}},
}

// What a write under a lease does to it.
var prolongTests = []test{
	{"a task that records or reports does not lose its lease, though nobody renews it", func(f *fixture, s task.Store) {
		for what, write := range map[string]func(t *task.Task){
			"records": func(t *task.Task) { f.append(s, t.ID, t.Claim, "step") },
			"reports": func(t *task.Task) { f.update(s, t, task.Update{Leased: true, Keep: true}) },
		} {
			const lease = 60 * time.Millisecond
			t := f.add(s, "alice")
			later := f.addParked(s, "alice")
			c := f.claimThis(s, t.ID, lease)
			f.update(s, later, task.Update{Due: lease}) // due when the lease would have ended
			f.tick(s, later.Updated.Add(lease/2))
			write(c)
			got := f.claimNext(s)
			f.check(got.ID == later.ID, "a task that %s has lost its lease", what)
			f.update(s, f.get(s, t.ID), task.Update{Due: -1})
		}
	}},
	{"a write under a lease that was given back is made, and does not take it again", func(f *fixture, s task.Store) {
		for what, giveBack := range map[string]func(c *task.Task){
			"an update": func(c *task.Task) { f.update(s, c, task.Update{Leased: true, Due: 0}) },
			"a renewal": func(c *task.Task) { f.release(s, c) },
			"parked":    func(c *task.Task) { f.update(s, c, task.Update{Leased: true, Due: -1}) },
		} {
			c := f.addLeased(s)
			giveBack(c)
			f.append(s, c.ID, c.Claim, "late")
			f.update(s, c, task.Update{Leased: true, Keep: true})
			if what == "parked" {
				f.noneDue(s)
				continue
			}
			again := f.tryClaim(s, "", long)
			f.check(again != nil && again.ID == c.ID, "after %s and a late write the task is not due", what)
		}
	}},
	{"a write that is refused leaves the lease as it is", func(f *fixture, s task.Store) {
		const lease = 60 * time.Millisecond
		f.add(s, "alice")
		start := time.Now()
		c := f.claim(s, "", lease)
		stale := clone(c)
		stale.Version++
		for f.tryClaim(s, "", long) == nil {
			f.wantUpdate(s, stale, task.Update{Leased: true, Keep: true}, task.ErrConflict)
			f.wantAppend(s, c.ID, c.Claim, 7, task.ErrConflict)
			f.require(time.Since(start) <= patience, "the lease of %v has not ended after %v", lease, patience)
		}
	}},
}
