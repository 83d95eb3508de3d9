package taskrun

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/askback-mcp/askback/task"
)

// safeStore is a store on which an engine can rely:
//
//   - Its panics are errors. The engine calls it from goroutines of its own, where a panic would end the process.
//   - It answers in time, even if the database has gone silent.
type safeStore struct {
	store   task.Store
	timeout time.Duration
	log     *slog.Logger
}

// bound bounds the time for one call of the store. The function that it returns must be deferred.
func (s safeStore) bound(ctx context.Context, err *error) (context.Context, func()) {
	bounded, cancel := context.WithTimeoutCause(ctx, s.timeout, errSilent)
	return bounded, func() {
		if v := recover(); v != nil {
			*err = fmt.Errorf("the store panicked: %v\n%s", v, debug.Stack())
		}
		if *err != nil && context.Cause(bounded) == errSilent && !refused(*err) {
			*err = fmt.Errorf("%w within %v: %w", errSilent, s.timeout, *err)
		}
		cancel()
	}
}

// lacks is the error of what the store cannot do. It is an [errors.ErrUnsupported].
func (s safeStore) lacks(doing, part string) error {
	return fmt.Errorf("the store cannot %s: %T is no %s: %w", doing, s.store, part, errors.ErrUnsupported)
}

// errSilent says that a call of the store took longer than [task.Settings.StoreTimeout].
var errSilent = errors.New("the store did not answer")

func (s safeStore) Create(
	ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota,
) (err error) {
	ctx, done := s.bound(ctx, &err)
	defer done()
	return s.store.Create(ctx, t, ttl, lease, call, entries, quota)
}

func (s safeStore) Get(ctx context.Context, id string) (t *task.Task, err error) {
	ctx, done := s.bound(ctx, &err)
	defer done()
	return s.store.Get(ctx, id)
}

// Versions reads the versions of tasks at once, or one after the other if the store is no [task.Versioner].
func (s safeStore) Versions(ctx context.Context, ids []string) (versions map[string]int64, err error) {
	if store, ok := s.store.(task.Versioner); ok {
		ctx, done := s.bound(ctx, &err)
		defer done()
		return store.Versions(ctx, ids)
	}
	versions = make(map[string]int64, len(ids))
	for _, id := range ids {
		t, err := s.Get(ctx, id)
		switch {
		case err == nil:
			versions[id] = t.Version
		case !errors.Is(err, task.ErrNotFound):
			return nil, err
		}
	}
	return versions, nil
}

func (s safeStore) List(
	ctx context.Context, principal, dialect string, created time.Time, id string, limit int,
) (tasks []*task.Task, err error) {
	store, ok := s.store.(task.Lister)
	if !ok {
		return nil, s.lacks("list tasks", "task.Lister")
	}
	ctx, done := s.bound(ctx, &err)
	defer done()
	return store.List(ctx, principal, dialect, created, id, limit)
}

func (s safeStore) Select(
	ctx context.Context, f task.Filter, after string, limit int,
) (tasks []*task.Task, err error) {
	store, ok := s.store.(task.Lister)
	if !ok {
		return nil, s.lacks("find tasks without their IDs", "task.Lister")
	}
	ctx, done := s.bound(ctx, &err)
	defer done()
	return store.Select(ctx, f, after, limit)
}

func (s safeStore) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) (claimed []*task.Claimed, err error) {
	ctx, done := s.bound(ctx, &err)
	defer done()
	return s.store.Claim(ctx, after, load, lease, limit)
}

func (s safeStore) Journal(ctx context.Context, id string) (call []byte, entries [][]byte, err error) {
	ctx, done := s.bound(ctx, &err)
	defer done()
	return s.store.Journal(ctx, id)
}

func (s safeStore) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) (err error) {
	ctx, done := s.bound(ctx, &err)
	defer done()
	return s.store.Append(ctx, id, claim, there, entry)
}

func (s safeStore) Renew(
	ctx context.Context, leases []task.Leased, lease time.Duration,
) (renewed []task.Renewed, err error) {
	ctx, done := s.bound(ctx, &err)
	defer done()
	renewed, err = s.store.Renew(ctx, leases, lease)
	if err == nil && len(renewed) != len(leases) {
		err = fmt.Errorf("the store renewed %d leases and answered for %d", len(leases), len(renewed))
	}
	return renewed, err
}

func (s safeStore) Update(ctx context.Context, t *task.Task, u task.Update) (err error) {
	ctx, done := s.bound(ctx, &err)
	defer done()
	return s.store.Update(ctx, t, u)
}

func (s safeStore) Expired(ctx context.Context, limit int) (ids []string, err error) {
	ctx, done := s.bound(ctx, &err)
	defer done()
	return s.store.Expired(ctx, limit)
}

func (s safeStore) Purge(ctx context.Context, grace time.Duration, limit int) (n int, err error) {
	ctx, done := s.bound(ctx, &err)
	defer done()
	return s.store.Purge(ctx, grace, limit)
}

// Evict makes room for a principal. A store that is no [task.Evicter] has none to make.
func (s safeStore) Evict(ctx context.Context, principal string, age time.Duration, limit int) (n int, err error) {
	store, ok := s.store.(task.Evicter)
	if !ok {
		return 0, nil
	}
	ctx, done := s.bound(ctx, &err)
	defer done()
	return store.Evict(ctx, principal, age, limit)
}

// watch waits for changes that other instances make. If the store is not a [task.Watcher] it returns
// at once, with watches false.
func (s safeStore) watch(
	ctx context.Context, ready func(), changed func(name string, due bool),
) (watches bool, err error) {
	w, watches := s.store.(task.Watcher)
	if !watches {
		return false, nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the store panicked: %v\n%s", v, debug.Stack())
		}
	}()
	return true, w.Watch(ctx, ready, changed)
}

// woken is Woken of a store that is a [task.Waker].
func (s safeStore) woken(ctx context.Context, limit int) (ids []string, err error) {
	ctx, done := s.bound(ctx, &err)
	defer done()
	return s.store.(task.Waker).Woken(ctx, limit)
}

// persist repeats a write until the store takes it, refuses it, or ctx is done.
func (s safeStore) persist(ctx context.Context, write func() error) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := write()
		if err == nil || refused(err) || ctx.Err() != nil {
			return err
		}
		s.log.WarnContext(ctx, "task: a write failed; trying again", "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// refused reports whether err is a store's refusal of a write. Any other error says that the store's answer was lost.
func refused(err error) bool {
	return errors.Is(err, task.ErrLeaseLost) || errors.Is(err, task.ErrConflict) || errors.Is(err, task.ErrEnded) ||
		errors.Is(err, task.ErrNotFound)
}
