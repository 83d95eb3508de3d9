package law

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/task"
)

// stores tells the instances on one store of changes, as a database does.
type stores struct {
	mu      sync.Mutex
	changed []func(name string, due bool)
}

func (s *stores) tell(name string, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, changed := range s.changed {
		changed(name, due)
	}
}

// faulty is the store as one instance has it: calls are lost, before or after they have an effect, and from a moment on
// all of them, as if the process were killed. Without a law it loses none.
type faulty struct {
	task.Store
	*stores
	law   *law
	loss  bool
	dies  atomic.Int64 // after so many calls; negative is never
	dead  chan struct{}
	death sync.Once
}

func newFaulty(l *law, s *stores, loss bool) *faulty {
	f := &faulty{Store: l.Store, stores: s, law: l, loss: loss, dead: make(chan struct{})}
	f.dies.Store(-1)
	return f
}

var errLost = errors.New("the connection broke")

// do makes a call, unless it is lost.
func (f *faulty) do(ctx context.Context, call func(context.Context) error) error {
	if !f.loss {
		return call(ctx)
	}
	dies := f.dies.Load() >= 0 && f.dies.Add(-1) < 0
	after := f.law.chance(0.5)
	if dies {
		f.death.Do(func() { close(f.dead) })
	}
	select {
	case <-f.dead:
		if dies && after {
			_ = call(context.WithoutCancel(ctx))
		}
		return errLost
	default:
	}
	lost := f.law.chance(f.law.Loss)
	if lost && !after {
		return errLost
	}
	err := call(ctx)
	if lost && err == nil {
		return errLost
	}
	return err
}

func (f *faulty) Watch(ctx context.Context, ready func(), changed func(name string, due bool)) error {
	f.mu.Lock()
	f.changed = append(f.changed, changed)
	f.mu.Unlock()
	ready()
	<-ctx.Done()
	return nil
}

func (f *faulty) Create(
	ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota,
) error {
	err := f.Store.Create(ctx, t, ttl, lease, call, entries, quota)
	f.tell(task.Name(t.ID), err == nil && lease == 0)
	return err
}

func (f *faulty) Get(ctx context.Context, id string) (t *task.Task, err error) {
	err = f.do(ctx, func(ctx context.Context) error { t, err = f.Store.Get(ctx, id); return err })
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (f *faulty) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) (claimed []*task.Claimed, err error) {
	err = f.do(ctx, func(ctx context.Context) error {
		claimed, err = f.Store.Claim(ctx, after, load, lease, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	return claimed, nil
}

func (f *faulty) Journal(ctx context.Context, id string, most int) (call []byte, entries [][]byte, err error) {
	err = f.do(ctx, func(ctx context.Context) error { call, entries, err = f.Store.Journal(ctx, id, most); return err })
	if err != nil {
		return nil, nil, err
	}
	return call, entries, nil
}

func (f *faulty) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	f.between(ctx, id)
	return f.do(ctx, func(ctx context.Context) error { return f.Store.Append(ctx, id, claim, there, entry) })
}

func (f *faulty) Renew(
	ctx context.Context, leases []task.Leased, lease time.Duration,
) (renewed []task.Renewed, err error) {
	err = f.do(ctx, func(ctx context.Context) error { renewed, err = f.Store.Renew(ctx, leases, lease); return err })
	if err != nil {
		return nil, err
	}
	return renewed, nil
}

func (f *faulty) Update(ctx context.Context, t *task.Task, u task.Update) error {
	if u.Ask != nil {
		f.between(ctx, t.ID)
		defer f.between(ctx, t.ID)
	}
	next := *t
	err := f.do(ctx, func(ctx context.Context) error { return f.Store.Update(ctx, &next, u) })
	if err == nil {
		*t = next
	}
	f.tell(task.Name(t.ID), u.Lease <= 0 && !u.Keep && u.Due == 0)
	return err
}

func (f *faulty) Questions(ctx context.Context, name string) (questions []*task.Question, err error) {
	err = f.do(ctx, func(ctx context.Context) error { questions, err = f.Store.Questions(ctx, name); return err })
	if err != nil {
		return nil, err
	}
	return questions, nil
}

func (f *faulty) Overdue(ctx context.Context, limit int) (questions []*task.Question, err error) {
	err = f.do(ctx, func(ctx context.Context) error { questions, err = f.Store.Overdue(ctx, limit); return err })
	if err != nil {
		return nil, err
	}
	return questions, nil
}

func (f *faulty) ChangeQuestion(ctx context.Context, q *task.Question, expired bool) error {
	next := *q
	if f.loss {
		f.law.pause(ctx, 0.1)
	}
	err := f.do(ctx, func(ctx context.Context) error { return f.Store.ChangeQuestion(ctx, &next, expired) })
	if err == nil {
		*q = next
	}
	f.tell(task.Name(q.Task), len(next.Decision) > 0)
	return err
}

// between is what happens around a write of a worker: time passes, and perhaps the lease of the task is lost.
func (f *faulty) between(ctx context.Context, id string) {
	if !f.loss {
		return
	}
	f.law.pause(ctx, 0.02)
	if !f.law.chance(f.law.Thefts) {
		return
	}
	t, err := f.Store.Get(ctx, id)
	if err != nil || t.Status != task.Working || t.Stopped {
		return
	}
	f.law.mu.Lock()
	f.law.lost++ // before, because the task may end at once
	f.law.mu.Unlock()
	err = f.Store.Update(ctx, t, task.Update{})
	f.tell(task.Name(id), err == nil)
	f.law.pause(ctx, 0.05)
}
