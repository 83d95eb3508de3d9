package taskrun_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// fixture is a store and the engines of one or more instances on it.
type fixture struct {
	t     *testing.T
	store task.Store
}

// silent is a store without notifications of changes.
type silent struct{ task.Store }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{t, silent{new(task.MemoryStore)}}
}

// engine starts an instance. Stop ends it and waits.
func (f *fixture) engine(opts *taskrun.Options) (e *taskrun.Engine, stop func()) {
	f.t.Helper()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Look == 0 {
		opts.Look = 20 * time.Millisecond
	}
	e = expect.Must(taskrun.NewEngine(f.store, opts))(f.t)
	return e, running(f.t, e)
}

// running runs an engine until stop, which waits for its end, or until the end of the test.
func running(t *testing.T, e *taskrun.Engine) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

func (f *fixture) create(e *taskrun.Engine, n *taskrun.New) *task.Task {
	f.t.Helper()
	t := expect.Must(e.Create(f.t.Context(), n))(f.t)
	return t
}

// inBubble runs a test with a fixture in a bubble of time.
func inBubble(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newFixture(t)) })
}

// answer answers the question of a parked task.
func (f *fixture) answer(e *taskrun.Engine, t *task.Task) {
	f.t.Helper()
	expect.Must(e.Change(f.t.Context(), t.Principal, t.ID, func(now *task.Task) (*task.Update, error) {
		u := answer(now)
		return &u, nil
	}))(f.t)
}

// within receives from a channel, in time.
func within[T any](t *testing.T, what string, c <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-c:
	case <-time.After(2 * time.Minute):
		t.Fatalf("%s does not come", what)
	}
	return got
}

// completes is a handler that completes each task at once.
func completes(context.Context, *taskrun.Work) (taskrun.Verdict, error) { return completed(""), nil }

// until waits for a task to have a status.
func (f *fixture) until(e *taskrun.Engine, t *task.Task, want task.Status) *task.Task {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	for version := int64(-1); ; {
		now, err := e.Wait(ctx, t.Principal, t.ID, version)
		if err != nil {
			f.t.Fatalf("waiting for %s: %v", want, err)
		}
		if now.Status == want {
			return now
		}
		if now.Status.Terminal() {
			f.t.Fatalf("the task is %s (%s), want %s", now.Status, now.Message, want)
		}
		version = now.Version
	}
}

func completed(outcome string) taskrun.Verdict {
	return taskrun.Verdict{Status: task.Completed, Outcome: []byte(outcome)}
}

func TestTaskRunsFromItsCallAndEntries(t *testing.T) {
	f := newFixture(t)
	e, _ := f.engine(&taskrun.Options{Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		w.Report("half way")
		if err := w.Record(ctx, []byte("two")); err != nil {
			return taskrun.Verdict{}, err
		}
		return completed(fmt.Sprintf("%s %s", w.Call, w.Entries[0])), nil
	}})
	created := f.create(e, &taskrun.New{Principal: "a", Call: []byte("call"), Entries: [][]byte{[]byte("one")}})
	done := f.until(e, created, task.Completed)
	expect.Equal(t, "outcome", string(done.Outcome), "call one")
	_, entries, err := e.Journal(t.Context(), created.ID, -1)
	if err != nil || len(entries) != 2 || string(entries[1]) != "two" {
		t.Errorf("entries %q, %v", entries, err)
	}
}

func TestForeignTaskIsNone(t *testing.T) {
	f := newFixture(t)
	e, _ := f.engine(&taskrun.Options{Handler: completes})
	created := f.create(e, &taskrun.New{Principal: "a"})
	for name, err := range map[string]error{
		"get":    expect.Err(e.Get(t.Context(), "b", created.ID)),
		"cancel": expect.Err(e.Cancel(t.Context(), "b", created.ID)),
		"wait":   expect.Err(e.Wait(t.Context(), "b", created.ID, 0)),
		"long":   expect.Err(e.Get(t.Context(), "a", strings.Repeat("x", 1<<20))),
		"none":   expect.Err(e.Get(t.Context(), "a", "")),
	} {
		expect.Is(t, name, err, task.ErrNotFound)
	}
	if len(created.ID) < 26 { // 5 bits per character
		t.Errorf("id %q has less than 128 bits", created.ID)
	}
}

func TestShutdownGivesTheLeaseBack(t *testing.T) {
	f := newFixture(t)
	started := make(chan struct{}, 1)
	slow := func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		started <- struct{}{}
		<-ctx.Done()
		expect.Is(t, "cause", context.Cause(ctx), taskrun.ErrShutdown)
		return completed("of an interrupted run"), nil // the result is ignored
	}
	// A lease that would hold the task for an hour.
	first, stop := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour}, Handler: slow})
	created := f.create(first, &taskrun.New{})
	<-started
	stop()
	// The next claim is none.
	expect.Equal(t, "attempts", expect.Must(f.store.Get(t.Context(), created.ID))(t).Attempts, -1)
	second, _ := f.engine(&taskrun.Options{Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
		return completed("second"), nil
	}})
	done := f.until(second, created, task.Completed)
	if string(done.Outcome) != "second" || done.Attempts != 0 {
		t.Errorf("outcome %q after %d attempts", done.Outcome, done.Attempts)
	}
}

func TestWorkerThatLostItsLeaseCommitsNothing(t *testing.T) {
	f := newFixture(t)
	var runs atomic.Int32
	stolen := make(chan struct{})
	e, stop := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour},
		Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			if runs.Add(1) > 1 {
				return completed("second"), nil
			}
			select {
			case <-stolen:
			case <-ctx.Done(): // the test has failed
				return taskrun.Verdict{}, ctx.Err()
			}
			expect.Is(t, "Record", w.Record(ctx, []byte("late")), task.ErrLeaseLost)
			return completed("first"), nil
		}})
	created := f.create(e, &taskrun.New{})
	// The task becomes due, as if the lease had ended, without a notification of the worker. The
	// worker may renew its lease at this moment; then the task is made due once more.
	for claims := int64(0); claims < 2; {
		now := expect.Must(f.store.Get(t.Context(), created.ID))(t)
		if claims = now.Fence; claims == 1 {
			if err := f.store.Update(t.Context(), now, task.Update{Leased: true, Due: 0}); err != nil &&
				!errors.Is(err, task.ErrLeaseLost) {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Millisecond)
	}
	done := f.until(e, created, task.Completed)
	close(stolen)
	expect.Equal(t, "outcome", string(done.Outcome), "second")
	if _, entries, err := e.Journal(t.Context(), created.ID, -1); err != nil || len(entries) > 0 {
		t.Errorf("entries %q, %v", entries, err)
	}
	stop() // it waits for the first worker
	if done, _ = e.Get(t.Context(), "", created.ID); string(done.Outcome) != "second" {
		t.Errorf("the first worker wrote %q", done.Outcome)
	}
}

func TestCancelInterruptsAndCleansUp(t *testing.T) {
	f := newFixture(t)
	started, cleaned := make(chan struct{}, 1), make(chan [][]byte, 1)
	e, _ := f.engine(&taskrun.Options{Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		if w.Stopped {
			if ctx.Err() != nil {
				t.Errorf("nothing can be cleaned up: %v", ctx.Err())
			}
			expect.Equal(t, "the claim cleans up", w.Task.Claim.Fence, 1)
			cleaned <- w.Entries
			return taskrun.Verdict{}, nil
		}
		started <- struct{}{}
		<-ctx.Done()
		expect.Is(t, "cause", context.Cause(ctx), taskrun.ErrStopped)
		// A step that ran before the notification is still recorded.
		if err := w.Record(ctx, []byte("step")); err != nil {
			t.Errorf("Record: %v", err)
		}
		return completed("too late"), nil
	}})
	created := f.create(e, &taskrun.New{})
	<-started
	now, err := e.Cancel(t.Context(), "", created.ID)
	if err != nil || now.Status != task.Cancelled {
		t.Fatalf("%+v, %v", now, err)
	}
	if entries := <-cleaned; len(entries) != 1 || string(entries[0]) != "step" {
		t.Errorf("cleaned up with %q", entries)
	}
	if now, err = e.Cancel(t.Context(), "", created.ID); !errors.Is(err, task.ErrEnded) || now.Status != task.Cancelled {
		t.Errorf("again: %+v, %v", now, err)
	}
}

// A cancellation interrupts a run at once, even a very early one, and does not wait for the renewal of
// the lease.
func TestCancelAtTheStartOfARun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		started, interrupted := make(chan struct{}), make(chan struct{})
		e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour},
			Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				if !w.Stopped {
					close(started)
					<-ctx.Done()
					close(interrupted)
				}
				return completed(""), nil
			}})
		for range 20 {
			created := f.create(e, &taskrun.New{})
			<-started
			began := time.Now()
			expect.Must(e.Cancel(t.Context(), "", created.ID))(t)
			<-interrupted
			if took := time.Since(began); took > 0 {
				t.Fatalf("the run was interrupted after %v", took)
			}
			started, interrupted = make(chan struct{}), make(chan struct{})
		}
	})
}

// An engine that has been stopped claims nothing, even with free workers.
func TestAStoppedEngineClaimsNothing(t *testing.T) {
	f := newFixture(t)
	created := f.create(expect.Must(taskrun.NewEngine(f.store, nil))(t), &taskrun.New{})
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		e := expect.Must(taskrun.NewEngine(f.store, &taskrun.Options{Handler: completes}))(t)
		expect.Check(t, e.Run(stopped))
	}
	expect.Equal(t, "the result", expect.Must(f.store.Get(t.Context(), created.ID))(t).Fence, 0)
}

func TestCancelledWhileParkedCleansUpUntilItSucceeds(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		var attempts atomic.Int32
		cleaned := make(chan struct{})
		e, _ := f.engine(&taskrun.Options{Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			switch {
			case !w.Stopped:
				return taskrun.Verdict{Status: task.InputRequired, Pending: []byte("question")}, nil
			case attempts.Add(1) == 1:
				panic("at first")
			}
			close(cleaned)
			return taskrun.Verdict{}, nil
		}})
		created := f.create(e, &taskrun.New{})
		f.until(e, created, task.InputRequired)
		expect.Must(e.Cancel(t.Context(), "", created.ID))(t)
		expect.Equal(t, "still asked", string(expect.Must(e.Get(t.Context(), "", created.ID))(t).Pending), "")
		<-cleaned
	})
}

func TestTimeToLiveFailsATask(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		cleaned := make(chan struct{}, 2)
		e, _ := f.engine(&taskrun.Options{
			Settings: task.Settings{Lease: time.Hour}, // no renewal tells that the time is over
			Failure:  func(message string) []byte { return []byte("failure: " + message) },
			Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				switch {
				case w.Stopped:
					cleaned <- struct{}{}
					return taskrun.Verdict{}, nil
				case string(w.Call) == "ask":
					return taskrun.Verdict{Status: task.InputRequired}, nil
				}
				<-ctx.Done()
				expect.Is(t, "cause", context.Cause(ctx), taskrun.ErrStopped)
				return taskrun.Verdict{}, ctx.Err()
			},
		})
		// Long enough for the task to be parked before it ends, even on a busy machine.
		asking := f.create(e, &taskrun.New{Call: []byte("ask"), TTL: 2 * time.Second})
		working := f.create(e, &taskrun.New{Call: []byte("work"), TTL: 100 * time.Millisecond})
		if now := f.until(e, asking, task.Failed); !strings.Contains(now.Message, "input did not come in time") ||
			!strings.HasPrefix(string(now.Outcome), "failure: ") {
			t.Errorf("%q, %q", now.Message, now.Outcome)
		}
		expect.Contains(t, "the result", f.until(e, working, task.Failed).Message, "time to live of 100ms")
		<-cleaned
		<-cleaned
	})
}

func TestTimeToLiveIsCapped(t *testing.T) {
	f := newFixture(t)
	e, _ := f.engine(&taskrun.Options{Settings: task.Settings{TTL: time.Minute, MaxTTL: time.Hour},
		Handler: completes})
	for asked, want := range map[time.Duration]time.Duration{
		0: time.Minute, time.Second: time.Second, 100 * time.Hour: time.Hour} {
		created := f.create(e, &taskrun.New{TTL: asked})
		expect.Equal(t, fmt.Sprint("asked for ", asked), created.Expires.Sub(created.Created), want)
	}
}

func TestEndedTaskIsDeletedAfterTheGrace(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		e, _ := f.engine(&taskrun.Options{Grace: 50 * time.Millisecond,
			Handler: completes})
		created := f.create(e, &taskrun.New{TTL: 50 * time.Millisecond})
		deadline := time.Now().Add(10 * time.Second)
		for {
			_, err := e.Get(t.Context(), "", created.ID)
			if errors.Is(err, task.ErrNotFound) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatal("the task is still there")
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// A task is given up after as many attempts as it has, however they end, and is cleaned up.
func TestTaskThatComesToNothingIsGivenUp(t *testing.T) {
	for says, end := range map[string]func() error{
		"failing":               func() error { return errors.New("the infrastructure is down") },
		"ending its goroutines": func() error { runtime.Goexit(); return nil },
	} {
		for _, attempts := range []int32{1, 2} {
			inBubble(t, func(t *testing.T, f *fixture) {
				var runs atomic.Int32
				cleaned := make(chan struct{}, 10)
				e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Attempts: int(attempts), Lease: time.Hour},
					Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
						if w.Stopped {
							cleaned <- struct{}{}
							return taskrun.Verdict{}, nil
						}
						runs.Add(1)
						return taskrun.Verdict{}, end()
					}})
				now := f.until(e, f.create(e, &taskrun.New{}), task.Failed)
				expect.Contains(t, says, now.Message, "came to nothing")
				expect.Equal(t, says+": runs", runs.Load(), attempts)
				within(t, "the cleaning up", cleaned)
			})
		}
	}
}

func TestWorkersAreBoundedAndPrincipalsTakeTurns(t *testing.T) {
	f := newFixture(t)
	var mu sync.Mutex
	var order []string
	var running, most int
	gate := make(chan struct{})
	idle := expect.Must(taskrun.NewEngine(f.store, nil))(t)
	var last *task.Task
	for range 20 {
		last = f.create(idle, &taskrun.New{Principal: "greedy"})
	}
	modest := f.create(idle, &taskrun.New{Principal: "modest"})
	e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Workers: 2},
		Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			mu.Lock()
			order = append(order, w.Task.Principal)
			running++
			most = max(most, running)
			mu.Unlock()
			<-gate
			mu.Lock()
			running--
			mu.Unlock()
			return completed(""), nil
		}})
	wait(t, "both workers", func() bool { // otherwise one may finish all before the other begins
		mu.Lock()
		defer mu.Unlock()
		return len(order) == 2
	})
	close(gate)
	f.until(e, modest, task.Completed)
	f.until(e, last, task.Completed)
	mu.Lock()
	defer mu.Unlock()
	if most > 2 {
		t.Errorf("%d ran at once", most)
	}
	for i, p := range order {
		if p == "modest" && i > 2 {
			t.Errorf("the modest principal waited for %d of the greedy one's tasks", i)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, opts := range map[string]*taskrun.Options{
		"negative":   {Settings: task.Settings{Workers: -1}},
		"anonymous":  {Settings: task.Settings{MaxAnonymousTTL: -1}},
		"quota":      {Settings: task.Settings{Anonymous: task.Quota{Bytes: -1}}},
		"TTL beyond": {Settings: task.Settings{TTL: 2 * time.Hour, MaxTTL: time.Hour}},
	} {
		if _, err := taskrun.NewEngine(nil, opts); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	e := expect.Must(taskrun.NewEngine(nil, nil))(t)
	if err := e.Run(t.Context()); err == nil {
		t.Error("an engine without a handler runs")
	}
}

// slowClaims is a store whose claims are always slower than those of another instance.
type slowClaims struct{ *task.MemoryStore }

func (s slowClaims) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) ([]*task.Claimed, error) {
	time.Sleep(time.Millisecond)
	return s.MemoryStore.Claim(ctx, after, load, lease, limit)
}

// Each change wakes two instances at once. The faster one cannot run the task. It must not win every
// claim, although it leaves the task alone for a whole number of polling intervals.
func TestTheQuickestInstanceDoesNotKeepATaskItCannotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(task.MemoryStore)
		f := &fixture{t, store}
		var left atomic.Int32
		quick, _ := f.engine(&taskrun.Options{Look: time.Second,
			Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
				left.Add(1)
				return taskrun.Verdict{}, taskrun.ErrElsewhere
			}})
		f.store = slowClaims{store}
		f.engine(&taskrun.Options{
			Look: time.Second, Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
				return completed("here"),
					nil
			}})
		created := f.create(quick, &taskrun.New{})
		time.Sleep(10 * time.Minute) // a hundred claims; with even chances one is enough
		done, err := quick.Get(t.Context(), "", created.ID)
		if err != nil || done.Status != task.Completed {
			t.Errorf("the task is %q (%v) after the instance that cannot run it left it alone %d times", done.Status, err,
				left.Load())
		}
	})
}

func TestFollowTellsOfEachChange(t *testing.T) {
	f := newFixture(t)
	e, _ := f.engine(&taskrun.Options{Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		if len(w.Entries) == 0 {
			return taskrun.Verdict{Status: task.InputRequired}, nil
		}
		return completed(""), nil
	}})
	a, b := f.create(e, &taskrun.New{}), f.create(e, &taskrun.New{})
	f.until(e, a, task.InputRequired)
	f.until(e, b, task.InputRequired)
	var told []string
	err := e.Follow(t.Context(), []*task.Task{a, b, {ID: "none"}}, func(now *task.Task) error {
		told = append(told, now.ID+" "+string(now.Status))
		if now.Status == task.InputRequired {
			_, err := e.Change(t.Context(), "", now.ID, func(now *task.Task) (*task.Update, error) {
				now.Status = task.Working
				return &task.Update{Entries: [][]byte{[]byte("answer")}}, nil
			})
			return err
		}
		return nil
	})
	all := strings.Join(told, "\n")
	for _, want := range []string{a.ID + " input_required", b.ID + " input_required", a.ID + " completed",
		b.ID + " completed"} {
		if err != nil || strings.Count(all, want) != 1 {
			t.Errorf("%v; told of\n%s\nwant %s once", err, all, want)
		}
	}
}

// Engines that share a MemoryStore are notified of the writes of the others.
func TestMemoryStoreTellsOtherEngines(t *testing.T) {
	f := &fixture{t, new(task.MemoryStore)}
	f.engine(&taskrun.Options{Look: time.Hour, Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		if w.Task.Round == 0 {
			return taskrun.Verdict{Status: task.InputRequired, Pending: []byte("?"), Round: 1}, nil
		}
		return completed("answered"), nil
	}})
	other := expect.Must(taskrun.NewEngine(f.store, &taskrun.Options{Look: 10 * time.Millisecond}))(t)
	created := f.create(other, &taskrun.New{})
	f.until(other, created, task.InputRequired)
	expect.Must(other.Change(t.Context(), "", created.ID, func(t *task.Task) (*task.Update, error) {
		t.Status, t.Pending = task.Working, nil
		return &task.Update{}, nil
	}))(t)
	f.until(other, created, task.Completed)
}
