package taskrun_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// losing is a store whose answers may be lost: the write is made, and the engine gets an error.
type losing struct {
	task.Store
	update func(t *task.Task, u task.Update) bool // reports whether the answer to an Update is lost
	append func() bool                            // and the answer to an Append
}

var errLost = errors.New("the connection broke before the answer came")

func (l *losing) Update(ctx context.Context, t *task.Task, u task.Update) error {
	written := *t
	err := l.Store.Update(ctx, &written, u)
	if err == nil && l.update != nil && l.update(&written, u) {
		return errLost
	}
	if err == nil {
		*t = written
	}
	return err
}

func (l *losing) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	err := l.Store.Append(ctx, id, claim, there, entry)
	if err == nil && l.append != nil && l.append() {
		return errLost
	}
	return err
}

// once returns a function that is true for a worker's first write of this status.
func once(status task.Status) func(t *task.Task, u task.Update) bool {
	var lost atomic.Bool
	return func(t *task.Task, u task.Update) bool {
		return u.Leased && !u.Keep && t.Status == status && lost.CompareAndSwap(false, true)
	}
}

// idle requires that no task in the store is due.
func (f *fixture) idle(s task.Store) {
	f.t.Helper()
	if t, err := claimOne(s, f.t.Context(), "", nil, time.Hour); t != nil || err != nil {
		f.t.Errorf("claimed %+v, %v; want nothing to be due", t, err)
	}
}

// asking records a step, asks once, and completes with the answer.
func asking(runs *atomic.Int32) taskrun.Handler {
	return func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		runs.Add(1)
		switch len(w.Entries) {
		case 0:
			if err := w.Record(ctx, []byte("step")); err != nil {
				return taskrun.Verdict{}, err
			}
			fallthrough
		case 1:
			return taskrun.Verdict{Status: task.InputRequired, Pending: []byte("question"), Round: w.Task.Round + 1}, nil
		}
		return completed(string(w.Entries[1])), nil
	}
}

// answer answers a parked task as a client does.
func answer(now *task.Task) task.Update {
	now.Status, now.Pending = task.Working, nil
	return task.Update{Entries: [][]byte{[]byte("answer")}}
}

func TestATaskWhoseLastAnswerWasLostHasEnded(t *testing.T) {
	for _, status := range []task.Status{task.Completed, task.Failed} {
		f := newFixture(t)
		plain := f.store
		f.store = &losing{Store: plain, update: once(status)}
		var runs atomic.Int32
		// No caller polls: waiting callers are notified.
		e, stop := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour}, Look: time.Hour,
			Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
				return taskrun.Verdict{Status: status, Outcome: []byte{'0' + byte(runs.Add(1))}}, nil
			}})
		created := f.create(e, &taskrun.New{})
		f.until(e, created, status)
		f.until(e, f.create(e, &taskrun.New{}), status) // the first one would have run again before
		stop()
		f.idle(plain)
		now, err := plain.Get(t.Context(), created.ID)
		if err != nil || now.Status != status || string(now.Outcome) != "1" || now.Version != 1 || runs.Load() != 2 {
			t.Errorf("%s: %+v, %v after %d runs of two tasks; want it as its first run left it", status, now, err, runs.Load())
		}
	}
}

func TestATaskWhoseParkingWasLostUsesUpNoRound(t *testing.T) {
	f := newFixture(t)
	plain := f.store
	f.store = &losing{Store: plain, update: once(task.InputRequired)}
	var runs atomic.Int32
	e, stop := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour}, Handler: asking(&runs)})
	created := f.create(e, &taskrun.New{})
	f.until(e, created, task.InputRequired)
	f.until(e, f.create(e, &taskrun.New{}), task.InputRequired)
	stop()
	f.idle(plain)
	if now, err := plain.Get(t.Context(), created.ID); err != nil || now.Round != 1 || runs.Load() != 2 {
		t.Errorf("%+v, %v after %d runs of two tasks", now, err, runs.Load())
	}
}

// Between a write whose answer is lost and its repetition, the client may answer or cancel.
func TestWhatFollowsALostParkingIsKept(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(now *task.Task) task.Update
		want   task.Status
		most   int64
	}{
		{"answered", answer, task.Completed, 4}, // one to run again
		{"cancelled", func(now *task.Task) task.Update {
			now.Status, now.Pending, now.Stopped = task.Cancelled, nil, true
			return task.Update{}
		}, task.Cancelled, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t)
			plain := &fixture{t, f.store}
			first := once(task.InputRequired)
			f.store = &losing{Store: plain.store, update: func(now *task.Task, u task.Update) bool {
				lost := first(now, u)
				if lost {
					plain.change(now, tt.change)
				}
				return lost
			}}
			// With one worker, so that no other continues before the write is repeated.
			var runs atomic.Int32
			e, stop := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour, Workers: 1}, Handler: asking(&runs)})
			created := f.create(e, &taskrun.New{})
			// The writes are the parking, the client's answer or cancellation, and the completion or the cleaning up.
			wait(t, string(tt.want)+" and settled", func() bool {
				now, err := plain.store.Get(t.Context(), created.ID)
				return err == nil && now.Status == tt.want && now.Version >= 3
			})
			stop()
			f.idle(plain.store)
			now, err := plain.store.Get(t.Context(), created.ID)
			if err != nil || now.Status != tt.want || now.Round > 1 || now.Version > tt.most || runs.Load() != 2 {
				t.Errorf("%+v, %v after %d runs", now, err, runs.Load())
			}
		})
	}
}

// A reported message is a write, too, and the worker's next write must take it into account.
func TestAReportWhoseAnswerWasLostCostsNoRun(t *testing.T) {
	f := newFixture(t)
	plain := f.store
	var lost atomic.Bool
	reported := make(chan struct{})
	f.store = &losing{Store: plain, update: func(t *task.Task, u task.Update) bool {
		if u.Leased && u.Keep && lost.CompareAndSwap(false, true) {
			close(reported)
			return true
		}
		return false
	}}
	var runs atomic.Int32
	e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour},
		Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			runs.Add(1)
			w.Report("half way")
			come(ctx, reported)
			return completed("done"), nil
		}})
	f.until(e, f.create(e, &taskrun.New{}), task.Completed)
	expect.Equal(t, "runs", runs.Load(), 1)
}

func TestAnEntryWhoseAnswerWasLostIsInTheJournalOnce(t *testing.T) {
	f := newFixture(t)
	var appends atomic.Int32
	f.store = &losing{Store: f.store, append: func() bool { return appends.Add(1) <= 2 }}
	e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour},
		Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			for _, entry := range []string{"one", "two"} {
				if err := w.Record(ctx, []byte(entry)); err != nil {
					t.Errorf("Record: %v", err)
				}
			}
			return completed(""), nil
		}})
	created := f.create(e, &taskrun.New{})
	f.until(e, created, task.Completed)
	_, entries, err := e.Journal(t.Context(), created.ID, -1)
	if err != nil || len(entries) != 2 || string(entries[0]) != "one" || string(entries[1]) != "two" {
		t.Errorf("entries %q, %v", entries, err)
	}
}

// A task that has ended or waits does not run, even if it is due, for example because of an earlier release.
func TestATaskThatHasNothingToDoDoesNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []task.Status{task.Completed, task.Failed, task.Cancelled, task.InputRequired} {
			f := newFixture(t)
			var runs atomic.Int32
			e := expect.Must(taskrun.NewEngine(f.store, nil))(t)
			created := f.create(e, &taskrun.New{})
			f.change(created, func(now *task.Task) task.Update {
				now.Status, now.Outcome, now.Round = status, []byte("as it was"), 1
				return task.Update{}
			})
			const lease = 50 * time.Millisecond
			runner, stop := f.engine(&taskrun.Options{Settings: task.Settings{Lease: lease},
				Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
					runs.Add(1)
					return completed("again"), nil
				}})
			wait(t, "left alone", f.has(created, func(now *task.Task) bool { return now.Version == 2 }))
			f.until(runner, f.create(e, &taskrun.New{}), task.Completed)
			stop()
			time.Sleep(2 * lease) // after that it is still not due
			f.idle(f.store)
			now, err := f.store.Get(t.Context(), created.ID)
			if err != nil || now.Status != status || string(now.Outcome) != "as it was" || now.Round != 1 || runs.Load() != 1 {
				t.Errorf("%s: %+v, %v, and %d runs", status, now, err, runs.Load())
			}
		}
	})
}

func TestGoexitEndsTheAttempt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, f *fixture) {
		var runs atomic.Int32
		e, stop := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour},
			Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
				if runs.Add(1) == 1 {
					runtime.Goexit()
				}
				return completed("the second time"), nil
			}})
		created := f.create(e, &taskrun.New{})
		expect.Equal(t, "outcome", string(f.until(e, created, task.Completed).Outcome), "the second time")
		expect.Equal(t, "tasks are watched over when all have ended", e.Watched(), 0)
		stop()
	})
}

// A goroutine that a handler leaves running may record after the attempt has ended.
func TestRecordingAfterTheAttempt(t *testing.T) {
	f := newFixture(t)
	released, recorded := make(chan struct{}), make(chan error, 1)
	e, _ := f.engine(&taskrun.Options{Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		go func() {
			<-released
			recorded <- w.Record(context.WithoutCancel(ctx), []byte("late"))
		}()
		close(released)
		return completed(""), nil
	}})
	f.until(e, f.create(e, &taskrun.New{}), task.Completed)
	if err := <-recorded; err != nil {
		t.Logf("Record: %v", err) // whichever comes first
	}
}

// A panic in a store must not end the process.
func TestAStoreThatPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		var panicked sync.Map // the methods that panicked
		panics := func(method string) {
			n, _ := panicked.LoadOrStore(method, new(atomic.Int32))
			if n.(*atomic.Int32).Add(1) <= 2 {
				panic("a bug in " + method)
			}
		}
		plain := f.store
		f.store = watching{&meddled{Store: plain,
			get:     func(string) { panics("Get") },
			update:  func(*task.Task, task.Update) error { panics("Update"); return nil },
			append:  func() error { panics("Append"); return nil },
			claim:   func(context.Context) error { panics("Claim"); return nil },
			renew:   func() error { panics("Renew"); return nil },
			expired: func(ids []string, err error) ([]string, error) { panics("Expired"); return ids, err },
			watch:   func(context.Context, func(), func(string, bool)) error { panic("a bug in Watch") },
		}}
		var runs atomic.Int32
		e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: 100 * time.Millisecond}, Handler: asking(&runs)})
		unbroken := expect.Must(taskrun.NewEngine(plain, &taskrun.Options{Look: 10 * time.Millisecond}))(t)
		created := f.create(unbroken, &taskrun.New{})
		f.until(unbroken, created, task.InputRequired)
		(&fixture{t, plain}).change(created, answer)
		f.until(unbroken, created, task.Completed)
		for range 2 {
			expect.Fails(t, "Get", expect.Err(e.Get(t.Context(), "", created.ID)), "the store panicked")
		}
		for _, method := range []string{"Get", "Update", "Append", "Claim", "Renew", "Expired"} {
			if _, ok := panicked.Load(method); !ok {
				t.Errorf("%s never panicked", method)
			}
		}
	})
}

// outage loses the answers to the first report and to all renewals, and the first write after a run does not reach the
// store. Between the two a test can act.
func outage(f *fixture, between func(t *task.Task)) (reported chan struct{}) {
	reported = make(chan struct{})
	plain := f.store
	var reports, settled atomic.Bool
	losing := &losing{Store: plain, update: func(_ *task.Task, u task.Update) bool {
		if !u.Leased || !u.Keep || !reports.CompareAndSwap(false, true) {
			return false
		}
		close(reported)
		return true
	}}
	f.store = &meddled{Store: losing,
		renew: func() error { return errLost },
		update: func(t *task.Task, u task.Update) error {
			if !u.Leased || u.Keep || !settled.CompareAndSwap(false, true) {
				return nil
			}
			between(t)
			return errLost
		}}
	return reported
}

// A report whose answer was lost is not mistaken for the write that follows it.
func TestAReportIsNotTakenForWhatFollows(t *testing.T) {
	nothing := func(*task.Task) {}
	t.Run("going on", func(t *testing.T) {
		f := newFixture(t)
		reported := outage(f, nothing)
		var runs atomic.Int32
		e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour},
			Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				if runs.Add(1) == 1 {
					w.Report("half way")
					come(ctx, reported)
					return taskrun.Verdict{Status: task.Working, Round: 7}, nil
				}
				return completed(fmt.Sprint(w.Task.Round)), nil
			}})
		expect.Equal(t, "the second run began in round",
			string(f.until(e, f.create(e, &taskrun.New{}), task.Completed).Outcome), "7")
	})
	t.Run("shutdown", func(t *testing.T) {
		f := newFixture(t)
		plain := f.store
		reported := outage(f, nothing)
		e, stop := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour},
			Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				w.Report("half way")
				<-ctx.Done()
				return taskrun.Verdict{}, ctx.Err()
			}})
		f.create(e, &taskrun.New{})
		<-reported
		stop()
		if again, err := claimOne(plain, t.Context(), "", nil, time.Hour); again == nil || err != nil {
			t.Errorf("claimed %v, %v: the lease was not given back", again, err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		f := newFixture(t)
		plain := &fixture{t, f.store}
		reported := outage(f, func(t *task.Task) {
			plain.change(t, func(now *task.Task) task.Update {
				now.Status, now.Stopped = task.Cancelled, true
				return task.Update{Keep: true}
			})
		})
		cleaned := make(chan struct{}, 10)
		e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour},
			Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				if w.Stopped {
					cleaned <- struct{}{}
					return taskrun.Verdict{}, nil
				}
				w.Report("half way")
				come(ctx, reported)
				return completed("done"), nil
			}})
		f.create(e, &taskrun.New{})
		come(t.Context(), cleaned)
	})
}

// After a change by others the worker begins again, so that the handler sees the change before the task is parked.
func TestAChangeOfAWorkingTaskIsSeen(t *testing.T) {
	f := newFixture(t)
	started, changed := make(chan struct{}, 10), make(chan struct{})
	e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour},
		Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			started <- struct{}{}
			come(ctx, changed)
			if len(w.Entries) == 0 {
				return taskrun.Verdict{Status: task.InputRequired, Pending: []byte("?")}, nil
			}
			return completed(string(w.Entries[0])), nil
		}})
	created := f.create(e, &taskrun.New{})
	<-started
	expect.Must(e.Change(t.Context(), "", created.ID, func(*task.Task) (*task.Update, error) {
		return &task.Update{Keep: true, Entries: [][]byte{[]byte("signal")}}, nil
	}))(t)
	close(changed)
	f.until(e, created, task.Completed)
}

// What several goroutines of a handler record, and what others add meanwhile, is in the journal once. One that records
// alone needs one write for each entry.
func TestRecordingBesideOthers(t *testing.T) {
	f := newFixture(t)
	var appends atomic.Int32
	f.store = &meddled{Store: f.store, append: func() error { appends.Add(1); return nil }}
	var e *taskrun.Engine
	alone := make(chan int32, 1)
	e, _ = f.engine(&taskrun.Options{Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		record := func(name string) {
			if err := w.Record(ctx, []byte(name)); err != nil {
				t.Error(err)
			}
		}
		if len(w.Entries) > 0 {
			return completed(""), nil
		}
		for i := range 5 {
			record(fmt.Sprint("alone ", i))
		}
		alone <- appends.Load()
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() { record(fmt.Sprint("together ", i)) })
		}
		if _, err := e.Change(ctx, "", w.Task.ID, func(*task.Task) (*task.Update, error) {
			return &task.Update{Keep: true, Entries: [][]byte{[]byte("signal")}}, nil
		}); err != nil {
			t.Error(err)
		}
		record("last")
		all.Wait()
		return completed(""), nil
	}})
	created := f.create(e, &taskrun.New{})
	f.until(e, created, task.Completed)
	expect.Equal(t, "writes for 5 entries", <-alone, 5)
	_, entries, err := f.store.Journal(t.Context(), created.ID, -1)
	times := make(map[string]int)
	for _, e := range entries {
		times[string(e)]++
	}
	if err != nil || len(entries) != 12 || len(times) != 12 {
		t.Errorf("the journal is %q, %v", entries, err)
	}
}

// An equal entry of the worker that now has the task does not count as this worker's.
func TestRecordingUnderALeaseThatIsLost(t *testing.T) {
	f := newFixture(t)
	plain := &fixture{t, f.store}
	var once sync.Once
	ready := make(chan struct{})
	var created *task.Task
	f.store = &meddled{Store: plain.store, append: func() (err error) {
		once.Do(func() {
			plain.change(created, func(*task.Task) task.Update { return task.Update{} })
			other, failed := claimOne(plain.store, context.Background(), "", nil, time.Hour)
			if failed == nil {
				failed = plain.store.Append(context.Background(), other.ID, other.Claim, 0, []byte("step"))
			}
			if failed != nil {
				t.Error(failed)
			}
			err = errLost
		})
		return err
	}}
	got := make(chan error, 1)
	e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour, Workers: 1}, Look: time.Hour,
		Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			come(ctx, ready)
			got <- w.Record(ctx, []byte("step"))
			return completed(""), nil
		}})
	created = f.create(e, &taskrun.New{})
	close(ready)
	expect.Is(t, "Record", <-got, task.ErrLeaseLost)
}

// claimOne claims one task. Without one that is due both results are nil.
func claimOne(s task.Store, ctx context.Context, after string, skip []string, lease time.Duration) (*task.Task, error) {
	var load []task.Load
	for _, p := range skip { // each has its share of one worker
		load = append(load, task.Load{Principal: p, Tasks: 1})
	}
	claimed, err := s.Claim(ctx, after, load, lease, 1)
	if len(claimed) == 0 || err != nil {
		return nil, err
	}
	return claimed[0].Task, nil
}

// Two changes of others do not look like a write of the worker's own, if one of them gave the task to another worker.
func TestAConflictUnderAnotherClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(task.MemoryStore)
		ctx := t.Context()
		change := func(u task.Update, change func(now *task.Task)) {
			now, err := store.Get(ctx, "a")
			if err == nil {
				change(now)
				err = store.Update(ctx, now, u)
			}
			if err != nil {
				t.Error(err)
			}
		}
		attempts := 0
		m := &meddled{Store: store}
		m.update = func(*task.Task, task.Update) error {
			if attempts++; attempts == 1 {
				return errLost // and nothing was written
			}
			change(task.Update{Keep: true}, func(now *task.Task) { now.Stopped, now.Status = true, task.Cancelled })
			return nil
		}
		m.get = func(string) { change(task.Update{Lease: time.Minute}, func(*task.Task) {}) }
		e := newIdle(t, m, &taskrun.Options{})
		run := &task.Task{ID: "a", Status: task.Working}
		expect.Check(t, store.Create(ctx, run, time.Hour, time.Minute, nil, nil, task.Quota{}))
		run.Status = task.Completed
		expect.Is(t, "the write of a worker that has lost its claim",
			e.Settle(ctx, run, task.Update{Leased: true, Due: -1}), task.ErrLeaseLost)
		expect.Equal(t, "the status of the task", expect.Must(store.Get(ctx, "a"))(t).Status, task.Cancelled)
	})
}

// forgetful is a store that loses the entries that lose names, after it has acknowledged them.
type forgetful struct {
	task.Store
	lose func(entry []byte) bool
}

func (s *forgetful) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	if s.lose(entry) {
		return nil
	}
	return s.Store.Append(ctx, id, claim, there, entry)
}

// A failover that loses an entry leaves no hole in the journal: what comes after the entry is recorded after it is
// recorded again.
func TestALostEntryIsRecordedAgainBeforeTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		lost := false
		f.store = &forgetful{f.store, func(entry []byte) bool {
			before := lost
			lost = lost || string(entry) == "b"
			return lost != before
		}}
		e, stop := f.engine(&taskrun.Options{Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			for _, step := range []string{"a", "b", "c"}[len(w.Entries):] {
				if err := w.Record(ctx, []byte(step)); err != nil {
					return taskrun.Verdict{}, err
				}
			}
			return completed("done"), nil
		}})
		defer stop()
		created := f.create(e, &taskrun.New{})
		f.until(e, created, task.Completed)
		if _, entries, err := f.store.Journal(t.Context(), created.ID, -1); err != nil ||
			string(bytes.Join(entries, nil)) != "abc" {
			t.Errorf("the journal is %q, %v", entries, err)
		}
	})
}
