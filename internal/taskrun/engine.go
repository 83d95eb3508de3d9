// Package taskrun runs the tasks of a [task.Store]. An [Engine] claims those that are due under a lease, runs its
// [Handler] with the journal, and writes the outcome:
//
//	engine, err := taskrun.NewEngine(store, &taskrun.Options{Handler: handler})
//	go engine.Run(ctx) // claims and runs until ctx is done, then gives its leases back
//
//	t, err := engine.Create(ctx, &taskrun.New{Principal: "alice", Method: "tools/call", Target: "deploy", Call: call})
//
// What the package promises, together with the store:
//
//   - A task exists before Create returns.
//   - At any time at most one worker can write to a task: a [task.Claim] has a number, which rises with each claim, and
//     a random nonce, and a worker that lost its lease can commit nothing.
//   - What a worker recorded is there for the next one, unless the database itself loses commits, as an asynchronous
//     failover does. Even then two workers never write under one claim: see docs/production.md, Failover.
//   - A parked task is a row and nothing else.
//
// The package does not know HTTP or MCP.
package taskrun

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/internal/jitter"
	"github.com/askback-mcp/askback/internal/throttle"
	"github.com/askback-mcp/askback/task"
)

// Engine keeps tasks in a [task.Store] and runs them. It is safe for concurrent use.
type Engine struct {
	store safeStore
	opts  Options
	log   *slog.Logger  // throttled: while the store fails there is much to say
	wake  chan struct{} // something may be due

	subscriptions *subscriptions

	workers atomic.Pointer[workers] // while Run runs, or nil

	runner runner
	expiry expiry
}

// NewEngine returns an engine on a store.
func NewEngine(s task.Store, opts *Options) (*Engine, error) {
	e := &Engine{wake: make(chan struct{}, 1)}
	if opts != nil {
		e.opts = *opts
	}
	if err := e.opts.setDefaults(); err != nil {
		return nil, err
	}
	if _, logs := s.(task.EventLog); e.opts.Events && !logs {
		return nil, errors.New("task: the store keeps no log of events: it is not a task.EventLog")
	}
	e.log = throttle.New(e.opts.Logger)
	e.store = safeStore{s, e.opts.StoreTimeout, e.log, e.opts.Called}
	e.subscriptions = newSubscriptions(e.store, e.opts.Look, e.opts.Lease)
	e.runner.store, e.runner.opts, e.runner.log = e.store, &e.opts, e.log
	e.runner.subscriptions, e.runner.changed = e.subscriptions, e.changed
	e.runner.holder = func(w *Work) *Holder { return &Holder{e, w, w.Task.Principal, w.Task.ID, w.Entries, w.Stopped} }
	e.expiry.store, e.expiry.opts, e.expiry.changed = e.store, &e.opts, e.changed
	e.expiry.decide = func(ctx context.Context, q *task.Question) error { return e.ChangeQuestion(ctx, q, true) }
	return e, nil
}

// Settings returns the engine's settings, with the default for each that was zero.
func (e *Engine) Settings() task.Settings { return e.opts.Settings }

// New is a task to be created.
type New struct {
	// ID makes creating a task repeatable: a second Create with it returns the existing
	// task. It must be as hard to guess as 128 random bits. Empty means a random one.
	ID string
	// Fresh says that nobody knows the ID yet. If nothing is recorded, the first run may then begin before the task is
	// stored, and Create returns when it is.
	Fresh bool

	Principal, Method, Target, Dialect string

	Message      string
	TTL          time.Duration // zero or less means the engine's; it is cut to MaxTTL or MaxAnonymousTTL
	PollInterval time.Duration // zero means the engine's
	Round        int           // how often the call has asked before it became a task
	Call         []byte        // what the handler needs to begin
	Entries      [][]byte      // what is recorded already
}

// Create adds a task that is due at once. It is durable when Create returns. The error
// is a [*task.QuotaError] if the principal has as much in the store as it may.
func (e *Engine) Create(ctx context.Context, n *New) (*task.Task, error) {
	ttl := n.TTL
	if ttl <= 0 {
		ttl = e.opts.TTL
	}
	t := &task.Task{
		ID:        n.ID,
		Principal: n.Principal, Method: n.Method, Target: n.Target, Dialect: n.Dialect,
		Status: task.Working, Message: n.Message, PollInterval: n.PollInterval, Round: n.Round, Events: e.opts.Events,
	}
	setDefault(&t.ID, crand.Text()) // 130 bits
	setDefault(&t.PollInterval, e.opts.PollInterval)
	longest := e.opts.MaxTTL
	if n.Principal == "" {
		longest = e.opts.MaxAnonymousTTL
	}
	ttl = min(ttl, longest)
	if first := e.runFirst(n, t, ttl); first != nil {
		<-first.added // soon: see [firstLeg]
		if first.err != nil {
			return nil, first.err
		}
		return cloneTask(first.task), nil
	}
	worker := e.freeWorker(t)
	err := e.admit(ctx, n.Principal, int64(len(n.Call))+sizeOf(n.Entries), func(quota task.Quota) error {
		ctx, lease := worker.claims(ctx)
		return e.store.Create(ctx, t, ttl, lease, n.Call, n.Entries, quota)
	})
	if err != nil {
		worker.free()
	}
	if n.ID != "" && (errors.Is(err, task.ErrExists) || errors.Is(err, task.ErrQuota)) {
		if known, found := e.Get(ctx, n.Principal, n.ID); found == nil {
			return known, nil
		}
	}
	if err != nil {
		return nil, err
	}
	e.changed(task.Name(t.ID), t.Principal, worker == nil)
	worker.run(&task.Claimed{Task: cloneTask(t), Call: bytes.Clone(n.Call), Entries: cloneAll(n.Entries)})
	return t, nil
}

// runFirst begins the first run of a task before the store has it, if it may and there is a worker. Otherwise it
// returns nil.
func (e *Engine) runFirst(n *New, t *task.Task, ttl time.Duration) *unstored {
	w := e.runsHere(t)
	if _, inserts := e.store.store.(task.Inserter); w == nil || !n.Fresh || len(n.Entries) > 0 || !inserts {
		return nil
	}
	began := cloneTask(t)
	began.Attempts, began.Claim = 1, task.Claim{Fence: 1, Nonce: crand.Text()}
	call := append([]byte{}, n.Call...)
	first := &unstored{lease: e.opts.Lease, task: cloneTask(began), added: make(chan struct{})}
	first.insert = func(ctx context.Context, t *task.Task, u task.Update) error {
		err := e.admit(ctx, n.Principal, int64(len(call))+sizeOf(u.Entries), func(quota task.Quota) error {
			return e.store.insert(ctx, t, ttl, call, u, quota)
		})
		if err == nil || errors.Is(err, task.ErrQuota) {
			return err
		}
		now, unknown := e.store.Get(ctx, t.ID)
		if unknown != nil || now.Claim != t.Claim {
			return err
		}
		*t = *now // only the answer was lost
		return nil
	}
	if !w.begin(&task.Claimed{Task: began, Call: call}, first) {
		return nil
	}
	return first
}

// runsHere returns the workers of this process, if it runs tasks of this target.
func (e *Engine) runsHere(t *task.Task) *workers {
	if _, elsewhere := e.runner.elsewhere.Load(t.Target); elsewhere {
		return nil
	}
	return e.workers.Load()
}

// freeWorker takes a free worker for a task that the caller is about to make due. Nil is none.
func (e *Engine) freeWorker(t *task.Task) *freeWorker {
	w := e.runsHere(t)
	if w == nil {
		return nil
	}
	return w.takeFor(t)
}

// evictLimit bounds the ended tasks that make room at once.
const evictLimit = 16

// admit calls write, which adds so many bytes to what a principal has, with the principal's quota. If the quota refuses
// it, ended tasks of the principal are deleted and write is called again, for as long as there are such tasks.
func (e *Engine) admit(ctx context.Context, principal string, size int64, write func(task.Quota) error) error {
	quota := e.opts.PerPrincipal
	if principal == "" {
		quota = e.opts.Anonymous
	}
	if err := quota.Check(task.Quota{}, task.Quota{Bytes: size}); err != nil {
		return err // no room would be enough
	}
	for {
		err := write(quota)
		full, isFull := errors.AsType[*task.QuotaError](err)
		if !isFull || full.Max.Unfinished > 0 {
			return err
		}
		evicted, evictErr := e.store.Evict(ctx, principal, e.opts.Grace, evictLimit)
		switch {
		case evicted > 0: // others may not have been deleted
		case evictErr != nil:
			return fmt.Errorf("making room: %w", evictErr)
		default:
			return err
		}
	}
}

// longestID bounds the IDs that are looked up: clients choose what they send.
const longestID = 128

// Get reads a task of a principal. For another principal's task the error is [task.ErrNotFound], as
// for a task that does not exist.
func (e *Engine) Get(ctx context.Context, principal, id string) (*task.Task, error) {
	t, err := e.Row(ctx, id)
	if err != nil {
		return nil, err
	}
	if t.Principal != principal {
		return nil, task.ErrNotFound
	}
	return t, nil
}

// Row reads a task of any principal.
func (e *Engine) Row(ctx context.Context, id string) (*task.Task, error) {
	if id == "" || len(id) > longestID {
		return nil, task.ErrNotFound
	}
	return e.store.Get(ctx, id)
}

// Select reads up to limit tasks of all principals: see [task.Store].
func (e *Engine) Select(ctx context.Context, f task.Filter, after string, limit int) ([]*task.Task, error) {
	return e.store.Select(ctx, f, after, limit)
}

// Journal reads what a task began with and has recorded, for any principal: see [task.Store].
func (e *Engine) Journal(ctx context.Context, id string, most int) (call []byte, entries [][]byte, err error) {
	return e.store.Journal(ctx, id, most)
}

// Questions reads the questions of the tasks whose names begin like this: see [task.Store].
func (e *Engine) Questions(ctx context.Context, name string) ([]*task.Question, error) {
	return e.store.Questions(ctx, name)
}

// Waiting reads up to limit open questions that the filter lets pass: see [task.Store].
func (e *Engine) Waiting(
	ctx context.Context, f task.QuestionFilter, after *task.Question, limit int,
) ([]*task.Question, error) {
	return e.store.Waiting(ctx, f, after, limit)
}

// History reads up to limit questions of a history: see [task.Store].
func (e *Engine) History(
	ctx context.Context, of task.QuestionHistory, after *task.Question, limit int,
) ([]*task.Question, error) {
	return e.store.History(ctx, of, after, limit)
}

// Changes reads up to limit questions in the order of their last changes: see [task.Store].
func (e *Engine) Changes(
	ctx context.Context, after *task.Question, limit int,
) (changed []*task.Question, now time.Time, err error) {
	return e.store.Changes(ctx, after, limit)
}

// Remember keeps a decision.
func (e *Engine) Remember(ctx context.Context, r *task.Remembered) error {
	return e.store.Remember(ctx, r)
}

// Recall lets a call pass by a decision.
func (e *Engine) Recall(ctx context.Context, key, call string) (*task.Remembered, error) {
	return e.store.Recall(ctx, key, call)
}

// Remembered reads decisions that let calls pass.
func (e *Engine) Remembered(
	ctx context.Context, who []string, after *task.Remembered, limit int,
) ([]*task.Remembered, error) {
	return e.store.Remembered(ctx, who, after, limit)
}

// Forget ends a decision.
func (e *Engine) Forget(ctx context.Context, key string) error { return e.store.Forget(ctx, key) }

// Events reads what has become of tasks: see [task.EventLog], which the store must be.
func (e *Engine) Events(ctx context.Context, q task.EventQuery) (page *task.EventPage, err error) {
	ctx, done := e.store.bound(ctx, "Events", &err)
	defer done()
	return e.store.store.(task.EventLog).Events(ctx, q)
}

// Subscriptions calls a method of a store that is a [task.Subscriptions].
func (e *Engine) Subscriptions(
	ctx context.Context, method string, do func(ctx context.Context, s task.Subscriptions) error,
) (err error) {
	ctx, done := e.store.bound(ctx, method, &err)
	defer done()
	return do(ctx, e.store.store.(task.Subscriptions))
}

// Emit adds an event of an author: see [task.EventLog], which the store must be.
func (e *Engine) Emit(ctx context.Context, emission *task.Emission) (err error) {
	ctx, done := e.store.bound(ctx, "Emit", &err)
	defer done()
	if err = e.store.store.(task.EventLog).Emit(ctx, emission); err == nil {
		for _, reader := range emission.Readers {
			e.subscriptions.notify(task.Name(reader), nil)
		}
	}
	return err
}

// Now reads the clock of the store, so that no other clock decides what is late.
func (e *Engine) Now(ctx context.Context) (time.Time, error) {
	_, now, err := e.store.Changes(ctx, nil, 0)
	return now, err
}

// ChangeQuestion writes what has become of a question: see [task.Store]. A decision wakes the workers.
func (e *Engine) ChangeQuestion(ctx context.Context, q *task.Question, expired bool) error {
	err := e.store.ChangeQuestion(ctx, q, expired)
	if err == nil {
		e.changed(task.Name(q.Task), q.Principal, len(q.Decision) > 0, q)
	}
	return err
}

// List reads up to limit tasks of a principal and dialect, newest first, beginning after
// the last task of the page before; its id and time of creation are enough. Nil is the start.
func (e *Engine) List(
	ctx context.Context, principal, dialect string, after *task.Task, limit int,
) ([]*task.Task, error) {
	if after == nil {
		after = new(task.Task)
	}
	return e.store.List(ctx, principal, dialect, after.Created, after.ID, limit)
}

// Change reads a task of a principal, calls change with it, and writes the task and the update that change returns.
// When the task was changed meanwhile it begins again. A nil update writes nothing. The error is a [*task.QuotaError]
// if the principal's quota has no room for the entries.
func (e *Engine) Change(
	ctx context.Context, principal, id string, change func(t *task.Task) (*task.Update, error),
) (*task.Task, error) {
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
		err = e.admit(ctx, principal, sizeOf(u.Entries), func(quota task.Quota) error {
			u.Quota = quota
			ctx, lease := worker.claims(ctx)
			u.Lease = lease
			return e.store.Update(ctx, t, *u)
		})
		if err != nil {
			worker.free()
		}
		if errors.Is(err, task.ErrConflict) {
			continue
		}
		if err == nil {
			e.changed(task.Name(id), principal, due && worker == nil)
			worker.run(&task.Claimed{Task: cloneTask(t)})
		}
		return t, err
	}
}

// Cancel ends a task of a principal:
//
//  1. Its status is [task.Cancelled] when Cancel returns.
//  2. The context of its handler ends, if it runs. What the handler returns is ignored.
//  3. The handler runs again, with [Work.Stopped], to clean up.
//
// If the task has ended before, Cancel returns it with [task.ErrEnded].
func (e *Engine) Cancel(ctx context.Context, principal, id string) (*task.Task, error) {
	return e.Change(ctx, principal, id, func(t *task.Task) (*task.Update, error) {
		if t.Status.Terminal() {
			return nil, task.ErrEnded
		}
		return Stop(t, task.Cancelled, "The task was cancelled by request.", nil), nil
	})
}

// Run claims tasks and runs them until ctx is done. Then it interrupts the handlers that run
// (see [ErrShutdown]), waits for them, gives their leases back, and returns.
func (e *Engine) Run(ctx context.Context) error {
	if e.opts.Handler == nil {
		return errors.New("task: an engine without a handler cannot run tasks")
	}
	w := newWorkers(ctx, e.opts.Workers, newLeases(e.store, e.opts.Lease), e.runner.work)
	defer w.close()
	w.all.Go(func() { e.watch(ctx) })
	w.all.Go(func() { repeat(ctx, e.log, "sweeping", e.opts.Look, e.expiry.sweep) })
	if e.opts.Expire != nil {
		w.all.Go(func() {
			repeat(ctx, e.log, "deciding questions whose deadline has passed", e.opts.Look/2, e.expiry.expireQuestions)
		})
	}
	notices := &outbox{store: e.store, opts: &e.opts, log: e.log}
	if e.opts.Notify != nil {
		// Before the first claim: what a worker asks while nobody listens has no notices.
		_ = e.store.persist(ctx, func() error { return notices.listen(ctx) })
		w.all.Go(func() { notices.run(ctx) })
	}
	w.all.Go(func() { repeat(ctx, e.log, "giving up notices", time.Hour, notices.forsake) })
	w.all.Go(func() { checkPace(ctx, e.store, &e.opts.Settings) })
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
		var wake, freed <-chan struct{} // a store that fails is not hurried
		if err == nil {
			wake = e.wake
			if load != nil {
				freed = w.freed
			}
		}
		idle(ctx, e.opts.Look, wake, freed)
	}
	return nil
}

// claim is not interrupted by a shutdown: a claim whose answer is lost would keep its tasks from
// other processes until the lease ends.
func (e *Engine) claim(ctx context.Context, after string, load []task.Load, limit int) ([]*task.Claimed, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.opts.Lease)
	defer cancel()
	return e.store.Claim(ctx, after, load, e.opts.Lease, limit)
}

// idle waits until something may be due, or one of the channels receives. Its looks are irregular: a change wakes all
// instances at once, and at regular intervals they would go on looking at the same time, so
// that the quickest would win each claim, even of a task that it cannot run.
func idle(ctx context.Context, look time.Duration, wake, freed <-chan struct{}) {
	select {
	case <-wake:
	case <-freed:
	case <-time.After(look/2 + jitter.N(look)):
	case <-ctx.Done():
	}
}

// watch subscribes to the store's changes, if it is a [task.Watcher].
func (e *Engine) watch(ctx context.Context) {
	for watches := true; watches && ctx.Err() == nil; {
		var err error
		watches, err = e.store.watch(ctx, e.wakeWorkers, func(name string, due bool) { e.changed(name, "", due) })
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, errors.ErrUnsupported):
			e.log.WarnContext(ctx, "task: the store does not tell of changes; looking every "+e.opts.Look.String(), "error", err)
			return
		default:
			e.log.WarnContext(ctx,
				"task: the store no longer tells of changes; looking every "+e.opts.Look.String()+" until it does", "error", err)
			idle(ctx, e.opts.Look, nil, nil)
		}
	}
}

// Changed wakes those who wait for a task, and the workers, because it may have changed. The
// engine calls it after its own writes.
func (e *Engine) Changed(id string) { e.changed(task.Name(id), "", true) }

// changed wakes those who wait for a task, for any task of its principal, if that is known, or for what they are
// asked. If the task may be due, it wakes the workers.
func (e *Engine) changed(name, principal string, due bool, asked ...*task.Question) {
	e.subscriptions.notify(name, nil)
	if e.opts.Changed != nil {
		e.opts.Changed()
	}
	if principal != "" {
		e.subscriptions.notify(task.Name(task.CallerReader(principal, "")), nil)
	}
	for _, q := range asked {
		for _, who := range q.For {
			e.subscriptions.notify(task.Name(who), nil)
		}
	}
	if due {
		e.wakeWorkers()
	}
}

// wakeWorkers makes the workers look for what is due.
func (e *Engine) wakeWorkers() {
	if w := e.workers.Load(); w != nil {
		w.mark()
	}
	signal(e.wake)
}
