package taskrun

import (
	"context"
	"errors"
	"fmt"

	"github.com/askback-mcp/askback/task"
)

// questionKey identifies a question.
type questionKey struct{ task, key string }

// expireQuestions decides the open questions whose deadline has passed.
func (e *Engine) expireQuestions(ctx context.Context) (n int, err error) {
	overdue, err := e.store.Overdue(ctx, sweepLimit+e.stuckQuestions.len())
	if err != nil {
		return 0, err
	}
	return forEach(&e.stuckQuestions, overdue, func(q *task.Question) questionKey { return questionKey{q.Task, q.Key} },
		func(q *task.Question) error { return e.expireQuestion(ctx, q) })
}

// expireQuestion decides a question. If it cannot be read, it is left to other processes.
func (e *Engine) expireQuestion(ctx context.Context, q *task.Question) error {
	err := e.opts.Expire(q)
	if err == nil {
		err = e.ChangeQuestion(ctx, q, true)
	}
	switch {
	case err == nil, errors.Is(err, task.ErrConflict), errors.Is(err, task.ErrClosed), errors.Is(err, task.ErrNotFound),
		errors.Is(err, task.ErrEarly): // somebody was quicker, or has extended it
		return nil
	}
	return fmt.Errorf("the deadline of a question of task %s for %q: %w", task.Name(q.Task), q.Target, err)
}
