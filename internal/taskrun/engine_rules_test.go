package taskrun_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// meddled is a store whose calls a test can intercept.
type meddled struct {
	task.Store
	create  func() error                                            // before a Create
	get     func(id string)                                         // before a Get
	update  func(t *task.Task, u task.Update) error                 // before an Update
	append  func() error                                            // before an Append
	claim   func(ctx context.Context) error                         // before a Claim
	renew   func() error                                            // before a Renew
	expired func(ids []string, err error) ([]string, error)         // after an Expired
	evict   func() error                                            // before an Evict
	watch   func(context.Context, func(), func(string, bool)) error // in place of Watch
	down    atomic.Bool                                             // writes fail
}

func (m *meddled) Create(
	ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota,
) error {
	if m.create != nil {
		if err := m.create(); err != nil {
			return err
		}
	}
	return m.Store.Create(ctx, t, ttl, lease, call, entries, quota)
}

func (m *meddled) Get(ctx context.Context, id string) (*task.Task, error) {
	if m.get != nil {
		m.get(id)
	}
	return m.Store.Get(ctx, id)
}

func (m *meddled) Update(ctx context.Context, t *task.Task, u task.Update) error {
	if m.down.Load() {
		return errLost
	}
	if m.update != nil {
		if err := m.update(t, u); err != nil {
			return err
		}
	}
	return m.Store.Update(ctx, t, u)
}

func (m *meddled) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	if m.down.Load() {
		return errLost
	}
	if m.append != nil {
		if err := m.append(); err != nil {
			return err
		}
	}
	return m.Store.Append(ctx, id, claim, there, entry)
}

func (m *meddled) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) ([]*task.Claimed, error) {
	if m.down.Load() {
		return nil, errLost
	}
	if m.claim != nil {
		if err := m.claim(ctx); err != nil {
			return nil, err
		}
	}
	return m.Store.Claim(ctx, after, load, lease, limit)
}

func (m *meddled) Renew(ctx context.Context, leases []task.Leased, lease time.Duration) ([]task.Renewed, error) {
	if m.down.Load() {
		return nil, errLost
	}
	if m.renew != nil {
		if err := m.renew(); err != nil {
			return nil, err
		}
	}
	return m.Store.Renew(ctx, leases, lease)
}

func (m *meddled) Expired(ctx context.Context, limit int) ([]string, error) {
	ids, err := m.Store.Expired(ctx, limit)
	if m.expired != nil {
		return m.expired(ids, err)
	}
	return ids, err
}

func (m *meddled) Evict(ctx context.Context, principal string, age time.Duration, limit int) (int, error) {
	if m.evict != nil {
		if err := m.evict(); err != nil {
			return 0, err
		}
	}
	return m.Store.Evict(ctx, principal, age, limit)
}

// watching is a meddled store that can report changes.
type watching struct{ *meddled }

func (w watching) Watch(ctx context.Context, ready func(), changed func(id string, due bool)) error {
	return w.watch(ctx, ready, changed)
}

// wait waits for a condition.
func wait(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never " + what)
		}
	}
}

// come waits for a signal, in a handler that must end when the test fails.
func come(ctx context.Context, signal <-chan struct{}) {
	select {
	case <-signal:
	case <-ctx.Done():
	}
}

// has returns a condition on the row in the store.
func (f *fixture) has(created *task.Task, is func(now *task.Task) bool) func() bool {
	return func() bool {
		now, err := f.store.Get(context.Background(), created.ID)
		return err == nil && is(now)
	}
}

// change writes to a task without a notification.
func (f *fixture) change(created *task.Task, change func(now *task.Task) task.Update) {
	f.t.Helper()
	for {
		now, err := f.store.Get(context.Background(), created.ID)
		if err != nil {
			f.t.Error(err)
			return
		}
		u := change(now)
		if err = f.store.Update(context.Background(), now, u); !errors.Is(err, task.ErrConflict) {
			if err != nil {
				f.t.Error(err)
			}
			return
		}
	}
}

// hurry makes a task due again and again until the test ends, to skip the pauses between attempts.
func (f *fixture) hurry(created *task.Task, when func(now *task.Task) bool) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if now, err := f.store.Get(context.Background(), created.ID); err == nil && when(now) {
				_ = f.store.Update(context.Background(), now, task.Update{}) // if another change came first, that is fine
			}
		}
	})
	f.t.Cleanup(func() { close(stop); all.Wait() })
}

func TestCreatingAgainFindsTheTaskThoughTheQuotaIsUsedUp(t *testing.T) {
	f := newFixture(t)
	var full atomic.Bool
	f.store = &meddled{Store: f.store, create: func() error {
		if full.Load() {
			return task.ErrQuota // a store may report this first
		}
		return nil
	}}
	e := expect.Must(taskrun.NewEngine(f.store, &taskrun.Options{
		Settings: task.Settings{PerPrincipal: task.Quota{Unfinished: 1}}}))(t)
	created := f.create(e, &taskrun.New{ID: "the one", Principal: "a"})
	full.Store(true)
	expect.Equal(t, "the result", expect.Must(e.Create(t.Context(), &taskrun.New{ID: "the one", Principal: "a"}))(t).ID,
		created.ID)
	expect.Is(t, "another", expect.Err(e.Create(t.Context(), &taskrun.New{ID: "another", Principal: "a"})),
		task.ErrQuota)
}

func TestCreatingAgainDoesNotFindAForeignTask(t *testing.T) {
	f := newFixture(t)
	e := expect.Must(taskrun.NewEngine(f.store, nil))(t)
	f.create(e, &taskrun.New{ID: "the one", Principal: "a"})
	if got, err := e.Create(t.Context(), &taskrun.New{ID: "the one", Principal: "b"}); !errors.Is(err, task.ErrExists) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A caller that waits in the process that changes a task is notified, without polling.
func TestNobodyHasToLook(t *testing.T) {
	f := newFixture(t)
	report, reported := make(chan struct{}), make(chan struct{})
	e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour}, Look: time.Hour,
		Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			if len(w.Entries) == 0 {
				return taskrun.Verdict{Status: task.InputRequired}, nil
			}
			come(ctx, report)
			w.Report("half way")
			come(ctx, reported)
			return completed(""), nil
		}})
	created := f.create(e, &taskrun.New{})
	f.until(e, created, task.InputRequired)
	told := make(chan string, 100)
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := e.Follow(ctx, []*task.Task{created}, func(now *task.Task) error {
			told <- fmt.Sprint(now.Status, " ", now.Message)
			return nil
		}); err != nil {
			t.Errorf("following: %v", err)
		}
		close(told)
	})
	next := func(want string) {
		t.Helper()
		expect.Equal(t, "told", <-told, want)
	}
	next("input_required ")
	f.answer(e, created)
	next("working ")
	close(report)
	next("working half way")
	close(reported)
	next("completed ")
}

// A caller that waits in another process without notifications polls.
func TestWaitingLooksForItself(t *testing.T) {
	f := newFixture(t)
	looking := make(chan struct{}, 1)
	meddling := &meddled{Store: f.store, get: func(string) {
		select {
		case looking <- struct{}{}:
		default:
		}
	}}
	far := expect.Must(taskrun.NewEngine(meddling, &taskrun.Options{Look: 20 * time.Millisecond}))(t)
	created := f.create(far, &taskrun.New{})
	ctx, end := context.WithTimeout(t.Context(), 2*time.Minute)
	defer end()
	done := make(chan error, 2)
	go func() {
		_, err := far.Wait(ctx, "", created.ID, created.Version)
		done <- err
	}()
	following := make(chan struct{})
	go func() {
		first := true
		done <- far.Follow(ctx, []*task.Task{created}, func(*task.Task) error {
			if first {
				close(following)
			}
			first = false
			return nil
		})
	}()
	<-looking
	<-following
	f.change(created, func(now *task.Task) task.Update { // in another process
		now.Status = task.Cancelled
		return task.Update{Due: -1}
	})
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestChangeIsMadeAgainWhenTheTaskWasChangedMeanwhile(t *testing.T) {
	f := newFixture(t)
	e := expect.Must(taskrun.NewEngine(f.store, nil))(t)
	created := f.create(e, &taskrun.New{})
	times := 0
	expect.Must(e.Change(t.Context(), "", created.ID, func(now *task.Task) (*task.Update, error) {
		if times++; times == 1 {
			f.change(created, func(now *task.Task) task.Update { now.Message = "meanwhile"; return task.Update{} })
		}
		now.Round++
		return &task.Update{}, nil
	}))(t)
	if now, err := e.Get(t.Context(), "", created.ID); err != nil || now.Message != "meanwhile" || now.Round != 1 ||
		times != 2 {
		t.Errorf("%+v, %v after %d times", now, err, times)
	}
}

// A task that has used up its attempts and is then cancelled is still cleaned up.
func TestCleaningUpHasAttemptsOfItsOwn(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		cleaned := make(chan struct{}, 10)
		e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Attempts: 1},
			Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				if w.Stopped {
					cleaned <- struct{}{}
					return taskrun.Verdict{}, nil
				}
				return taskrun.Verdict{}, errors.New("the infrastructure is down")
			}})
		created := f.create(e, &taskrun.New{})
		// It has failed, and waits for its next attempt.
		wait(t, "tried", f.has(created, func(now *task.Task) bool { return now.Attempts == 1 && now.Version > 0 }))
		expect.Must(e.Cancel(t.Context(), "", created.ID))(t)
		within(t, "the cleaning up", cleaned)
	})
}

func TestClaimOutlivesAShutdown(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var during error
	f.store = &meddled{Store: f.store, claim: func(claiming context.Context) error {
		cancel()
		during = claiming.Err()
		return nil
	}}
	e := expect.Must(taskrun.NewEngine(f.store, &taskrun.Options{Handler: completes}))(t)
	if err := e.Run(ctx); err != nil || during != nil {
		t.Errorf("%v; the claim was interrupted: %v", err, during)
	}
}

// After a failure the store is not called for a while, even if there is work to do.
func TestFailingStoreIsNotHurried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const look = 100 * time.Millisecond
		f := newFixture(t)
		var claims atomic.Int32
		f.store = &meddled{
			Store: f.store, claim: func(context.Context) error { claims.Add(1); return errors.New("out of reach") }}
		began := time.Now()
		e, _ := f.engine(&taskrun.Options{Look: look, Handler: completes})
		wait(t, "claimed again", func() bool { e.Changed("x"); return claims.Load() >= 4 })
		if took := time.Since(began); took < 3*look/2 { // the time between two looks is at least half of it
			t.Errorf("four claims failed in %v", took)
		}
	})
}

func TestStoreThatStopsTellingIsAskedAgain(t *testing.T) {
	f := newFixture(t)
	var watched atomic.Int32
	f.store = watching{&meddled{Store: f.store, watch: func(ctx context.Context, _ func(), _ func(string, bool)) error {
		if watched.Add(1) < 3 {
			return errors.New("the connection is lost")
		}
		<-ctx.Done()
		return ctx.Err()
	}}}
	f.engine(&taskrun.Options{Handler: completes})
	wait(t, "watched again", func() bool { return watched.Load() == 3 })
}

func TestSweepLeavesAloneWhatIsGoneOrHasEnded(t *testing.T) {
	f := newFixture(t)
	e, _ := f.engine(&taskrun.Options{Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		if string(w.Call) == "ask" {
			return taskrun.Verdict{Status: task.InputRequired}, nil
		}
		return completed("well"), nil
	}})
	ended := f.create(e, &taskrun.New{})
	f.until(e, ended, task.Completed)
	early, asking := f.create(e, &taskrun.New{Call: []byte("ask")}), f.create(e, &taskrun.New{Call: []byte("ask"), TTL: 1})
	f.until(e, early, task.InputRequired)
	f.store = &meddled{Store: f.store, expired: func([]string, error) ([]string, error) {
		return []string{"gone", ended.ID, early.ID, asking.ID}, nil // as they were a moment before
	}}
	f.engine(&taskrun.Options{
		Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) { return taskrun.Verdict{}, nil }})
	f.until(e, asking, task.Failed)
	for id, want := range map[string]task.Status{ended.ID: task.Completed, early.ID: task.InputRequired} {
		if now, err := e.Get(t.Context(), "", id); err != nil || now.Status != want || now.Stopped {
			t.Errorf("%+v, %v", now, err)
		}
	}
}

// Rows that cannot be written to, however many, keep nobody else from being expired, decided or deleted.
func TestASweepGoesOnPastWhatItCannotHave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(task.MemoryStore)
		const bad = 250 // more than two sweeps take
		var locked atomic.Bool
		var made atomic.Int32
		add := func(principal string, ttl time.Duration, ask *task.Question) *task.Task {
			n := &task.Task{ID: fmt.Sprint(principal, " ", made.Add(1)), Principal: principal, Status: task.Working}
			expect.Check(t, store.Create(t.Context(), n, ttl, time.Hour, nil, nil, task.Quota{}))
			n.Status = task.InputRequired
			u := task.Update{Leased: true, Due: -1}
			if ask != nil {
				u.Ask = []*task.Question{ask}
			}
			expect.Check(t, store.Update(t.Context(), n, u))
			return n
		}
		timer := &task.Question{Key: "timer", Within: time.Second}
		for i := range bad {
			add("bad", time.Millisecond*time.Duration(1+i), nil)
			add("bad", time.Hour, timer)
		}
		expires := add("good", time.Second, nil)
		asks := add("good", time.Hour, &task.Question{Key: "timer", Within: 2 * time.Second})
		poison := errors.New("poisoned")
		cannot := func(ctx context.Context, id string) error {
			if n, err := store.Get(ctx, id); err != nil || n.Principal != "bad" {
				return err
			}
			if locked.Load() {
				<-ctx.Done()
				return ctx.Err()
			}
			return poison
		}
		e := expect.Must(taskrun.NewEngine(&refusing{store, cannot}, &taskrun.Options{
			Settings: task.Settings{StoreTimeout: time.Second}, Logger: slog.New(slog.DiscardHandler),
			Expire:  func(q *task.Question) error { q.Decision = []byte("late"); return nil },
			Handler: completes,
		}))(t)
		for _, says := range []string{"poisoned", "locked"} {
			locked.Store(says == "locked")
			stop := running(t, e)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			for n, want := range map[*task.Task]task.Status{expires: task.Failed, asks: task.Completed} {
				expect.Equal(t, says+": a task of somebody else", expect.Must(store.Get(t.Context(), n.ID))(t).Status, want)
			}
			stop()
			expires = add("good", time.Second, nil)
			asks = add("good", time.Hour, &task.Question{Key: "timer", Within: 2 * time.Second})
		}
	})
}

// refusing is a store that cannot write to some tasks.
type refusing struct {
	*task.MemoryStore
	cannot func(ctx context.Context, id string) error
}

func (r *refusing) Update(ctx context.Context, t *task.Task, u task.Update) error {
	if err := r.cannot(ctx, t.ID); err != nil {
		return err
	}
	return r.MemoryStore.Update(ctx, t, u)
}

func (r *refusing) ChangeQuestion(ctx context.Context, q *task.Question, expired bool) error {
	if err := r.cannot(ctx, q.Task); err != nil {
		return err
	}
	return r.MemoryStore.ChangeQuestion(ctx, q, expired)
}

func TestOneSweepTakesOnAllThatExpired(t *testing.T) {
	f := newFixture(t)
	idle := expect.Must(taskrun.NewEngine(f.store, nil))(t)
	var last *task.Task
	for range 150 {
		last = f.create(idle, &taskrun.New{Principal: "a", TTL: time.Millisecond})
		f.change(last, func(now *task.Task) task.Update { now.Status = task.InputRequired; return task.Update{Due: -1} })
	}
	wait(t, "expired", func() bool { return time.Now().After(last.Expires.Add(5 * time.Millisecond)) })
	f.engine(&taskrun.Options{
		Look: time.Hour, Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
			return taskrun.Verdict{},
				nil
		}})
	wait(t, "swept", func() bool {
		ids, err := f.store.Expired(t.Context(), 1)
		return err == nil && len(ids) == 0
	})
}

func TestWriteThatFailsIsRepeated(t *testing.T) {
	f := newFixture(t)
	var appends, updates, runs atomic.Int32
	flaky := func(n *atomic.Int32) error {
		if n.Add(1) == 1 {
			return errors.New("a hiccup")
		}
		return nil
	}
	f.store = &meddled{Store: f.store,
		append: func() error { return flaky(&appends) },
		update: func(_ *task.Task, u task.Update) error {
			if u.Leased {
				return flaky(&updates)
			}
			return nil
		}}
	e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour},
		Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			runs.Add(1)
			if err := w.Record(ctx, []byte("step")); err != nil {
				t.Errorf("Record: %v", err)
			}
			return completed(""), nil
		}})
	f.until(e, f.create(e, &taskrun.New{}), task.Completed)
	if n := runs.Load(); n != 1 || appends.Load() != 2 || updates.Load() != 2 {
		t.Errorf("%d runs, %d appends, %d updates", n, appends.Load(), updates.Load())
	}
}

// Recording an entry or asking a question resets the count of failed attempts.
func TestTaskThatComesFurtherIsNotGivenUp(t *testing.T) {
	f := newFixture(t)
	e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Attempts: 2},
		Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			switch n := len(w.Entries); {
			case n >= 5:
				return completed(""), nil
			case string(w.Call) == "ask":
				return taskrun.Verdict{Status: task.InputRequired}, nil
			default:
				if err := w.Record(ctx, []byte("step")); err != nil {
					return taskrun.Verdict{}, err
				}
				return taskrun.Verdict{}, errors.New("the infrastructure is down")
			}
		}})
	failing := f.create(e, &taskrun.New{})
	f.hurry(failing, func(now *task.Task) bool {
		return now.Status == task.Working && now.Version > 0 &&
			now.Attempts == 0
	})
	asking := f.create(e, &taskrun.New{Call: []byte("ask")})
	for range 5 {
		f.until(e, asking, task.InputRequired)
		f.answer(e, asking)
	}
	f.until(e, asking, task.Completed)
	f.until(e, failing, task.Completed)
}

func TestRecordedAttemptIsWrittenAsOne(t *testing.T) {
	f := newFixture(t)
	reported := make(chan struct{})
	e, _ := f.engine(&taskrun.Options{Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
		if err := w.Record(ctx, []byte("step")); err != nil {
			return taskrun.Verdict{}, err
		}
		w.Report("recorded")
		come(ctx, reported)
		return completed(""), nil
	}})
	created := f.create(e, &taskrun.New{})
	wait(t, "reported", f.has(created, func(now *task.Task) bool { return now.Message == "recorded" }))
	now, err := e.Get(t.Context(), "", created.ID)
	close(reported)
	if err != nil || now.Attempts != 0 {
		t.Errorf("%d attempts that came to nothing, %v", now.Attempts, err)
	}
}

// A task that is cancelled at the moment when its run has an outcome is cleaned up in the same lease.
func TestCancelledWhileItsVerdictIsWritten(t *testing.T) {
	f := newFixture(t)
	var once sync.Once
	cleaned := make(chan struct{}, 10)
	plain := &fixture{t, f.store}
	f.store = &meddled{Store: f.store, update: func(t *task.Task, u task.Update) error {
		if u.Leased {
			once.Do(func() {
				plain.change(t, func(now *task.Task) task.Update {
					now.Status, now.Stopped = task.Cancelled, true
					return task.Update{Keep: true}
				})
			})
		}
		return nil
	}}
	e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour},
		Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			if w.Stopped {
				cleaned <- struct{}{}
			}
			return completed("too late"), nil
		}})
	created := f.create(e, &taskrun.New{})
	f.until(e, created, task.Cancelled)
	within(t, "the cleaning up", cleaned)
	if now, err := e.Get(t.Context(), "", created.ID); err != nil || now.Status != task.Cancelled || len(now.Outcome) > 0 {
		t.Errorf("%+v, %v", now, err)
	}
}

// It does not continue with a lease that has passed to another worker.
func TestConflictAndLeaseLostAtOnce(t *testing.T) {
	f := newFixture(t)
	var conflict, claimed atomic.Bool
	var runs atomic.Int32
	plain := &fixture{t, f.store}
	meddling := &meddled{Store: f.store}
	var created *task.Task
	ready := make(chan struct{})
	meddling.update = func(t *task.Task, u task.Update) error {
		if u.Leased && conflict.CompareAndSwap(false, true) {
			plain.change(t, func(now *task.Task) task.Update {
				now.Status, now.Stopped = task.Cancelled, true
				return task.Update{Keep: true}
			})
		}
		return nil
	}
	meddling.get = func(id string) {
		if conflict.Load() && claimed.CompareAndSwap(false, true) {
			plain.change(created, func(*task.Task) task.Update { return task.Update{} })
			if other, err := claimOne(plain.store, context.Background(), "", nil, time.Hour); err != nil || other == nil {
				t.Errorf("the other worker: %v, %v", other, err)
			}
		}
	}
	f.store = meddling
	// With one worker, so that this engine cannot claim the task again.
	e, stop := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour, Workers: 1}, Look: time.Hour,
		Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
			<-ready
			runs.Add(1)
			return completed("too late"), nil
		}})
	created = f.create(e, &taskrun.New{})
	close(ready)
	wait(t, "claimed by another", claimed.Load)
	stop()
	expect.Equal(t, "runs by the worker that lost its lease", runs.Load(), 1)
}

func TestFailedAttemptIsFollowedByAPause(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		runs := make(chan time.Time, 10)
		e, _ := f.engine(&taskrun.Options{Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
			runs <- time.Now()
			return taskrun.Verdict{}, errors.New("the infrastructure is down")
		}})
		f.create(e, &taskrun.New{})
		first, second := <-runs, <-runs
		if pause := second.Sub(first); pause < time.Second {
			t.Errorf("tried again after %v", pause)
		}
	})
}

func TestLeavingATaskToOthersIsNoAttemptAndNoHurry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const look = 20 * time.Millisecond
		f := newFixture(t)
		runs := make(chan time.Time, 100)
		e, stop := f.engine(&taskrun.Options{Settings: task.Settings{Attempts: 2}, Look: look,
			Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
				runs <- time.Now()
				return taskrun.Verdict{}, taskrun.ErrElsewhere
			}})
		created := f.create(e, &taskrun.New{})
		first := <-runs
		for range 5 { // sooner at first: another process may not have come by
			first = <-runs
		}
		for range 3 {
			if now := <-runs; now.Sub(first) < 5*look-time.Millisecond { // stores round to milliseconds
				t.Errorf("claimed again after %v", now.Sub(first))
			} else {
				first = now
			}
		}
		stop()
		if now, err := f.store.Get(t.Context(), created.ID); err != nil || now.Status != task.Working || now.Attempts > 1 {
			t.Errorf("%+v, %v", now, err)
		}
	})
}

// Cleaning up that never succeeds, or that no instance can do, ends after a while, and the task's
// status stays the same.
func TestCleaningUpIsGivenUp(t *testing.T) {
	for name, failure := range map[string]error{"failing": errors.New("the infrastructure is down"),
		"elsewhere": taskrun.ErrElsewhere} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, f *fixture) {
				var runs atomic.Int32
				e, stop := f.engine(&taskrun.Options{Settings: task.Settings{Attempts: 2}, Grace: time.Hour,
					Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
						if !w.Stopped {
							return taskrun.Verdict{Status: task.InputRequired}, nil
						}
						runs.Add(1)
						return taskrun.Verdict{}, failure
					}})
				created := f.create(e, &taskrun.New{TTL: time.Second})
				f.until(e, created, task.InputRequired)
				expect.Must(e.Cancel(t.Context(), "", created.ID))(t)
				f.hurry(created, func(now *task.Task) bool { return now.Stopped && now.Attempts > 0 && now.Attempts <= 2 })
				wait(t, "given up", func() bool {
					now, err := f.store.Get(t.Context(), created.ID)
					return err == nil && now.Attempts == 3
				})
				now, err := f.store.Get(t.Context(), created.ID)
				if err != nil || now.Status != task.Cancelled || now.Message != "The task was cancelled by request." {
					t.Errorf("%+v, %v", now, err)
				}
				// Neither due now nor later. hurry may overwrite the last update of the worker that gave up,
				// and another one has to repeat it: so the workers run until the task is no longer due.
				wait(t, "purged", func() bool {
					_, err := f.store.Purge(t.Context(), 0, 10)
					_, gone := f.store.Get(t.Context(), created.ID)
					return err == nil && errors.Is(gone, task.ErrNotFound)
				})
				stop()
			})
		})
	}
}

// A handler may run much longer than the lease, even if a renewal fails.
func TestLeaseIsRenewedWhileTheHandlerRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		var renewals atomic.Int32
		f.store = &meddled{Store: f.store, renew: func() error {
			if n := renewals.Add(1); n == 1 || n == 4 {
				return errors.New("a hiccup")
			}
			return nil
		}}
		var runs atomic.Int32
		e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: 2 * time.Second},
			Handler: func(ctx context.Context, _ *taskrun.Work) (taskrun.Verdict, error) {
				runs.Add(1)
				for deadline := time.Now().Add(20 * time.Second); renewals.Load() < 9; time.Sleep(time.Millisecond) {
					if ctx.Err() != nil {
						t.Errorf("interrupted after %d renewals: %v", renewals.Load(), context.Cause(ctx))
						break
					}
					if time.Now().After(deadline) {
						t.Errorf("%d renewals", renewals.Load())
						break
					}
				}
				return completed(""), nil
			}})
		f.until(e, f.create(e, &taskrun.New{}), task.Completed)
		expect.Equal(t, "runs", runs.Load(), 1)
	})
}

func TestLostLeaseInterrupts(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		started, interrupted := make(chan struct{}, 1), make(chan error, 1)
		e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Second}, Look: time.Hour,
			Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				started <- struct{}{}
				<-ctx.Done()
				interrupted <- context.Cause(ctx)
				return completed("first"), nil
			}})
		created := f.create(e, &taskrun.New{})
		<-started
		f.change(created, func(*task.Task) task.Update { return task.Update{} })
		if now, err := claimOne(f.store, t.Context(), "", nil, time.Hour); err != nil || now == nil {
			t.Fatalf("%v, %v", now, err)
		}
		expect.Is(t, "interrupted by", within(t, "the interruption", interrupted), task.ErrLeaseLost)
	})
}

func TestReportedMessages(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		var writes, renewals, runs atomic.Int32
		f.store = &meddled{Store: f.store,
			update: func(_ *task.Task, u task.Update) error {
				if u.Leased && u.Keep {
					writes.Add(1)
				}
				return nil
			},
			renew: func() error { renewals.Add(1); return nil }}
		var created *task.Task
		ready := make(chan struct{})
		e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour},
			Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				<-ready
				runs.Add(1)
				has := func(message string) func() bool {
					return f.has(created, func(now *task.Task) bool { return now.Message == message })
				}
				// The last of many reports is written, too, even if it came too soon after another.
				for _, message := range []string{"one", "two", "three"} {
					w.Report("before " + message)
					w.Report(message)
					wait(t, message, has(message))
				}
				w.Report("four") // once, and too soon after another
				wait(t, "four", has("four"))
				// Meanwhile no other worker has the task.
				if other, err := claimOne(f.store, context.Background(), "", nil, time.Hour); err != nil || other != nil {
					t.Errorf("claimed by another: %v, %v", other, err)
				}
				// Some of the reports are not written.
				began, before := time.Now(), writes.Load()
				for i := 0; writes.Load() < before+3; i++ {
					w.Report(fmt.Sprint(i))
					time.Sleep(time.Millisecond)
					if time.Since(began) > 20*time.Second {
						t.Error("messages are not written")
						break
					}
				}
				if took := time.Since(began); took < 400*time.Millisecond {
					t.Errorf("three messages were written in %v", took)
				}
				return completed(""), nil
			}})
		elsewhere, err := taskrun.NewEngine(f.store, nil) // otherwise the worker would be notified of the new task
		expect.Check(t, err)
		created = f.create(elsewhere, &taskrun.New{})
		close(ready)
		f.until(e, created, task.Completed)
		expect.Equal(t, "runs, unless what was reported kept the outcome from being written", runs.Load(), 1)
		if renewals.Load() > 0 {
			t.Errorf("reporting renewed the lease %d times", renewals.Load())
		}
	})
}

// When a task is cancelled in another process, this one learns of it at once from a report that fails.
func TestReportLearnsOfACancellation(t *testing.T) {
	f := newFixture(t)
	started, interrupted := make(chan struct{}), make(chan error, 1)
	e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: time.Hour},
		Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			if w.Stopped {
				return taskrun.Verdict{}, nil
			}
			started <- struct{}{}
			<-started
			w.Report("still here")
			<-ctx.Done()
			interrupted <- context.Cause(ctx)
			return taskrun.Verdict{}, ctx.Err()
		}})
	created := f.create(e, &taskrun.New{})
	<-started
	f.change(created, func(now *task.Task) task.Update {
		now.Status, now.Stopped = task.Cancelled, true
		return task.Update{Keep: true}
	})
	started <- struct{}{}
	expect.Is(t, "interrupted by", within(t, "the interruption", interrupted), taskrun.ErrStopped)
}

func TestProgressOfCleaningUpIsNotTold(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		var renewals atomic.Int32
		f.store = &meddled{Store: f.store, renew: func() error { renewals.Add(1); return nil }}
		cleaned := make(chan struct{}, 10)
		e, stop := f.engine(&taskrun.Options{Settings: task.Settings{Lease: 600 * time.Millisecond},
			Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				if w.Stopped {
					w.Report("cleaning up")
					before := renewals.Load() // after the report is in the store
					wait(t, "renewed", func() bool { return renewals.Load() >= before+2 })
					cleaned <- struct{}{}
					return taskrun.Verdict{}, nil
				}
				return taskrun.Verdict{Status: task.InputRequired}, nil
			}})
		created := f.create(e, &taskrun.New{})
		f.until(e, created, task.InputRequired)
		expect.Must(e.Cancel(t.Context(), "", created.ID))(t)
		<-cleaned
		stop()
		expect.Equal(t, "the result", expect.Must(f.store.Get(t.Context(), created.ID))(t).Message,
			"The task was cancelled by request.")
	})
}

func TestNobodyStaysSubscribed(t *testing.T) {
	f := newFixture(t)
	e, _ := f.engine(&taskrun.Options{Handler: completes})
	created := f.create(e, &taskrun.New{})
	f.until(e, created, task.Completed)
	expect.Check(t, e.Follow(t.Context(), []*task.Task{created, {ID: "gone"}}, func(*task.Task) error { return nil }))
	wait(t, "left", func() bool { return e.Watched() == 0 })
}

func TestLongIDsAreNotLookedUp(t *testing.T) {
	f := newFixture(t)
	f.store = &meddled{Store: f.store, get: func(id string) { t.Errorf("looked up %d bytes", len(id)) }}
	e := expect.Must(taskrun.NewEngine(f.store, nil))(t)
	for _, n := range []int{0, 129, 1 << 20} {
		if _, err := e.Get(t.Context(), "", string(make([]byte, n))); !errors.Is(err, task.ErrNotFound) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestWorkersAreBounded(t *testing.T) {
	f := newFixture(t)
	idle := expect.Must(taskrun.NewEngine(f.store, nil))(t)
	var all []*task.Task
	for i := range 10 {
		all = append(all, f.create(idle, &taskrun.New{Principal: fmt.Sprint(i % 2)}))
	}
	var running, most atomic.Int32
	e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Workers: 2},
		Handler: func(context.Context, *taskrun.Work) (taskrun.Verdict, error) {
			n := running.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(20 * time.Millisecond) // work
			running.Add(-1)
			return completed(""), nil
		}})
	for _, one := range all {
		f.until(e, one, task.Completed)
	}
	expect.Equal(t, "ran at once", most.Load(), 2)
}

func TestCancellingIsNoFailure(t *testing.T) {
	f := newFixture(t)
	var mu sync.Mutex
	var log bytes.Buffer
	started, cleaned := make(chan struct{}, 1), make(chan struct{}, 1)
	e, stop := f.engine(&taskrun.Options{
		Logger: slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			return log.Write(p)
		}), nil)),
		Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			if w.Stopped {
				cleaned <- struct{}{}
				return taskrun.Verdict{}, nil
			}
			started <- struct{}{}
			<-ctx.Done()
			return taskrun.Verdict{}, ctx.Err()
		},
	})
	created := f.create(e, &taskrun.New{})
	<-started
	expect.Must(e.Cancel(t.Context(), "", created.ID))(t)
	<-cleaned
	stop()
	mu.Lock()
	defer mu.Unlock()
	if log.Len() > 0 {
		t.Errorf("the log has %s", &log)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
