package taskrun

import (
	"context"
	"errors"

	"github.com/askback-mcp/askback/task"
)

// Wait returns a task of a principal as soon as its Version is not the given one. A
// negative version returns it at once.
func (e *Engine) Wait(ctx context.Context, principal, id string, version int64) (*task.Task, error) {
	sub := e.subscriptions.follow(id)
	defer e.subscriptions.remove(sub)
	for {
		t, err := e.Get(ctx, principal, id)
		if err != nil || t.Version != version {
			return t, err
		}
		e.subscriptions.seen(t)
		if _, err := e.subscriptions.next(ctx, sub); err != nil {
			return nil, err
		}
	}
}

// Follow calls report with each of the tasks, now and whenever its Version has changed. It
// returns when all have ended or were deleted, when ctx is done, or with the error of report.
// It may miss a status that lasts for a moment only.
func (e *Engine) Follow(ctx context.Context, tasks []*task.Task, report func(*task.Task) error) error {
	type following struct {
		principal string
		version   int64 // as reported
	}
	left := make(map[string]*following)
	var ids []string
	for _, t := range tasks {
		left[t.ID] = &following{t.Principal, -1}
		ids = append(ids, t.ID)
	}
	sub := e.subscriptions.follow(ids...)
	defer e.subscriptions.remove(sub)
	for changed := ids; ; {
		for _, id := range changed {
			f := left[id]
			if f == nil {
				continue
			}
			now, err := e.Get(ctx, f.principal, id)
			switch {
			case errors.Is(err, task.ErrNotFound):
				delete(left, id)
				e.subscriptions.remove(sub, id)
				continue
			case err != nil:
				return err
			}
			e.subscriptions.seen(now)
			if now.Version == f.version {
				continue
			}
			if err := report(now); err != nil {
				return err
			}
			if f.version = now.Version; now.Status.Terminal() {
				delete(left, id)
				e.subscriptions.remove(sub, id)
			}
		}
		if len(left) == 0 {
			return nil
		}
		var err error
		if changed, err = e.subscriptions.next(ctx, sub); err != nil {
			return err
		}
	}
}
