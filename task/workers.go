package task

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// workers are those of one [Engine.Run]. Each principal has a share of them.
//
// There are two ways to a task. The loop of Run claims those that are due. And whoever makes a task due here, by
// creating it or by answering it, claims it in the same write, if a worker is free and nothing else is due: so nobody
// is overtaken.
type workers struct {
	engine *Engine
	ctx    context.Context // of Run
	size   int
	freed  chan struct{} // receives after a worker has become free
	all    sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	busy    int            // those that run a task, or are about to
	running map[string]int // how many each principal has, if any
	due     bool           // the loop has to look: something may be due
	looking bool           // the loop looks at this moment
	passed  bool           // its last look has passed over principals that had their share
}

func newWorkers(ctx context.Context, e *Engine) *workers {
	return &workers{engine: e, ctx: ctx, size: e.opts.Workers, freed: make(chan struct{}, 1), running: make(map[string]int), due: true}
}

// close makes sure that no worker begins any more, and waits for those that run.
func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.all.Wait()
}

// take takes free workers for the loop. A task cannot be made to give its worker back, so the last free one of several
// is left to newcomers: it is taken alone, and is not for the principals in skip, which have one.
func (w *workers) take() (n int, skip []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch n = w.size - w.busy; {
	case n == 0:
		w.due = true // the next free one is for the loop
		return 0, nil
	case n == 1 && w.size > 1:
		skip = slices.Collect(maps.Keys(w.running))
	case n > 1:
		n--
	}
	w.busy += n
	w.due, w.looking = false, true
	return n, skip
}

// looked begins the work on what the loop has claimed with n workers that it took.
func (w *workers) looked(claimed []*Claimed, n int, skip []string, sent time.Time) {
	w.mu.Lock()
	w.busy -= n - len(claimed)
	w.looking, w.passed = false, len(skip) > 0
	w.due = w.due || len(claimed) > 0
	for _, c := range claimed {
		w.running[c.Principal]++
	}
	w.all.Add(len(claimed))
	w.mu.Unlock()
	for _, c := range claimed {
		go w.work(c, sent)
	}
}

// work runs a task, and then frees its worker.
func (w *workers) work(c *Claimed, sent time.Time) {
	defer w.release(c.Principal)
	w.engine.work(w.ctx, c, newLease(w.engine.opts.Lease, sent))
}

func (w *workers) release(principal string) {
	w.mu.Lock()
	w.busy--
	if w.running[principal]--; w.running[principal] == 0 {
		delete(w.running, principal)
	}
	w.due = w.due || w.passed
	w.mu.Unlock()
	signal(w.freed)
	w.all.Done()
}

// mark notes that something may be due.
func (w *workers) mark() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = true
}

// freeWorker is a worker for a task that is about to be written. Nil is none.
type freeWorker struct {
	workers   *workers
	principal string
	sent      time.Time
}

// freeWorker takes a free worker for a task that the caller is about to make due, if nothing else is due.
func (e *Engine) freeWorker(t *Task) *freeWorker {
	w := e.workers.Load()
	if _, elsewhere := e.unknown.Load(t.Target); w == nil || elsewhere {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	free := w.size - w.busy
	last := free == 1 && w.size > 1
	if w.ctx.Err() != nil || w.closed || w.due || w.looking || free == 0 || last && w.running[t.Principal] > 0 {
		return nil
	}
	w.busy++
	w.running[t.Principal]++
	w.all.Add(1)
	return &freeWorker{w, t.Principal, time.Now()}
}

// claims returns the lease under which the write claims the task, which is zero without a worker, and the context of the
// write. It does not end with the caller's: a claim whose answer is lost keeps the task until the lease ends.
func (f *freeWorker) claims(ctx context.Context) (context.Context, time.Duration) {
	if f == nil {
		return ctx, 0
	}
	return context.WithoutCancel(ctx), f.workers.engine.opts.Lease
}

// run begins the work on the task that the write has claimed.
func (f *freeWorker) run(c *Claimed) {
	if f != nil {
		go f.workers.work(c, f.sent)
	}
}

// free frees the worker after a write that gave an error. If only the answer was lost, the task is claimed; nobody can
// tell whose claim it is, so it goes on when the lease ends.
func (f *freeWorker) free() {
	if f != nil {
		f.workers.release(f.principal)
	}
}
