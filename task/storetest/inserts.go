package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/askback-mcp/askback/task"
)

// insert adds a task whose call and time to live are those that create gives.
func (f *fixture) insert(s task.Store, t *task.Task, u task.Update, quota task.Quota) error {
	return s.(task.Inserter).Insert(f.ctx, t, long, []byte("call"), u, quota)
}

// A first run leaves a task like this.
func firstRuns() (runs []func(t *task.Task) task.Update) {
	late := within(90*24*time.Hour, "late", "user:bob", "group:ops")
	late.Equal, late.Remind, late.Notice = "equal", 80*24*time.Hour, []byte("notice")
	for _, status := range statuses {
		for _, u := range []task.Update{
			{Due: -1}, {Due: long}, {Due: 0}, {Due: -1, Entries: list("step", "other"), TTL: 48 * time.Hour},
			{Due: -1, Ask: []*task.Question{question("bare", "user:bob"), late, within(long, "timer")}, Entries: list("put")},
			{Due: long, Ask: []*task.Question{late}, TTL: time.Minute},
		} {
			if u.Ask != nil && status != task.InputRequired || u.Due == 0 && status.Terminal() {
				continue
			}
			runs = append(runs, func(t *task.Task) task.Update {
				t.Status, t.Message, t.Round, t.Attempts = status, "Überraschung", 3, 0
				t.Pending, t.Outcome, t.Stopped = everyByte, []byte("outcome"), status == task.Failed
				return u
			})
		}
	}
	return runs
}

var insertTests = needs[task.Inserter]([]test{
	{"a task is as a Create with a lease and the Update of its worker leave it", func(f *fixture, s task.Store) {
		f.listen(s, long)
		for i, leave := range firstRuns() {
			once, twice := newTask("alice"), newTask("alice")
			once.Events, twice.Events = true, true
			f.createWith(s, twice, long, "before")
			u := leave(twice)
			u.Leased = true
			f.update(s, twice, u)

			u = leave(once)
			u.Entries = slices.Concat(list("before"), u.Entries)
			once.Version = 1
			once.Claim = task.Claim{Fence: 1, Nonce: "nonce of the run, which has 128 bits"}
			f.ok("Insert", f.insert(s, once, u, task.Quota{}))
			f.wantRow(s, once)
			f.check(once.Updated.Equal(once.Created) && once.Version == 1 && once.Fence == 1, "run %d: %+v", i, once)
			f.wantEqual("the row after one write, and after two", f.get(s, once.ID), f.get(s, twice.ID),
				cmpopts.IgnoreFields(task.Task{}, "ID", "Created", "Updated", "Expires", "Version", "Claim"))
			apart := twice.Expires.Sub(twice.Created) - once.Expires.Sub(once.Created)
			since := twice.Updated.Sub(twice.Created)
			f.check(apart >= 0 && apart <= since, "run %d lives longer by %v, and was made within %v", i, apart, since)
			f.wantJournal(s, once.ID, f.entries(s, twice.ID)...)
			asks := func(id string) []*task.Question {
				qs := f.questions(s, id)
				for _, q := range qs {
					q.Deadline = time.Time{}.Add(q.Deadline.Sub(q.Asked))
				}
				return qs
			}
			f.wantEqual("the questions after one write, and after two", asks(once.ID), asks(twice.ID),
				cmpopts.IgnoreFields(task.Question{}, "Task", "Asked", "Changed"))
			if log, ok := s.(task.EventLog); ok {
				logged := func(id string) []string {
					page, err := log.Events(f.ctx, task.EventQuery{Readers: ofAlice.Readers, Task: id, Limit: 9})
					f.ok("Events", err)
					return slices.Sorted(slices.Values(each(page.Events, func(e *task.Event) string {
						return fmt.Sprint(e.Kind, " ", e.Key, " ", e.Status)
					})))
				}
				f.wantEqual("the events after one write, and after two", logged(once.ID), logged(twice.ID))
			}
			due := func() bool {
				t := f.tryClaim(s, "", long)
				if t == nil {
					return false
				}
				defer f.updateStatus(s, t, task.Completed, task.Update{Due: -1})
				return t.ID == twice.ID || t.ID == once.ID
			}
			f.wantEqual("of both tasks that they are due", []bool{due(), due()}, []bool{u.Due == 0, u.Due == 0})
		}
		notices := make(map[string]int)
		for _, n := range f.settleAll(s) {
			notices[n]++
		}
		for n, times := range notices {
			f.check(times%2 == 0, "there are %d notices %q of tasks that are alike", times, n)
		}
	}},
	{"with a lease it is claimed as it says, and due when the lease ends", func(f *fixture, s task.Store) {
		t := newTask("alice")
		t.Attempts, t.Claim = 1, task.Claim{Fence: 1, Nonce: "nonce of the run, which has 128 bits"}
		f.ok("Insert", f.insert(s, t, task.Update{Lease: long}, task.Quota{}))
		f.wantAppend(s, t.ID, task.Claim{Fence: 1, Nonce: "x"}, 0, task.ErrLeaseLost)
		f.wantClaimed(s, t)
	}},
	{"what it refuses is not there, and the given task is as it was", func(f *fixture, s task.Store) {
		there := f.add(s, "alice")
		ask := task.Update{Due: -1, Ask: forBob("key"), Entries: list("put")}
		for _, test := range []struct {
			id    string
			quota task.Quota
			want  error
		}{
			{there.ID, task.Quota{}, task.ErrExists},
			{newID(), task.Quota{Unfinished: 1}, task.ErrQuota},
			{newID(), task.Quota{Kept: 1}, task.ErrQuota},
			{newID(), task.Quota{Bytes: 10}, task.ErrQuota},
		} {
			t := newTask("alice")
			t.ID, t.Status = test.id, task.InputRequired
			given := clone(t)
			f.wantError("Insert", f.insert(s, t, ask, test.quota), test.want)
			f.wantSame(t, given)
			if test.id != there.ID {
				f.wantGone(s, test.id)
			}
			other := newTask("bob") // who has room
			other.Status = task.InputRequired
			f.ok("Insert of another principal's", f.insert(s, other, ask, task.Quota{Unfinished: 9, Kept: 9, Bytes: 1 << 10}))
		}
		f.wantRow(s, there)
		f.wantWaiting(s, task.QuestionFilter{}, "key", "key", "key", "key")
	}},
})
