package taskrun_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// newIdle returns an engine that runs nothing.
func newIdle(t *testing.T, store task.Store, opts *taskrun.Options) *taskrun.Engine {
	t.Helper()
	e := expect.Must(taskrun.NewEngine(store, opts))(t)
	return e
}

// end ends a task as another process would.
func (f *fixture) end(created *task.Task) {
	f.t.Helper()
	f.change(created, func(now *task.Task) task.Update {
		now.Status = task.Completed
		return task.Update{Due: -1}
	})
}

// A principal that makes many short calls must not fill the store, and must not be locked out for days either.
func TestEndedTasksMakeRoom(t *testing.T) {
	for _, bound := range []task.Quota{{Kept: 20}, {Bytes: 20 * 4}} {
		for _, principal := range []string{"alice", ""} {
			inBubble(t, func(t *testing.T, f *fixture) {
				e := newIdle(t, f.store, &taskrun.Options{Settings: task.Settings{PerPrincipal: bound, Anonymous: bound},
					Grace: time.Hour})
				create := func() (*task.Task, error) {
					return e.Create(t.Context(), &taskrun.New{Principal: principal, Call: []byte("call")})
				}
				var first *task.Task
				for i := range 20 {
					created := expect.Must(create())(t)
					if i == 0 {
						first = created
					}
					f.end(created)
				}
				time.Sleep(time.Hour) // not longer
				if _, err := create(); !errors.Is(err, task.ErrQuota) {
					t.Errorf("%+v for %q: before the ended tasks are old the error is %v", bound, principal, err)
				}
				if _, err := f.store.Get(t.Context(), first.ID); err != nil {
					t.Errorf("%+v: a task that ended just now: %v", bound, err)
				}
				time.Sleep(2 * time.Millisecond)
				for range 20 {
					created, err := create()
					if err != nil {
						t.Fatalf("%+v for %q: once the ended tasks are old the error is %v", bound, principal, err)
					}
					f.end(created)
				}
				if _, err := f.store.Get(t.Context(), first.ID); !errors.Is(err, task.ErrNotFound) {
					t.Errorf("%+v: the oldest task, of which there is no more room: %v", bound, err)
				}
				if _, err := e.Create(t.Context(), &taskrun.New{Principal: "bob", Call: []byte("call")}); err != nil {
					t.Errorf("%+v: another principal: %v", bound, err)
				}
			})
		}
	}
}

// A task too many does not cost those that have ended, and neither does one that would never fit.
func TestNothingMakesRoomForWhatDoesNotFit(t *testing.T) {
	for _, tt := range []struct {
		name  string
		bound task.Quota
		write func(ctx context.Context, e *taskrun.Engine, parked *task.Task) error
	}{
		{"one too many", task.Quota{Unfinished: 1}, func(ctx context.Context, e *taskrun.Engine, _ *task.Task) error {
			return expect.Err(e.Create(ctx, &taskrun.New{Principal: "alice"}))
		}},
		{"a call that is too large", task.Quota{Bytes: 100},
			func(ctx context.Context, e *taskrun.Engine, _ *task.Task) error {
				return expect.Err(e.Create(ctx, &taskrun.New{Principal: "alice", Call: make([]byte, 60),
					Entries: [][]byte{make([]byte, 41)}}))
			}},
		{"an answer that is too large", task.Quota{Bytes: 100},
			func(ctx context.Context, e *taskrun.Engine, parked *task.Task) error {
				return expect.Err(e.Change(ctx, "alice", parked.ID, func(now *task.Task) (*task.Update, error) {
					return &task.Update{Entries: [][]byte{make([]byte, 101)}}, nil
				}))
			}},
	} {
		inBubble(t, func(t *testing.T, f *fixture) {
			e := newIdle(t, f.store, &taskrun.Options{Settings: task.Settings{PerPrincipal: tt.bound}})
			ended := f.create(e, &taskrun.New{Principal: "alice"})
			f.end(ended)
			time.Sleep(time.Hour)
			parked := f.create(e, &taskrun.New{Principal: "alice"})
			if full, ok := errors.AsType[*task.QuotaError](tt.write(t.Context(), e, parked)); !ok || full.Max != tt.bound {
				t.Errorf("%s: %v", tt.name, full)
			}
			if _, err := f.store.Get(t.Context(), ended.ID); err != nil {
				t.Errorf("%s: the ended task: %v", tt.name, err)
			}
		})
	}
}

// Answers make room as new tasks do: what they need is deleted of the principal's own tasks only.
func TestEndedTasksMakeRoomForAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		e := newIdle(t, f.store, &taskrun.Options{Settings: task.Settings{PerPrincipal: task.Quota{Bytes: 100}}})
		parked := f.create(e, &taskrun.New{Principal: "alice"})
		var ended []*task.Task
		for _, principal := range []string{"alice", "bob"} {
			ended = append(ended, f.create(e, &taskrun.New{Principal: principal, Call: make([]byte, 60)}))
			f.end(ended[len(ended)-1])
		}
		time.Sleep(time.Hour)
		expect.Must(e.Change(t.Context(), "alice", parked.ID, func(now *task.Task) (*task.Update, error) {
			return &task.Update{Entries: [][]byte{make([]byte, 41)}}, nil
		}))(t)
		expect.Is(t, "alice's ended task", expect.Err(f.store.Get(t.Context(), ended[0].ID)), task.ErrNotFound)
		if _, err := f.store.Get(t.Context(), ended[1].ID); err != nil {
			t.Errorf("bob's ended task: %v", err)
		}
	})
}

// A store that cannot make room has failed: the caller may try again at once, and the operator should know.
func TestMakingRoomFails(t *testing.T) {
	f := newFixture(t)
	f.store = &meddled{Store: f.store, evict: func() error { return errLost }}
	e := newIdle(t, f.store, &taskrun.Options{Settings: task.Settings{PerPrincipal: task.Quota{Kept: 1}}})
	f.end(f.create(e, &taskrun.New{Principal: "alice"}))
	if _, err := e.Create(t.Context(), &taskrun.New{Principal: "alice"}); !errors.Is(err, errLost) ||
		errors.Is(err, task.ErrQuota) {
		t.Errorf("the error is %v, want that of Evict", err)
	}
}

// All anonymous callers together have a quota of their own.
func TestAnonymousCallersHaveTheirOwnQuota(t *testing.T) {
	f := newFixture(t)
	e := newIdle(t, f.store, &taskrun.Options{Settings: task.Settings{
		PerPrincipal: task.Quota{Unfinished: 2}, Anonymous: task.Quota{Unfinished: 1}}})
	for principal, most := range map[string]int{"alice": 2, "": 1} {
		for range most {
			f.create(e, &taskrun.New{Principal: principal})
		}
		_, err := e.Create(t.Context(), &taskrun.New{Principal: principal})
		if full, ok := errors.AsType[*task.QuotaError](err); !ok || full.Max.Unfinished != most {
			t.Errorf("%q: %v, want a quota of %d", principal, err, most)
		}
	}
}

func TestAnonymousTasksAreShortLived(t *testing.T) {
	for _, c := range []struct {
		settings  task.Settings
		principal string
		asked     time.Duration
		want      time.Duration
	}{
		{task.Settings{}, "", 0, time.Hour},
		{task.Settings{}, "", 7 * 24 * time.Hour, time.Hour},
		{task.Settings{}, "", time.Minute, time.Minute},
		{task.Settings{}, "alice", 0, 24 * time.Hour},
		{task.Settings{}, "alice", 100 * 24 * time.Hour, 7 * 24 * time.Hour},
		{task.Settings{MaxAnonymousTTL: 48 * time.Hour}, "", 0, 24 * time.Hour},
		{task.Settings{MaxAnonymousTTL: 48 * time.Hour}, "", 72 * time.Hour, 48 * time.Hour},
		{task.Settings{MaxTTL: time.Minute}, "", 0, time.Minute},
		{task.Settings{MaxTTL: time.Minute}, "", time.Hour, time.Minute},
		{task.Settings{MaxTTL: time.Minute, MaxAnonymousTTL: time.Hour}, "", time.Hour, time.Minute},
	} {
		f := newFixture(t)
		created := f.create(newIdle(t, f.store, &taskrun.Options{Settings: c.settings}),
			&taskrun.New{Principal: c.principal, TTL: c.asked})
		if got := created.Expires.Sub(created.Created); got != c.want {
			t.Errorf("%+v: %q asked for %v and got %v, want %v", c.settings, c.principal, c.asked, got, c.want)
		}
	}
}

func TestTaskThatHoldsTooMuchFails(t *testing.T) {
	const bound = 100
	for name, run := range map[string]taskrun.Handler{
		"a step": func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			if err := w.Record(ctx, make([]byte, 60)); err != nil {
				return taskrun.Verdict{}, err
			}
			err := w.Record(ctx, make([]byte, 41))
			expect.Is(t, "Record", err, taskrun.ErrTooLarge)
			return completed("whatever it makes of the error"), nil
		},
		"the result": func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
			return completed(strings.Repeat("r", 101)), nil
		},
		"the questions": func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
			return taskrun.Verdict{Status: task.InputRequired, Pending: make([]byte, 101)}, nil
		},
		"the answers": func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			if len(w.Entries) > 0 {
				t.Error("the handler runs with answers that are too large")
			}
			return taskrun.Verdict{Status: task.InputRequired, Pending: []byte("?"), Round: w.Task.Round + 1}, nil
		},
	} {
		f := newFixture(t)
		var cleaned atomic.Int32
		e, _ := f.engine(&taskrun.Options{Settings: task.Settings{TaskBytes: bound},
			Failure: func(message string) []byte { return []byte(message) },
			Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				if w.Stopped {
					cleaned.Add(1)
					return taskrun.Verdict{}, w.Record(ctx, make([]byte, 200)) // nothing is in the way of cleaning up
				}
				return run(ctx, w)
			}})
		created := f.create(e, &taskrun.New{Principal: "alice"})
		if name == "the answers" {
			f.until(e, created, task.InputRequired)
			expect.Must(e.Change(t.Context(), "alice", created.ID, func(now *task.Task) (*task.Update, error) {
				u := answer(now)
				u.Entries = [][]byte{make([]byte, 101)}
				return &u, nil
			}))(t)
		}
		failed := f.until(e, created, task.Failed)
		if !strings.Contains(failed.Message, "100 bytes") || string(failed.Outcome) != failed.Message {
			t.Errorf("%s: %q, %q", name, failed.Message, failed.Outcome)
		}
		wait(t, name+": cleaned up", func() bool { return cleaned.Load() == 1 })
	}
}

// All that a task holds counts against its limit, to the byte.
func TestTheLimitOfATaskIsExact(t *testing.T) {
	type sizes struct{ call, entry, step, pending, outcome int }
	for _, tt := range []struct {
		holds sizes
		want  task.Status
	}{
		{sizes{call: 40, entry: 20, step: 20, outcome: 20}, task.Completed},
		{sizes{call: 40, entry: 20, step: 20, pending: 20}, task.InputRequired},
		{sizes{call: 40, entry: 20, step: 20, outcome: 21}, task.Failed},
		{sizes{call: 40, entry: 20, step: 20, pending: 21}, task.Failed},
		{sizes{call: 40, entry: 20, step: 21, outcome: 20}, task.Failed},
		{sizes{call: 40, entry: 21, step: 20, outcome: 20}, task.Failed},
		{sizes{call: 41, entry: 20, step: 20, outcome: 20}, task.Failed},
		{sizes{call: 100, entry: 1}, task.Failed},
	} {
		f := newFixture(t)
		e, _ := f.engine(&taskrun.Options{Settings: task.Settings{TaskBytes: 100},
			Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				switch {
				case w.Stopped:
					return taskrun.Verdict{}, nil
				case tt.holds.call == 100:
					t.Errorf("%+v: the handler runs", tt.holds)
				}
				if err := w.Record(ctx, make([]byte, tt.holds.step)); err != nil {
					return taskrun.Verdict{}, err
				}
				if tt.holds.pending > 0 {
					return taskrun.Verdict{Status: task.InputRequired, Pending: make([]byte, tt.holds.pending)}, nil
				}
				return completed(strings.Repeat("r", tt.holds.outcome)), nil
			}})
		created := f.create(e, &taskrun.New{Call: make([]byte, tt.holds.call),
			Entries: [][]byte{make([]byte, tt.holds.entry)}})
		if now := f.until(e, created, tt.want); tt.want == task.Failed &&
			!strings.Contains(now.Message, "more than 100 bytes") {
			t.Errorf("%+v: %q", tt.holds, now.Message)
		}
	}
}

// When a worker becomes free, those that had their share are served at once, and not at the next look.
func TestAFreeWorkerIsUsedAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		// The first task's worker has lost its lease, so that no change wakes anybody when it ends.
		f.store = &meddled{Store: f.store, update: func(now *task.Task, u task.Update) error {
			if now.Target == "first" && u.Leased {
				return task.ErrLeaseLost
			}
			return nil
		}}
		first, second := make(chan struct{}), make(chan struct{}, 1)
		handler := func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			if w.Task.Target == "first" {
				come(ctx, first)
				return completed(""), nil
			}
			second <- struct{}{}
			return completed(""), nil
		}
		settings := task.Settings{Workers: 2, Lease: time.Hour}
		e, _ := f.engine(&taskrun.Options{Settings: settings, Look: time.Hour, Handler: handler})
		f.create(e, &taskrun.New{Target: "first"})
		f.create(e, &taskrun.New{Target: "second"})
		synctest.Wait() // the second has been looked for, and passed over
		select {
		case <-second:
			t.Fatal("the second task runs beside the first, beyond the share of its principal")
		default:
		}
		began := time.Now()
		close(first)
		select {
		case <-second:
		case <-time.After(20 * time.Minute):
		}
		expect.Equal(t, "the second task begins after the first has ended", time.Since(began), 0)
	})
}
