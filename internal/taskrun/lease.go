package taskrun

import (
	"context"
	"sync"
	"time"

	"github.com/askback-mcp/askback/task"
)

// lease follows a worker's lease on a task by the clocks of this machine.
type lease struct {
	length time.Duration

	mu    sync.Mutex
	taken time.Time // before it was claimed or last renewed: it lasts from a little later
	timer *time.Timer
}

// newLease returns the lease of a claim that was sent to the store at the given time.
func newLease(length time.Duration, sent time.Time) *lease {
	return &lease{length: length, taken: sent}
}

// safe is how long after it was taken the lease is certainly held, with a margin for what is under way at its end.
func (l *lease) safe() time.Duration { return l.length - l.length/10 }

// left is the time for which the lease is certainly held. The monotonic clock may stand still while the machine is
// suspended, and the wall clock may be set back: what counts is the one that says more.
func (l *lease) left() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	return l.safe() - max(now.Sub(l.taken), now.Sub(l.taken.Round(0))) // without its monotonic reading, by the wall clock
}

// renewed notes a renewal that was sent to the store at the given time.
func (l *lease) renewed(sent time.Time) {
	l.mu.Lock()
	later := sent.After(l.taken)
	if later {
		l.taken = sent
	}
	timer := l.timer
	l.mu.Unlock()
	if later && timer != nil {
		timer.Reset(l.left())
	}
}

// written notes a write under the lease that was sent to the store at the given time. It leaves two thirds of the
// lease.
func (l *lease) written(sent time.Time) { l.renewed(sent.Add(-l.length / 3)) }

// bound returns a context that ends with the lease, by interrupt.
func (l *lease) bound(ctx context.Context, interrupt context.CancelCauseFunc) (_ context.Context, done func()) {
	c := leased{ctx, l, interrupt}
	timer := time.AfterFunc(l.left(), c.check)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timer = timer
	return c, func() { timer.Stop() }
}

// leased is the context of a run. When a process goes on after it was stopped, or a machine after it was suspended, a
// goroutine may run before the timers do. So Err looks at the clocks.
type leased struct {
	context.Context
	lease     *lease
	interrupt context.CancelCauseFunc
}

func (c leased) Err() error {
	c.check()
	return c.Context.Err()
}

// check ends the context if the lease may have ended.
func (c leased) check() {
	if c.lease.left() <= 0 {
		c.interrupt(task.ErrLeaseLost)
	}
}
