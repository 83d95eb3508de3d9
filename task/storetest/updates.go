package storetest

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/task"
)

var updateTests = []test{
	{"it writes what it is said to write, and leaves the rest", func(f *fixture) {
		handles := f.several(2)
		s := handles[0]
		t := f.add(s, "alice")
		f.release(s, t.ID, f.claim(s, "", long).Fence)
		f.tick(s, t.Created)
		want := f.claim(s, "", long)

		given := clone(want)
		given.Status, given.Message = task.InputRequired, "Überraschung"
		given.Pending, given.Outcome = everyByte, []byte("outcome")
		given.Round, given.Stopped, given.Attempts = 1<<20, true, 9
		given.Expires = want.Created.Add(12345 * time.Millisecond)
		want = clone(given)
		given.Principal, given.Method, given.Target, given.Dialect = "mallory", "x", "y", "z"
		given.Created, given.Updated = time.Unix(1, 0), time.Unix(2, 0)
		given.PollInterval, given.Fence = time.Hour, 77
		asGiven := clone(given)

		f.update(s, given, task.Update{Keep: true})
		if !given.Updated.After(want.Created) || given.Updated.Sub(want.Created) > 24*time.Hour {
			f.Errorf("Updated is %v, but the update came after the task was created, at %v", given.Updated, want.Created)
		}
		if given.Version != asGiven.Version+1 {
			f.Errorf("Version is %d, want %d", given.Version, asGiven.Version+1)
		}
		asGiven.Updated, asGiven.Version = given.Updated, given.Version
		f.wantSame(given, asGiven) // nothing else is set
		want.Updated, want.Version = given.Updated, given.Version
		for _, s := range handles {
			f.wantRow(s, want)
		}
		if n := len(f.list(s, "mallory", "z", 10)); n != 0 {
			f.Errorf("the task has moved to another principal")
		}

		// And back to nothing.
		want.Status, want.Message, want.Pending, want.Outcome = task.Working, "", nil, nil
		want.Round, want.Stopped, want.Attempts = 0, false, 0
		f.update(s, want, task.Update{Keep: true})
		f.wantRow(handles[1], want)
	}},

	{"the task is there as updated when its handle has been closed and the database is opened again", func(f *fixture) {
		a := f.open()
		t := f.add(a, "alice")
		t.Status, t.Outcome = task.Completed, []byte("done")
		f.update(a, t, task.Update{Due: -1, Entries: list([]string{"one"})})
		if err := a.Close(); err != nil {
			f.Fatalf("Close: %v", err)
		}
		b := f.another()
		f.wantRow(b, t)
		f.wantJournal(b, t.ID, "one")
		f.noneDue(b)
	}},

	{"with a version that is not the stored one it is ErrConflict, and nothing is written", func(f *fixture) {
		handles := f.several(2)
		t := f.add(handles[0], "alice")
		stale := clone(t)
		f.update(handles[0], t, task.Update{Due: -1})
		for _, version := range []int64{0, 2, -1} {
			f.wantRefused(handles[1], stale, version, stale.Fence, task.Update{Due: 0}, task.ErrConflict)
		}
		f.wantRow(handles[0], t)
		f.wantJournal(handles[0], t.ID)
		f.noneDue(handles[0])
	}},

	{"under a lease that is lost it is ErrLeaseLost, and nothing is written", func(f *fixture) {
		handles := f.several(2)
		t := f.add(handles[0], "alice")
		old := f.claim(handles[0], "", long)
		f.release(handles[0], t.ID, old.Fence)
		c := f.claim(handles[1], "", long)
		for _, fence := range []int64{old.Fence, 0, c.Fence + 1} {
			f.wantRefused(handles[0], old, old.Version, fence, task.Update{Leased: true, Due: 0}, task.ErrLeaseLost)
			f.wantRefused(handles[0], old, old.Version, fence, task.Update{Leased: true, Keep: true}, task.ErrLeaseLost)
		}
		f.wantRow(handles[0], c)
		f.wantJournal(handles[0], t.ID)
		f.noneDue(handles[0])
	}},

	// A worker may read again after a conflict, but not after it lost its lease.
	{"who has lost its lease is told so, even if the task was changed as well", func(f *fixture) {
		s := f.open()
		t := f.add(s, "alice")
		old := f.claim(s, "", long)
		f.release(s, t.ID, old.Fence)
		c := f.claim(s, "", long)
		f.update(s, c, task.Update{Leased: true, Keep: true})
		f.wantRefused(s, old, old.Version, old.Fence, task.Update{Leased: true, Due: 0}, task.ErrLeaseLost)
	}},

	{"who holds the lease is told of a change by ErrConflict", func(f *fixture) {
		s := f.open()
		t := f.add(s, "alice")
		c := f.claim(s, "", long)
		changed := f.get(s, t.ID)
		f.update(s, changed, task.Update{Keep: true})
		f.wantRefused(s, c, c.Version, c.Fence, task.Update{Leased: true, Due: 0}, task.ErrConflict)
		f.noneDue(s)
		c.Version = changed.Version
		f.update(s, c, task.Update{Leased: true, Due: -1})
	}},

	{"a worker may write when its lease has ended, while nobody has claimed the task", func(f *fixture) {
		s := f.open()
		t := f.add(s, "alice")
		c := f.claim(s, "", long)
		f.release(s, t.ID, c.Fence)
		c.Status = task.Completed
		f.update(s, c, task.Update{Leased: true, Due: -1})
		f.wantRow(s, c)
		f.noneDue(s)
	}},

	{"without Leased the fence does not matter", func(f *fixture) {
		s := f.open()
		t := f.add(s, "alice")
		c := f.claim(s, "", long)
		t.Message = "from outside"
		f.update(s, t, task.Update{Keep: true})
		c.Message, c.Version, c.Updated, c.Attempts = t.Message, t.Version, t.Updated, t.Attempts
		f.wantRow(s, c)
	}},

	{"an id without a task is ErrNotFound", func(f *fixture) {
		s := f.open()
		for _, u := range []task.Update{{}, {Leased: true}, {Keep: true, Entries: list([]string{"x"})}} {
			f.wantError("Update", s.Update(f.ctx, newTask("alice"), u), task.ErrNotFound)
		}
	}},

	{"Keep leaves a parked task parked", func(f *fixture) {
		s := f.open()
		t := f.addParked(s, "alice")
		f.update(s, t, task.Update{Keep: true})
		f.noneDue(s)
	}},

	{"Keep leaves a lease as it is", func(f *fixture) {
		s := f.open()
		f.add(s, "alice")
		c := f.claim(s, "", long)
		f.update(s, c, task.Update{Leased: true, Keep: true})
		f.update(s, c, task.Update{Keep: true, Entries: list([]string{"one"})})
		f.noneDue(s)
		f.release(s, c.ID, c.Fence)
		f.claimThis(s, c.ID, long)
	}},

	{"Keep leaves a task that is due its place", func(f *fixture) {
		s := f.open()
		first := f.add(s, "alice")
		f.tick(s, first.Created)
		second := f.add(s, "alice")
		f.tick(s, second.Created)
		f.update(s, first, task.Update{Keep: true})
		f.claimThis(s, first.ID, long)
		f.claimThis(s, second.ID, long)
	}},

	{"Due 0 makes a task due at once, whatever it was before", func(f *fixture) {
		handles := f.several(2)
		s := handles[0]
		t := f.addParked(s, "alice")
		f.update(s, t, task.Update{Due: 0})
		c := f.claimThis(handles[1], t.ID, long)
		f.update(s, c, task.Update{Due: 0})
		c = f.claimThis(handles[1], t.ID, long)
		f.update(s, c, task.Update{Due: long})
		f.update(s, c, task.Update{Due: 0})
		f.claimThis(handles[1], t.ID, long)
	}},

	{"Due above 0 makes a task due after that time, and not before", func(f *fixture) {
		s := f.open()
		far := f.add(s, "alice")
		f.update(s, far, task.Update{Due: long})
		t := f.add(s, "alice")
		const due = 60 * time.Millisecond
		start := time.Now()
		f.update(s, t, task.Update{Due: due})
		var c *task.Task
		f.eventually("the task is due", func() bool {
			c = f.tryClaim(s, "", long)
			return c != nil
		})
		if c.ID != t.ID {
			f.Fatalf("Claim took task %s, which is due in an hour", c.ID)
		}
		if took := time.Since(start); took < due-2*time.Millisecond {
			f.Errorf("the task was due after %v, want %v", took, due)
		}
		f.noneDue(s)
	}},

	{"a negative Due parks a task, whatever it was before", func(f *fixture) {
		s := f.open()
		for _, due := range []time.Duration{-1, -time.Nanosecond, -time.Millisecond, -long} {
			f.update(s, f.add(s, "alice"), task.Update{Due: due})
			f.noneDue(s)
			f.add(s, "alice")
			f.update(s, f.claim(s, "", long), task.Update{Due: due})
			f.noneDue(s)
			later := f.add(s, "alice")
			f.update(s, later, task.Update{Due: 20 * time.Millisecond})
			f.update(s, later, task.Update{Due: due})
			mark := f.addParked(s, "bob")
			f.update(s, mark, task.Update{Due: 40 * time.Millisecond})
			f.eventually("a later task is due", func() bool {
				c := f.tryClaim(s, "", long)
				if c != nil && c.ID != mark.ID {
					f.Fatalf("task %s is due, though an update with Due %v parked it", c.ID, due)
				}
				return c != nil
			})
		}
	}},

	{"entries come after those that are there, in their order", func(f *fixture) {
		s := f.open()
		t := newTask("alice")
		f.create(s, t, "1", "2")
		f.update(s, t, task.Update{Due: 0, Entries: list([]string{"3", "4", "5"})})
		f.update(s, t, task.Update{Due: 0})
		f.update(s, t, task.Update{Due: 0, Entries: list([]string{"6"})})
		f.wantJournal(s, t.ID, "1", "2", "3", "4", "5", "6")
	}},

	{"of updates with the same version exactly one is written, with its entries", func(f *fixture) {
		handles := f.several(2)
		t := f.add(handles[0], "alice")
		var want []string
		for round := range 15 {
			var won atomic.Int64
			var winner atomic.Pointer[task.Task]
			f.together(6, func(i int) {
				mine := clone(t)
				mine.Message = fmt.Sprintf("round %d, writer %d", round, i)
				u := task.Update{Keep: i%2 == 0, Due: -1, Entries: list([]string{mine.Message, mine.Message + " again"})}
				switch err := handles[i%2].Update(f.ctx, mine, u); {
				case err == nil:
					won.Add(1)
					winner.Store(mine)
				case !errors.Is(err, task.ErrConflict):
					f.Errorf("Update: %v", err)
				}
			})
			if won.Load() != 1 {
				f.Fatalf("%d updates of the same version were written", won.Load())
			}
			t = winner.Load()
			if t.Version != int64(round+1) {
				f.Fatalf("Version is %d after %d updates", t.Version, round+1)
			}
			want = append(want, t.Message, t.Message+" again")
			f.wantRow(handles[0], t)
		}
		f.wantJournal(handles[0], t.ID, want...)
	}},

	{"updates and appends at the same time lose nothing", func(f *fixture) {
		handles := f.several(2)
		t := f.add(handles[0], "alice")
		const each = 15
		f.together(4, func(i int) {
			s := handles[i/2]
			for n := range each {
				if i%2 == 0 {
					if err := s.Append(f.ctx, t.ID, 0, fmt.Appendf(nil, "%d %02d", i, n)); err != nil {
						f.Errorf("Append: %v", err)
					}
					continue
				}
				for {
					got, err := s.Get(f.ctx, t.ID)
					if err == nil {
						got.Round++
						err = s.Update(f.ctx, got, task.Update{Due: -1, Entries: [][]byte{fmt.Appendf(nil, "%d %02d", i, n)}})
					}
					if err == nil {
						break
					}
					if !errors.Is(err, task.ErrConflict) {
						f.Errorf("Update: %v", err)
						return
					}
				}
			}
		})
		got := f.get(handles[0], t.ID)
		if got.Round != 2*each || got.Version != 2*each {
			f.Errorf("Round is %d and Version %d, want %d", got.Round, got.Version, 2*each)
		}
		_, entries := f.journal(handles[0], t.ID)
		if len(entries) != 4*each {
			f.Errorf("the journal has %d entries, want %d", len(entries), 4*each)
		}
		last := make(map[byte]string)
		for _, e := range entries {
			if last[e[0]] >= string(e) {
				f.Errorf("entry %q comes after %q of the same writer", e, last[e[0]])
			}
			last[e[0]] = string(e)
		}
	}},
}

// wantRefused requires that an update with this version and fence gives the error and
// leaves the task in the caller's hands as it was.
func (f *fixture) wantRefused(s task.Store, t *task.Task, version, fence int64, u task.Update, want error) {
	f.Helper()
	given := clone(t)
	given.Version, given.Fence = version, fence
	given.Status, given.Message, given.Outcome = task.Failed, "refused", []byte("refused")
	before := clone(given)
	u.Entries = list([]string{"refused"})
	f.wantError(fmt.Sprintf("Update with version %d and fence %d", version, fence), s.Update(f.ctx, given, u), want)
	f.wantSame(given, before)
}
