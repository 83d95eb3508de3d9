package storetest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/askback-mcp/askback/task"
)

// ended lets the time to live of a task have ended an hour ago, by the store's clock.
func (f *fixture) ended(s task.Store, t *task.Task, status task.Status, u task.Update) {
	f.Helper()
	t.Status = status
	t.Expires = t.Created.Add(-time.Hour)
	f.update(s, t, u)
}

func (f *fixture) expired(s task.Store, limit int) []string {
	f.Helper()
	ids, err := s.Expired(f.ctx, limit)
	if err != nil {
		f.Fatalf("Expired: %v", err)
	}
	slices.Sort(ids)
	return ids
}

func (f *fixture) purge(s task.Store, grace time.Duration, limit, want int) {
	f.Helper()
	n, err := s.Purge(f.ctx, grace, limit)
	if err != nil {
		f.Fatalf("Purge: %v", err)
	}
	if n != want {
		f.Fatalf("Purge deleted %d tasks, want %d", n, want)
	}
}

var expiredTests = []test{
	{"it finds tasks that are not terminal and past their time to live, however they stand", func(f *fixture) {
		s := f.open()
		leased := f.add(s, "alice")
		f.claimThis(s, leased.ID, long)
		f.ended(s, f.get(s, leased.ID), task.Working, task.Update{Keep: true})
		want := []string{leased.ID}
		for _, status := range []task.Status{task.Working, task.InputRequired, task.Completed, task.Failed, task.Cancelled} {
			for _, due := range []time.Duration{-1, 0, long} {
				f.add(s, "alice") // has an hour left
				t := f.add(s, "alice")
				f.ended(s, t, status, task.Update{Due: due})
				if !status.Terminal() {
					want = append(want, t.ID)
				}
			}
		}
		slices.Sort(want)
		if got := f.expired(s, 100); !slices.Equal(got, want) {
			f.Errorf("Expired gave %d tasks, want %d:\n%q\nwant\n%q", len(got), len(want), got, want)
		}
	}},

	{"it gives no more than the limit, and as many if there are", func(f *fixture) {
		s := f.open()
		for range 5 {
			f.ended(s, f.add(s, "alice"), task.Working, task.Update{Due: -1})
		}
		for limit, want := range map[int]int{1: 1, 4: 4, 5: 5, 6: 5} {
			got := slices.Compact(f.expired(s, limit))
			if len(got) != want {
				f.Errorf("with a limit of %d there are %d, want %d", limit, len(got), want)
			}
		}
	}},

	{"a task is found when its time to live ends, and not before", func(f *fixture) {
		s := f.open()
		t := newTask("alice")
		const ttl = 60 * time.Millisecond
		start := time.Now()
		if err := s.Create(f.ctx, t, ttl, nil, nil, 0); err != nil {
			f.Fatalf("Create: %v", err)
		}
		f.eventually("the time to live has ended", func() bool { return len(f.expired(s, 10)) == 1 })
		if took := time.Since(start); took < ttl-2*time.Millisecond {
			f.Errorf("it was found after %v, before its time to live of %v had ended", took, ttl)
		}
		t.Status = task.Failed
		f.update(s, t, task.Update{Due: -1})
		if got := f.expired(s, 10); len(got) != 0 {
			f.Errorf("it is still found when it is terminal")
		}
	}},
}

var purgeTests = []test{
	{"it deletes tasks that are terminal, not due, and past their time to live by the grace, and no others", func(f *fixture) {
		s := f.open()
		// Who cleans up after a cancelled task still needs its journal.
		leased := f.claimThis(s, f.add(s, "alice").ID, long)
		f.ended(s, leased, task.Cancelled, task.Update{Keep: true})
		stay := []*task.Task{leased}
		var gone []*task.Task
		for _, status := range []task.Status{task.Completed, task.Failed, task.Cancelled} {
			t := f.add(s, "alice")
			f.ended(s, t, status, task.Update{Due: -1})
			gone = append(gone, t)

			t = f.add(s, "alice") // has an hour left
			t.Status = status
			f.update(s, t, task.Update{Due: -1})
			stay = append(stay, t)

			for _, due := range []time.Duration{0, long} {
				t = f.add(s, "alice")
				f.ended(s, t, status, task.Update{Due: due})
				stay = append(stay, t)
			}
		}
		for _, status := range []task.Status{task.Working, task.InputRequired} {
			t := f.add(s, "alice")
			f.ended(s, t, status, task.Update{Due: -1})
			stay = append(stay, t)
		}
		f.purge(s, 61*time.Minute, 100, 0)
		f.purge(s, 30*time.Minute, 100, len(gone))
		f.purge(s, 0, 100, 0)
		for _, t := range gone {
			_, err := s.Get(f.ctx, t.ID)
			f.wantError("Get of a purged task", err, task.ErrNotFound)
			_, _, err = s.Journal(f.ctx, t.ID)
			f.wantError("Journal of a purged task", err, task.ErrNotFound)
		}
		for _, t := range stay {
			f.wantRow(s, t)
			f.wantJournal(s, t.ID)
		}
		if n := len(f.list(s, "alice", "proposal", 100)); n != len(stay) {
			f.Errorf("List has %d tasks, want %d", n, len(stay))
		}
	}},

	{"it deletes no more than the limit, and as many if there are", func(f *fixture) {
		s := f.open()
		for range 5 {
			f.ended(s, f.add(s, "alice"), task.Completed, task.Update{Due: -1})
		}
		f.purge(s, 0, 2, 2)
		if n := len(f.list(s, "alice", "proposal", 100)); n != 3 {
			f.Errorf("%d tasks are left, want 3", n)
		}
		f.purge(s, 0, 3, 3)
		f.purge(s, 0, 3, 0)
	}},

	{"the journal goes too: a new task with the same id has its own", func(f *fixture) {
		s := f.open()
		t := newTask("alice")
		f.create(s, t, "old", "older")
		f.ended(s, t, task.Completed, task.Update{Due: -1, Entries: list([]string{"oldest"})})
		f.purge(s, 0, 10, 1)
		again := newTask("bob")
		again.ID = t.ID
		f.create(s, again, "new")
		f.append(s, again.ID, 0, "newer")
		f.wantRow(s, again)
		f.wantJournal(s, again.ID, "new", "newer")
	}},

	{"a worker that finds its task purged is told ErrNotFound", func(f *fixture) {
		s := f.open()
		f.add(s, "alice")
		c := f.claim(s, "", long)
		f.ended(s, c, task.Cancelled, task.Update{Due: -1})
		f.purge(s, 0, 10, 1)
		f.wantError("Append", s.Append(f.ctx, c.ID, c.Fence, []byte("x")), task.ErrNotFound)
		_, err := s.Renew(f.ctx, c.ID, c.Fence, long)
		f.wantError("Renew", err, task.ErrNotFound)
		f.wantError("Update", s.Update(f.ctx, c, task.Update{Leased: true, Due: -1}), task.ErrNotFound)
	}},

	{"instances that purge at the same time delete each task once", func(f *fixture) {
		handles := f.several(2)
		const n = 40
		for range n {
			f.ended(handles[0], f.add(handles[0], "alice"), task.Completed, task.Update{Due: -1})
		}
		var mu sync.Mutex
		sum := 0
		f.together(4, func(i int) {
			for range 10 * n {
				deleted, err := handles[i%2].Purge(f.ctx, 0, 3)
				if err != nil {
					f.Errorf("Purge: %v", err)
					return
				}
				mu.Lock()
				sum += deleted
				left := n - sum
				mu.Unlock()
				if left <= 0 {
					return
				}
			}
		})
		if sum != n {
			f.Errorf("%d tasks were deleted, want %d", sum, n)
		}
	}},
}

var contextTests = []test{
	{"every method gives an error when its context is cancelled", func(f *fixture) {
		s := f.open()
		t := f.add(s, "alice")
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		for name, call := range map[string]func() error{
			"Create":  func() error { return s.Create(ctx, newTask("alice"), long, nil, nil, 0) },
			"Get":     func() error { _, err := s.Get(ctx, t.ID); return err },
			"List":    func() error { _, err := s.List(ctx, "alice", "proposal", time.Time{}, "", 10); return err },
			"Claim":   func() error { _, err := s.Claim(ctx, "", long); return err },
			"Journal": func() error { _, _, err := s.Journal(ctx, t.ID); return err },
			"Append":  func() error { return s.Append(ctx, t.ID, 0, []byte("x")) },
			"Renew":   func() error { _, err := s.Renew(ctx, t.ID, 0, long); return err },
			"Update":  func() error { return s.Update(ctx, clone(t), task.Update{Keep: true}) },
			"Expired": func() error { _, err := s.Expired(ctx, 10); return err },
			"Purge":   func() error { _, err := s.Purge(ctx, 0, 10); return err },
		} {
			if call() == nil {
				f.Errorf("%s gave no error", name)
			}
		}
	}},

	{"the store works on after calls whose contexts ended in the middle", func(f *fixture) {
		s := f.open()
		t := f.add(s, "alice")
		for i := range 60 {
			ctx, cancel := context.WithTimeout(f.ctx, time.Duration(i)*20*time.Microsecond)
			got := clone(t)
			switch i % 4 {
			case 0:
				s.Create(ctx, newTask("bob"), long, []byte("call"), list([]string{"one", "two"}), 0)
			case 1:
				s.Append(ctx, t.ID, 0, []byte("x"))
			case 2:
				if s.Update(ctx, got, task.Update{Due: -1, Entries: list([]string{"y"})}) == nil {
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

var watchTests = []test{
	{"changed is called for what any instance creates and updates, until the context is done", func(f *fixture) {
		a := f.open()
		w, ok := a.(task.Watcher)
		if !ok {
			f.Skip("this store is no Watcher")
		}
		b := f.another()
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		var mu sync.Mutex
		seen := make(map[string]bool)
		readies := 0
		ready := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- w.Watch(ctx, func() {
				mu.Lock()
				defer mu.Unlock()
				if readies++; readies == 1 {
					close(ready)
				}
			}, func(id string) {
				mu.Lock()
				defer mu.Unlock()
				seen[id] = true
			})
		}()
		select {
		case <-ready:
		case err := <-ended:
			f.Fatalf("Watch returned before it was ready: %v", err)
		case <-time.After(patience):
			f.Fatal("Watch does not become ready")
		}
		sees := func(what, id string) {
			f.Helper()
			f.eventually("Watch tells of "+what, func() bool {
				mu.Lock()
				defer mu.Unlock()
				defer delete(seen, id)
				return seen[id]
			})
		}
		for _, s := range []task.Store{a, b} {
			t := f.add(s, "alice")
			sees("a task that was created", t.ID)
			f.update(s, t, task.Update{Due: -1})
			sees("a task that was parked", t.ID)
			f.update(s, t, task.Update{Keep: true, Entries: list([]string{"one"})})
			sees("a task that was changed", t.ID)
		}
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			f.Fatal("Watch does not return when its context is done")
		}
		if readies != 1 {
			f.Errorf("ready was called %d times, want once", readies)
		}
	}},

	{"without ready it watches as well", func(f *fixture) {
		a := f.open()
		w, ok := a.(task.Watcher)
		if !ok {
			f.Skip("this store is no Watcher")
		}
		ctx, cancel := context.WithCancel(f.ctx)
		defer cancel()
		changed := make(chan string, 1000)
		ended := make(chan error, 1)
		go func() {
			ended <- w.Watch(ctx, nil, func(id string) {
				select {
				case changed <- id:
				default:
				}
			})
		}()
		f.eventually("Watch tells of a task", func() bool {
			f.add(a, "alice")
			return len(changed) > 0
		})
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			f.Fatal("Watch does not return when its context is done")
		}
	}},
}
