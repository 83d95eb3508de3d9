package task

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/internal/throttle"
)

// Causes of the context that a [Handler] gets, when it is done.
var (
	// ErrStopped says that the task was cancelled, or that its time to live ended.
	ErrStopped = errors.New("the task was ended from outside")
	// ErrShutdown says that this process stops running tasks; another goes on.
	ErrShutdown = errors.New("this process stops running tasks")
)

// ErrElsewhere is the error of a [Handler] for a task that this process cannot run, but
// another may. This engine leaves the task alone for a moment, and the attempt does not count.
var ErrElsewhere = errors.New("this process cannot run the task")

// Engine keeps tasks in a [Store] and runs them. It is safe for concurrent use.
type Engine struct {
	store safeStore
	opts  Options
	log   *slog.Logger  // throttled: while the store fails there is much to say
	wake  chan struct{} // something may be due

	workers atomic.Pointer[workers] // while Run runs, or nil

	unknown sync.Map // targets left to other processes, each logged once

	watched // tasks that somebody in this process waits for
}

// NewEngine returns an engine on a store.
func NewEngine(store Store, opts *Options) (*Engine, error) {
	e := &Engine{wake: make(chan struct{}, 1)}
	e.waiting = make(map[string]*watchedTask)
	if opts != nil {
		e.opts = *opts
	}
	if err := e.opts.setDefaults(); err != nil {
		return nil, err
	}
	e.store = safeStore{store, e.opts.StoreTimeout}
	e.log = throttle.New(e.opts.Logger)
	return e, nil
}

// Settings returns the engine's settings, with the default for each that was zero.
func (e *Engine) Settings() Settings { return e.opts.Settings }

// New is a task to be created.
type New struct {
	// ID makes creating a task repeatable: a second Create with it returns the existing
	// task. It must be as hard to guess as 128 random bits. Empty means a random one.
	ID string

	Principal, Method, Target, Dialect string

	Message      string
	TTL          time.Duration // zero or less means the engine's; it is cut to MaxTTL or MaxAnonymousTTL
	PollInterval time.Duration // zero means the engine's
	Round        int           // how often the call has asked before it became a task
	Call         []byte        // what the handler needs to begin
	Entries      [][]byte      // what is recorded already
}

// Create adds a task that is due at once. It is durable when Create returns. The error
// is a [*QuotaError] if the principal has as much in the store as it may.
func (e *Engine) Create(ctx context.Context, n *New) (*Task, error) {
	ttl := n.TTL
	if ttl <= 0 {
		ttl = e.opts.TTL
	}
	t := &Task{
		ID:        n.ID,
		Principal: n.Principal, Method: n.Method, Target: n.Target, Dialect: n.Dialect,
		Status: Working, Message: n.Message, PollInterval: n.PollInterval, Round: n.Round,
	}
	setDefault(&t.ID, crand.Text()) // 130 bits
	setDefault(&t.PollInterval, e.opts.PollInterval)
	longest := e.opts.MaxTTL
	if n.Principal == "" {
		longest = e.opts.MaxAnonymousTTL
	}
	worker := e.freeWorker(t)
	err := e.admit(ctx, n.Principal, int64(len(n.Call))+sizeOf(n.Entries), func(quota Quota) error {
		ctx, lease := worker.claims(ctx)
		return e.store.Create(ctx, t, min(ttl, longest), lease, n.Call, n.Entries, quota)
	})
	if err != nil {
		worker.free()
	}
	if n.ID != "" && (errors.Is(err, ErrExists) || errors.Is(err, ErrQuota)) {
		if known, found := e.Get(ctx, n.Principal, n.ID); found == nil {
			return known, nil
		}
	}
	if err != nil {
		return nil, err
	}
	e.changed(Name(t.ID), worker == nil)
	worker.run(&Claimed{Task: t.clone(), Call: bytes.Clone(n.Call), Entries: cloneAll(n.Entries)})
	return t, nil
}

// evictLimit bounds the ended tasks that make room at once.
const evictLimit = 16

// admit calls write, which adds so many bytes to what a principal has, with the principal's quota. If the quota refuses
// it, ended tasks of the principal are deleted and write is called again, for as long as there are such tasks.
func (e *Engine) admit(ctx context.Context, principal string, size int64, write func(Quota) error) error {
	quota := e.opts.PerPrincipal
	if principal == "" {
		quota = e.opts.Anonymous
	}
	if err := quota.Check(Quota{}, Quota{Bytes: size}); err != nil {
		return err // no room would be enough
	}
	for {
		err := write(quota)
		full, isFull := errors.AsType[*QuotaError](err)
		if !isFull || full.Max.Unfinished > 0 {
			return err
		}
		evicted, evictErr := e.store.Evict(ctx, principal, e.opts.Grace, evictLimit)
		if evictErr != nil {
			return fmt.Errorf("making room: %w", evictErr)
		}
		if evicted == 0 {
			return err
		}
	}
}

// longestID bounds the IDs that are looked up: clients choose what they send.
const longestID = 128

// Get reads a task of a principal. For another principal's task the error is [ErrNotFound], as
// for a task that does not exist.
func (e *Engine) Get(ctx context.Context, principal, id string) (*Task, error) {
	if id == "" || len(id) > longestID {
		return nil, ErrNotFound
	}
	t, err := e.store.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	if t.Principal != principal {
		return nil, ErrNotFound
	}
	return t, nil
}

// Journal reads what a task began with and has recorded, whoever its principal is.
func (e *Engine) Journal(ctx context.Context, id string) (call []byte, entries [][]byte, err error) {
	return e.store.Journal(ctx, id)
}

// List reads up to limit tasks of a principal and dialect, newest first, beginning after
// the last task of the page before; its id and time of creation are enough. Nil is the start.
func (e *Engine) List(ctx context.Context, principal, dialect string, after *Task, limit int) ([]*Task, error) {
	if after == nil {
		after = new(Task)
	}
	return e.store.List(ctx, principal, dialect, after.Created, after.ID, limit)
}

// Change reads a task of a principal, calls change with it, and writes the task and the update that change returns.
// When the task was changed meanwhile it begins again. A nil update writes nothing. The error is a [*QuotaError] if the
// principal's quota has no room for the entries.
func (e *Engine) Change(ctx context.Context, principal, id string, change func(t *Task) (*Update, error)) (*Task, error) {
	for {
		t, err := e.Get(ctx, principal, id)
		if err != nil {
			return nil, err
		}
		u, err := change(t)
		if err != nil || u == nil {
			return t, err
		}
		var worker *freeWorker
		due := u.Due == 0 && !u.Keep
		if due {
			worker = e.freeWorker(t)
		}
		err = e.admit(ctx, principal, sizeOf(u.Entries), func(quota Quota) error {
			u.Quota = quota
			ctx, lease := worker.claims(ctx)
			u.Lease = lease
			return e.store.Update(ctx, t, *u)
		})
		if err != nil {
			worker.free()
		}
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err == nil {
			e.changed(Name(id), due && worker == nil)
			worker.run(&Claimed{Task: t.clone()})
		}
		return t, err
	}
}

// Cancel ends a task of a principal:
//
//  1. Its status is [Cancelled] when Cancel returns.
//  2. The context of its handler ends, if it runs. What the handler returns is ignored.
//  3. The handler runs again, with [Work.Stopped], to clean up.
//
// If the task has ended before, Cancel returns it with [ErrEnded].
func (e *Engine) Cancel(ctx context.Context, principal, id string) (*Task, error) {
	return e.Change(ctx, principal, id, func(t *Task) (*Update, error) {
		if t.Status.Terminal() {
			return nil, ErrEnded
		}
		return stop(t, Cancelled, "The task was cancelled by request.", nil), nil
	})
}

// stop makes t a task that was ended from outside. A parked task becomes due, so that its
// handler cleans up; any other has a worker, or soon will have one.
func stop(t *Task, s Status, message string, outcome []byte) *Update {
	u := &Update{Keep: t.Status != InputRequired}
	t.Status, t.Message, t.Pending, t.Outcome = s, message, nil, outcome
	t.Stopped, t.Attempts = true, 0
	return u
}

// Run claims tasks and runs them until ctx is done. Then it interrupts the handlers that run
// (see [ErrShutdown]), waits for them, gives their leases back, and returns.
func (e *Engine) Run(ctx context.Context) error {
	if e.opts.Handler == nil {
		return errors.New("task: an engine without a handler cannot run tasks")
	}
	w := newWorkers(ctx, e)
	defer w.close()
	w.all.Go(func() { e.watch(ctx) })
	w.all.Go(func() { e.sweep(ctx) })
	w.all.Go(func() { e.checkPace(ctx) })
	e.workers.Store(w)
	defer e.workers.CompareAndSwap(w, nil)
	var last string // the principal that was served last
	for ctx.Err() == nil {
		n, load := w.take()
		if n == 0 {
			select {
			case <-w.freed:
			case <-ctx.Done():
			}
			continue
		}
		sent := time.Now()
		claimed, err := e.claim(ctx, last, load, n)
		if err != nil && ctx.Err() == nil {
			e.log.ErrorContext(ctx, "task: claiming failed; trying again", "error", err)
		}
		if len(claimed) > 0 {
			last = claimed[len(claimed)-1].Principal
		}
		w.looked(claimed, n, load, sent) // from here on the tasks are the workers'
		if len(claimed) > 0 {
			continue
		}
		freed := w.freed
		if load == nil || err != nil {
			freed = nil
		}
		e.idle(ctx, err != nil, freed)
	}
	return nil
}

// claim is not interrupted by a shutdown: a claim whose answer is lost would keep its tasks from
// other processes until the lease ends.
func (e *Engine) claim(ctx context.Context, after string, load []Load, limit int) ([]*Claimed, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.opts.Lease)
	defer cancel()
	return e.store.Claim(ctx, after, load, e.opts.Lease, limit)
}

// idle waits until something may be due, or freed receives. Its looks are irregular: a change wakes all
// instances at once, and at regular intervals they would go on looking at the same time, so
// that the quickest would win each claim, even of a task that it cannot run.
func (e *Engine) idle(ctx context.Context, failing bool, freed <-chan struct{}) {
	wake := e.wake
	if failing {
		wake = nil
	}
	select {
	case <-wake:
	case <-freed:
	case <-time.After(e.opts.Look/2 + rand.N(e.opts.Look)):
	case <-ctx.Done():
	}
}

// watch subscribes to the store's changes, if it is a [Watcher].
func (e *Engine) watch(ctx context.Context) {
	for watches := true; watches && ctx.Err() == nil; {
		var err error
		watches, err = e.store.watch(ctx, e.wakeWorkers, e.changed)
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, errors.ErrUnsupported):
			e.log.WarnContext(ctx, "task: the store does not tell of changes; looking every "+e.opts.Look.String(), "error", err)
			return
		default:
			e.log.WarnContext(ctx, "task: the store no longer tells of changes; looking every "+e.opts.Look.String()+" until it does", "error", err)
			e.idle(ctx, true, nil)
		}
	}
}

// sweepLimit bounds the tasks of one sweep, so that none holds the store for long.
const sweepLimit = 100

// sweep fails tasks whose time to live has ended, and deletes those that ended it long ago.
func (e *Engine) sweep(ctx context.Context) {
	for ctx.Err() == nil {
		n, err := e.sweepOnce(ctx)
		if err != nil && ctx.Err() == nil {
			e.log.ErrorContext(ctx, "task: sweeping failed; trying again", "error", err)
		}
		if n < sweepLimit {
			select {
			case <-time.After(e.opts.Look):
			case <-ctx.Done():
			}
		}
	}
}

func (e *Engine) sweepOnce(ctx context.Context) (n int, err error) {
	ids, err := e.store.Expired(ctx, sweepLimit)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := e.expire(ctx, id); err != nil && !errors.Is(err, ErrNotFound) {
			return 0, err
		}
	}
	purged, err := e.store.Purge(ctx, e.opts.Grace, sweepLimit)
	if err != nil {
		return 0, err
	}
	return max(len(ids), purged), nil
}

func (e *Engine) expire(ctx context.Context, id string) error {
	for {
		t, err := e.store.Get(ctx, id)
		if err != nil || t.Status.Terminal() {
			return err
		}
		ttl := t.Expires.Sub(t.Created)
		message := fmt.Sprintf("The task did not end within its time to live of %v.", ttl)
		if t.Status == InputRequired {
			message = fmt.Sprintf("The input did not come in time: the task's time to live of %v ended.", ttl)
		}
		u := stop(t, Failed, message, e.opts.Failure(message))
		if err := e.store.Update(ctx, t, *u); !errors.Is(err, ErrConflict) {
			e.changed(Name(id), !u.Keep)
			return err
		}
	}
}
