package storetest

import (
	"fmt"
	"time"

	"github.com/askback-mcp/askback/task"
)

var updateTests = []test{
	{"with a lease it claims the task: Fence and Attempts rise by one, and it is due when the lease ends",
		func(f *fixture, s task.Store) {
			for _, u := range []task.Update{{}, {Keep: true}, {Due: -1}, {Due: long}, {Leased: true},
				{Quota: task.Quota{Bytes: 1 << 20}}} {
				t := f.addLeased(s)
				f.update(s, t, task.Update{Leased: true, Due: -1})
				before := clone(t)
				t.Status, t.Attempts = task.Working, 4
				u.Lease, u.Entries = long, list("answer")
				f.update(s, t, u)
				if t.Fence != before.Fence+1 || t.Attempts != 5 || t.Version != before.Version+1 {
					f.Errorf("%+v: Fence is %d, Attempts is %d and Version is %d; want %d, 5 and %d",
						u, t.Fence, t.Attempts, t.Version, before.Fence+1, before.Version+1)
				}
				for _, s := range f.instances(s, 2) {
					f.wantRow(s, t)
					f.noneDue(s)
				}
				f.wantError("Append under the lease before", s.Append(f.ctx, t.ID, before.Claim, 1, []byte("late")),
					task.ErrLeaseLost)
				f.append(s, t.ID, t.Claim, "step")
				f.wantJournal(s, t.ID, "answer", "step")
				f.release(s, t)
				f.claimThis(s, t.ID, long)
			}
		}},
	{"it writes what it is said to write, and leaves the rest", func(f *fixture, s task.Store) {
		handles := f.instances(s, 2)
		_, want := f.loseLease(s, s)
		f.tick(s, want.Created)
		given := clone(want)
		given.Status, given.Message = task.InputRequired, "Überraschung"
		given.Pending, given.Outcome = everyByte, []byte("outcome")
		given.Round, given.Stopped, given.Attempts = 1<<20, true, 9
		want = clone(given)
		given.Expires = want.Created.Add(12345 * time.Millisecond) // the store's is set
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
		asGiven.Updated, asGiven.Version, asGiven.Expires = given.Updated, given.Version, want.Expires
		f.wantSame(given, asGiven) // nothing else is set
		want.Updated, want.Version = given.Updated, given.Version
		for _, s := range handles {
			f.wantRow(s, want)
		}
		if len(f.list(s, "mallory", "z", 10)) != 0 {
			f.Errorf("the task has moved to another principal")
		}

		// And back to nothing.
		want.Status, want.Message, want.Pending, want.Outcome = task.Working, "", nil, nil
		want.Round, want.Stopped, want.Attempts = 0, false, 0
		f.update(s, want, task.Update{Keep: true})
		f.wantRow(handles[1], want)
	}},
	{"with a version that is not the stored one it is ErrConflict, and nothing is written",
		func(f *fixture, s task.Store) {
			other := f.instances(s, 2)[1]
			t := f.add(s, "alice")
			stale := clone(t)
			f.update(s, t, task.Update{Due: -1})
			for _, version := range []int64{0, 2, -1} {
				f.wantRefused(other, stale, version, stale.Claim, task.Update{Due: 0}, task.ErrConflict)
				f.wantRefused(other, stale, version, stale.Claim, task.Update{Lease: long}, task.ErrConflict)
			}
			f.wantRow(s, t)
			f.wantJournal(s, t.ID)
			f.noneDue(s)
		}},
	{"under a lease that is lost it is ErrLeaseLost, and nothing is written", func(f *fixture, s task.Store) {
		lost, current := f.loseLease(s, f.instances(s, 2)[1])
		for _, claim := range others(lost, current) {
			f.wantRefused(s, lost, lost.Version, claim, task.Update{Leased: true, Due: 0}, task.ErrLeaseLost)
			f.wantRefused(s, lost, lost.Version, claim, task.Update{Leased: true, Keep: true}, task.ErrLeaseLost)
			f.wantRefused(s, lost, lost.Version, claim, task.Update{Leased: true, Lease: long}, task.ErrLeaseLost)
		}
		f.wantRow(s, current)
		f.wantJournal(s, lost.ID)
		f.noneDue(s)
	}},
	{"a terminal status never changes: ErrEnded, and nothing is written", func(f *fixture, s task.Store) {
		for _, was := range terminal {
			t := f.addLeased(s)
			t.Status, t.Outcome = was, []byte("outcome")
			f.update(s, t, task.Update{Leased: true, Keep: true})
			for _, status := range statuses {
				for _, u := range []task.Update{{Leased: true, Due: 0}, {Due: -1}, {Lease: long},
					{Keep: true, Entries: list("late")}} {
					given := clone(t)
					given.Status, given.Outcome = status, []byte("another")
					if status == was {
						continue
					}
					before := clone(given)
					f.wantError(fmt.Sprintf("Update from %s to %s", was, status), s.Update(f.ctx, given, u), task.ErrEnded)
					f.wantSame(given, before)
					given.Version-- // whose writer has to read again to learn why
					f.wantError("with another version", s.Update(f.ctx, given, u), task.ErrConflict)
				}
			}
			f.wantRow(s, t)
			f.wantJournal(s, t.ID)
			f.noneDue(s)
			t.Stopped, t.Message = true, "cleaned up"
			f.update(s, t, task.Update{Leased: true, Due: -1})
			f.wantRow(s, t)
		}
	}},
	// A worker may read again after a conflict, but not after it lost its lease.
	{"who has lost its lease is told so, even if the task was changed as well", func(f *fixture, s task.Store) {
		lost, current := f.loseLease(s, s)
		f.update(s, current, task.Update{Leased: true, Keep: true})
		f.wantRefused(s, lost, lost.Version, lost.Claim, task.Update{Leased: true, Due: 0}, task.ErrLeaseLost)
	}},
	{"who holds the lease is told of a change by ErrConflict", func(f *fixture, s task.Store) {
		c := f.addLeased(s)
		changed := clone(c)
		f.update(s, changed, task.Update{Keep: true})
		f.wantRefused(s, c, c.Version, c.Claim, task.Update{Leased: true, Due: 0}, task.ErrConflict)
		f.noneDue(s)
		c.Version = changed.Version
		f.update(s, c, task.Update{Leased: true, Due: -1})
	}},
	{"a worker may write when its lease has ended, while nobody has claimed the task", func(f *fixture, s task.Store) {
		c := f.addLeased(s)
		f.release(s, c)
		f.updateStatus(s, c, task.Completed, task.Update{Leased: true, Due: -1})
		f.wantRow(s, c)
		f.noneDue(s)
	}},
	{"without Leased the claim does not matter", func(f *fixture, s task.Store) {
		t := f.add(s, "alice")
		c := f.claim(s, "", long)
		t.Message = "from outside"
		f.update(s, t, task.Update{Keep: true})
		t.Claim = c.Claim
		f.wantRow(s, t)
	}},
	{"an id without a task is ErrNotFound", func(f *fixture, s task.Store) {
		for _, u := range []task.Update{{}, {Leased: true}, {Keep: true, Entries: list("x")}} {
			f.wantError("Update", s.Update(f.ctx, newTask("alice"), u), task.ErrNotFound)
		}
	}},
	{"Keep leaves the lease of others as it is", func(f *fixture, s task.Store) {
		c := f.addLeased(s)
		f.update(s, c, task.Update{Leased: true, Keep: true})
		f.update(s, c, task.Update{Keep: true, Entries: list("one")})
		f.noneDue(s)
		f.release(s, c)
		f.claimThis(s, c.ID, long)
	}},
	{"Keep leaves a task that is due its place", func(f *fixture, s task.Store) {
		inTurn := f.addInTurn(s, "alice", 2)
		first, second := inTurn[0], inTurn[1]
		f.update(s, first, task.Update{Keep: true})
		f.claimThis(s, first.ID, long)
		f.claimThis(s, second.ID, long)
	}},
	{"Due 0 makes every task due at once", func(f *fixture, s task.Store) {
		other := f.instances(s, 2)[1]
		t := f.addParked(s, "alice")
		f.update(s, t, task.Update{Due: 0})
		c := f.claimThis(other, t.ID, long)
		f.update(s, c, task.Update{Due: 0})
		c = f.claimThis(other, t.ID, long)
		f.update(s, c, task.Update{Due: long})
		f.update(s, c, task.Update{Due: 0})
		f.claimThis(other, t.ID, long)
	}},
	{"Due above 0 makes a task due after that time, and not before", func(f *fixture, s task.Store) {
		f.update(s, f.add(s, "alice"), task.Update{Due: long})
		t := f.add(s, "alice")
		const due = 60 * time.Millisecond
		start := time.Now()
		f.update(s, t, task.Update{Due: due})
		if c := f.claimNext(s); c.ID != t.ID {
			f.Fatalf("Claim took task %s, which is due in an hour", c.ID)
		}
		f.wantPassed(start, due)
		f.noneDue(s)
	}},
	{"a negative Due parks every task", func(f *fixture, s task.Store) {
		for _, due := range []time.Duration{-1, -time.Nanosecond, -time.Millisecond, -long} {
			f.update(s, f.add(s, "alice"), task.Update{Due: due})
			f.noneDue(s)
			f.update(s, f.addLeased(s), task.Update{Due: due})
			f.noneDue(s)
			later := f.add(s, "alice")
			f.update(s, later, task.Update{Due: 20 * time.Millisecond})
			f.update(s, later, task.Update{Due: due})
			mark := f.addParked(s, "bob")
			f.update(s, mark, task.Update{Due: 40 * time.Millisecond})
			if c := f.claimNext(s); c.ID != mark.ID {
				f.Fatalf("task %s is due, though an update with Due %v parked it", c.ID, due)
			}
		}
	}},
	{"entries come after those that are there, in their order", func(f *fixture, s task.Store) {
		t := newTask("alice")
		f.create(s, t, "1", "2")
		f.update(s, t, task.Update{Due: 0, Entries: list("3", "4", "5")})
		f.update(s, t, task.Update{Due: 0})
		f.update(s, t, task.Update{Due: 0, Entries: list("6")})
		f.wantJournal(s, t.ID, "1", "2", "3", "4", "5", "6")
	}},
	{"of updates with the same version exactly one is written, with its entries", func(f *fixture, s task.Store) {
		handles := f.instances(s, 2)
		t := f.add(s, "alice")
		var want []string
		for round := range 15 {
			written := together(&f.suite, 6, func(i int, add func(*task.Task)) error {
				t := clone(t)
				t.Message = fmt.Sprintf("round %d, writer %d", round, i)
				u := task.Update{Keep: i%2 == 0, Due: -1, Entries: list(t.Message, t.Message+" again")}
				err := handles[i%2].Update(f.ctx, t, u)
				if err == nil {
					add(t)
				}
				return except(task.ErrConflict, err)
			})
			if len(written) != 1 {
				f.Fatalf("%d updates of the same version were written", len(written))
			}
			t = written[0]
			if t.Version != int64(round+1) {
				f.Fatalf("Version is %d after %d updates", t.Version, round+1)
			}
			want = append(want, t.Message, t.Message+" again")
			f.wantRow(s, t)
		}
		f.wantJournal(s, t.ID, want...)
	}},
}

// wantRefused requires that an update with this version and claim gives the error and
// leaves the task in the caller's hands as it was.
func (f *fixture) wantRefused(s task.Store, t *task.Task, version int64, claim task.Claim, u task.Update, want error) {
	f.Helper()
	given := clone(t)
	given.Version, given.Claim = version, claim
	given.Status, given.Message, given.Outcome = task.Failed, "refused", []byte("refused")
	before := clone(given)
	u.Entries = list("refused")
	f.wantError(fmt.Sprintf("Update with version %d under %v", version, claim), s.Update(f.ctx, given, u), want)
	f.wantSame(given, before)
}
