package taskrun

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/askback-mcp/askback/task"
)

const (
	// notifyAtOnce bounds the notices that one process delivers at the same time. One principal has half of them.
	notifyAtOnce = 32
	// deliveryTimeout is how long one delivery may take. A notice is leased for longer.
	deliveryTimeout = 30 * time.Second
	noticeLease     = 2 * deliveryTimeout
	// deliverWithin is how long the delivery of a notice is tried.
	deliverWithin = 3 * 24 * time.Hour
	// longestRetry is the longest pause between two attempts.
	longestRetry = time.Hour
	// listenFor is how long the store leaves notices after the last process that delivers them was heard of.
	listenFor = 24 * time.Hour
	// keepNotices is how long the store keeps a notice at most: those that deliver have had the time to give it up.
	keepNotices = deliverWithin + listenFor
	// refusedEvery is how often a process looks for notices that the store has refused.
	refusedEvery = 10 * time.Second
)

// errNotTaken says that a consumer did not return although the time for a delivery had passed.
var errNotTaken = errors.New("the consumer did not return in time")

// deliveries are those of one process that are under way. Each has a place of its own. As with workers, a principal
// gets another place only while it has fewer than are free, so that the notices of one that take long leave places to
// the others.
type deliveries struct {
	all   sync.WaitGroup
	freed chan struct{} // receives after a place has become free

	mu  sync.Mutex
	of  map[string]int // by principal
	sum int
}

// free returns how many places are free, and what the others deliver.
func (d *deliveries) free() (n int, delivering map[string]int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return notifyAtOnce - d.sum, maps.Clone(d.of)
}

func (d *deliveries) add(principal string, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sum += n
	if d.of[principal] += n; d.of[principal] == 0 {
		delete(d.of, principal)
	}
}

// outbox delivers the notices of a store, or gives them up.
type outbox struct {
	store safeStore
	opts  *Options
	log   *slog.Logger

	listened, looked time.Time // when listen and lookForRefused last did their work
}

// run delivers notices until ctx is done.
func (o *outbox) run(ctx context.Context) {
	d := &deliveries{freed: make(chan struct{}, 1), of: make(map[string]int)}
	defer d.all.Wait()
	var last string // the principal that was served last
	for ctx.Err() == nil {
		err := o.listen(ctx)
		if err == nil {
			err = o.lookForRefused(ctx)
		}
		free, delivering := d.free()
		var notices []*task.Notice
		if err == nil && free > 0 {
			notices, err = o.store.Notices(ctx,
				task.NoticeClaim{After: last, Delivering: delivering, Free: free, Lease: noticeLease})
		}
		for _, n := range notices {
			last = n.Question.Principal
			d.add(n.Question.Principal, 1)
			d.all.Go(func() {
				o.deliver(ctx, n)
				d.add(n.Question.Principal, -1)
				signal(d.freed)
			})
		}
		freed := d.freed
		if err != nil {
			if ctx.Err() == nil {
				o.log.ErrorContext(ctx, "task: delivering notices failed; trying again", "error", err)
			}
			freed = nil
		}
		if len(notices) > 0 {
			continue
		}
		select {
		case <-freed: // somebody may have had its share
		case <-time.After(o.opts.Look):
		case <-ctx.Done():
		}
	}
}

// listen tells the store now and then that somebody listens.
func (o *outbox) listen(ctx context.Context) error {
	if time.Since(o.listened) <= listenFor/100 {
		return nil
	}
	err := o.store.Listen(ctx, listenFor, o.opts.PerPrincipal.Notices, o.opts.Anonymous.Notices)
	if err == nil {
		o.listened = time.Now()
	}
	return err
}

// lookForRefused tells the operator now and then what the store has refused.
func (o *outbox) lookForRefused(ctx context.Context) error {
	if time.Since(o.looked) < refusedEvery {
		return nil
	}
	o.looked = time.Now()
	for {
		refused, err := o.store.Refused(ctx, sweepLimit)
		if err != nil || len(refused) == 0 {
			return err
		}
		first, count := make(map[string]*task.Notice), make(map[string]int)
		for _, n := range refused {
			if count[n.Question.Principal]++; count[n.Question.Principal] == 1 {
				first[n.Question.Principal] = n
			}
			o.delivered(ctx, n, time.Now(), noticeRefused)
		}
		for principal, n := range first {
			o.opts.Logger.ErrorContext(ctx, "task: notices were not kept: as many of this caller as may be wait already; "+
				"nobody is told, but the questions are at the desk", "principal", principal, "notices", count[principal],
				"task", task.Name(n.Question.Task), "target", n.Question.Target)
		}
	}
}

// forsake gives up the notices that nobody has delivered, or given up, in time: as when no process does so any more.
func (o *outbox) forsake(ctx context.Context) (n int, err error) {
	for {
		notices, err := o.store.Notices(ctx,
			task.NoticeClaim{Free: sweepLimit, Lease: noticeLease, Age: keepNotices})
		if err != nil || len(notices) == 0 {
			return 0, err
		}
		for _, n := range notices {
			o.abandon(ctx, n, "error", "nobody delivers notices, or not for days")
			o.delivered(ctx, n, time.Now(), noticeGivenUp)
			if err := o.store.Settle(ctx, n, 0); err != nil {
				return 0, err
			}
		}
	}
}

// abandon says that a notice is given up. No line of the log stands for several.
func (o *outbox) abandon(ctx context.Context, n *task.Notice, args ...any) {
	o.opts.Logger.With(noticeArgs(n)...).ErrorContext(ctx,
		"task: giving up on a notice that nobody has taken for days", args...)
}

func noticeArgs(n *task.Notice) []any {
	return []any{slog.String("task", task.Name(n.Question.Task)), slog.String("target", n.Question.Target),
		slog.String("notice", string(n.Kind)), slog.Int("attempt", n.Attempts)}
}

func (o *outbox) delivered(ctx context.Context, n *task.Notice, began time.Time, outcome string) {
	if o.opts.Delivered != nil {
		o.opts.Delivered(ctx, n, began, outcome)
	}
}

// take calls the consumer, and leaves it alone if it does not return although its time has passed.
func (o *outbox) take(ctx context.Context, n *task.Notice) error {
	taken := make(chan error, 1)
	go func() { taken <- o.opts.Notify(ctx, n) }()
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
func (o *outbox) deliver(ctx context.Context, n *task.Notice) {
	delivering, cancel := context.WithTimeout(ctx, deliveryTimeout)
	defer cancel()
	began, outcome := time.Now(), noticeDelivered
	err := o.take(delivering, n)
	var retry time.Duration
	if err != nil {
		retry = min(time.Second<<min(n.Attempts-1, 20), longestRetry)
		switch {
		case ctx.Err() != nil:
			retry, outcome = time.Millisecond, noticeLeft
		case n.Age > deliverWithin:
			retry, outcome = 0, noticeGivenUp
			o.abandon(ctx, n, "error", err)
		default:
			outcome = noticeFailed
			o.log.With(noticeArgs(n)...).WarnContext(ctx, "task: a notice was not delivered; trying again",
				"error", err, "in", retry)
		}
	}
	o.delivered(ctx, n, began, outcome)
	if err := o.store.Settle(context.WithoutCancel(ctx), n, retry); err != nil {
		o.log.WarnContext(ctx, "task: a notice may be delivered again: the store did not take note", "error", err)
	}
}
