package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/task"
)

var journalTests = []test{
	{"the entries of all writers are in the order of the writes, also in a claim", func(f *fixture, s task.Store) {
		handles := f.instances(s, 2)
		t := f.create(s, newTask("alice"), "c1", "c2")
		other := f.create(s, newTask("alice"), "other")
		want := []string{"c1", "c2"}
		for i := range 12 {
			s := handles[i%2]
			entry := fmt.Sprint("a", i)
			f.append(s, t.ID, t.Claim, entry)
			f.append(s, other.ID, other.Claim, "other")
			f.update(s, t, task.Update{Keep: true, Entries: list(entry+" x", entry+" y")})
			f.update(s, t, task.Update{Keep: true})
			want = append(want, entry, entry+" x", entry+" y")
		}
		for _, s := range handles {
			f.wantJournal(s, t.ID, want...)
		}
		for _, c := range f.claimAll(s, "", nil, 10) {
			if c.ID == t.ID {
				f.wantEqual("what a claim brings", c.Entries, list(want...))
			}
		}
	}},
	{"a read of a journal has as many entries as it wants", func(f *fixture, s task.Store) {
		t, want := newTask("alice"), []string{"one", "two", "three"}
		f.create(s, t, want[:2]...)
		f.append(s, t.ID, t.Claim, want[2])
		for most := -1; most <= 4; most++ {
			n := most
			if most < 0 || most > len(want) {
				n = len(want)
			}
			call, entries, err := s.Journal(f.ctx, t.ID, most)
			f.ok("Journal", err)
			f.wantEqual(fmt.Sprintf("with up to %d entries", most), append(entries, call), list(append(want[:n:n], "call")...))
		}
		_, _, err := s.Journal(f.ctx, newID(), 0)
		f.wantError("Journal of no task", err, task.ErrNotFound)
	}},
	{"Append sets Attempts to 0 and changes nothing else in the row", func(f *fixture, s task.Store) {
		_, c := f.loseLease(s, s)
		f.require(c.Attempts == 2, "Attempts is %d after two claims, want 2", c.Attempts)
		f.tick(s, c.Created)
		for range 2 {
			f.append(s, c.ID, c.Claim, "step")
			c.Attempts = 0
			f.wantRow(s, c)
		}
		f.noneDue(s)
		f.release(s, c)
		c = f.claim(s, "", long)
		f.check(c.Attempts == 1, "Attempts is %d after a claim, want 1", c.Attempts)
	}},
	{"Append after another claim is ErrLeaseLost, and adds nothing", func(f *fixture, s task.Store) {
		other := f.instances(s, 2)[1]
		lost := f.addLeased(s)
		f.append(s, lost.ID, lost.Claim, "mine")
		f.release(s, lost)
		current := f.claim(other, "", long)
		for _, claim := range others(lost, current) {
			f.wantAppend(s, lost.ID, claim, 1, task.ErrLeaseLost)
		}
		f.wantRow(s, current)
		f.wantJournal(s, lost.ID, "mine")
	}},
	{"Append needs only the claim, and no running lease or certain status", func(f *fixture, s task.Store) {
		for _, status := range statuses {
			c := f.addLeased(s)
			f.release(s, c)
			f.append(s, c.ID, c.Claim, "late")
			f.updateStatus(s, c, status, task.Update{Due: -1})
			f.append(s, c.ID, c.Claim, string(status))
			f.noneDue(s)
			f.wantJournal(s, c.ID, "late", string(status))
			f.update(s, c, task.Update{Due: 0})
			f.claim(s, "", long)
			f.wantAppend(s, c.ID, c.Claim, 2, task.ErrLeaseLost)
		}
	}},
	{"Append behind another number of entries than there are is ErrConflict, and adds nothing",
		func(f *fixture, s task.Store) {
			c := f.addLeased(s)
			f.append(s, c.ID, c.Claim, "one")
			for _, there := range []int{0, 2, -1} {
				f.wantAppend(s, c.ID, c.Claim, there, task.ErrConflict)
			}
			f.wantJournal(s, c.ID, "one")
			f.update(s, c, task.Update{Keep: true, Entries: list("answer")})
			f.wantAppend(s, c.ID, c.Claim, 1, task.ErrConflict)
			f.append(s, c.ID, c.Claim, "two")
			f.wantJournal(s, c.ID, "one", "answer", "two")
		}},
	{"of appends behind the same entry one is made, beside one of the updates of the same version, and none is lost",
		func(f *fixture, s task.Store) {
			handles := f.instances(s, 2)
			c := f.addLeased(s)
			there := 0
			for range 15 {
				made := succeed(&f.suite, 6, task.ErrConflict, func(i int) (string, error) {
					if entry := fmt.Sprint("append ", i); i < 3 {
						return entry, handles[i%2].Append(f.ctx, c.ID, c.Claim, there, []byte(entry))
					}
					entry, t := fmt.Sprint("update ", i), clone(c)
					t.Message = entry
					return entry, handles[i%2].Update(f.ctx, t, task.Update{Keep: i == 3, Due: long, Entries: list(entry)})
				})
				got := f.entries(s, c.ID)[there:]
				slices.Sort(made)
				slices.Sort(got)
				f.wantEqual("the entries of those that succeeded", got, made)
				updates := slices.IndexFunc(made, func(entry string) bool { return strings.HasPrefix(entry, "update") })
				f.require(updates >= 0 && updates == len(made)-1 && updates <= 1,
					"%q were made, want one update, and one append at most", made)
				there += len(made)
				next := f.get(s, c.ID)
				f.require(next.Version == c.Version+1 && next.Message == made[updates],
					"after the update %q the row is %+v", made[updates], next)
				c = next
			}
		}},
	{"what the old worker appended is in the journal that the new one reads, and nothing comes after",
		func(f *fixture, s task.Store) {
			// Workers claim the same tasks under leases that end at once, and write to them until they lose them. The engine
			// relies on a claim as a clean cut: before it come the old worker's entries, after it none of them.
			const tasks, claims = 2, 60
			handles := f.instances(s, 3)
			for range tasks {
				f.add(s, "alice")
			}
			// A claim has the journal as it was after it, and the entries that its worker then wrote.
			type claim struct {
				*task.Task
				read, written []string
			}
			claimsOf := make(map[string][]claim)
			for _, c := range together(&f.suite, 6, func(i int, add func(claim)) error {
				s := handles[i%len(handles)]
				for claimed := 0; claimed < claims && !f.Failed(); {
					t, err := claimOne(s, f.ctx, "", nil, time.Duration(i%2)*time.Millisecond)
					if err != nil {
						return err
					}
					if t == nil {
						continue
					}
					claimed++
					c := claim{Task: t}
					_, entries, err := s.Journal(f.ctx, t.ID, -1)
					for _, e := range entries {
						c.read = append(c.read, string(e))
					}
					for n := 0; n < 4 && err == nil; n++ {
						entry := fmt.Sprintf("%06d %d", t.Fence, n)
						if n == 3 {
							// The version is the version of the claim: only the holder of the lease writes.
							err = s.Update(f.ctx, t, task.Update{Leased: true, Keep: true, Entries: list(entry)})
						} else {
							err = s.Append(f.ctx, t.ID, t.Claim, len(entries)+n, []byte(entry))
						}
						if err == nil {
							c.written = append(c.written, entry)
						}
					}
					add(c)
					if err != nil && !errors.Is(err, task.ErrLeaseLost) {
						return err
					}
				}
				return nil
			}) {
				claimsOf[c.ID] = append(claimsOf[c.ID], c)
			}
			for id, claims := range claimsOf {
				last := f.entries(s, id)
				var written []string
				slices.SortFunc(claims, func(a, b claim) int { return int(a.Fence - b.Fence) })
				for i, c := range claims {
					f.check(c.Fence == int64(i+1), "claim %d has the fence %d", i+1, c.Fence)
					written = append(written, c.written...)
				}
				f.wantEqual("the entries that were acknowledged, in the order of fences", last, written)
				for _, c := range claims {
					// It may have read what came under higher fences already: its own lease was short.
					lower := 0
					for lower < len(last) && last[lower] < fmt.Sprintf("%06d ", c.Fence) {
						lower++
					}
					read := len(c.read)
					f.require(read >= lower && read <= len(last) && slices.Equal(c.read, last[:read]),
						"the claim under fence %d read a journal of %d entries that is not the beginning of the last one "+
							"with the %d of lower fences:\n%q\nlast\n%q", c.Fence, read, lower, c.read, last)
				}
			}
		}},
}
