package taskrun

import (
	"context"
	"sync"
	"time"

	"github.com/askback-mcp/askback/task"
)

// workers are the workers of one [Engine.Run]. Each principal has a share of them. A worker cannot be taken from a
// running task, so a principal gets another worker only while it has fewer than are free: a principal who is alone has
// half of them, two have a third each, and the rest is free for the next principal.
//
// Tasks are claimed in two ways. The loop of Run claims due tasks. A write of this process that makes a task due, by
// creating or answering it, also claims the task if a worker is free and nothing else is due, so that no other task is
// overtaken.
//
// There are as many workers again for first runs, which begin before their tasks are stored. Principals share them by
// the same rule. They overtake nobody, because the others have workers of their own.
type workers struct {
	ctx    context.Context // of Run
	size   int
	run    func(context.Context, *task.Claimed, *unstored, *lease, *leases)
	freed  chan struct{} // receives after a worker has become free
	all    sync.WaitGroup
	leases *leases

	mu      sync.Mutex
	closed  bool
	pool         // the workers that run a task or are about to
	first   pool // those of first runs
	due     bool // the loop has to look: something may be due
	looking bool // the loop looks at this moment
	passed  bool // its last look may have passed over principals that had their share
}

// pool counts workers that are taken.
type pool struct {
	busy    int
	running load
}

// share reports whether a principal may have another of so many workers.
func (p *pool) share(size int, principal string) bool { return p.running.of(principal) < size-p.busy }

func (p *pool) add(principal, target string, n int) {
	p.busy += n
	p.running.add(principal, target, n)
}

// load counts tasks by principal and target.
type load map[[2]string]int

func (l load) add(principal, target string, n int) {
	key := [2]string{principal, target}
	if l[key] += n; l[key] == 0 {
		delete(l, key)
	}
}

// of returns how many tasks of a principal there are.
func (l load) of(principal string) (n int) {
	for key, tasks := range l {
		if key[0] == principal {
			n += tasks
		}
	}
	return n
}

// list returns nil if there are no tasks.
func (l load) list() (all []task.Load) {
	for key, n := range l {
		all = append(all, task.Load{Principal: key[0], Target: key[1], Tasks: n})
	}
	return all
}

func newWorkers(
	ctx context.Context, size int, l *leases, run func(context.Context, *task.Claimed, *unstored, *lease, *leases),
) *workers {
	return &workers{ctx: ctx, size: size, leases: l, run: run, freed: make(chan struct{}, 1),
		pool: pool{running: make(load)}, first: pool{running: make(load)}, due: true}
}

// close makes sure that no worker begins any more, and waits for those that run.
func (w *workers) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.all.Wait()
	w.leases.close()
}

// take takes the free workers for the loop, and returns the load of the others.
func (w *workers) take() (n int, load []task.Load) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n = w.size - w.busy; n == 0 {
		w.due = true // the next free one is for the loop
		return 0, nil
	}
	w.busy += n
	w.due, w.looking = false, true
	return n, w.running.list()
}

// looked begins the work on what the loop has claimed with n workers that it took.
func (w *workers) looked(claimed []*task.Claimed, n int, load []task.Load, sent time.Time) {
	w.mu.Lock()
	w.busy -= n - len(claimed)
	w.looking, w.passed = false, len(load) > 0
	w.due = w.due || len(claimed) > 0
	for _, c := range claimed {
		w.running.add(c.Principal, c.Target, 1)
	}
	w.all.Add(len(claimed))
	w.mu.Unlock()
	for _, c := range claimed {
		go w.work(c, nil, sent)
	}
}

// work runs a task, which the store may not have yet, and then frees its worker.
func (w *workers) work(c *task.Claimed, first *unstored, sent time.Time) {
	defer w.release(c.Principal, c.Target, first != nil)
	w.run(w.ctx, c, first, newLease(w.leases.length, sent), w.leases)
}

func (w *workers) release(principal, target string, first bool) {
	defer w.all.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	if first {
		w.first.add(principal, target, -1)
		return
	}
	w.add(principal, target, -1)
	w.due = w.due || w.passed
	signal(w.freed)
}

// mark notes that something may be due.
func (w *workers) mark() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due = true
}

// freeWorker is a worker for a task that is about to be written. Nil is none.
type freeWorker struct {
	workers           *workers
	principal, target string
	sent              time.Time
}

// takeFor takes a free worker for a task that the caller is about to make due, if nothing else is due.
func (w *workers) takeFor(t *task.Task) *freeWorker {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil || w.closed || w.due || w.looking || !w.share(w.size, t.Principal) {
		return nil
	}
	w.add(t.Principal, t.Target, 1)
	w.all.Add(1)
	return &freeWorker{w, t.Principal, t.Target, time.Now()}
}

// begin begins the first run of a task, if there is a worker for it.
func (w *workers) begin(c *task.Claimed, first *unstored) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx.Err() != nil || w.closed || !w.first.share(w.size, c.Principal) {
		return false
	}
	w.first.add(c.Principal, c.Target, 1)
	w.all.Add(1)
	go w.work(c, first, time.Now())
	return true
}

// claims returns the lease under which the write claims the task, which is zero without a worker, and the context of
// the write. It does not end with the caller's: a claim whose answer is lost keeps the task until the lease ends.
func (f *freeWorker) claims(ctx context.Context) (context.Context, time.Duration) {
	if f == nil {
		return ctx, 0
	}
	return context.WithoutCancel(ctx), f.workers.leases.length
}

// run begins the work on the task that the write has claimed.
func (f *freeWorker) run(c *task.Claimed) {
	if f != nil {
		go f.workers.work(c, nil, f.sent)
	}
}

// free frees the worker after a write that gave an error. If only the answer was lost, the task is claimed; nobody can
// tell whose claim it is, so it goes on when the lease ends.
func (f *freeWorker) free() {
	if f != nil {
		f.workers.release(f.principal, f.target, false)
	}
}
