package taskrun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/askback-mcp/askback/task"
)

// expiry ends what has waited for too long: tasks by their time to live, and questions by their deadline.
type expiry struct {
	store   safeStore
	opts    *Options
	changed func(name, principal string, due bool, asked ...*task.Question) // as Engine.changed
	decide  func(ctx context.Context, q *task.Question) error               // writes a decision that is an expiry

	stuckTasks     stuck[string]      // that could not be expired
	stuckQuestions stuck[questionKey] // that could not be decided by their deadline
}

// sweepLimit bounds the tasks of one sweep, so that none holds the store for long.
const sweepLimit = 100

// repeat calls do, with a pause when it has done less than it can do at once.
func repeat(
	ctx context.Context, log *slog.Logger, doing string, pause time.Duration, do func(context.Context) (int, error),
) {
	for ctx.Err() == nil {
		n, err := do(ctx)
		if err != nil && ctx.Err() == nil {
			log.ErrorContext(ctx, "task: "+doing+" failed; trying again", "error", err)
		}
		if n < sweepLimit {
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
		}
	}
}

// sweep fails tasks whose time to live has ended, and deletes those that ended it long ago.
func (x *expiry) sweep(ctx context.Context) (n int, err error) {
	ids, err := x.store.Expired(ctx, sweepLimit+x.stuckTasks.len())
	expired, failed := forEach(&x.stuckTasks, ids, func(id string) string { return id },
		func(id string) error { return x.expire(ctx, id) })
	purged, notPurged := x.store.Purge(ctx, x.opts.Grace, sweepLimit)
	return max(expired, purged), errors.Join(err, failed, notPurged)
}

// expire fails a task whose time to live has ended. A decision may just have prolonged it: then the store refuses.
func (x *expiry) expire(ctx context.Context, id string) error {
	for {
		t, err := x.store.Get(ctx, id)
		if errors.Is(err, task.ErrNotFound) || err == nil && t.Status.Terminal() {
			return nil
		}
		if err != nil {
			return err
		}
		ttl := t.Expires.Sub(t.Created)
		message := fmt.Sprintf("The task did not end within its time to live of %v.", ttl)
		if t.Status == task.InputRequired {
			message = fmt.Sprintf("The input did not come in time: the task's time to live of %v ended.", ttl)
		}
		u := Stop(t, task.Failed, message, x.opts.Failure(message))
		u.Expired = true
		switch err := x.store.Update(ctx, t, *u); {
		case err == nil:
			x.changed(task.Name(id), t.Principal, !u.Keep)
			return nil
		case errors.Is(err, task.ErrConflict):
		case errors.Is(err, task.ErrEarly), errors.Is(err, task.ErrNotFound):
			return nil
		default:
			return fmt.Errorf("task %s: %w", task.Name(id), err)
		}
	}
}

// questionKey identifies a question.
type questionKey struct{ task, key string }

// expireQuestions decides the open questions whose deadline has passed.
func (x *expiry) expireQuestions(ctx context.Context) (n int, err error) {
	overdue, err := x.store.Overdue(ctx, sweepLimit+x.stuckQuestions.len())
	if err != nil {
		return 0, err
	}
	return forEach(&x.stuckQuestions, overdue, func(q *task.Question) questionKey { return questionKey{q.Task, q.Key} },
		func(q *task.Question) error { return x.expireQuestion(ctx, q) })
}

// expireQuestion decides a question. If it cannot be read, it is left to other processes.
func (x *expiry) expireQuestion(ctx context.Context, q *task.Question) error {
	err := x.opts.Expire(q)
	if err == nil {
		err = x.decide(ctx, q)
	}
	switch {
	case err == nil, errors.Is(err, task.ErrConflict), errors.Is(err, task.ErrClosed), errors.Is(err, task.ErrNotFound),
		errors.Is(err, task.ErrEarly): // somebody was quicker, or has extended it
		return nil
	}
	return fmt.Errorf("the deadline of a question of task %s for %q: %w", task.Name(q.Task), q.Target, err)
}
