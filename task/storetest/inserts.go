package storetest

import (
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/askback-mcp/askback/task"
)

// inserts tests a store that is a [task.Inserter].
func inserts(test func(f *fixture, s task.Store, insert insert)) func(f *fixture, s task.Store) {
	return func(f *fixture, s task.Store) {
		i, ok := s.(task.Inserter)
		if !ok {
			f.Skip("not tested: this store is no task.Inserter")
		}
		test(f, s, func(t *task.Task, u task.Update, quota task.Quota) error {
			return i.Insert(f.ctx, t, long, []byte("call"), u, quota)
		})
	}
}

// insert adds a task whose call and time to live are those that create gives.
type insert func(t *task.Task, u task.Update, quota task.Quota) error

// A first run leaves a task like this.
func firstRuns() (runs []func(t *task.Task) task.Update) {
	late, timer := question("late", "user:bob", "group:ops"), question("timer")
	late.Equal, late.Within, late.Remind, late.Notice = "equal", 90*24*time.Hour, 80*24*time.Hour, []byte("notice")
	timer.Within = time.Hour
	for _, status := range statuses {
		for _, u := range []task.Update{
			{Due: -1}, {Due: long}, {Due: 0}, {Due: -1, Entries: list("step", "other"), TTL: 48 * time.Hour},
			{Due: -1, Ask: []*task.Question{question("bare", "user:bob"), late, timer}, Entries: list("put")},
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

var insertTests = []test{
	{"a task is as a Create with a lease and the Update of its worker leave it",
		inserts(func(f *fixture, s task.Store, insert insert) {
			f.ok("Listen", s.Listen(f.ctx, long, 0, 0))
			for i, leave := range firstRuns() {
				twice, once := newTask("alice"), newTask("alice")
				f.createWith(s, twice, long, "before")
				u := leave(twice)
				u.Leased = true
				f.update(s, twice, u)

				u = leave(once)
				u.Entries = slices.Concat(list("before"), u.Entries)
				once.Version = 1
				once.Claim = task.Claim{Fence: 1, Nonce: "nonce of the run, which has 128 bits"}
				f.ok("Insert", insert(once, u, task.Quota{}))
				f.wantRow(s, once)
				f.check(once.Updated.Equal(once.Created) && once.Version == 1 && once.Fence == 1,
					"run %d: the task has %v, %v, version %d and fence %d", i, once.Created, once.Updated, once.Version, once.Fence)
				alike := cmp.Options{
					cmpopts.IgnoreFields(task.Task{}, "ID", "Created", "Updated", "Expires", "Version", "Claim"),
					cmpopts.IgnoreFields(task.Question{}, "Task", "Asked", "Deadline", "Changed"), cmpopts.EquateEmpty(),
				}
				if diff := cmp.Diff(f.get(s, twice.ID), f.get(s, once.ID), alike); diff != "" {
					f.Errorf("run %d leaves another row (-in two writes +in one):\n%s", i, diff)
				}
				apart := twice.Expires.Sub(twice.Created) - once.Expires.Sub(once.Created)
				since := twice.Updated.Sub(twice.Created)
				f.check(apart >= 0 && apart <= since,
					"run %d lives longer by %v, and was made within %v", i, apart, since)
				call, entries := f.journal(s, once.ID)
				want, all := f.journal(s, twice.ID)
				f.check(string(call) == string(want) && cmp.Equal(entries, all),
					"run %d has the journal %q, %q", i, call, entries)
				if diff := cmp.Diff(f.questions(s, twice.ID), f.questions(s, once.ID), alike); diff != "" {
					f.Errorf("run %d asks otherwise (-in two writes +in one):\n%s", i, diff)
				}
				for _, q := range f.questions(s, once.ID) {
					two := f.question(s, twice.ID, q.Key)
					f.check(q.Deadline.Sub(q.Asked) == two.Deadline.Sub(two.Asked),
						"run %d: the deadline of %q is %v after it was asked, want %v", i, q.Key, q.Deadline.Sub(q.Asked), two.Deadline.Sub(two.Asked))
				}
				due := func() bool {
					t, err := claimOne(s, f.ctx, "", nil, long)
					f.ok("Claim", err)
					if t == nil {
						return false
					}
					defer f.updateStatus(s, t, task.Completed, task.Update{Due: -1})
					return t.ID == twice.ID || t.ID == once.ID
				}
				first, second := due(), due()
				f.check(first == second && first == (u.Due == 0),
					"run %d: in two writes it is due: %t; in one: %t", i, first, second)
			}
			notices := make(map[string]int)
			for _, n := range f.settleAll(s) {
				notices[n]++
			}
			for n, times := range notices {
				f.check(times%2 == 0, "there are %d notices %q of tasks that are alike", times, n)
			}
		})},
	{"with a lease it is claimed as it says, and due when the lease ends",
		inserts(func(f *fixture, s task.Store, insert insert) {
			t := newTask("alice")
			t.Attempts, t.Claim = 1, task.Claim{Fence: 1, Nonce: "nonce of the run, which has 128 bits"}
			f.ok("Insert", insert(t, task.Update{Lease: long}, task.Quota{}))
			for _, s := range f.instances(s, 2) {
				f.wantRow(s, t)
				f.noneDue(s)
			}
			f.append(s, t.ID, t.Claim, "step")
			f.wantError("Append under another claim", s.Append(f.ctx, t.ID, task.Claim{Fence: 1, Nonce: "x"}, 1, nil),
				task.ErrLeaseLost)
			f.wantJournal(s, t.ID, "step")
			f.renew(s, t, 0)
			f.claimThis(s, t.ID, long)
		})},
	{"what it refuses is not there, and the given task is as it was",
		inserts(func(f *fixture, s task.Store, insert insert) {
			there := f.add(s, "alice")
			ask := task.Update{Due: -1, Ask: []*task.Question{question("key", "user:bob")}, Entries: list("put")}
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
				f.wantError("Insert", insert(t, ask, test.quota), test.want)
				f.wantSame(t, given)
				if test.id != there.ID {
					f.wantGone(s, test.id)
				}
				other := newTask("bob") // who has room
				other.Status = task.InputRequired
				f.ok("Insert of another principal's", insert(other, ask, task.Quota{Unfinished: 9, Kept: 9, Bytes: 1 << 10}))
			}
			f.wantRow(s, there)
			n := len(f.waiting(s, task.QuestionFilter{}))
			f.check(n == 4, "%d questions wait, want 4", n)
		})},
}
