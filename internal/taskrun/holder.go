package taskrun

import (
	"context"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/task"
)

// ErrHeld is the [ErrElsewhere] of a single task: another process holds what its next run needs, such as an open
// connection. This process goes on to run the other tasks of its target.
var ErrHeld = fmt.Errorf("%w: another process holds what it needs", ErrElsewhere)

// Held returns an [ErrHeld] with what the task waits for, in words. They become the task's message.
func Held(message string) error { return &heldError{message} }

type heldError struct{ message string }

func (e *heldError) Error() string { return e.message }
func (e *heldError) Unwrap() error { return ErrHeld }

// Holder is for a handler that keeps something in this process for the next run of its task. It outlives the run, and
// is safe for concurrent use.
type Holder struct {
	engine        *Engine
	work          *Work
	principal, id string
	entries       [][]byte
	stopped       bool
}

type holderKey struct{}

// HolderOf returns the Holder of the task whose [Handler] got ctx, or nil outside of tasks.
func HolderOf(ctx context.Context) *Holder {
	h, _ := ctx.Value(holderKey{}).(*Holder)
	return h
}

// Name is the task's name for its caller, or empty if the caller is anonymous.
func (h *Holder) Name() string {
	if h.principal == "" {
		return ""
	}
	return task.Name(h.id)
}

// Entries are the journal's when the run began. They must not be changed.
func (h *Holder) Entries() [][]byte { return h.entries }

// Stopped reports whether the task has been ended from outside, and the run cleans up.
func (h *Holder) Stopped() bool { return h.stopped }

// Questions reads the questions of the task: see [task.Store].
func (h *Holder) Questions(ctx context.Context) ([]*task.Question, error) {
	if err := h.work.Exist(ctx); err != nil {
		return nil, err
	}
	return h.engine.Questions(ctx, task.Name(h.id))
}

// Now reads the clock of the store.
func (h *Holder) Now(ctx context.Context) (time.Time, error) { return h.engine.Now(ctx) }

// Row reads the task.
func (h *Holder) Row(ctx context.Context) (*task.Task, error) {
	if err := h.work.Exist(ctx); err != nil {
		return nil, err
	}
	return h.engine.Get(ctx, h.principal, h.id)
}

// Wake makes the task run, here if a worker is free. Its questions stay open meanwhile. A task that is running is taken
// from its worker. The error is [task.ErrEnded] if the task has ended.
func (h *Holder) Wake(ctx context.Context) error {
	if err := h.work.Exist(ctx); err != nil {
		return err
	}
	_, err := h.engine.Change(ctx, h.principal, h.id, func(t *task.Task) (*task.Update, error) {
		if t.Status.Terminal() {
			return nil, task.ErrEnded
		}
		t.Status, t.Attempts = task.Working, 0
		return new(task.Update), nil
	})
	return err
}
