package taskrun

import (
	"context"
	"time"

	"github.com/askback-mcp/askback/task"
)

// UnderLease returns a context under a lease that was taken at the given time, for tests.
func UnderLease(ctx context.Context, length time.Duration, sent time.Time) (leased context.Context, done func()) {
	ctx, interrupt := context.WithCancelCause(ctx)
	return newLease(length, sent).bound(ctx, interrupt)
}

// Settle writes the last update of a run, for tests.
func (e *Engine) Settle(ctx context.Context, t *task.Task, u task.Update) error {
	return e.runner.settle(ctx, nil, t, u)
}

// Watched returns the number of tasks that callers wait for, for tests.
func (e *Engine) Watched() int {
	e.subscriptions.mu.Lock()
	defer e.subscriptions.mu.Unlock()
	return len(e.subscriptions.waiting)
}
