package taskrun

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/askback-mcp/askback/task"
)

const (
	// notifyAtOnce bounds the notices that one process delivers at the same time.
	notifyAtOnce = 16
	// deliveryTimeout is how long one delivery may take. A notice is leased for longer.
	deliveryTimeout = 30 * time.Second
	noticeLease     = 2 * deliveryTimeout
	// deliverWithin is how long the delivery of a notice is tried.
	deliverWithin = 3 * 24 * time.Hour
	// longestRetry is the longest pause between two attempts.
	longestRetry = time.Hour
	// listenFor is how long the store leaves notices after the last process that delivers them was heard of.
	listenFor = 24 * time.Hour
)

// errNotTaken says that a consumer did not return although the time for a delivery had passed.
var errNotTaken = errors.New("the consumer did not return in time")

// notify delivers the notices of the store until ctx is done. Each delivery has a place of its own, so that one which
// takes long leaves the other places to other notices.
func (e *Engine) notify(ctx context.Context, outbox task.Outbox) {
	var listened time.Time
	var deliveries sync.WaitGroup
	defer deliveries.Wait()
	places := make(chan struct{}, notifyAtOnce)
	e.repeat(ctx, "delivering notices", e.opts.Look, func(ctx context.Context) (int, error) {
		if time.Since(listened) > listenFor/100 {
			if err := e.store.listen(ctx, outbox, listenFor); err != nil {
				return 0, err
			}
			listened = time.Now()
		}
		for {
			select {
			case places <- struct{}{}: // there is one
				<-places
			case <-ctx.Done():
				return 0, nil
			}
			notices, err := e.store.notices(ctx, outbox, noticeLease, cap(places)-len(places))
			if err != nil || len(notices) == 0 {
				return 0, err
			}
			for _, n := range notices {
				places <- struct{}{} // nobody else takes places
				deliveries.Go(func() {
					defer func() { <-places }()
					e.deliver(ctx, outbox, n)
				})
			}
		}
	})
}

// take calls the consumer, and leaves it alone if it does not return although its time has passed.
func (e *Engine) take(ctx context.Context, n *task.Notice) error {
	taken := make(chan error, 1)
	go func() { taken <- e.opts.Notify(ctx, n) }()
	select {
	case err := <-taken:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-taken:
		return err
	case <-time.After(time.Second): // a consumer that looks at its context returns now
		return errNotTaken
	}
}

// deliver delivers a notice, or makes it due again. It gives up, and says so, when that has been tried for days.
func (e *Engine) deliver(ctx context.Context, outbox task.Outbox, n *task.Notice) {
	delivering, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	began, outcome := time.Now(), noticeDelivered
	err := e.take(delivering, n)
	var retry time.Duration
	if err != nil {
		retry = min(time.Second<<min(n.Attempts-1, 20), longestRetry)
		log := e.log.With("task", task.Name(n.Question.Task), "target", n.Question.Target, "notice", string(n.Kind),
			"attempt", n.Attempts, "error", err)
		switch {
		case ctx.Err() != nil:
			retry, outcome = time.Millisecond, noticeLeft
		case time.Since(n.Written) > deliverWithin:
			retry, outcome = 0, noticeGivenUp
			log.ErrorContext(ctx, "task: giving up on a notice that nobody has taken for days")
		default:
			outcome = noticeFailed
			log.WarnContext(ctx, "task: a notice was not delivered; trying again", "in", retry)
		}
	}
	if e.opts.Delivered != nil {
		e.opts.Delivered(ctx, n, began, outcome)
	}
	if err := e.store.settleNotice(context.WithoutCancel(ctx), outbox, n, retry); err != nil {
		e.log.WarnContext(ctx, "task: a notice may be delivered again: the store did not take note", "error", err)
	}
}
