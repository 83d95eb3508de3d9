package taskrun_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// writes counts the calls of a store that write.
type writes struct {
	task.Store
	creates, updates, appends, claimed, renewals atomic.Int32
}

func (w *writes) Create(
	ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota,
) error {
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

func (w *writes) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) ([]*task.Claimed, error) {
	claimed, err := w.Store.Claim(ctx, after, load, lease, limit)
	w.claimed.Add(int32(len(claimed)))
	return claimed, err
}

func (w *writes) Renew(ctx context.Context, leases []task.Leased, lease time.Duration) ([]task.Renewed, error) {
	w.renewals.Add(1)
	return w.Store.Renew(ctx, leases, lease)
}

// Where a worker is free, a task with a question whose ID somebody knows is written four times: it is created and
// claimed, parked, answered and claimed, and completed.
func TestATaskWithAQuestionIsWrittenFourTimes(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		count := &writes{Store: f.store}
		f.store = count // which is no Watcher
		e, stop := f.engine(&taskrun.Options{Look: time.Hour,
			Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				if len(w.Entries) == 0 {
					return taskrun.Verdict{Status: task.InputRequired, Pending: []byte("?"), Round: 1}, nil
				}
				return completed(string(w.Call) + string(w.Entries[0])), nil
			}})
		synctest.Wait() // until its loop has found nothing
		created := f.create(e, &taskrun.New{Call: []byte("the ")})
		if parked := f.until(e, created, task.InputRequired); string(parked.Pending) != "?" || parked.Round != 1 {
			t.Errorf("parked as %+v", parked)
		}
		f.answer(e, created)
		if done := f.until(e, created, task.Completed); string(done.Outcome) != "the answer" || done.Fence != 2 {
			t.Errorf("the outcome is %q under fence %d, want %q under 2", done.Outcome, done.Fence, "the answer")
		}
		stop()
		if count.creates.Load() != 1 || count.updates.Load() != 3 ||
			count.appends.Load()+count.claimed.Load()+count.renewals.Load() != 0 {
			t.Errorf("%d creates, %d updates, %d appends, %d claimed, %d renewals; want one, three and none",
				count.creates.Load(),
				count.updates.Load(), count.appends.Load(), count.claimed.Load(), count.renewals.Load())
		}
	})
}

// A worker that is free does not serve a new task while an older one of the same principal waits for the last worker
// but one.
func TestANewTaskOvertakesNone(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		gate := make(chan struct{})
		order := make(chan string, 10)
		e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Workers: 2}, Look: time.Hour,
			Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				order <- w.Task.Target
				if w.Task.Target == "first" {
					come(ctx, gate)
				}
				return completed(""), nil
			}})
		synctest.Wait()
		f.create(e, &taskrun.New{Principal: "alice", Target: "first"})
		synctest.Wait()
		f.create(e, &taskrun.New{Principal: "alice", Target: "second"}) // it waits: one worker is for newcomers
		synctest.Wait()
		f.create(e, &taskrun.New{Principal: "alice", Target: "third"})
		f.create(e, &taskrun.New{Principal: "bob", Target: "newcomer"})
		synctest.Wait()
		close(gate)
		for _, want := range []string{"first", "newcomer", "second", "third"} {
			expect.Equal(t, "runs", <-order, want)
		}
	})
}

// A task that is created while the engine stops is another engine's, also before the loop has seen that it is to stop.
func TestAnEngineThatStopsTakesNoNewTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for range 20 {
			f := newFixture(t)
			e := expect.Must(taskrun.NewEngine(f.store, &taskrun.Options{Look: time.Hour, Handler: completes}))(t)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- e.Run(ctx) }()
			synctest.Wait()
			cancel()
			if created := f.create(e, new(taskrun.New)); created.Fence != 0 {
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

func (h *held) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) ([]*task.Claimed, error) {
	<-h.claiming
	return h.Store.Claim(ctx, after, load, lease, limit)
}

// While the loop looks for what is due, a new task waits for what it finds, although a worker is free.
func TestANewTaskDoesNotOvertakeALook(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		h := &held{f.store, make(chan struct{}, 10)}
		f.store = h
		ran := make(chan string, 10)
		e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Workers: 3}, Look: time.Hour,
			Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				ran <- w.Task.Target
				return completed(""), nil
			}})
		synctest.Wait() // it looks: two of its workers wait for the claim
		created := f.create(e, &taskrun.New{Principal: "alice", Target: "new"})
		synctest.Wait()
		if len(ran) > 0 || created.Fence != 0 {
			t.Errorf("it was claimed under fence %d, although another task may be due", created.Fence)
		}
		for range cap(h.claiming) {
			h.claiming <- struct{}{}
		}
		expect.Equal(t, "ran", <-ran, "new")
	})
}

// When the answer to a write is lost that claims a task, it is not known whose claim it is: the task goes on when the
// lease ends.
func TestAClaimWhoseAnswerWasLostEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		f.store = &lostClaims{Store: f.store}
		const lease = time.Minute
		fences := make(chan int64, 10)
		e, stop := f.engine(&taskrun.Options{Settings: task.Settings{Lease: lease}, Look: time.Second,
			Handler: func(_ context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
				fences <- w.Task.Fence
				if len(w.Entries) == 0 {
					return taskrun.Verdict{Status: task.InputRequired, Pending: []byte("?"), Round: 1}, nil
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
		expect.Is(t, "Create", expect.Err(e.Create(t.Context(), &taskrun.New{ID: id})), errLost)
		goesOn(start, 2)
		start = time.Now()
		expect.Is(t, "Change", expect.Err(e.Change(t.Context(), "", id, func(now *task.Task) (*task.Update, error) {
			u := answer(now)
			return &u, nil
		})), errLost)
		goesOn(start, 4)
		stop()
		expect.Equal(t, "the result", expect.Must(f.store.Get(t.Context(), id))(t).Status, task.Completed)
	})
}

// lostClaims loses the answer to each write that claims what it writes.
type lostClaims struct{ task.Store }

func (l *lostClaims) Create(
	ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota,
) error {
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

// shop runs tasks whose target is the time that they take, and knows when each began to wait and to run.
type shop struct {
	*fixture
	engine *taskrun.Engine

	mu            sync.Mutex
	running, most map[string]int             // by principal
	waited        map[string][]time.Duration // by principal and target
	ended         map[string]int             // the same
}

func newShop(t *testing.T, workers int) *shop {
	s := &shop{fixture: newFixture(t), running: make(map[string]int), most: make(map[string]int),
		waited: make(map[string][]time.Duration), ended: make(map[string]int)}
	s.engine, _ = s.fixture.engine(&taskrun.Options{Settings: task.Settings{Workers: workers}, Handler: s.run})
	synctest.Wait()
	return s
}

func (s *shop) run(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
	p, key := w.Task.Principal, w.Task.Principal+" "+w.Task.Target
	s.mu.Lock()
	s.running[p]++
	s.most[p] = max(s.most[p], s.running[p])
	s.waited[key] = append(s.waited[key], time.Since(w.Task.Created))
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[p]--
		s.ended[key]++
	}()
	takes, err := time.ParseDuration(w.Task.Target)
	if err != nil {
		return taskrun.Verdict{}, err
	}
	select {
	case <-time.After(takes):
		return completed(""), nil
	case <-ctx.Done():
		return taskrun.Verdict{}, ctx.Err()
	}
}

func (s *shop) orders(n int, principal, takes string) {
	for range n {
		if _, err := s.engine.Create(s.t.Context(), &taskrun.New{Principal: principal, Target: takes}); err != nil {
			s.t.Error(err)
		}
	}
	synctest.Wait()
}

// has returns how many tasks of a principal run, and how many have run at once.
func (s *shop) has(principal string) (now, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[principal], s.most[principal]
}

// longest returns how long the one waited that waited longest, of so many.
func (s *shop) longest(principal, takes string, n int) time.Duration {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	waited := s.waited[principal+" "+takes]
	if len(waited) != n {
		s.t.Errorf("%d tasks of %s for %s have begun, want %d", len(waited), principal, takes, n)
		return 0
	}
	return slices.Max(append(waited, 0))
}

// A principal with tasks without end has half of the workers, and keeps nobody else waiting.
func TestOnePrincipalHasHalfOfTheWorkers(t *testing.T) {
	for workers, want := range map[int]int{1: 1, 2: 1, 3: 2, 4: 2, 16: 8, 32: 16} {
		synctest.Test(t, func(t *testing.T) {
			s := newShop(t, workers)
			s.orders(50, "mallory", "1h")
			if got, _ := s.has("mallory"); got != want {
				t.Errorf("of %d workers mallory has %d, want %d", workers, got, want)
			}
			if workers == 1 {
				return
			}
			for i := range 10 {
				modest := fmt.Sprint("modest ", i)
				s.orders(1, modest, "1s")
				if waited := s.longest(modest, "1s", 1); waited > 0 {
					t.Errorf("%s waited for %v", modest, waited)
				}
				time.Sleep(2 * time.Second)
			}
		})
	}
}

// Two principals together leave a worker free, in whichever order they come.
func TestTwoPrincipalsLeaveAWorkerToAThird(t *testing.T) {
	for _, workers := range []int{4, 5, 8, 16, 32} {
		synctest.Test(t, func(t *testing.T) {
			s := newShop(t, workers)
			s.orders(200, "alice", "1m")
			s.orders(200, "bob", "1m")
			s.orders(1, "carol", "0s")
			if waited := s.longest("carol", "0s", 1); waited > 0 {
				t.Errorf("%d workers: carol waited for %v", workers, waited)
			}
			time.Sleep(5*time.Minute + 30*time.Second) // they come to equal shares, a third each
			share := workers/3 + 1
			a, _ := s.has("alice")
			b, _ := s.has("bob")
			if a > share || b > share || a == 0 || b == 0 {
				t.Errorf("%d workers: alice has %d and bob %d", workers, a, b)
			}
		})
	}
}

// Forty who come while one principal has 200 long tasks share the other half of the workers.
func TestFortyNewcomersBesideLongTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShop(t, 16)
		s.orders(200, "mallory", "10m")
		for i := range 40 {
			s.orders(1, fmt.Sprint("newcomer ", i), "1s")
		}
		time.Sleep(30 * time.Second)
		for i := range 40 {
			if waited := s.longest(fmt.Sprint("newcomer ", i), "1s", 1); waited > 5*time.Second {
				t.Errorf("newcomer %d waited for %v, although 8 of them run at once", i, waited)
			}
		}
		if has, _ := s.has("mallory"); has != 8 {
			t.Errorf("mallory has %d workers meanwhile", has)
		}
	})
}

// Quick tasks of a principal do not wait for all of its slow ones that came before them.
func TestTargetsTakeTurns(t *testing.T) {
	for _, atOnce := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newShop(t, 16)
			if atOnce { // an engine that starts finds them all
				idle := expect.Must(taskrun.NewEngine(s.store, nil))(t)
				s.engine, idle = idle, s.engine
				defer func() { s.engine = idle }()
			}
			s.orders(30, "alice", "1m")
			s.orders(970, "alice", "10ms")
			s.orders(1, "bob", "10ms")
			time.Sleep(time.Minute + 20*time.Second)
			// At worst all slow ones that had a worker when the quick ones came must end first.
			if waited := s.longest("alice", "10ms", 970); waited > time.Minute+15*time.Second {
				t.Errorf("a quick task waited for %v", waited)
			}
			if waited := s.longest("bob", "10ms", 1); waited > 2*time.Second {
				t.Errorf("bob waited for %v", waited)
			}
			if _, most := s.has("alice"); most > 8 {
				t.Errorf("alice had %d of 16 workers", most)
			}
			time.Sleep(10 * time.Minute)
			s.longest("alice", "1m", 30)
		})
	}
}

// All leases of a process are renewed by one call, however many tasks it runs, and none of them ends.
func TestOneCallRenewsAllLeases(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		count := &writes{Store: f.store}
		f.store = count
		const lease, running = 9 * time.Second, 16
		gate := make(chan struct{})
		handler := func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			come(ctx, gate)
			return completed(""), ctx.Err()
		}
		e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: lease}, Handler: handler})
		var created []*task.Task
		for range running {
			created = append(created, f.create(e, &taskrun.New{Principal: "alice"}))
			time.Sleep(100 * time.Millisecond) // so that their leases end one after another
		}
		before := count.renewals.Load()
		time.Sleep(10 * lease)
		if n := count.renewals.Load() - before; n < 20 || n > 31 {
			t.Errorf("%d calls renewed %d leases for %v, want one in a third of a lease", n, running, 10*lease)
		}
		close(gate)
		for _, c := range created {
			expect.Equal(t, "a task was claimed times", f.until(e, c, task.Completed).Fence, 1)
		}
	})
}

// lateRenewals is a store whose renewals arrive late.
type lateRenewals struct {
	task.Store
	late time.Duration
}

func (l lateRenewals) Renew(ctx context.Context, leases []task.Leased, lease time.Duration) ([]task.Renewed, error) {
	time.Sleep(l.late)
	return l.Store.Renew(ctx, leases, lease)
}

// A renewal that is on its way while a task is given back does not keep workers from it.
func TestARenewalDoesNotOutliveItsRun(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		f.store = lateRenewals{f.store, time.Second}
		const lease = time.Minute // renewed after 20 seconds
		again := make(chan time.Time, 1)
		handler := func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			if w.Task.Fence == 1 {
				time.Sleep(20*time.Second + 500*time.Millisecond)
				return taskrun.Verdict{}, errors.New("try again in two seconds")
			}
			again <- time.Now()
			return completed(""), nil
		}
		e, _ := f.engine(&taskrun.Options{Settings: task.Settings{Lease: lease}, Handler: handler})
		begun := time.Now()
		f.create(e, &taskrun.New{})
		if took := (<-again).Sub(begun); took > 25*time.Second {
			t.Errorf("it goes on after %v, as if its lease still held", took)
		}
	})
}
