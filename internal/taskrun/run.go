package taskrun

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/askback-mcp/askback/task"
)

// runner runs tasks that were claimed, and writes their outcomes. It is safe for concurrent use by several workers.
type runner struct {
	store         safeStore
	opts          *Options
	log           *slog.Logger
	subscriptions *subscriptions
	changed       func(name, principal string, due bool, asked ...*task.Question) // as Engine.changed
	holder        func(w *Work) *Holder

	elsewhere sync.Map // targets left to other processes, each logged once
	left      left
}

// work runs a claimed task and writes the outcome. First is not nil if the store has yet to get the task.
func (r *runner) work(ctx context.Context, c *task.Claimed, first *unstored, l *lease, all *leases) {
	if first != nil {
		defer first.abandon()
	}
	t := c.Task
	log := r.log.With("task", task.Name(t.ID), "target", t.Target)
	write := context.WithoutCancel(ctx) // the last write of a run is not interrupted
	if t.Status != task.Working && !t.Stopped {
		// The handler does not run: it would repeat open questions, or change an outcome that the client knows.
		log.WarnContext(ctx, "task: a task was due that has nothing to do; leaving it alone", "status", string(t.Status))
		t.Attempts = 0
		_ = r.settle(write, nil, t, task.Update{Leased: true, Due: -1}) // a conflict is an answer that came meanwhile
		return
	}
	if t.Attempts > r.opts.Attempts {
		r.log.ErrorContext(ctx, "task: giving up on a task", "task", task.Name(t.ID), "target", t.Target, "attempts",
			t.Attempts-1, "cleaning up", t.Stopped)
		r.giveUp(write, nil, t, fmt.Sprintf("it was begun %d times and came to nothing", t.Attempts-1))
		return
	}
	for {
		w := &Work{Task: t, Call: c.Call, Entries: c.Entries, Stopped: t.Stopped,
			unstored: first, store: r.store, lease: l, limit: r.opts.TaskBytes, progress: make(chan struct{}, 1)}
		c, first = new(task.Claimed), nil // a further attempt reads what this one records
		now := *t                         // the row, which keepAlive may change
		verdict, err := r.attempt(ctx, w, &now, l, all)
		t = &now
		if r.conclude(ctx, w, t, verdict, err, log) {
			return
		}
		current, err := r.read(write, t.ID)
		if err != nil || current.Claim != t.Claim {
			return // the lease ends by itself
		}
		if t = current; t.Stopped {
			continue
		}
		if t.Status == task.Working { // an answer or a decision came meanwhile: run it again
			t.Attempts = 0
			_ = r.settle(write, nil, t, task.Update{Leased: true, Due: 0})
		}
		return
	}
}

// conclude writes what an attempt came to. It reports whether the run is over: if not, the task was changed from
// outside during the attempt, or one of its questions was decided.
func (r *runner) conclude(
	ctx context.Context, w *Work, t *task.Task, verdict Verdict, err error, log *slog.Logger,
) (over bool) {
	write := context.WithoutCancel(ctx)
	u := task.Update{Leased: true, Due: -1}
	switch {
	case errors.Is(err, errAbandoned):
		r.opts.Logger.ErrorContext(ctx,
			"task: a handler does not return although its context is done; leaving it, and its task to another worker",
			"task", task.Name(t.ID), "target", t.Target, "after", r.opts.Lease)
		return true // the lease ends by itself
	case errors.Is(err, errNotAdded): // Create returns it to its caller
		return true
	case errors.Is(err, task.ErrLeaseLost):
		log.WarnContext(ctx, "task: the lease is lost; another worker goes on")
		return true
	case errors.Is(err, ErrStopped) && !w.Stopped:
		return false // once more, in this lease, to clean up
	case errors.Is(err, ErrTooLarge):
		log.ErrorContext(ctx, "task: a task holds too much; it fails", "limit in bytes", r.opts.TaskBytes)
		r.giveUp(write, w, t, fmt.Sprintf("its call, journal and result would have more than %d bytes", r.opts.TaskBytes))
		return true
	case errors.Is(err, ErrRefused):
		r.giveUp(write, w, t, ErrRefused.Error())
		return true
	case err == nil && w.Stopped:
		_ = r.settle(write, w, t, u)
		return true
	case err == nil:
		t.Status, t.Message, t.Pending, t.Outcome, t.Round = verdict.Status, verdict.Message, verdict.Pending,
			verdict.Outcome, verdict.Round
		t.Attempts = 0
		if t.Status == task.Working {
			u.Due = verdict.Wait
		}
		u.Ask, u.Entries, u.TTL = verdict.Ask, verdict.Entries, verdict.TTL
	case errors.Is(err, ErrShutdown):
		u.Due = 0
		if t.Attempts--; t.Attempts <= 0 { // the task has not failed
			t.Attempts = handedOver
		}
	case errors.Is(err, ErrElsewhere) && !w.Stopped:
		u.Due = r.left.due(t.ID, r.opts.Look)
		t.Attempts = max(handedOver, t.Attempts-1)
		if held, ok := errors.AsType[*heldError](err); ok {
			t.Message = held.message
		}
		if !errors.Is(err, ErrHeld) {
			r.leaveTarget(ctx, t.Target, err, log)
		}
	default:
		u.Due = min(time.Second<<min(t.Attempts, 10), time.Minute)
		log.ErrorContext(ctx, "task: an attempt failed; trying again later", "attempt", t.Attempts, "error", err)
	}
	err = r.settle(write, w, t, u)
	return !errors.Is(err, task.ErrConflict) && !errors.Is(err, task.ErrDecided)
}

// handedOver are the attempts of a task whose last run ended in order, but left the rest to another process. The next
// claim makes them 0, and so says that no run was lost.
const handedOver = -1

// leaveTarget notes that this process cannot run the tasks of a target.
func (r *runner) leaveTarget(ctx context.Context, target string, err error, log *slog.Logger) {
	if _, logged := r.elsewhere.LoadOrStore(target, true); !logged {
		log.WarnContext(ctx, "task: leaving tasks of this target to other processes", "error", err)
	}
}

// read is a Get that ends with the lease.
func (r *runner) read(ctx context.Context, id string) (*task.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Lease)
	defer cancel()
	return r.store.Get(ctx, id)
}

// settle writes the last update of a run, whose work w is nil if nothing was run.
func (r *runner) settle(ctx context.Context, w *Work, t *task.Task, u task.Update) error {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Lease)
	defer cancel()
	if w != nil && w.unstored.end() {
		err := w.unstored.settle(ctx, t, u)
		if err == nil {
			r.changed(task.Name(t.ID), t.Principal, u.Due == 0, u.Ask...)
		}
		return err
	}
	doubt := false // the write may have been made, although there was no answer
	err := r.store.persist(ctx, func() error {
		next := *t
		err := r.store.Update(ctx, &next, u)
		switch {
		case err == nil:
			*t = next
		case errors.Is(err, task.ErrConflict) && doubt:
			return r.reconcile(ctx, t)
		default:
			doubt = true
		}
		return err
	})
	switch {
	case err == nil:
		r.changed(task.Name(t.ID), t.Principal, u.Due == 0 && !u.Keep, u.Ask...)
	case errors.Is(err, task.ErrConflict), errors.Is(err, task.ErrDecided):
	case errors.Is(err, task.ErrLeaseLost):
		r.log.WarnContext(ctx, "task: the lease is lost; another worker goes on", "task", task.Name(t.ID))
	default:
		r.log.ErrorContext(ctx, "task: the outcome of a run was not stored; the task will run again", "task", task.Name(t.ID),
			"error", err)
	}
	return err
}

// reconcile explains a conflict to the worker that holds the lease and has tried before to write t, whose first attempt
// may itself be the cause. That attempt was made if what is stored is exactly what it would have written: others who
// change the task meanwhile end it, or take a question out of Pending. The error is nil if the write was made,
// [task.ErrConflict] if it was not or if more has changed, and [task.ErrLeaseLost] if another worker has the task.
func (r *runner) reconcile(ctx context.Context, t *task.Task) error {
	now, err := r.store.Get(ctx, t.ID)
	switch {
	case err != nil:
		return err
	case now.Claim != t.Claim:
		return task.ErrLeaseLost
	case now.Version == t.Version+1 && now.Status == t.Status && now.Stopped == t.Stopped && now.Round == t.Round &&
		now.Message == t.Message && now.Attempts == t.Attempts && bytes.Equal(now.Pending, t.Pending) &&
		bytes.Equal(now.Outcome, t.Outcome):
		return nil
	}
	return task.ErrConflict
}

// giveUp fails a task that has reached a bound, or ends its cleaning up.
func (r *runner) giveUp(ctx context.Context, w *Work, t *task.Task, reason string) {
	if t.Stopped {
		_ = r.settle(ctx, w, t, task.Update{Leased: true, Due: -1})
		return
	}
	message := "The task failed: " + reason + "."
	_ = Stop(t, task.Failed, message, r.opts.Failure(message))
	_ = r.settle(ctx, w, t, task.Update{Leased: true, Due: 0}) // to clean up
}

// attempt runs the handler once and keeps the lease alive meanwhile. Now is the task's row as
// this worker knows it. If the run was interrupted, the error is the cause, and not what the handler returned:
// [task.ErrLeaseLost], [ErrStopped] or [ErrShutdown].
//
// A handler that does not return within the length of a lease after its context is done is abandoned: nothing more is
// recorded for it.
func (r *runner) attempt(ctx context.Context, w *Work, now *task.Task, l *lease, all *leases) (Verdict, error) {
	run, interrupt := context.WithCancelCause(context.WithoutCancel(ctx))
	defer interrupt(nil)
	defer context.AfterFunc(ctx, func() { interrupt(ErrShutdown) })()
	leased, unbind := l.bound(run, interrupt)
	defer unbind()
	alive, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	// Before the handler runs, so that no change is missed that comes while it does.
	changed, done := r.subscriptions.subscribe(now.ID)
	defer done()
	var h *holding
	var heart sync.WaitGroup
	keep := func() {
		h = all.hold(now, l)
		heart.Go(func() { r.keepAlive(alive, w, now, changed, h, interrupt) })
	}
	if first := w.unstored; first == nil {
		keep()
	} else {
		first.failed = interrupt
		first.began = func(t *task.Task, sent time.Time) {
			*now = *t
			l.renewed(sent)
			keep()
		}
		defer time.AfterFunc(min(firstLeg, l.length/10), func() { _ = first.exist(alive) }).Stop()
	}
	verdict, err := r.handleOrAbandon(leased, w)
	w.unstored.end()
	stop()
	heart.Wait()
	if h != nil {
		all.leave(h)
	}
	w.mu.Lock() // goroutines that the handler left running may try to record
	w.over = true
	recorded := w.recorded
	w.mu.Unlock()
	if errors.Is(err, errAbandoned) {
		return Verdict{}, err
	}
	if w.inDoubt {
		r.learn(context.WithoutCancel(ctx), w, now)
	}
	if recorded {
		now.Attempts = 0
	}
	if leased.Err() != nil {
		return Verdict{}, context.Cause(run)
	}
	size := len(verdict.Pending) + len(verdict.Outcome) + int(sizeOf(verdict.Entries))
	for _, q := range verdict.Ask {
		size += len(q.Content)
	}
	if w.grow(size) != nil {
		return Verdict{}, ErrTooLarge
	}
	return verdict, err
}

// errAbandoned is the error of an attempt whose handler does not return.
var errAbandoned = errors.New("the handler does not return")

// handleOrAbandon runs the handler until it returns, or until it has ignored for too long that its context is done.
func (r *runner) handleOrAbandon(ctx context.Context, w *Work) (Verdict, error) {
	type result struct {
		verdict Verdict
		err     error
	}
	returned := make(chan result, 1)
	go func() {
		res := result{err: errGoexit} // the handler may end its goroutine
		defer func() { returned <- res }()
		res.verdict, res.err = r.handle(ctx, w)
	}()
	select {
	case res := <-returned:
		return res.verdict, res.err
	case <-ctx.Done():
	}
	select {
	case res := <-returned:
		return res.verdict, res.err
	case <-time.After(r.opts.Lease):
		return Verdict{}, errAbandoned
	}
}

// learn finds out whether the message whose answer was lost has been written. It must come before the next write.
func (r *runner) learn(ctx context.Context, w *Work, now *task.Task) {
	ctx, cancel := context.WithTimeout(ctx, r.opts.Lease)
	defer cancel()
	_ = r.store.persist(ctx, func() error { // if it fails, the next write is a conflict
		stored, err := r.store.Get(ctx, now.ID)
		if err == nil {
			w.adopt(now, stored)
		}
		return err
	})
}

// errGoexit is the error of a handler that called runtime.Goexit, as the FailNow of a test does.
var errGoexit = errors.New("the handler ended its goroutine instead of returning")

func (r *runner) handle(ctx context.Context, w *Work) (v Verdict, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the handler panicked: %v\n%s", p, debug.Stack())
		}
	}()
	if w.Call == nil { // the claim did not bring the journal
		reading, cancel := context.WithTimeout(ctx, r.opts.Lease)
		defer cancel()
		if w.Call, w.Entries, err = r.store.Journal(reading, w.Task.ID, -1); err != nil {
			return v, fmt.Errorf("reading the journal: %w", err)
		}
	}
	w.there = len(w.Entries)
	if err := w.grow(len(w.Call) + int(sizeOf(w.Entries))); err != nil {
		return v, err
	}
	if ctx.Err() != nil {
		return v, ctx.Err()
	}
	return r.opts.Handler(context.WithValue(ctx, holderKey{}, r.holder(w)), w)
}

// reportEvery bounds how often the messages of one task are written.
const reportEvery = 200 * time.Millisecond

// keepAlive writes reported messages, and interrupts the run when the lease is lost or the task was ended from outside.
func (r *runner) keepAlive(
	ctx context.Context, w *Work, now *task.Task, changed <-chan struct{}, h *holding, interrupt context.CancelCauseFunc,
) {
	var reported time.Time
	progress := w.progress
	var resume <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-resume:
			progress, resume = w.progress, nil
			continue
		case <-progress:
			if wait := reportEvery - time.Since(reported); wait > 0 {
				signal(w.progress)
				progress, resume = nil, time.After(wait)
				continue
			}
			reported = time.Now()
			if err := r.report(ctx, w, now, h.lease); err == nil {
				r.subscriptions.notify(task.Name(now.ID), changed)
				continue
			}
		case <-changed:
		case renewal := <-h.renewed:
			if errors.Is(renewal.Err, task.ErrLeaseLost) || errors.Is(renewal.Err, task.ErrNotFound) {
				interrupt(task.ErrLeaseLost)
				return
			}
			if renewal.Err != nil || renewal.Version == now.Version || w.Stopped {
				continue
			}
		}
		if ctx.Err() != nil { // it may have ended the report, too
			return
		}
		t, err := r.read(ctx, now.ID)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, task.ErrNotFound), err == nil && t.Claim != now.Claim:
			interrupt(task.ErrLeaseLost)
			return
		case err != nil: // the next renewal tells
		case t.Stopped && !w.Stopped:
			interrupt(ErrStopped)
		default:
			w.adopt(now, t)
		}
	}
}

// report writes the last message that the handler reported.
func (r *runner) report(ctx context.Context, w *Work, now *task.Task, l *lease) error {
	ctx, cancel := context.WithTimeout(ctx, l.left())
	defer cancel()
	sent := time.Now()
	w.mu.Lock()
	message, recorded := w.message, w.recorded
	w.mu.Unlock()
	if w.Stopped || message == now.Message {
		return nil
	}
	next := *now
	next.Message = message
	if recorded {
		next.Attempts = 0
	}
	err := r.store.Update(ctx, &next, task.Update{Leased: true, Keep: true})
	switch {
	case err == nil:
		*now = next
		l.written(sent)
	case !refused(err):
		w.unanswered, w.inDoubt = message, true
	}
	return err
}
