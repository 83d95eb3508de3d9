package taskrun

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/askback-mcp/askback/task"
)

// subscriptions holds the tasks that somebody in this process waits for. A waiting goroutine also looks for changes
// that it was not notified of, but one look is for all: for any number of them, the store is asked once in every
// [Options.Look].
type subscriptions struct {
	store safeStore
	every time.Duration // between two looks
	lease time.Duration

	mu      sync.Mutex
	waiting map[string]*watchedTask // by name
	looking bool                    // somebody looks at this moment
	looked  time.Time               // when the last look began
}

func newSubscriptions(s safeStore, every, lease time.Duration) *subscriptions {
	return &subscriptions{store: s, every: every, lease: lease, waiting: make(map[string]*watchedTask)}
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
	disputed  = -3 // two readers have seen two versions
)

// subscription is somebody who waits for tasks.
type subscription struct {
	names map[string]struct{}
	looks bool          // by next; a worker learns what it has missed when it renews its lease
	news  chan struct{} // receives after changes

	changed map[string]struct{} // IDs; guarded by subscriptions.mu
}

// subscribe returns a channel that receives after changes of the tasks, as far as this process is notified of them.
func (a *subscriptions) subscribe(ids ...string) (changed <-chan struct{}, done func()) {
	s := a.add(ids, false)
	return s.news, func() { a.remove(s) }
}

// Subscribe returns a channel that receives after changes of a task or, if there is no ID, of what any of these have
// events of: see [task.Event]. A change that another process makes may be missed.
func (e *Engine) Subscribe(id string, readers []string) (changed <-chan struct{}, done func()) {
	if id != "" {
		readers = []string{id}
	}
	return e.subscriptions.subscribe(readers...) // no ID is like a reader
}

// follow returns a subscription for [subscriptions.next].
func (a *subscriptions) follow(ids ...string) *subscription { return a.add(ids, true) }

func (a *subscriptions) add(ids []string, looks bool) *subscription {
	s := &subscription{
		names: make(map[string]struct{}), looks: looks,
		news: make(chan struct{}, 1), changed: make(map[string]struct{}),
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		f := task.Name(id)
		s.names[f] = struct{}{}
		if a.waiting[f] == nil {
			a.waiting[f] = &watchedTask{id: id, version: neverSeen, subscriptions: make(map[*subscription]struct{})}
		}
		a.waiting[f].subscriptions[s] = struct{}{}
	}
	return s
}

// remove ends a subscription to these tasks, or to all of its tasks if there are none.
func (a *subscriptions) remove(s *subscription, ids ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	ended := s.names
	if len(ids) > 0 {
		ended = make(map[string]struct{})
		for _, id := range ids {
			ended[task.Name(id)] = struct{}{}
		}
	}
	for f := range ended {
		delete(s.names, f)
		if w := a.waiting[f]; w != nil {
			if delete(w.subscriptions, s); len(w.subscriptions) == 0 {
				delete(a.waiting, f)
			}
		}
	}
}

// next waits until tasks of a subscription may have changed, and returns their IDs.
func (a *subscriptions) next(ctx context.Context, s *subscription) ([]string, error) {
	look := time.NewTicker(a.every)
	defer look.Stop()
	for {
		select {
		case <-s.news:
			a.mu.Lock()
			defer a.mu.Unlock()
			ids := slices.Collect(maps.Keys(s.changed))
			clear(s.changed)
			return ids, nil
		case <-look.C:
			if err := a.look(ctx); err != nil {
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
func (a *subscriptions) look(ctx context.Context) (err error) {
	a.mu.Lock()
	now := time.Now()
	if a.looking || now.Sub(a.looked) < a.every {
		a.mu.Unlock()
		return nil
	}
	a.looking = true
	var ids []string
	for _, w := range a.waiting {
		for s := range w.subscriptions {
			if s.looks {
				ids = append(ids, w.id)
				break
			}
		}
	}
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.looking = false; err == nil {
			a.looked = now
		}
	}()
	for some := range slices.Chunk(ids, lookLimit) {
		limited, cancel := context.WithTimeout(ctx, a.lease) // others depend on this look
		versions, err := a.store.Versions(limited, some)
		cancel()
		if err != nil {
			return err
		}
		a.mu.Lock()
		for _, id := range some {
			version, exists := versions[id]
			if !exists {
				version = deleted
			}
			if w := a.waiting[task.Name(id)]; w != nil && w.version != version {
				w.version = version
				w.notify(func(s *subscription) bool { return s.looks })
			}
		}
		a.mu.Unlock()
	}
	return nil
}

// seen notes the version of a task that a subscriber has read, so that the next look does not take it for a change. If
// another subscriber has read another version, the look does: one of them waits with the older.
func (a *subscriptions) seen(t *task.Task) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch w := a.waiting[task.Name(t.ID)]; {
	case w == nil:
	case w.version == neverSeen:
		w.version = t.Version
	case w.version != t.Version:
		w.version = disputed
	}
}

// notify wakes those who wait for a task, except the one who changed it, which may be nil.
func (a *subscriptions) notify(name string, except <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w := a.waiting[name]; w != nil {
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
