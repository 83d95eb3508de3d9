package taskrun

import (
	"context"
	"fmt"

	"github.com/askback-mcp/askback/task"
)

// ErrHeld is the [ErrElsewhere] of a single task: another process holds what its next run needs, such as an open
// connection. This process goes on to run the other tasks of its target.
var ErrHeld = fmt.Errorf("%w: another process holds what it needs", ErrElsewhere)

// Holder is for a handler that keeps something in this process for the next run of its task. It outlives the run, and
// is safe for concurrent use.
type Holder struct {
	engine        *Engine
	principal, id string
}

type holderKey struct{}

// HolderOf returns the Holder of the task whose [Handler] got ctx, or nil outside of tasks.
func HolderOf(ctx context.Context) *Holder {
	h, _ := ctx.Value(holderKey{}).(*Holder)
	return h
}

// Row reads the task.
func (h *Holder) Row(ctx context.Context) (*task.Task, error) {
	return h.engine.Get(ctx, h.principal, h.id)
}

// Wake makes the task run, here if a worker is free. Its questions stay open meanwhile. A task that is running is taken
// from its worker. The error is [task.ErrEnded] if the task has ended.
func (h *Holder) Wake(ctx context.Context) error {
	_, err := h.engine.Change(ctx, h.principal, h.id, func(t *task.Task) (*task.Update, error) {
		if t.Status.Terminal() {
			return nil, task.ErrEnded
		}
		t.Status, t.Attempts = task.Working, 0
		return new(task.Update), nil
	})
	return err
}
