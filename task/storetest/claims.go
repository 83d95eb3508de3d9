package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/askback-mcp/askback/task"
)

var claimTests = []test{
	{"without a task that is due both results are nil", func(f *fixture) {
		s := f.open()
		f.noneDue(s)
		f.addParked(s, "alice")
		f.noneDue(s)
	}},

	{"Fence and Attempts rise by one, and nothing else in the row changes", func(f *fixture) {
		s := f.open()
		t := newTask("alice")
		t.Status, t.Message, t.Round = task.Working, "hello", 2
		t.Pending, t.Outcome = []byte("pending"), []byte("outcome")
		f.create(s, t)
		for i := range 3 {
			got := f.claimThis(s, t.ID, long)
			want := clone(t)
			want.Fence, want.Attempts = int64(i+1), i+1
			f.wantSame(got, want)
			f.wantRow(s, want)
			f.release(s, t.ID, got.Fence)
		}
	}},

	{"a task under a lease is not due", func(f *fixture) {
		handles := f.several(2)
		f.add(handles[0], "alice")
		f.claim(handles[0], "", long)
		for _, s := range handles {
			f.noneDue(s)
		}
	}},

	{"a task is due again when its lease ends, and not before", func(f *fixture) {
		handles := f.several(2)
		t := f.add(handles[0], "alice")
		const lease = 60 * time.Millisecond
		start := time.Now()
		first := f.claimThis(handles[0], t.ID, lease)
		var second *task.Task
		f.eventually("the lease has ended", func() bool {
			second = f.tryClaim(handles[1], "", long)
			return second != nil
		})
		// A millisecond is what times are rounded to, at both ends.
		if took := time.Since(start); took < lease-2*time.Millisecond {
			f.Errorf("it was due again after %v, before its lease of %v had ended", took, lease)
		}
		if second.ID != t.ID || second.Fence != first.Fence+1 || second.Attempts != 2 {
			f.Errorf("the second claim took task %s with Fence %d and Attempts %d, want %s, %d and 2",
				second.ID, second.Fence, second.Attempts, t.ID, first.Fence+1)
		}
		f.noneDue(handles[0])
	}},

	{"a terminal task that is due is claimed as well", func(f *fixture) {
		s := f.open()
		for _, status := range []task.Status{task.Completed, task.Failed, task.Cancelled} {
			t := f.addParked(s, "alice")
			t.Status, t.Stopped = status, true
			f.update(s, t, task.Update{Due: 0})
			if got := f.claimThis(s, t.ID, long); got.Status != status || !got.Stopped {
				f.Errorf("the task has status %q and Stopped is %v, want %q and true", got.Status, got.Stopped, status)
			}
		}
	}},

	{"a task whose time to live has ended is claimed as well", func(f *fixture) {
		s := f.open()
		t := f.addParked(s, "alice")
		t.Expires = t.Created.Add(-long)
		f.update(s, t, task.Update{Due: 0})
		f.claimThis(s, t.ID, long)
	}},

	{"of a principal's tasks it takes the one that has been due longest", func(f *fixture) {
		s := f.open()
		var want []string
		var tasks []*task.Task
		for range 12 {
			t := f.add(s, "alice")
			f.tick(s, t.Created)
			tasks = append(tasks, t)
		}
		// Those at odd places are due anew, in reverse, and so come after the others.
		for _, t := range tasks {
			want = append(want, t.ID)
		}
		for i := len(tasks) - 1; i > 0; i -= 2 {
			t := tasks[i]
			f.update(s, t, task.Update{Due: -1})
			f.update(s, t, task.Update{Due: 0})
			f.tick(s, t.Updated)
			want = append(slices.DeleteFunc(want, func(id string) bool { return id == t.ID }), t.ID)
		}
		var got []string
		for range want {
			got = append(got, f.claim(s, "alice", long).ID)
		}
		if !slices.Equal(got, want) {
			f.Errorf("Claim took the tasks in the order\n%q, want\n%q", got, want)
		}
		f.noneDue(s)
	}},

	{"a lease that ended has its place by that end", func(f *fixture) {
		s := f.open()
		first := f.add(s, "alice")
		f.tick(s, first.Created)
		c := f.claimThis(s, first.ID, long)
		second := f.add(s, "alice")
		f.tick(s, second.Created)
		f.release(s, first.ID, c.Fence)
		f.claimThis(s, second.ID, long)
		f.claimThis(s, first.ID, long)
	}},

	{"principals take turns", func(f *fixture) {
		s := f.open()
		principals := []string{"", "A", "a", "b", "B", "ä", "a ", "_", "10", "9", "日本", "zzz"}
		const each = 3
		for _, p := range principals {
			for range each {
				f.add(s, p)
			}
		}
		var order []string
		after := ""
		for range each {
			var turn []string
			for range principals {
				t := f.claim(s, after, long)
				after = t.Principal
				turn = append(turn, after)
			}
			if order == nil {
				order = turn
			}
			sorted := slices.Sorted(slices.Values(turn))
			if len(slices.Compact(sorted)) != len(principals) {
				f.Fatalf("in one turn the principals were %q, some of them twice", turn)
			}
			if !slices.Equal(turn, order) {
				f.Fatalf("the order of principals was %q, and then %q", order, turn)
			}
		}
		f.noneDue(s)
	}},

	{"a principal with one task does not wait for one with a thousand", func(f *fixture) {
		s := f.open()
		for range 1000 {
			f.add(s, "with many")
		}
		few := f.add(s, "a few")
		if first := f.claim(s, "a few", long); first.Principal != "with many" {
			f.Errorf("after the one came a task of %q", first.Principal)
		}
		if second := f.claim(s, "with many", long); second.ID != few.ID {
			f.Errorf("after the one with many came a task of %q", second.Principal)
		}
		if third := f.claim(s, "a few", long); third.Principal != "with many" {
			f.Errorf("then came a task of %q", third.Principal)
		}
	}},

	{"after may be the only principal, one without tasks, or none", func(f *fixture) {
		s := f.open()
		for range 8 {
			f.add(s, "m")
		}
		for _, after := range []string{"m", "", "a", "z", "m ", "日本", "'", "\U0010FFFF"} {
			if t := f.claim(s, after, long); t.Principal != "m" {
				f.Errorf("after %q came a task of %q", after, t.Principal)
			}
		}
		f.noneDue(s)
	}},

	{"a principal whose tasks are not due has no turn", func(f *fixture) {
		s := f.open()
		want := make(map[string]bool)
		for i := range 20 {
			p := fmt.Sprint(i)
			f.addParked(s, p)
			switch t := f.add(s, p); i % 3 {
			case 0:
				f.claimThis(s, t.ID, long)
			case 1:
				f.update(s, t, task.Update{Due: long})
			case 2:
				f.update(s, t, task.Update{Due: -1})
			}
		}
		for i := 0; i < 20; i += 4 {
			f.add(s, fmt.Sprint(i))
			want[fmt.Sprint(i)] = true
		}
		after := "0"
		for range len(want) {
			t := f.claim(s, after, long)
			after = t.Principal
			if !want[after] {
				f.Errorf("%q had a turn without a task that is due, or a second one", after)
			}
			delete(want, after)
		}
		f.noneDue(s)
	}},

	{"instances that claim at the same time get all tasks, each once", func(f *fixture) {
		const n = 120
		handles := f.several(2)
		want := make(map[string]bool)
		for i := range n {
			want[f.add(handles[0], fmt.Sprint(i%5)).ID] = true
		}
		var mu sync.Mutex
		got := make(map[string]int)
		f.together(8, func(i int) {
			after := ""
			for range n + 1 {
				t, err := handles[i%2].Claim(f.ctx, after, long)
				if err != nil {
					f.Errorf("Claim: %v", err)
					return
				}
				if t == nil {
					return
				}
				after = t.Principal
				mu.Lock()
				got[t.ID]++
				mu.Unlock()
			}
		})
		for id, times := range got {
			if times != 1 || !want[id] {
				f.Errorf("task %s was claimed %d times", id, times)
			}
		}
		if len(got) != n {
			f.Errorf("%d tasks were claimed, want %d", len(got), n)
		}
		f.noneDue(handles[0])
	}},

	{"instances that claim under short leases never get a task under the same fence", func(f *fixture) {
		const n, claims = 3, 150
		handles := f.several(2)
		for i := range n {
			f.add(handles[0], fmt.Sprint(i%2))
		}
		var mu sync.Mutex
		fences := make(map[string][]int64)
		f.together(8, func(i int) {
			for got := 0; got < claims/8; {
				t, err := handles[i%2].Claim(f.ctx, "", time.Millisecond)
				if err != nil {
					f.Errorf("Claim: %v", err)
					return
				}
				if t == nil {
					continue
				}
				got++
				mu.Lock()
				fences[t.ID] = append(fences[t.ID], t.Fence)
				mu.Unlock()
			}
		})
		for id, got := range fences {
			slices.Sort(got)
			for i, fence := range got {
				if fence != int64(i+1) {
					f.Fatalf("task %s was claimed under the fences %d, want each from 1 once", id, got)
				}
			}
		}
	}},
}

var renewTests = []test{
	{"a lease that is renewed ends after the new time", func(f *fixture) {
		s := f.open()
		t := f.add(s, "alice")
		c := f.claim(s, "", long)
		const lease = 60 * time.Millisecond
		start := time.Now()
		if _, err := s.Renew(f.ctx, t.ID, c.Fence, lease); err != nil {
			f.Fatalf("Renew: %v", err)
		}
		f.eventually("the lease has ended", func() bool { return f.tryClaim(s, "", long) != nil })
		if took := time.Since(start); took < lease-2*time.Millisecond {
			f.Errorf("the lease ended after %v, before its time of %v", took, lease)
		}
	}},

	{"a lease that is renewed in time does not end", func(f *fixture) {
		s := f.open()
		t := f.add(s, "alice")
		c := f.claim(s, "", 100*time.Millisecond)
		if _, err := s.Renew(f.ctx, t.ID, c.Fence, long); err != nil {
			f.Fatalf("Renew: %v", err)
		}
		other := f.addParked(s, "alice")
		f.update(s, other, task.Update{Due: 200 * time.Millisecond})
		f.eventually("a task is due that became so after the first lease had ended", func() bool {
			got := f.tryClaim(s, "", long)
			if got != nil && got.ID != other.ID {
				f.Fatal("the lease ended though it was renewed")
			}
			return got != nil
		})
	}},

	{"a lease that ended can be renewed while nobody has claimed the task", func(f *fixture) {
		s := f.open()
		t := f.add(s, "alice")
		c := f.claim(s, "", long)
		f.release(s, t.ID, c.Fence)
		if _, err := s.Renew(f.ctx, t.ID, c.Fence, long); err != nil {
			f.Fatalf("Renew: %v", err)
		}
		f.noneDue(s)
	}},

	{"a lease renewed for no time is given back", func(f *fixture) {
		s := f.open()
		t := f.add(s, "alice")
		c := f.claim(s, "", long)
		f.release(s, t.ID, c.Fence)
		if again := f.claimThis(s, t.ID, long); again.Fence != c.Fence+1 {
			f.Errorf("Fence is %d, want %d", again.Fence, c.Fence+1)
		}
	}},

	{"it returns the Version, and changes nothing in the row", func(f *fixture) {
		s := f.open()
		t := f.add(s, "alice")
		c := f.claim(s, "", long)
		for range 3 {
			version, err := s.Renew(f.ctx, t.ID, c.Fence, long)
			if err != nil {
				f.Fatalf("Renew: %v", err)
			}
			if version != c.Version {
				f.Errorf("Renew returned version %d, want %d", version, c.Version)
			}
			f.wantRow(s, c)
			f.update(s, c, task.Update{Keep: true})
		}
	}},

	{"after another claim it is ErrLeaseLost, and the new lease stays as it is", func(f *fixture) {
		handles := f.several(2)
		t := f.add(handles[0], "alice")
		old := f.claim(handles[0], "", long)
		f.release(handles[0], t.ID, old.Fence)
		c := f.claim(handles[1], "", long)
		for _, fence := range []int64{old.Fence, 0, c.Fence + 1} {
			_, err := handles[0].Renew(f.ctx, t.ID, fence, 0)
			f.wantError(fmt.Sprintf("Renew under fence %d of %d", fence, c.Fence), err, task.ErrLeaseLost)
		}
		f.noneDue(handles[0])
		f.wantRow(handles[0], c)
	}},

	{"a task that is parked stays parked", func(f *fixture) {
		s := f.open()
		f.add(s, "alice")
		c := f.claim(s, "", long)
		f.update(s, c, task.Update{Due: -1})
		version, err := s.Renew(f.ctx, c.ID, c.Fence, 0)
		if err != nil {
			f.Fatalf("Renew: %v", err)
		}
		if version != c.Version {
			f.Errorf("Renew returned version %d, want %d", version, c.Version)
		}
		f.noneDue(s)
	}},

	{"an id without a task is ErrNotFound", func(f *fixture) {
		s := f.open()
		_, err := s.Renew(f.ctx, newID(), 0, long)
		f.wantError("Renew", err, task.ErrNotFound)
	}},
}
