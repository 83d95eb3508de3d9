package task_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/task"
)

// writes counts the calls of a store that write.
type writes struct {
	task.Store
	creates, updates, appends, claimed, renewals atomic.Int32
}

func (w *writes) Create(ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota) error {
	w.creates.Add(1)
	return w.Store.Create(ctx, t, ttl, lease, call, entries, quota)
}

func (w *writes) Update(ctx context.Context, t *task.Task, u task.Update) error {
	w.updates.Add(1)
	return w.Store.Update(ctx, t, u)
}

func (w *writes) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	w.appends.Add(1)
	return w.Store.Append(ctx, id, claim, there, entry)
}

func (w *writes) Claim(ctx context.Context, after string, skip []string, lease time.Duration, limit int) ([]*task.Claimed, error) {
	claimed, err := w.Store.Claim(ctx, after, skip, lease, limit)
	w.claimed.Add(int32(len(claimed)))
	return claimed, err
}

func (w *writes) Renew(ctx context.Context, id string, claim task.Claim, lease time.Duration) (int64, error) {
	w.renewals.Add(1)
	return w.Store.Renew(ctx, id, claim, lease)
}

// Where a worker is free, a task with a question is written four times: it is created and claimed, parked, answered and
// claimed, and completed.
func TestATaskWithAQuestionIsWrittenFourTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		count := &writes{Store: f.store}
		f.store = count // which is no Watcher
		e, stop := f.engine(&task.Options{Look: time.Hour, Handler: func(_ context.Context, w *task.Work) (task.Verdict, error) {
			if len(w.Entries) == 0 {
				return task.Verdict{Status: task.InputRequired, Pending: []byte("?"), Round: 1}, nil
			}
			return completed(string(w.Call) + string(w.Entries[0])), nil
		}})
		synctest.Wait() // until its loop has found nothing
		created := f.create(e, &task.New{Call: []byte("the ")})
		f.until(e, created, task.InputRequired)
		if _, err := e.Change(t.Context(), "", created.ID, func(now *task.Task) (*task.Update, error) {
			u := answer(now)
			return &u, nil
		}); err != nil {
			t.Fatal(err)
		}
		if done := f.until(e, created, task.Completed); string(done.Outcome) != "the answer" || done.Fence != 2 {
			t.Errorf("the outcome is %q under fence %d, want %q under 2", done.Outcome, done.Fence, "the answer")
		}
		stop()
		if count.creates.Load() != 1 || count.updates.Load() != 3 || count.appends.Load()+count.claimed.Load()+count.renewals.Load() != 0 {
			t.Errorf("%d creates, %d updates, %d appends, %d claimed, %d renewals; want one, three and none", count.creates.Load(),
				count.updates.Load(), count.appends.Load(), count.claimed.Load(), count.renewals.Load())
		}
	})
}

// A worker that is free does not serve a new task while an older one of the same principal waits for the last worker
// but one.
func TestANewTaskOvertakesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		gate := make(chan struct{})
		order := make(chan string, 10)
		e, _ := f.engine(&task.Options{Settings: task.Settings{Workers: 2}, Look: time.Hour, Handler: func(ctx context.Context, w *task.Work) (task.Verdict, error) {
			order <- w.Task.Target
			if w.Task.Target == "first" {
				come(ctx, gate)
			}
			return completed(""), nil
		}})
		synctest.Wait()
		f.create(e, &task.New{Principal: "alice", Target: "first"})
		synctest.Wait()
		f.create(e, &task.New{Principal: "alice", Target: "second"}) // it waits: one worker is for newcomers
		synctest.Wait()
		f.create(e, &task.New{Principal: "alice", Target: "third"})
		f.create(e, &task.New{Principal: "bob", Target: "newcomer"})
		synctest.Wait()
		close(gate)
		for _, want := range []string{"first", "newcomer", "second", "third"} {
			if got := <-order; got != want {
				t.Errorf("%s runs, want %s", got, want)
			}
		}
	})
}

// A task that is created while the engine stops is another engine's, also before the loop has seen that it is to stop.
func TestAnEngineThatStopsTakesNoNewTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			f := newFixture(t)
			e, err := task.NewEngine(f.store, &task.Options{Look: time.Hour, Handler: func(context.Context, *task.Work) (task.Verdict, error) {
				return completed(""), nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- e.Run(ctx) }()
			synctest.Wait()
			cancel()
			if created := f.create(e, new(task.New)); created.Fence != 0 {
				t.Fatalf("it claims the task under fence %d", created.Fence)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
}

// held is a store whose claims wait.
type held struct {
	task.Store
	claiming chan struct{} // one element lets one claim go on
}

func (h *held) Claim(ctx context.Context, after string, skip []string, lease time.Duration, limit int) ([]*task.Claimed, error) {
	<-h.claiming
	return h.Store.Claim(ctx, after, skip, lease, limit)
}

// While the loop looks for what is due, a new task waits for what it finds, although a worker is free.
func TestANewTaskDoesNotOvertakeALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		h := &held{f.store, make(chan struct{}, 10)}
		f.store = h
		ran := make(chan string, 10)
		e, _ := f.engine(&task.Options{Settings: task.Settings{Workers: 3}, Look: time.Hour, Handler: func(_ context.Context, w *task.Work) (task.Verdict, error) {
			ran <- w.Task.Target
			return completed(""), nil
		}})
		synctest.Wait() // it looks: two of its workers wait for the claim
		created := f.create(e, &task.New{Principal: "alice", Target: "new"})
		synctest.Wait()
		if len(ran) > 0 || created.Fence != 0 {
			t.Errorf("it was claimed under fence %d, although another task may be due", created.Fence)
		}
		for range cap(h.claiming) {
			h.claiming <- struct{}{}
		}
		if got := <-ran; got != "new" {
			t.Errorf("%q ran", got)
		}
	})
}

// When the answer to a write is lost that claims a task, it is not known whose claim it is: the task goes on when the
// lease ends.
func TestAClaimWhoseAnswerWasLostEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.store = &lostClaims{Store: f.store}
		const lease = time.Minute
		fences := make(chan int64, 10)
		e, stop := f.engine(&task.Options{Settings: task.Settings{Lease: lease}, Look: time.Second, Handler: func(_ context.Context, w *task.Work) (task.Verdict, error) {
			fences <- w.Task.Fence
			if len(w.Entries) == 0 {
				return task.Verdict{Status: task.InputRequired, Pending: []byte("?"), Round: 1}, nil
			}
			return completed(""), nil
		}})
		synctest.Wait()
		goesOn := func(since time.Time, want int64) {
			t.Helper()
			if fence, took := <-fences, time.Since(since); fence != want || took < lease || took > lease+2*time.Second {
				t.Errorf("it goes on under fence %d after %v, want %d after %v", fence, took, want, lease)
			}
			synctest.Wait()
		}
		const id = "an id of 128 bits"
		start := time.Now()
		if _, err := e.Create(t.Context(), &task.New{ID: id}); !errors.Is(err, errLost) {
			t.Errorf("Create: %v", err)
		}
		goesOn(start, 2)
		start = time.Now()
		if _, err := e.Change(t.Context(), "", id, func(now *task.Task) (*task.Update, error) {
			u := answer(now)
			return &u, nil
		}); !errors.Is(err, errLost) {
			t.Errorf("Change: %v", err)
		}
		goesOn(start, 4)
		stop()
		if now, err := f.store.Get(t.Context(), id); err != nil || now.Status != task.Completed {
			t.Errorf("%+v, %v", now, err)
		}
	})
}

// lostClaims loses the answer to each write that claims what it writes.
type lostClaims struct{ task.Store }

func (l *lostClaims) Create(ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota) error {
	written := *t
	err := l.Store.Create(ctx, &written, ttl, lease, call, entries, quota)
	if err == nil && lease > 0 {
		return errLost
	}
	*t = written
	return err
}

func (l *lostClaims) Update(ctx context.Context, t *task.Task, u task.Update) error {
	written := *t
	err := l.Store.Update(ctx, &written, u)
	if err == nil && u.Lease > 0 {
		return errLost
	}
	*t = written
	return err
}
