package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/task"
)

var quotaTests = []test{
	{"with as many unfinished tasks, of any dialect, as its quota nobody gets more", func(f *fixture, s task.Store) {
		t := newTask("alice")
		t.Dialect = "extension"
		f.create(s, t)
		f.wantQuota(s, "alice", 3, nil)
		f.wantQuota(s, "alice", 3, nil)
		for _, quota := range []int{3, 2, 1} {
			f.wantQuota(s, "alice", quota, task.ErrQuota)
		}
		for _, principal := range []string{"bob", "Alice", "alice ", ""} {
			f.wantQuota(s, principal, 1, nil)
		}
		f.wantQuota(s, "alice", 4, nil)
		f.wantListed(s, "alice", 3)
	}},
	{"the quota counts tasks until they are terminal, due or not", func(f *fixture, s task.Store) {
		for _, end := range terminal {
			principal := "with a task that is " + string(end)
			t := f.wantQuota(s, principal, 1, nil)
			f.wantQuota(s, principal, 1, task.ErrQuota)
			for _, status := range []task.Status{task.InputRequired, task.Working} {
				f.updateStatus(s, t, status, task.Update{Due: -1})
				f.wantQuota(s, principal, 1, task.ErrQuota)
			}
			f.updateStatus(s, t, end, task.Update{Due: 0})
			f.wantQuota(s, principal, 1, nil)
		}
	}},
	{"the quota of kept tasks counts those that have ended, until they are deleted", func(f *fixture, s task.Store) {
		quota := task.Quota{Kept: 3}
		var t *task.Task
		for _, end := range terminal {
			t = newTask("alice")
			f.ok("Create", s.Create(f.ctx, t, -long, 0, nil, nil, quota))
			f.updateStatus(s, t, end, task.Update{Due: -1})
		}
		f.wantFull("Create", s.Create(f.ctx, newTask("alice"), long, 0, nil, nil, quota), quota)
		f.ok("Create for bob", s.Create(f.ctx, newTask("bob"), long, 0, nil, nil, quota))
		f.tick(s, t.Updated)
		for _, remove := range []func(){
			func() { f.purge(s, 0, 1, 1) },
			func() { f.evict(s, "alice", 0, 1, 1) },
		} {
			remove()
			f.ok("Create", s.Create(f.ctx, newTask("alice"), long, 0, nil, nil, quota))
			f.wantFull("Create", s.Create(f.ctx, newTask("alice"), long, 0, nil, nil, quota), quota)
		}
	}},
	{"the quota of bytes counts calls, entries, questions and outcomes, until the task is deleted",
		func(f *fixture, s task.Store) {
			// has requires that alice has n bytes: a task that would make it max+1 is refused, and bytes of others do not count.
			has := func(what string, n int64) {
				bound := task.Quota{Bytes: n + 9}
				f.wantFull("Create after "+what,
					s.Create(f.ctx, newTask("alice"), long, 0, make([]byte, 4), list("123", "123"), bound), bound)
				probe := newTask("alice")
				f.ok("Create after "+what, s.Create(f.ctx, probe, -long, 0, make([]byte, 4), list("12", "123"), bound))
				f.updateStatus(s, probe, task.Completed, task.Update{Due: -1})
				f.purge(s, 0, 10, 1)
			}
			other := newTask("bob")
			f.ok("Create", s.Create(f.ctx, other, long, 0, make([]byte, 1000), nil, task.Quota{}))
			f.update(s, other, task.Update{Due: -1})
			t, ended := newTask("alice"), newTask("alice")
			t.Pending, ended.Outcome = []byte("12345"), []byte("12345")
			for what, t := range map[string]*task.Task{"questions": t, "an outcome": ended} {
				bound := task.Quota{Bytes: 111}
				f.wantFull("Create with "+what, s.Create(f.ctx, t, long, 0, make([]byte, 100), list("1234567", ""), bound), bound)
			}
			f.ok("Create", s.Create(f.ctx, t, -long, 0, make([]byte, 100), list("1234567", ""), task.Quota{Bytes: 112}))
			has("Create", 112)
			f.append(s, t.ID, t.Claim, "1234567890")
			has("Append", 122)
			t.Pending, t.Outcome = []byte("1234567"), everyByte
			f.update(s, t, task.Update{Due: -1, Entries: list("123", "4")})
			has("Update", 122+2+256+4)
			t.Pending = nil
			f.updateStatus(s, t, task.Completed, task.Update{Due: long})
			has("the end", 122-5+256+4)
			f.update(s, t, task.Update{Due: -1})
			f.purge(s, 0, 10, 1)
			has("Purge", 0)
		}},
	{"the quota is exact, however many instances create at the same time", func(f *fixture, s task.Store) {
		const quota = 7
		handles := f.instances(s, 2)
		for round, bound := range []task.Quota{{Unfinished: quota}, {Kept: quota}, {Bytes: quota * int64(len("call"))},
			{Unfinished: quota, Kept: quota, Bytes: 1 << 20}} {
			principal := fmt.Sprint("alice ", round)
			created := succeed(&f.suite, 24, task.ErrQuota, func(i int) (*task.Task, error) {
				t := newTask(principal)
				return t, handles[i%2].Create(f.ctx, t, long, 0, []byte("call"), nil, bound)
			})
			f.require(len(created) == quota, "%d tasks were created, want the quota, which is %d", len(created), quota)
			f.wantListed(s, principal, quota)
		}
	}},
	{"entries for which the principal has no room are refused with the whole update", func(f *fixture, s task.Store) {
		t, room := newTask("alice"), newTask("alice")
		f.ok("Create", s.Create(f.ctx, t, long, 0, make([]byte, 50), nil, task.Quota{}))
		f.ok("Create", s.Create(f.ctx, room, long, 0, make([]byte, 50), nil, task.Quota{}))
		f.update(s, t, task.Update{Due: -1})
		quota := task.Quota{Unfinished: 1, Kept: 1, Bytes: 105}
		given := clone(t)
		given.Status, given.Principal = task.Failed, "mallory"
		for _, u := range []task.Update{{Due: 0}, {Lease: long}} {
			u.Entries, u.Quota = list("123", "456"), quota
			f.wantUpdate(s, given, u, task.ErrQuota)
			f.wantFull("Update", s.Update(f.ctx, given, u), task.Quota{Bytes: 105})
		}
		f.wantRow(s, t)
		f.wantEqual("the entries", f.entries(s, t.ID), []string(nil))
		stale := clone(t)
		stale.Version--
		f.wantUpdate(s, stale, task.Update{Entries: list("123456"), Quota: quota}, task.ErrConflict)
		f.wantUpdate(s, newTask("alice"), task.Update{Entries: list("123456"), Quota: quota}, task.ErrNotFound)
		f.update(s, t, task.Update{Due: -1, Entries: list("12", "345"), Quota: quota})
		f.update(s, t, task.Update{Due: -1, Quota: task.Quota{Bytes: 1}}) // it adds nothing
		f.update(s, t, task.Update{Due: -1, Entries: list("6")})          // without a quota
		f.wantEqual("the entries", f.entries(s, t.ID), []string{"12", "345", "6"})
	}},
	{"the quota of updates is exact, however many instances add at the same time", func(f *fixture, s task.Store) {
		handles := f.instances(s, 2)
		const writers, room = 8, 5
		var tasks []*task.Task
		for range writers {
			tasks = append(tasks, f.add(s, "alice"))
		}
		quota := task.Quota{Bytes: writers*int64(len("call")) + room}
		added := succeed(&f.suite, writers, task.ErrQuota, func(i int) (int, error) {
			return i, handles[i%2].Update(f.ctx, tasks[i], task.Update{Due: -1, Entries: list("1"), Quota: quota})
		})
		f.check(len(added) == room, "%d bytes were added, and there was room for %d", len(added), room)
	}},
	{"Evict deletes tasks of the principal that are terminal, not due, and updated longer ago than the age, oldest first",
		func(f *fixture, s task.Store) {
			other := f.instances(s, 2)[1]
			end := func(principal string, status task.Status, due time.Duration) *task.Task {
				t := f.add(s, principal)
				f.updateStatus(s, t, status, task.Update{Due: due})
				return t
			}
			leased := f.addLeased(s)
			f.updateStatus(s, leased, task.Cancelled, task.Update{Keep: true})
			stay := []*task.Task{leased, end("bob", task.Completed, -1), end("alice ", task.Completed, -1),
				end("", task.Completed, -1)}
			var gone []*task.Task
			for _, status := range terminal {
				gone = append(gone, end("alice", status, -1))
				f.tick(s, gone[len(gone)-1].Updated)
				stay = append(stay, end("alice", status, 0), end("alice", status, long))
			}
			stay = append(stay, end("alice", task.Working, -1), end("alice", task.InputRequired, -1))
			f.tick(s, stay[len(stay)-1].Updated)
			f.evict(other, "alice", time.Hour, 100, 0)
			f.evict(other, "alice", 0, 0, 0)
			f.evict(other, "alice", 0, 1, 1)
			f.wantLeft(s, gone[:1], gone[1:])
			f.evict(other, "alice", 0, 100, len(gone)-1)
			f.evict(other, "alice", 0, 100, 0)
			f.wantLeft(s, gone, stay)
		}},
}

// wantQuota requires that creating another task of this principal gives the error, which may be nil.
func (f *fixture) wantQuota(s task.Store, principal string, quota int, want error) *task.Task {
	t := newTask(principal)
	err := s.Create(f.ctx, t, long, 0, nil, nil, task.Quota{Unfinished: quota})
	f.wantError(fmt.Sprintf("Create for %q with a quota of %d", principal, quota), err, want)
	if want != nil {
		f.wantGone(s, t.ID)
	}
	return t
}

// wantFull requires that err says which bound of a quota is reached.
func (f *fixture) wantFull(what string, err error, bound task.Quota) {
	f.wantError(what, err, task.ErrQuota)
	full, ok := errors.AsType[*task.QuotaError](err)
	f.require(ok && full.Max == bound, "%s: the error is %v, want one that says that %+v is reached", what, err, bound)
}
