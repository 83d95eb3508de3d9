package taskrun

import (
	"context"
	"sync"
	"time"

	"github.com/askback-mcp/askback/task"
)

// leases are the leases that the workers of one [Engine.Run] hold. One statement renews them all.
type leases struct {
	store  safeStore
	length time.Duration
	every  time.Duration // between two renewals of a lease
	joined chan struct{} // receives after a holding was added
	stop   context.CancelFunc
	ended  chan struct{}

	mu   sync.Mutex
	held map[*holding]struct{}
}

// holding is a lease for as long as a handler runs under it.
type holding struct {
	task.Leased
	lease   *lease
	renewed chan task.Renewed // the result of the last renewal

	next     time.Time     // when it is to be renewed
	renewing chan struct{} // closed at the end of the last renewal
}

func newLeases(s safeStore, length time.Duration) *leases {
	ctx, stop := context.WithCancel(context.Background())
	l := &leases{store: s, length: length, every: length / 3, joined: make(chan struct{}, 1), stop: stop,
		ended: make(chan struct{}), held: make(map[*holding]struct{})}
	go l.run(ctx)
	return l
}

// close ends the renewals, when nothing is held any more.
func (l *leases) close() {
	l.stop()
	<-l.ended
}

// hold keeps the lease of a task until leave.
func (l *leases) hold(t *task.Task, lease *lease) *holding {
	h := &holding{
		Leased: task.Leased{ID: t.ID, Claim: t.Claim}, lease: lease, renewed: make(chan task.Renewed, 1),
		next: time.Now().Add(lease.left() - lease.safe() + l.every),
	}
	l.mu.Lock()
	l.held[h] = struct{}{}
	l.mu.Unlock()
	signal(l.joined)
	return h
}

// leave ends what hold began. It waits for a renewal that is under way, because that could extend a lease after it was
// given back.
func (l *leases) leave(h *holding) {
	l.mu.Lock()
	delete(l.held, h)
	renewing := h.renewing
	l.mu.Unlock()
	if renewing != nil {
		<-renewing
	}
}

// run renews the leases until ctx is done.
func (l *leases) run(ctx context.Context) {
	defer close(l.ended)
	for {
		wait := l.every
		l.mu.Lock()
		for h := range l.held {
			wait = min(wait, time.Until(h.next))
		}
		l.mu.Unlock()
		if wait <= 0 {
			l.renew()
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-l.joined:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// renew renews all leases that have not ended. It gives up before they do, so that there is time for another attempt.
func (l *leases) renew() {
	var all []*holding
	var names []task.Leased
	done := make(chan struct{})
	defer close(done)
	sent := time.Now()
	l.mu.Lock()
	for h := range l.held {
		h.next = sent.Add(l.every)
		if h.lease.left() > 0 { // otherwise the run ends
			all, names = append(all, h), append(names, h.Leased)
			h.renewing = done
		}
	}
	l.mu.Unlock()
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), l.every)
	defer cancel()
	renewed, err := l.store.Renew(ctx, names, l.length)
	if took := time.Since(sent); err == nil && took > l.every/2 {
		l.store.log.Warn("task: renewing leases takes long; look at the database, or raise Lease",
			"took", took, "lease", l.length)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	again := time.Now().Add(min(l.every/3, time.Second))
	for i, h := range all {
		r := task.Renewed{Err: err}
		if err == nil {
			r = renewed[i]
		}
		if r.Err != nil {
			h.next = again
		} else {
			h.lease.renewed(sent)
		}
		select {
		case <-h.renewed: // drop the result that nobody has read
		default:
		}
		h.renewed <- r
		if r.Err != nil && !refused(r.Err) {
			l.store.log.Warn("task: renewing a lease failed; trying again", "task", task.Name(h.ID), "error", r.Err)
		}
	}
}
