package storetest

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/task"
)

// past returns a fixture that adds tasks whose time to live ended an hour ago, by the store's clock.
func (f *fixture) past() *fixture {
	past := *f
	past.ttl = -time.Hour
	return &past
}

// addPast creates a task whose time to live ended an hour ago, and updates it.
func (f *fixture) addPast(s task.Store, status task.Status, u task.Update) *task.Task {
	t := f.past().add(s, "alice")
	f.updateStatus(s, t, status, u)
	return t
}

// addEnded creates a parked task whose time to live ended an hour ago.
func (f *fixture) addEnded(s task.Store, status task.Status) *task.Task {
	return f.addPast(s, status, task.Update{Due: -1})
}

func (f *fixture) expired(s task.Store, limit int) []string {
	ids := must(s.Expired(f.ctx, limit))(f, "Expired")
	slices.Sort(ids)
	return ids
}

func (f *fixture) purge(s task.Store, grace time.Duration, limit, want int) {
	n := must(s.Purge(f.ctx, grace, limit))(f, "Purge")
	f.require(n == want, "Purge deleted %d tasks, want %d", n, want)
}

func (f *fixture) evict(s task.Store, principal string, age time.Duration, limit, want int) {
	n := must(s.Evict(f.ctx, principal, age, limit))(f, "Evict")
	f.require(n == want, "Evict deleted %d tasks, want %d", n, want)
}

// wantLeft requires that nothing is left of some tasks, and all of others.
func (f *fixture) wantLeft(s task.Store, gone, stay []*task.Task) {
	for _, t := range gone {
		f.wantGone(s, t.ID)
	}
	for _, t := range stay {
		f.wantRow(s, t)
		f.wantJournal(s, t.ID)
	}
}

var expiredTests = []test{
	{"it finds tasks that are not terminal and past their time to live, however they stand, up to the limit",
		func(f *fixture, s task.Store) {
			leased := f.past().addLeased(s)
			want := []string{leased.ID}
			for _, status := range statuses {
				for _, due := range []time.Duration{-1, 0, long} {
					f.add(s, "alice") // has an hour left
					t := f.addPast(s, status, task.Update{Due: due})
					if !status.Terminal() {
						want = append(want, t.ID)
					}
				}
			}
			slices.Sort(want)
			f.wantEqual("Expired", f.expired(s, 100), want)
			for _, limit := range []int{1, 4, len(want), len(want) + 1} {
				got := slices.Compact(f.expired(s, limit))
				f.check(len(got) == min(limit, len(want)), "with a limit of %d there are %d of %d", limit, len(got), len(want))
			}
		}},
	{"a task is found when its time to live ends, and not before", func(f *fixture, s task.Store) {
		t := newTask("alice")
		const ttl = 60 * time.Millisecond
		start := time.Now()
		f.ok("Create", s.Create(f.ctx, t, ttl, 0, nil, nil, task.Quota{}))
		f.eventually("the time to live has ended", func() bool { return len(f.expired(s, 10)) == 1 })
		f.wantPassed(start, ttl)
		f.updateStatus(s, t, task.Failed, task.Update{Due: -1})
		f.check(len(f.expired(s, 10)) == 0, "it is still found when it is terminal")
	}},
}

var purgeTests = []test{
	{"it deletes tasks that are terminal, not due, and past their time to live by the grace, and no others",
		func(f *fixture, s task.Store) {
			// A worker that cleans up after a cancelled task still needs its journal.
			leased := f.past().addLeased(s)
			f.updateStatus(s, leased, task.Cancelled, task.Update{Keep: true})
			stay := []*task.Task{leased, f.addEnded(s, task.Working), f.addEnded(s, task.InputRequired)}
			var gone []*task.Task
			for _, status := range terminal {
				gone = append(gone, f.addEnded(s, status))
				t := f.add(s, "alice") // has an hour left
				f.updateStatus(s, t, status, task.Update{Due: -1})
				stay = append(stay, t)
				for _, due := range []time.Duration{0, long} {
					stay = append(stay, f.addPast(s, status, task.Update{Due: due}))
				}
			}
			f.purge(s, 61*time.Minute, 100, 0)
			f.purge(s, 30*time.Minute, 2, 2) // the limit
			f.purge(s, 30*time.Minute, len(gone)-2, len(gone)-2)
			f.purge(s, 0, 100, 0)
			f.wantLeft(s, gone, stay)
			f.wantListed(s, "alice", len(stay))
		}},
	{"the journal goes too: a new task with the same id has its own", func(f *fixture, s task.Store) {
		t := f.past().create(s, newTask("alice"), "old", "older")
		f.updateStatus(s, t, task.Completed, task.Update{Due: -1, Entries: list("oldest")})
		f.purge(s, 0, 10, 1)
		again := newTask("bob")
		again.ID = t.ID
		f.create(s, again, "new")
		f.append(s, again.ID, again.Claim, "newer")
		f.wantRow(s, again)
		f.wantJournal(s, again.ID, "new", "newer")
	}},
	{"instances that purge at the same time delete each task once", func(f *fixture, s task.Store) {
		handles := f.instances(s, 2)
		const n = 40
		for range n {
			f.addEnded(s, task.Completed)
		}
		var sum atomic.Int64
		together(&f.suite, 4, func(i int, _ func(any)) (err error) {
			for try := 0; try < 10*n && sum.Load() < n && err == nil; try++ {
				var deleted int
				deleted, err = handles[i%2].Purge(f.ctx, 0, 3)
				sum.Add(int64(deleted))
			}
			return err
		})
		f.check(sum.Load() == n, "%d tasks were deleted, want %d", sum.Load(), n)
	}},
}

var handleTests = []test{
	{"what was written is there when its handle has been closed and the database is opened again",
		func(f *fixture, s task.Store) {
			f.listen(s, long)
			ended := f.create(s, newTask("alice"), "one", "two")
			ended.Outcome = []byte("done")
			f.updateStatus(s, ended, task.Completed, task.Update{Due: -1, Entries: list("three")})
			t := f.addAsking(s, "alice", append(forBob("decided", "open"), within(time.Millisecond, "timer"))...)
			f.decide(s, t.ID, "decided")
			t = f.get(s, t.ID)
			want := f.questions(s, t.ID)
			f.ok("Close", f.closeFirst())
			other := f.another()
			f.wantRow(other, ended)
			f.wantJournal(other, ended.ID, "one", "two", "three")
			f.wantRow(other, t)
			f.wantQuestions(other, t.ID, want...)
			f.wantWaiting(other, task.QuestionFilter{}, "open")
			f.eventually("the timer is overdue", func() bool { return len(f.overdue(other, 10)) == 1 })
			f.wantNotices(other, "asked decided", "asked open", "decided decided")
			f.decide(other, t.ID, "open")
			f.wantNotices(other, "decided open") // somebody listens still
		}},
	{"every method gives an error when its context is cancelled", func(f *fixture, s task.Store) {
		t := f.add(s, "alice")
		q := &task.Question{Task: t.ID, Key: "key"}
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		_, _, journal := s.Journal(ctx, t.ID, -1)
		_, _, changes := s.Changes(ctx, nil, 10)
		for name, err := range map[string]error{
			"Create":  s.Create(ctx, newTask("alice"), long, 0, nil, nil, task.Quota{}),
			"Get":     second(s.Get(ctx, t.ID)),
			"Claim":   second(claimOne(s, ctx, "", nil, long)),
			"Journal": journal,
			"Append":  s.Append(ctx, t.ID, t.Claim, 0, []byte("x")),
			"Renew":   second(renewOne(s, ctx, t.ID, t.Claim, long)),
			"Update":  s.Update(ctx, clone(t), task.Update{Keep: true}),
			"Expired": second(s.Expired(ctx, 10)),
			"Purge":   second(s.Purge(ctx, 0, 10)),
			"Evict":   second(s.Evict(ctx, "alice", 0, 10)),

			"List":     second(s.List(ctx, "alice", "proposal", time.Time{}, "", 10)),
			"Select":   second(s.Select(ctx, task.Filter{}, "", 10)),
			"Count":    second(s.Count(ctx)),
			"Versions": second(s.Versions(ctx, []string{t.ID})),

			"Questions":      second(s.Questions(ctx, task.Name(t.ID))),
			"Waiting":        second(s.Waiting(ctx, task.QuestionFilter{}, nil, 10)),
			"History":        second(s.History(ctx, task.QuestionHistory{Voter: "user:bob"}, nil, 10)),
			"Changes":        changes,
			"ChangeQuestion": except(task.ErrNotFound, s.ChangeQuestion(ctx, q, false)),
			"Overdue":        second(s.Overdue(ctx, 10)),

			"Listen":  s.Listen(ctx, long, 0, 0),
			"Notices": second(s.Notices(ctx, task.NoticeClaim{Free: 10, Lease: long})),
			"Settle":  s.Settle(ctx, &task.Notice{Question: q}, 0),
			"Refused": second(s.Refused(ctx, 10)),
		} {
			f.check(err != nil, "%s gave no error", name)
		}
	}},
	{"the store works on after calls whose contexts ended in the middle", func(f *fixture, s task.Store) {
		t := f.add(s, "alice")
		for i := range 60 {
			ctx, cancel := context.WithTimeout(f.ctx, time.Duration(i)*20*time.Microsecond)
			got := clone(t)
			switch i % 4 {
			case 0:
				s.Create(ctx, newTask("bob"), long, 0, []byte("call"), list("one", "two"), task.Quota{})
			case 1:
				s.Append(ctx, t.ID, t.Claim, 0, []byte("x"))
			case 2:
				if s.Update(ctx, got, task.Update{Due: -1, Entries: list("y")}) == nil {
					t = got
				}
			case 3:
				s.List(ctx, "bob", "proposal", time.Time{}, "", 100)
			}
			cancel()
		}
		for _, other := range f.list(s, "bob", "proposal", 100) {
			f.wantJournal(s, other.ID, "one", "two")
		}
		t = f.get(s, t.ID)
		t.Message = "on"
		f.update(s, t, task.Update{Due: -1})
		f.wantRow(s, t)
	}},
}

// watch watches a store until stop is called.
func (f *fixture) watch(s task.Store, ready func(), changed func(name string, due bool)) (stop func()) {
	ctx, cancel := context.WithCancel(f.ctx)
	f.Cleanup(cancel)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := s.(task.Watcher).Watch(ctx, ready, changed)
		f.check(ctx.Err() != nil, "Watch returned before its context was done: %v", err)
	}()
	return func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			f.Fatal("Watch does not return when its context is done")
		}
	}
}

var watchTests = needs[task.Watcher]([]test{
	{"changed is called for what another instance creates and updates, until the context is done",
		func(f *fixture, s task.Store) {
			var readies atomic.Int64
			var seen sync.Map // names, and whether the task was due
			stop := f.watch(s, func() { readies.Add(1) }, func(name string, due bool) { seen.Store(name, due) })
			other := f.another()
			var told atomic.Bool
			stopToo := f.watch(other, nil, func(string, bool) { told.Store(true) }) // who does not ask when it is ready
			f.eventually("Watch is ready", func() bool { return readies.Load() > 0 })
			sees := func(what string, t *task.Task, due bool) {
				f.eventually("Watch tells of "+what, func() bool {
					got, ok := seen.LoadAndDelete(task.Name(t.ID))
					f.check(!ok || got == due, "Watch says that %s is due: %v, want %v", what, got, due)
					return ok
				})
			}
			t := f.add(other, "alice")
			sees("a task that was created", t, true)
			f.update(other, t, task.Update{Due: -1})
			sees("a task that was parked", t, false)
			f.update(other, t, task.Update{Keep: true, Entries: list("one")})
			sees("a task that was changed", t, false)
			f.update(other, t, task.Update{Due: long})
			sees("a task that is due later", t, false)
			f.update(other, t, task.Update{})
			sees("a task that is due again", t, true)
			f.update(other, t, task.Update{Lease: long})
			sees("a task that was claimed as it was changed", t, false)
			f.park(other, t, question("key", "user:bob"))
			sees("a task that asks", t, false)
			f.decide(other, t.ID, "key")
			sees("a task that a decision makes due", t, true)
			f.eventually("Watch without ready tells, too", func() bool {
				f.add(s, "alice")
				return told.Load()
			})
			stopToo()
			stop()
			n := readies.Load()
			f.check(n == 1, "ready was called %d times, want once", n)
		}},
})
