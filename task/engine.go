package task

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
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

	unknown sync.Map // targets left to other processes, each logged once

	mu      sync.Mutex
	waiting map[string]map[chan struct{}]struct{} // subscriptions by task
}

// NewEngine returns an engine on a store.
func NewEngine(store Store, opts *Options) (*Engine, error) {
	e := &Engine{wake: make(chan struct{}, 1), waiting: make(map[string]map[chan struct{}]struct{})}
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
	TTL          time.Duration // zero or less means the engine's; more than its MaxTTL means that
	PollInterval time.Duration // zero means the engine's
	Round        int           // how often the call has asked before it became a task
	Call         []byte        // what the handler needs to begin
	Entries      [][]byte      // what is recorded already
}

// Create adds a task that is due at once. It is durable when Create returns. The error
// is [ErrQuota] if the principal has too many unfinished ones.
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
	err := e.store.Create(ctx, t, min(ttl, e.opts.MaxTTL), n.Call, n.Entries, e.opts.PerPrincipal)
	if n.ID != "" && (errors.Is(err, ErrExists) || errors.Is(err, ErrQuota)) {
		if known, found := e.Get(ctx, n.Principal, n.ID); found == nil {
			return known, nil
		}
	}
	if err != nil {
		return nil, err
	}
	e.Changed(t.ID)
	return t, nil
}

// short is the part of an ID that logs show. Where nobody is authenticated, whoever has the
// whole ID can read the task.
func short(id string) string { return id[:min(len(id), 6)] + "…" }

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
// When the task was changed meanwhile it begins again. A nil update writes nothing.
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
		err = e.store.Update(ctx, t, *u)
		if errors.Is(err, ErrConflict) {
			continue
		}
		if err == nil {
			e.Changed(id)
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

// Wait returns a task of a principal as soon as its Version is not the given one. A
// negative version returns it at once.
func (e *Engine) Wait(ctx context.Context, principal, id string, version int64) (*Task, error) {
	changed, done := e.subscribe(id)
	defer done()
	for {
		t, err := e.Get(ctx, principal, id)
		if err != nil || t.Version != version {
			return t, err
		}
		select {
		case <-changed:
		case <-time.After(e.opts.Look):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Follow calls report with each of the tasks, now and whenever its Version has changed. It
// returns when all have ended or were deleted, when ctx is done, or with the error of report.
// It may miss a status that lasts for a moment only.
func (e *Engine) Follow(ctx context.Context, tasks []*Task, report func(*Task) error) error {
	ids := make([]string, len(tasks))
	versions := make([]int64, len(tasks)) // as reported
	for i, t := range tasks {
		ids[i], versions[i] = t.ID, -1
	}
	changed, done := e.subscribe(ids...)
	defer done()
	look := time.NewTicker(e.opts.Look)
	defer look.Stop()
	ended := make(map[string]bool)
	for {
		for i, t := range tasks {
			if ended[t.ID] {
				continue
			}
			now, err := e.Get(ctx, t.Principal, t.ID)
			switch {
			case errors.Is(err, ErrNotFound):
				ended[t.ID] = true
			case err != nil:
				return err
			case now.Version != versions[i]:
				if err := report(now); err != nil {
					return err
				}
				versions[i], ended[t.ID] = now.Version, now.Status.Terminal()
			}
		}
		if !slices.ContainsFunc(tasks, func(t *Task) bool { return !ended[t.ID] }) {
			return nil
		}
		select {
		case <-changed:
		case <-look.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// subscribe returns a channel that receives after changes of the tasks, as far as this process learns of them.
func (e *Engine) subscribe(ids ...string) (changed <-chan struct{}, done func()) {
	c := make(chan struct{}, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		if e.waiting[id] == nil {
			e.waiting[id] = make(map[chan struct{}]struct{})
		}
		e.waiting[id][c] = struct{}{}
	}
	return c, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, id := range ids {
			delete(e.waiting[id], c)
			if len(e.waiting[id]) == 0 {
				delete(e.waiting, id)
			}
		}
	}
}

// Changed wakes those who wait for a task, and the workers, because it may have changed. The
// engine calls it after its own writes.
func (e *Engine) Changed(id string) {
	e.notify(id, nil)
	signal(e.wake)
}

// notify wakes those who wait for a task, except the one who changed it.
func (e *Engine) notify(id string, except <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.waiting[id] {
		if c != except {
			signal(c)
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run claims tasks and runs them until ctx is done. Then it interrupts the handlers that run
// (see [ErrShutdown]), waits for them, gives their leases back, and returns.
func (e *Engine) Run(ctx context.Context) error {
	if e.opts.Handler == nil {
		return errors.New("task: an engine without a handler cannot run tasks")
	}
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { e.watch(ctx) })
	all.Go(func() { e.sweep(ctx) })
	slots := make(chan struct{}, e.opts.Workers)
	var last string // the principal that was served last
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // also where a slot was free
			return nil
		}
		sent := time.Now()
		t, err := e.claim(ctx, last)
		if err != nil && ctx.Err() == nil {
			e.log.ErrorContext(ctx, "task: claiming failed; trying again", "error", err)
		}
		if t == nil {
			<-slots
			e.idle(ctx, err != nil)
			continue
		}
		last = t.Principal
		all.Go(func() {
			defer func() { <-slots }()
			e.work(ctx, t, newLease(e.opts.Lease, sent))
		})
	}
}

// claim is not interrupted by a shutdown: a claim whose answer is lost would keep its task from
// other processes until the lease ends.
func (e *Engine) claim(ctx context.Context, after string) (*Task, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.opts.Lease)
	defer cancel()
	return e.store.Claim(ctx, after, e.opts.Lease)
}

// idle waits until something may be due. Its looks are irregular: a change wakes all
// instances at once, and at regular intervals they would go on looking at the same time, so
// that the quickest would win each claim, even of a task that it cannot run.
func (e *Engine) idle(ctx context.Context, failing bool) {
	wake := e.wake
	if failing {
		wake = nil
	}
	select {
	case <-wake:
	case <-time.After(e.opts.Look/2 + rand.N(e.opts.Look)):
	case <-ctx.Done():
	}
}

// watch subscribes to the store's changes, if it is a [Watcher].
func (e *Engine) watch(ctx context.Context) {
	for watches := true; watches && ctx.Err() == nil; {
		var err error
		if watches, err = e.store.watch(ctx, func() { signal(e.wake) }, e.Changed); err != nil && ctx.Err() == nil {
			e.log.WarnContext(ctx, "task: the store no longer tells of changes; looking every "+e.opts.Look.String()+" until it does", "error", err)
			e.idle(ctx, true)
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
			e.Changed(id)
			return err
		}
	}
}
