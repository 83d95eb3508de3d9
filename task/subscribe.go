package task

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

// Wait returns a task of a principal as soon as its Version is not the given one. A
// negative version returns it at once.
func (e *Engine) Wait(ctx context.Context, principal, id string, version int64) (*Task, error) {
	sub := e.follow(id)
	defer e.unsubscribe(sub)
	for {
		t, err := e.Get(ctx, principal, id)
		if err != nil || t.Version != version {
			return t, err
		}
		e.seen(t)
		if _, err := e.next(ctx, sub); err != nil {
			return nil, err
		}
	}
}

// Follow calls report with each of the tasks, now and whenever its Version has changed. It
// returns when all have ended or were deleted, when ctx is done, or with the error of report.
// It may miss a status that lasts for a moment only.
func (e *Engine) Follow(ctx context.Context, tasks []*Task, report func(*Task) error) error {
	type following struct {
		principal string
		version   int64 // as reported
	}
	left := make(map[string]*following)
	var ids []string
	for _, t := range tasks {
		left[t.ID] = &following{t.Principal, -1}
		ids = append(ids, t.ID)
	}
	sub := e.follow(ids...)
	defer e.unsubscribe(sub)
	for changed := ids; ; {
		for _, id := range changed {
			f := left[id]
			if f == nil {
				continue
			}
			now, err := e.Get(ctx, f.principal, id)
			switch {
			case errors.Is(err, ErrNotFound):
				delete(left, id)
				e.unsubscribe(sub, id)
				continue
			case err != nil:
				return err
			}
			e.seen(now)
			if now.Version == f.version {
				continue
			}
			if err := report(now); err != nil {
				return err
			}
			if f.version = now.Version; now.Status.Terminal() {
				delete(left, id)
				e.unsubscribe(sub, id)
			}
		}
		if len(left) == 0 {
			return nil
		}
		var err error
		if changed, err = e.next(ctx, sub); err != nil {
			return err
		}
	}
}

// watched holds the tasks that somebody in this process waits for. Whoever waits also looks for changes that it was
// not notified of, but one look is for all: however many wait, the store is asked once in every [Options.Look].
type watched struct {
	mu      sync.Mutex
	waiting map[string]*watchedTask // by fingerprint
	looking bool                    // somebody looks at this moment
	looked  time.Time               // when the last look began
}

type watchedTask struct {
	id            string
	version       int64 // as last seen in the store
	subscriptions map[*subscription]struct{}
}

// Versions of a watchedTask that has none.
const (
	neverSeen = -1
	deleted   = -2
)

// subscription is somebody who waits for tasks.
type subscription struct {
	fingerprints map[string]struct{}
	looks        bool          // by Engine.next; a worker learns what it has missed when it renews its lease
	news         chan struct{} // receives after changes

	changed map[string]struct{} // IDs; guarded by watched.mu
}

// subscribe returns a channel that receives after changes of the tasks, as far as this process is notified of them.
func (e *Engine) subscribe(ids ...string) (changed <-chan struct{}, done func()) {
	s := e.addSubscription(ids, false)
	return s.news, func() { e.unsubscribe(s) }
}

// follow returns a subscription for [Engine.next].
func (e *Engine) follow(ids ...string) *subscription { return e.addSubscription(ids, true) }

func (e *Engine) addSubscription(ids []string, looks bool) *subscription {
	s := &subscription{
		fingerprints: make(map[string]struct{}), looks: looks,
		news: make(chan struct{}, 1), changed: make(map[string]struct{}),
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		f := Name(id)
		s.fingerprints[f] = struct{}{}
		if e.waiting[f] == nil {
			e.waiting[f] = &watchedTask{id: id, version: neverSeen, subscriptions: make(map[*subscription]struct{})}
		}
		e.waiting[f].subscriptions[s] = struct{}{}
	}
	return s
}

// unsubscribe ends a subscription to these tasks, or to all of its tasks if there are none.
func (e *Engine) unsubscribe(s *subscription, ids ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ended := s.fingerprints
	if len(ids) > 0 {
		ended = make(map[string]struct{})
		for _, id := range ids {
			ended[Name(id)] = struct{}{}
		}
	}
	for f := range ended {
		delete(s.fingerprints, f)
		if w := e.waiting[f]; w != nil {
			if delete(w.subscriptions, s); len(w.subscriptions) == 0 {
				delete(e.waiting, f)
			}
		}
	}
}

// next waits until tasks of a subscription may have changed, and returns their IDs.
func (e *Engine) next(ctx context.Context, s *subscription) ([]string, error) {
	look := time.NewTicker(e.opts.Look)
	defer look.Stop()
	for {
		select {
		case <-s.news:
			e.mu.Lock()
			defer e.mu.Unlock()
			ids := slices.Collect(maps.Keys(s.changed))
			clear(s.changed)
			return ids, nil
		case <-look.C:
			if err := e.look(ctx); err != nil {
				return nil, err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// lookLimit bounds the tasks of one query.
const lookLimit = 500

// look asks the store which of all tasks that somebody waits for have changed, unless that was done within the last
// [Options.Look] or is being done.
func (e *Engine) look(ctx context.Context) (err error) {
	e.mu.Lock()
	now := time.Now()
	if e.looking || now.Sub(e.looked) < e.opts.Look {
		e.mu.Unlock()
		return nil
	}
	e.looking = true
	var ids []string
	for _, w := range e.waiting {
		for s := range w.subscriptions {
			if s.looks {
				ids = append(ids, w.id)
				break
			}
		}
	}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.looking = false; err == nil {
			e.looked = now
		}
	}()
	for some := range slices.Chunk(ids, lookLimit) {
		limited, cancel := context.WithTimeout(ctx, e.opts.Lease) // others depend on this look
		versions, err := e.store.Versions(limited, some)
		cancel()
		if err != nil {
			return err
		}
		e.mu.Lock()
		for _, id := range some {
			version, exists := versions[id]
			if !exists {
				version = deleted
			}
			if w := e.waiting[Name(id)]; w != nil && w.version != version {
				w.version = version
				w.notify(func(s *subscription) bool { return s.looks })
			}
		}
		e.mu.Unlock()
	}
	return nil
}

// seen notes the version of a task that a subscriber has read, so that the next look does not take it for a change.
func (e *Engine) seen(t *Task) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := e.waiting[Name(t.ID)]; w != nil && w.version == neverSeen {
		w.version = t.Version
	}
}

// Changed wakes those who wait for a task, and the workers, because it may have changed. The
// engine calls it after its own writes.
func (e *Engine) Changed(id string) { e.changed(Name(id), true) }

// changed wakes those who wait for a task and, if it may be due, the workers.
func (e *Engine) changed(fingerprint string, due bool) {
	e.notifyExcept(fingerprint, nil)
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

// notify wakes those who wait for a task, except the one who changed it.
func (e *Engine) notify(id string, except <-chan struct{}) { e.notifyExcept(Name(id), except) }

func (e *Engine) notifyExcept(fingerprint string, except <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := e.waiting[fingerprint]; w != nil {
		w.notify(func(s *subscription) bool { return s.news != except })
	}
}

func (w *watchedTask) notify(concerns func(*subscription) bool) {
	for s := range w.subscriptions {
		if concerns(s) {
			s.changed[w.id] = struct{}{}
			signal(s.news)
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
