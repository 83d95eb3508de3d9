package taskrun

import (
	"context"
	"errors"
	"sync"

	"github.com/askback-mcp/askback/task"
)

// expireAtOnce bounds the questions that one process expires at the same time.
const expireAtOnce = 8

// expireQuestions decides the open questions whose deadline has passed.
func (e *Engine) expireQuestions(ctx context.Context) (n int, err error) {
	overdue, err := e.store.Overdue(ctx, sweepLimit)
	if err != nil {
		return 0, err
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	room := make(chan struct{}, expireAtOnce)
	for _, q := range overdue {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			done, failed := e.expireQuestion(ctx, q)
			mu.Lock()
			defer mu.Unlock()
			n += done
			err = errors.Join(err, failed)
		})
	}
	all.Wait()
	return n, err
}

// expireQuestion decides a question, and returns 1. If a question of a newer release cannot be decided, it is left to
// that, and does not count as done.
func (e *Engine) expireQuestion(ctx context.Context, q *task.Question) (int, error) {
	if err := e.opts.Expire(q); err != nil {
		e.log.ErrorContext(ctx, "task: a question whose deadline has passed cannot be read; leaving it to other processes",
			"task", task.Name(q.Task), "target", q.Target, "error", err)
		return 0, nil
	}
	switch err := e.ChangeQuestion(ctx, q, true); {
	case err == nil, errors.Is(err, task.ErrConflict), errors.Is(err, task.ErrClosed), errors.Is(err, task.ErrNotFound),
		errors.Is(err, task.ErrEarly): // somebody was quicker, or has extended it
		return 1, nil
	default:
		return 0, err
	}
}
