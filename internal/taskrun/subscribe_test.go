package taskrun_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// counting counts the reads of a store.
type counting struct {
	task.Store
	gets, looks atomic.Int64
	fail        atomic.Bool // Versions fails
}

func (c *counting) Get(ctx context.Context, id string) (*task.Task, error) {
	c.gets.Add(1)
	return c.Store.Get(ctx, id)
}

func (c *counting) Versions(ctx context.Context, ids []string) (map[string]int64, error) {
	c.looks.Add(1)
	if c.fail.Load() {
		return nil, errors.New("no database")
	}
	return c.Store.Versions(ctx, ids)
}

// However many wait, the store is asked about once in a Look, and only what has changed is read.
func TestIdleSubscriptionsShareOneLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const subscriptions, each = 100, 64
		store := &counting{Store: silent{new(task.MemoryStore)}}
		f := &fixture{t, store.Store}
		e := newIdle(t, store, nil)
		elsewhere := newIdle(t, store.Store, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		var reports atomic.Int64
		var tasks []*task.Task
		for i := range subscriptions {
			var own []*task.Task
			for range each {
				own = append(own, f.create(elsewhere, &taskrun.New{Principal: fmt.Sprint(i)}))
			}
			tasks = append(tasks, own...)
			all.Go(func() {
				_ = e.Follow(ctx, own, func(*task.Task) error { reports.Add(1); return nil })
			})
			all.Go(func() { _, _ = e.Wait(ctx, own[0].Principal, own[0].ID, 0) })
			time.Sleep(7 * time.Millisecond) // they do not begin at once
		}
		time.Sleep(5 * time.Second)
		expect.Equal(t, "reports at the start", reports.Load(), subscriptions*each)
		gets, looks := store.gets.Load(), store.looks.Load()
		const seconds = 60
		time.Sleep(seconds * time.Second)
		perLook := int64((subscriptions*each + 499) / 500)
		expect.Equal(t, "tasks were read though none has changed", store.gets.Load()-gets, 0)
		if n := store.looks.Load() - looks; n > seconds*perLook || n < seconds/2*perLook {
			t.Errorf("the store was asked %d times in %d seconds, want %d or a few less", n, seconds, seconds*perLook)
		}
		// A change elsewhere is seen within two looks by the one whose task it is, who reads that task alone.
		f.change(tasks[100], func(now *task.Task) task.Update { now.Message = "changed"; return task.Update{Keep: true} })
		time.Sleep(2 * time.Second)
		if n := store.gets.Load() - gets; n != 1 || reports.Load() != subscriptions*each+1 {
			t.Errorf("after one change %d tasks were read and %d reported, want one", n, reports.Load()-subscriptions*each)
		}
		// So is the end of all.
		for _, one := range tasks {
			f.end(one)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		all.Wait()
		expect.Equal(t, "tasks are still waited for", e.Watched(), 0)
	})
}

// A look that fails is told to the one who made it; the others look again.
func TestALookThatFailsIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: silent{new(task.MemoryStore)}}
		f := &fixture{t, store.Store}
		e := newIdle(t, store, nil)
		one := f.create(e, &taskrun.New{})
		ended := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := e.Wait(t.Context(), "", one.ID, 0)
				ended <- err
			}()
			time.Sleep(100 * time.Millisecond)
		}
		store.fail.Store(true)
		if err := <-ended; err == nil {
			t.Error("the one whose look failed waits no more, and has no error")
		}
		store.fail.Store(false)
		f.end(one)
		if err := <-ended; err != nil {
			t.Errorf("the other: %v", err)
		}
	})
}

// late is a store whose first read arrives when the test lets it.
type late struct {
	task.Store
	asked atomic.Bool
	come  chan struct{}
}

func (l *late) Get(ctx context.Context, id string) (*task.Task, error) {
	t, err := l.Store.Get(ctx, id)
	if !l.asked.Swap(true) {
		<-l.come
	}
	return t, err
}

// Two read a task, one before and one after a change. The first is told of the change, whichever read arrives first.
func TestAChangeBetweenTwoReadsIsSeen(t *testing.T) {
	for _, ordered := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f := &fixture{t, silent{new(task.MemoryStore)}}
			store := &late{Store: f.store, come: make(chan struct{})}
			e := newIdle(t, store, nil)
			one := f.create(e, &taskrun.New{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			first, second := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := e.Wait(ctx, "", one.ID, one.Version)
				first <- err
			}()
			synctest.Wait()
			if ordered {
				close(store.come)
				synctest.Wait()
			}
			f.end(one)
			go func() { second <- e.Follow(ctx, []*task.Task{one}, func(*task.Task) error { return nil }) }()
			synctest.Wait()
			if !ordered {
				close(store.come)
			}
			expect.Check(t, <-first)
			expect.Check(t, <-second)
		})
	}
}

// A task that is deleted while somebody waits for it ends the wait.
func TestADeletedTaskIsSeen(t *testing.T) {
	inBubble(t, func(t *testing.T, f *fixture) {
		e := newIdle(t, f.store, nil)
		one := f.create(e, &taskrun.New{Principal: "alice"})
		f.end(one)
		one = expect.Must(e.Get(t.Context(), "alice", one.ID))(t)
		ended := make(chan error)
		go func() {
			_, err := e.Wait(t.Context(), "alice", one.ID, one.Version)
			ended <- err
		}()
		time.Sleep(time.Second / 2)
		if n, err := f.store.Evict(t.Context(), "alice", 0, 1); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		expect.Is(t, "the error", <-ended, task.ErrNotFound)
	})
}

// A task that ends, or that is deleted, is waited for no longer, though its follower waits for others.
func TestAFollowerForgetsWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		e := newIdle(t, f.store, nil)
		var tasks []*task.Task
		for range 3 {
			tasks = append(tasks, f.create(e, &taskrun.New{Principal: "alice"}))
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = e.Follow(ctx, tasks, func(*task.Task) error { return nil }) }()
		waits := func(after string, want int) {
			t.Helper()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if n := e.Watched(); n != want {
				t.Errorf("after %s %d tasks are waited for, want %d", after, n, want)
			}
		}
		waits("the beginning", 3)
		f.end(tasks[0])
		waits("an end", 2)
		f.end(tasks[1])
		time.Sleep(2 * time.Millisecond) // before the next look
		if n, err := f.store.Evict(t.Context(), "alice", 0, 9); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		waits("an end and a deletion", 1)
		cancel()
		waits("the follower's end", 0)
	})
}

// On a store that reads no versions those who wait look at each task, and learn of a change, and of a deletion.
func TestWaitingWithoutVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(task.MemoryStore)
		e := newIdle(t, struct{ task.Store }{store}, nil)
		writer := newIdle(t, silent{store}, nil)
		changes := expect.Must(e.Create(t.Context(), new(taskrun.New)))(t)
		gone := expect.Must(e.Create(t.Context(), new(taskrun.New)))(t)
		changed, deleted := make(chan error), make(chan error)
		go func() {
			now, err := e.Wait(t.Context(), "", changes.ID, changes.Version)
			if err == nil && now.Status != task.Cancelled {
				err = errors.New("it is " + string(now.Status))
			}
			changed <- err
		}()
		synctest.Wait()
		expect.Must(writer.Cancel(t.Context(), "", changes.ID))(t)
		if err := <-changed; err != nil {
			t.Error(err)
		}
		now := expect.Must(writer.Cancel(t.Context(), "", gone.ID))(t)
		expect.Check(t, store.Update(t.Context(), now, task.Update{Due: -1}))
		go func() {
			_, err := e.Wait(t.Context(), "", gone.ID, now.Version)
			deleted <- err
		}()
		time.Sleep(10 * time.Second)
		if n := expect.Must(store.Evict(t.Context(), "", 0, 9))(t); n != 1 {
			t.Fatalf("%d tasks are deleted", n)
		}
		expect.Is(t, "the error", <-deleted, task.ErrNotFound)
	})
}

// failing is a store that may fail.
type failing struct {
	task.Store
	versions atomic.Pointer[error] // of the next Versions
	create   error
}

func (b *failing) Versions(ctx context.Context, ids []string) (map[string]int64, error) {
	if err := b.versions.Swap(nil); err != nil {
		return nil, *err
	}
	return b.Store.Versions(ctx, ids)
}

func (b *failing) Create(
	ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota,
) error {
	if b.create != nil {
		return b.create
	}
	return b.Store.Create(ctx, t, ttl, lease, call, entries, quota)
}

func TestWaitingOnAStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &failing{Store: new(task.MemoryStore)}
		e := newIdle(t, store, nil)
		created := expect.Must(e.Create(t.Context(), new(taskrun.New)))(t)
		ended := make(chan error)
		go func() {
			_, err := e.Wait(t.Context(), "", created.ID, created.Version)
			ended <- err
		}()
		synctest.Wait()
		failure := errors.New("the disk is full")
		store.versions.Store(&failure)
		expect.Is(t, "the error", <-ended, failure)
	})
}

// A store with a bound of its own may refuse a task where nothing can make room.
func TestAStoreThatIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := &task.QuotaError{Max: task.Quota{Kept: 1}}
		e := newIdle(t, &failing{Store: new(task.MemoryStore), create: full}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := e.Create(ctx, new(taskrun.New)); !errors.Is(err, task.ErrQuota) || ctx.Err() != nil {
			t.Errorf("the error is %v", err)
		}
	})
}
