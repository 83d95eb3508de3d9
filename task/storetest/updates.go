package storetest

import (
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
				f.wantEqual("Fence, Version and Attempts", []int64{t.Fence, t.Version, int64(t.Attempts)},
					[]int64{before.Fence + 1, before.Version + 1, 5})
				f.wantAppend(s, t.ID, before.Claim, 1, task.ErrLeaseLost)
				f.wantClaimed(s, t, "answer")
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
		f.check(given.Updated.After(want.Created) && given.Updated.Sub(want.Created) <= 24*time.Hour,
			"Updated is %v, but the update came after the task was created, at %v", given.Updated, want.Created)
		f.check(given.Version == asGiven.Version+1, "Version is %d, want %d", given.Version, asGiven.Version+1)
		asGiven.Updated, asGiven.Version, asGiven.Expires = given.Updated, given.Version, want.Expires
		f.wantSame(given, asGiven) // nothing else is set
		want.Updated, want.Version = given.Updated, given.Version
		for _, s := range handles {
			f.wantRow(s, want)
		}
		f.check(len(f.list(s, "mallory", "z", 10)) == 0, "the task has moved to another principal")

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
				f.wantRefused(other, stale, version, stale.Claim, task.ErrConflict, task.Update{Due: 0}, task.Update{Lease: long},
					task.Update{Leased: true, Due: 0}) // who has the lease is told, too
			}
			f.wantRow(s, t)
			f.wantJournal(s, t.ID)
			f.noneDue(s)
		}},
	{"under a lease that is lost it is ErrLeaseLost, and nothing is written", func(f *fixture, s task.Store) {
		lost, current := f.loseLease(s, f.instances(s, 2)[1])
		for _, claim := range others(lost, current) {
			f.wantRefused(s, lost, lost.Version, claim, task.ErrLeaseLost, task.Update{Leased: true, Due: 0},
				task.Update{Leased: true, Keep: true}, task.Update{Leased: true, Lease: long})
		}
		f.wantRow(s, current)
		f.wantJournal(s, lost.ID)
		f.noneDue(s)
		// Changed as well: a worker may read again after a conflict, but not after it lost its lease.
		f.update(s, current, task.Update{Leased: true, Keep: true})
		f.wantRefused(s, lost, lost.Version, lost.Claim, task.ErrLeaseLost, task.Update{Leased: true, Due: 0})
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
					f.wantUpdate(s, given, u, task.ErrEnded)
					given.Version-- // whose writer has to read again to learn why
					f.wantUpdate(s, given, u, task.ErrConflict)
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
	{"without Leased the claim does not matter, and Keep leaves the lease as it is", func(f *fixture, s task.Store) {
		c := f.addLeased(s)
		f.update(s, c, task.Update{Leased: true, Keep: true})
		claim := c.Claim
		c.Claim, c.Message = task.Claim{}, "from outside"
		f.update(s, c, task.Update{Keep: true, Entries: list("one")})
		c.Claim = claim
		f.wantRow(s, c)
		f.noneDue(s)
		f.release(s, c)
		f.claimThis(s, c.ID, long)
	}},
	{"Keep leaves a task that is due its place", func(f *fixture, s task.Store) {
		inTurn := f.addInTurn(s, "alice", 2)
		f.update(s, inTurn[0], task.Update{Keep: true})
		f.claimThis(s, inTurn[0].ID, long)
		f.claimThis(s, inTurn[1].ID, long)
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
		c := f.claimNext(s)
		f.require(c.ID == t.ID, "Claim took task %s, which is due in an hour", c.ID)
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
			c := f.claimNext(s)
			f.require(c.ID == mark.ID, "task %s is due, though an update with Due %v parked it", c.ID, due)
		}
	}},
}

// wantRefused requires that each of these updates with this version and claim gives the error.
func (f *fixture) wantRefused(
	s task.Store, t *task.Task, version int64, claim task.Claim, want error, updates ...task.Update,
) {
	for _, u := range updates {
		given := clone(t)
		given.Version, given.Claim = version, claim
		given.Status, given.Message, given.Outcome = task.Failed, "refused", []byte("refused")
		u.Entries = list("refused")
		f.wantUpdate(s, given, u, want)
	}
}
