package taskrun_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// inserting is a store that counts what is written, and adds tasks as their first runs leave them.
type inserting struct {
	writes
	inserts atomic.Int32
	before  func(t *task.Task, u task.Update) error // the error of an Insert that is not made
	after   error                                   // of one that is made
}

func (s *inserting) Insert(
	ctx context.Context, t *task.Task, ttl time.Duration, call []byte, u task.Update, quota task.Quota,
) error {
	s.inserts.Add(1)
	if s.before != nil {
		if err := s.before(t, u); err != nil {
			return err
		}
	}
	err := s.Store.(task.Inserter).Insert(ctx, t, ttl, call, u, quota)
	if err == nil {
		err = s.after
	}
	return err
}

// firstRuns starts an engine on a store that inserts, in a bubble, and waits until its loop has found nothing.
func firstRuns(
	t *testing.T, opts taskrun.Options, test func(t *testing.T, f *fixture, s *inserting, e *taskrun.Engine, stop func()),
) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &inserting{writes: writes{Store: new(task.MemoryStore)}}
		f := &fixture{t, s}
		opts.Look = time.Minute
		e, stop := f.engine(&opts)
		synctest.Wait()
		test(t, f, s, e, stop)
	})
}

func fresh(principal string) *taskrun.New {
	return &taskrun.New{Fresh: true, Principal: principal, Call: []byte("the ")}
}

// Where a worker is free for its first run, a task with a question is written three times: it is created as it asks,
// answered and claimed, and completed. One without a question is written once.
func TestAFirstRunIsOneWrite(t *testing.T) {
	opts := taskrun.Options{Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		switch {
		case w.Task.Principal == "alice":
			return completed("at once"), nil
		case len(w.Entries) == 0:
			return taskrun.Verdict{Status: task.InputRequired, Pending: []byte("?"), Round: 1, Message: "waits",
				Entries: [][]byte{[]byte("put")}, Ask: []*task.Question{{Key: "key", For: []string{"user:carol"}}}}, nil
		}
		return completed(string(w.Call) + string(w.Entries[1])), nil
	}}
	firstRuns(t, opts, func(t *testing.T, f *fixture, s *inserting, e *taskrun.Engine, stop func()) {
		ended := f.create(e, fresh("alice"))
		if ended.Status != task.Completed || string(ended.Outcome) != "at once" || ended.Version != 1 {
			t.Errorf("a task without a question is %+v", ended)
		}
		created := f.create(e, fresh("bob"))
		stored, err := s.Get(t.Context(), created.ID)
		if err != nil || stored.Status != task.InputRequired || stored.Message != "waits" || stored.Attempts != 0 ||
			stored.Fence != 1 || created.Status != stored.Status {
			t.Fatalf("a task that asks is %+v, and Create returned %+v; %v", stored, created, err)
		}
		expect.Equal(t, "questions are open", len(expect.Must(s.Questions(t.Context(), task.Name(created.ID)))(t)), 1)
		expect.Equal(t, "inserts", s.inserts.Load(), 2)
		f.answer(e, created)
		if done := f.until(e, created, task.Completed); string(done.Outcome) != "the answer" || done.Fence != 2 {
			t.Errorf("the outcome is %q under fence %d", done.Outcome, done.Fence)
		}
		stop()
		if s.creates.Load()+s.appends.Load()+s.claimed.Load()+s.renewals.Load() != 0 || s.updates.Load() != 2 {
			t.Errorf("%d creates, %d updates, %d appends, %d claimed, %d renewals; want two updates", s.creates.Load(),
				s.updates.Load(), s.appends.Load(), s.claimed.Load(), s.renewals.Load())
		}
	})
}

// A first run that lasts is stored after a tenth of a second, or before it needs to be, and goes on under the claim
// that it was told of.
func TestAFirstRunThatLastsIsStored(t *testing.T) {
	for _, test := range []struct {
		says  string
		needs func(ctx context.Context, w *taskrun.Work) error
		after time.Duration
	}{
		{"it lasts", func(context.Context, *taskrun.Work) error { return nil }, 100 * time.Millisecond},
		{"it is about to begin a step", func(ctx context.Context, w *taskrun.Work) error { return w.Exist(ctx) }, 0},
		{"it records", func(ctx context.Context, w *taskrun.Work) error { return w.Record(ctx, []byte("step")) }, 0},
		{"it reads its row", func(ctx context.Context, _ *taskrun.Work) error {
			_, err := taskrun.HolderOf(ctx).Row(ctx)
			return err
		}, 0},
		{"it reads its questions", func(ctx context.Context, _ *taskrun.Work) error {
			_, err := taskrun.HolderOf(ctx).Questions(ctx)
			return err
		}, 0},
	} {
		t.Run(test.says, func(t *testing.T) {
			var goOn chan struct{} // made in the bubble
			var told atomic.Pointer[task.Claim]
			var runs atomic.Int32
			opts := taskrun.Options{Settings: task.Settings{Lease: 100 * time.Second}, Handler: func(
				ctx context.Context, w *taskrun.Work,
			) (taskrun.Verdict, error) {
				runs.Add(1)
				told.Store(&w.Task.Claim)
				w.Report("on its way")
				if err := test.needs(ctx, w); err != nil {
					return taskrun.Verdict{}, err
				}
				come(ctx, goOn)
				return completed("in the end"), ctx.Err()
			}}
			firstRuns(t, opts, func(t *testing.T, f *fixture, s *inserting, e *taskrun.Engine, _ func()) {
				goOn = make(chan struct{})
				start := time.Now()
				created := f.create(e, fresh("alice"))
				if took := time.Since(start); took != test.after || created.Status != task.Working ||
					created.Claim != *told.Load() {
					t.Errorf("after %v it is %+v, and was told %v", took, created, told.Load())
				}
				time.Sleep(3 * time.Minute) // longer than a lease
				stored, err := s.Get(t.Context(), created.ID)
				if err != nil || stored.Claim != *told.Load() || stored.Message != "on its way" || s.renewals.Load() == 0 {
					t.Errorf("while it runs it is %+v, and was renewed %d times; %v", stored, s.renewals.Load(), err)
				}
				close(goOn)
				if done := f.until(e, created, task.Completed); string(done.Outcome) != "in the end" || runs.Load() != 1 {
					t.Errorf("the outcome is %q after %d runs", done.Outcome, runs.Load())
				}
			})
		})
	}
}

// A task that the store does not take does nothing that would last, and others are served.
func TestAFirstRunThatIsNotTaken(t *testing.T) {
	full := errors.New("the disk is full")
	for _, test := range []struct {
		says   string
		verify func(t *testing.T, err error)
		quota  task.Quota
		before error
	}{
		{says: "by its quota", quota: task.Quota{Unfinished: 1}, verify: func(t *testing.T, err error) {
			expect.Is(t, "the error", err, task.ErrQuota)
		}},
		{says: "by the database", before: full, verify: wantErr(full)},
	} {
		for _, how := range []string{"asks", "has a step", "lasts"} {
			t.Run(test.says+", and it "+how, func(t *testing.T) {
				stepped := false
				opts := taskrun.Options{Settings: task.Settings{PerPrincipal: test.quota}, Handler: func(
					ctx context.Context, w *taskrun.Work,
				) (taskrun.Verdict, error) {
					switch {
					case w.Task.Principal == "bob", how == "asks":
						return taskrun.Verdict{Status: task.InputRequired, Pending: []byte("?"), Round: 1}, nil
					case how == "has a step":
						if err := w.Exist(ctx); err != nil {
							return taskrun.Verdict{}, fmt.Errorf("the step: %w", err)
						}
						stepped = true
						return completed(""), nil
					}
					<-ctx.Done()
					return completed("although it was to stop"), nil
				}}
				firstRuns(t, opts, func(t *testing.T, f *fixture, s *inserting, e *taskrun.Engine, stop func()) {
					if test.quota.Unfinished > 0 {
						there := &task.Task{ID: "there", Principal: "alice", Status: task.InputRequired}
						expect.Check(t,
							s.Store.(task.Inserter).Insert(t.Context(), there, time.Hour, nil, task.Update{Due: -1}, task.Quota{}))
					}
					s.before = func(t *task.Task, _ task.Update) error {
						if t.Principal == "bob" {
							return nil
						}
						return test.before
					}
					n := fresh("alice")
					n.ID = "alice's"
					created, err := e.Create(t.Context(), n)
					if test.verify(t, err); created != nil || stepped {
						t.Errorf("created %+v; a step has run: %t", created, stepped)
					}
					expect.Equal(t, "another principal's task", f.create(e, fresh("bob")).Status, task.InputRequired)
					stop() // it waits for the run
					expect.Is(t, "it can be read", expect.Err(s.Get(t.Context(), "alice's")), task.ErrNotFound)
					expect.Equal(t, "updates of what is not known to exist", s.updates.Load(), 0)
				})
			})
		}
	}
}

// An answer that is lost is no reason to have the client make another call, which would ask people again.
func TestAFirstRunWhoseAnswerIsLost(t *testing.T) {
	opts := taskrun.Options{Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		if w.Task.Principal == "steps" {
			return completed("done"), w.Record(ctx, []byte("step"))
		}
		return taskrun.Verdict{Status: task.InputRequired, Pending: []byte("?"), Round: 1}, nil
	}}
	firstRuns(t, opts, func(t *testing.T, f *fixture, s *inserting, e *taskrun.Engine, _ func()) {
		s.after = errors.New("the connection broke")
		expect.Equal(t, "what asks", f.create(e, fresh("asks")).Status, task.InputRequired)
		f.until(e, f.create(e, fresh("steps")), task.Completed)
		if s.inserts.Load() != 2 || s.creates.Load() != 0 {
			t.Errorf("%d inserts and %d creates", s.inserts.Load(), s.creates.Load())
		}
	})
}

func wantErr(want error) func(t *testing.T, err error) {
	return func(t *testing.T, err error) {
		expect.Is(t, "the error", err, want)
	}
}

// A first run that fails, panics or is interrupted is stored as due, and another run goes on.
func TestAFirstRunThatFails(t *testing.T) {
	for _, test := range []struct {
		says string
		run  func(ctx context.Context) (taskrun.Verdict, error)
		stop bool // the process stops meanwhile
	}{
		{says: "with an error", run: func(context.Context) (taskrun.Verdict, error) {
			return taskrun.Verdict{}, errors.New("no luck")
		}},
		{says: "with a panic", run: func(context.Context) (taskrun.Verdict, error) { panic("no luck") }},
		{says: "because its process stops", stop: true, run: func(ctx context.Context) (taskrun.Verdict, error) {
			<-ctx.Done()
			return taskrun.Verdict{}, ctx.Err()
		}},
	} {
		t.Run(test.says, func(t *testing.T) {
			var attempts []int
			opts := taskrun.Options{Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				if attempts = append(attempts, w.Task.Attempts); len(attempts) == 1 {
					return test.run(ctx)
				}
				return completed("by another"), nil
			}}
			firstRuns(t, opts, func(t *testing.T, f *fixture, s *inserting, e *taskrun.Engine, stop func()) {
				if test.stop {
					go func() { time.Sleep(time.Millisecond); stop() }()
				}
				created := f.create(e, fresh("alice"))
				other := e
				if test.stop {
					other, _ = f.engine(&opts)
				}
				time.Sleep(3 * time.Minute) // it looks once a minute
				expect.Equal(t, "the outcome", string(f.until(other, created, task.Completed).Outcome), "by another")
				if s.inserts.Load() != 1 || s.creates.Load() != 0 || len(attempts) != 2 {
					t.Errorf("%d inserts and %d creates, and attempts %v", s.inserts.Load(), s.creates.Load(), attempts)
				}
			})
		})
	}
}

// First runs have workers of their own, which principals share. A task for whose first run there is none waits for its
// turn as any other.
func TestFirstRunsAreShared(t *testing.T) {
	var goOn chan struct{} // made in the bubble
	opts := taskrun.Options{Settings: task.Settings{Workers: 4}, Handler: func(
		ctx context.Context, w *taskrun.Work,
	) (taskrun.Verdict, error) {
		come(ctx, goOn)
		return completed(""), ctx.Err()
	}}
	firstRuns(t, opts, func(t *testing.T, f *fixture, s *inserting, e *taskrun.Engine, _ func()) {
		goOn = make(chan struct{})
		for range 20 {
			f.create(e, fresh("alice")) // two run at first, and then two of those that are due
		}
		expect.Equal(t, "alice has first runs", s.inserts.Load(), 2)
		start := time.Now()
		f.create(e, fresh("bob"))
		if n := s.inserts.Load(); n != 3 || time.Since(start) != 100*time.Millisecond {
			t.Errorf("bob's first run has not begun at once: %d inserts after %v", n, time.Since(start))
		}
		synctest.Wait()
		close(goOn)
		time.Sleep(10 * time.Minute)
		if unfinished, err := s.Count(t.Context()); err != nil || unfinished[task.Working] > 0 {
			t.Errorf("%v have not ended; %v", unfinished, err)
		}
	})
}

// A task whose ID somebody may know, or that has done something, is stored before it runs.
func TestWhatIsKnownIsStoredFirst(t *testing.T) {
	opts := taskrun.Options{Handler: completes}
	firstRuns(t, opts, func(t *testing.T, f *fixture, s *inserting, e *taskrun.Engine, _ func()) {
		for _, n := range []*taskrun.New{
			{Principal: "alice"}, {Principal: "alice", ID: "known"},
			{Principal: "alice", Fresh: true, Entries: [][]byte{[]byte("step")}},
		} {
			expect.Equal(t, fmt.Sprintf("%+v became", n), f.create(e, n).Status, task.Working)
		}
		if s.inserts.Load() != 0 || s.creates.Load() != 3 {
			t.Errorf("%d inserts and %d creates", s.inserts.Load(), s.creates.Load())
		}
	})
}
