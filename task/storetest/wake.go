package storetest

import (
	"slices"
	"time"

	"github.com/askback-mcp/askback/task"
)

// woken returns what Woken gives.
func (f *fixture) woken(s task.Store, limit int) []string {
	f.Helper()
	ids, err := s.(task.Waker).Woken(f.ctx, limit)
	f.ok("Woken", err)
	return ids
}

// addWaiting creates a task that is parked for a time with an open question.
func (f *fixture) addWaiting(s task.Store, wake time.Duration) *task.Task {
	f.Helper()
	t := f.add(s, "alice")
	t.Status, t.Pending = task.InputRequired, []byte("open")
	f.update(s, t, task.Update{Due: -1, Wake: wake})
	return t
}

// soon is a time that passes before the suite can look.
const soon = time.Nanosecond

var wakeTests = []test{
	{"a parked task is given when its time has come and not before, by every instance", func(f *fixture, s task.Store) {
		const wait = 60 * time.Millisecond
		start := time.Now()
		t := f.addWaiting(s, wait)
		f.addWaiting(s, long)
		f.addParked(s, "alice")
		for _, s := range f.instances(s, 2) {
			f.eventually("its time has come", func() bool { return len(f.woken(s, 10)) > 0 })
			f.wantPassed(start, wait)
			if got := f.woken(s, 10); !slices.Equal(got, []string{t.ID}) {
				f.Errorf("it gives %q, want %q", got, t.ID)
			}
		}
	}},
	{"a task whose time has come is not due", func(f *fixture, s task.Store) {
		t := f.addWaiting(s, soon)
		f.eventually("its time has come", func() bool { return len(f.woken(s, 10)) > 0 })
		f.noneDue(s)
		f.wantRow(s, t)
	}},
	{"it gives the task that has waited longest first, and no more than the limit", func(f *fixture, s task.Store) {
		last, first, second := f.addWaiting(s, long), f.addWaiting(s, long), f.addWaiting(s, long)
		var want []string
		for _, t := range []*task.Task{first, second, last} { // in another order than they were created
			f.tick(s, t.Updated)
			f.update(s, t, task.Update{Due: -1, Wake: soon})
			want = append(want, t.ID)
			f.eventually("its time has come", func() bool { return len(f.woken(s, 10)) == len(want) })
			f.tick(s, t.Updated)
		}
		for limit, n := range []int{0, 1, 2, 3, 3} {
			if got := f.woken(s, limit); !slices.Equal(got, want[:n]) {
				f.Errorf("with a limit of %d it gives %q, want %q", limit, got, want[:n])
			}
		}
	}},
	{"an update with Keep leaves the time as it is", func(f *fixture, s task.Store) {
		t, later := f.addWaiting(s, soon), f.addWaiting(s, long)
		for _, t := range []*task.Task{t, later} {
			t.Pending = []byte("fewer")
			f.update(s, t, task.Update{Keep: true, Wake: soon})
		}
		f.eventually("its time has come", func() bool { return len(f.woken(s, 10)) > 0 })
		if got := f.woken(s, 10); !slices.Equal(got, []string{t.ID}) {
			f.Errorf("it gives %q, want %q", got, t.ID)
		}
	}},
	{"any other update takes the time back, or sets another", func(f *fixture, s task.Store) {
		for says, change := range map[string]func(t *task.Task) task.Update{
			"it is answered": func(t *task.Task) task.Update {
				t.Status = task.Working
				return task.Update{}
			},
			"it is answered, and claimed": func(t *task.Task) task.Update {
				t.Status = task.Working
				return task.Update{Lease: long}
			},
			"it is cancelled": func(t *task.Task) task.Update {
				t.Status = task.Cancelled
				return task.Update{}
			},
			"it has ended": func(t *task.Task) task.Update {
				t.Status = task.Failed
				return task.Update{Due: -1, Wake: soon}
			},
			"it is parked for longer":     func(*task.Task) task.Update { return task.Update{Due: -1, Wake: long} },
			"it waits for an answer only": func(*task.Task) task.Update { return task.Update{Due: -1} },
			"it is due":                   func(*task.Task) task.Update { return task.Update{Wake: soon} },
			"it is claimed":               func(*task.Task) task.Update { return task.Update{Lease: long, Wake: soon} },
		} {
			t := f.addWaiting(s, soon)
			f.eventually("its time has come", func() bool { return slices.Contains(f.woken(s, 100), t.ID) })
			f.update(s, t, change(t))
			probe := f.addWaiting(s, soon) // whose time comes later
			f.eventually("a later time has come", func() bool { return slices.Contains(f.woken(s, 100), probe.ID) })
			if slices.Contains(f.woken(s, 100), t.ID) {
				f.Errorf("when %s its old time still counts", says)
			}
			// Parked again, it waits for its new time only.
			if t, err := s.Get(f.ctx, t.ID); err == nil && !t.Status.Terminal() {
				f.updateStatus(s, t, task.InputRequired, task.Update{Due: -1})
				if slices.Contains(f.woken(s, 100), t.ID) {
					f.Errorf("when %s its old time counts once it is parked again", says)
				}
			}
		}
	}},
	{"a task that is parked with another status is not given", func(f *fixture, s task.Store) {
		t := f.add(s, "alice")
		f.update(s, t, task.Update{Due: -1, Wake: soon})
		probe := f.addWaiting(s, soon)
		f.eventually("a later time has come", func() bool { return slices.Contains(f.woken(s, 10), probe.ID) })
		if got := f.woken(s, 10); len(got) != 1 {
			f.Errorf("it gives %q, want %q", got, probe.ID)
		}
	}},
}
