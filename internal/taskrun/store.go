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
	called  func(ctx context.Context, method string, began time.Time, err error) // [Options.Called]
}

// bound bounds the time for one call of a method of the store. The function that it returns must be deferred.
func (s safeStore) bound(ctx context.Context, method string, err *error) (context.Context, func()) {
	bounded, cancel := context.WithTimeoutCause(ctx, s.timeout, errSilent)
	var began time.Time
	if s.called != nil {
		began = time.Now()
	}
	return bounded, func() {
		if v := recover(); v != nil {
			*err = fmt.Errorf("the store panicked: %v\n%s", v, debug.Stack())
		}
		if *err != nil && context.Cause(bounded) == errSilent && !refused(*err) {
			*err = fmt.Errorf("%w within %v: %w", errSilent, s.timeout, *err)
		}
		cancel()
		if s.called != nil {
			s.called(ctx, method, began, failure(ctx, *err))
		}
	}
}

// failure returns err if a call of the store failed, and nil if it is an answer of the store. A call whose caller went
// away has the error of ctx.
func failure(ctx context.Context, err error) error {
	switch {
	case err == nil, refused(err), errors.Is(err, task.ErrExists), errors.Is(err, task.ErrQuota):
		return nil
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	}
	return err
}

// errSilent says that a call of the store took longer than [task.Settings.StoreTimeout].
var errSilent = errors.New("the store did not answer")

func (s safeStore) Create(
	ctx context.Context, t *task.Task, ttl, lease time.Duration, call []byte, entries [][]byte, quota task.Quota,
) (err error) {
	ctx, done := s.bound(ctx, "Create", &err)
	defer done()
	return s.store.Create(ctx, t, ttl, lease, call, entries, quota)
}

// insert is for a store that is a [task.Inserter].
func (s safeStore) insert(
	ctx context.Context, t *task.Task, ttl time.Duration, call []byte, u task.Update, quota task.Quota,
) (err error) {
	ctx, done := s.bound(ctx, "Insert", &err)
	defer done()
	return s.store.(task.Inserter).Insert(ctx, t, ttl, call, u, quota)
}

func (s safeStore) Get(ctx context.Context, id string) (t *task.Task, err error) {
	ctx, done := s.bound(ctx, "Get", &err)
	defer done()
	return s.store.Get(ctx, id)
}

func (s safeStore) Versions(ctx context.Context, ids []string) (versions map[string]int64, err error) {
	ctx, done := s.bound(ctx, "Versions", &err)
	defer done()
	return s.store.Versions(ctx, ids)
}

func (s safeStore) List(
	ctx context.Context, principal, dialect string, created time.Time, id string, limit int,
) (tasks []*task.Task, err error) {
	ctx, done := s.bound(ctx, "List", &err)
	defer done()
	return s.store.List(ctx, principal, dialect, created, id, limit)
}

func (s safeStore) Select(
	ctx context.Context, f task.Filter, after string, limit int,
) (tasks []*task.Task, err error) {
	ctx, done := s.bound(ctx, "Select", &err)
	defer done()
	return s.store.Select(ctx, f, after, limit)
}

func (s safeStore) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) (claimed []*task.Claimed, err error) {
	ctx, done := s.bound(ctx, "Claim", &err)
	defer done()
	return s.store.Claim(ctx, after, load, lease, limit)
}

func (s safeStore) Journal(ctx context.Context, id string, most int) (call []byte, entries [][]byte, err error) {
	ctx, done := s.bound(ctx, "Journal", &err)
	defer done()
	return s.store.Journal(ctx, id, most)
}

func (s safeStore) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) (err error) {
	ctx, done := s.bound(ctx, "Append", &err)
	defer done()
	return s.store.Append(ctx, id, claim, there, entry)
}

func (s safeStore) Renew(
	ctx context.Context, leases []task.Leased, lease time.Duration,
) (renewed []task.Renewed, err error) {
	ctx, done := s.bound(ctx, "Renew", &err)
	defer done()
	renewed, err = s.store.Renew(ctx, leases, lease)
	if err == nil && len(renewed) != len(leases) {
		err = fmt.Errorf("the store renewed %d leases and answered for %d", len(leases), len(renewed))
	}
	return renewed, err
}

func (s safeStore) Update(ctx context.Context, t *task.Task, u task.Update) (err error) {
	ctx, done := s.bound(ctx, "Update", &err)
	defer done()
	return s.store.Update(ctx, t, u)
}

func (s safeStore) Expired(ctx context.Context, limit int) (ids []string, err error) {
	ctx, done := s.bound(ctx, "Expired", &err)
	defer done()
	return s.store.Expired(ctx, limit)
}

func (s safeStore) Purge(ctx context.Context, grace time.Duration, limit int) (n int, err error) {
	ctx, done := s.bound(ctx, "Purge", &err)
	defer done()
	return s.store.Purge(ctx, grace, limit)
}

func (s safeStore) Evict(ctx context.Context, principal string, age time.Duration, limit int) (n int, err error) {
	ctx, done := s.bound(ctx, "Evict", &err)
	defer done()
	return s.store.Evict(ctx, principal, age, limit)
}

func (s safeStore) Questions(ctx context.Context, name string) (questions []*task.Question, err error) {
	ctx, done := s.bound(ctx, "Questions", &err)
	defer done()
	return s.store.Questions(ctx, name)
}

func (s safeStore) Waiting(
	ctx context.Context, f task.QuestionFilter, after *task.Question, limit int,
) (questions []*task.Question, err error) {
	ctx, done := s.bound(ctx, "Waiting", &err)
	defer done()
	return s.store.Waiting(ctx, f, after, limit)
}

func (s safeStore) ChangeQuestion(ctx context.Context, q *task.Question, expired bool) (err error) {
	ctx, done := s.bound(ctx, "ChangeQuestion", &err)
	defer done()
	return s.store.ChangeQuestion(ctx, q, expired)
}

func (s safeStore) History(
	ctx context.Context, of task.QuestionHistory, after *task.Question, limit int,
) (questions []*task.Question, err error) {
	ctx, done := s.bound(ctx, "History", &err)
	defer done()
	return s.store.History(ctx, of, after, limit)
}

func (s safeStore) Changes(
	ctx context.Context, after *task.Question, limit int,
) (changed []*task.Question, now time.Time, err error) {
	ctx, done := s.bound(ctx, "Changes", &err)
	defer done()
	return s.store.Changes(ctx, after, limit)
}

func (s safeStore) Overdue(ctx context.Context, limit int) (questions []*task.Question, err error) {
	ctx, done := s.bound(ctx, "Overdue", &err)
	defer done()
	return s.store.Overdue(ctx, limit)
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

func (s safeStore) Listen(ctx context.Context, d time.Duration, named, anonymous int) (err error) {
	ctx, done := s.bound(ctx, "Listen", &err)
	defer done()
	return s.store.Listen(ctx, d, named, anonymous)
}

func (s safeStore) Notices(ctx context.Context, c task.NoticeClaim) (notices []*task.Notice, err error) {
	ctx, done := s.bound(ctx, "Notices", &err)
	defer done()
	return s.store.Notices(ctx, c)
}

func (s safeStore) Refused(ctx context.Context, limit int) (notices []*task.Notice, err error) {
	ctx, done := s.bound(ctx, "Refused", &err)
	defer done()
	return s.store.Refused(ctx, limit)
}

func (s safeStore) Settle(ctx context.Context, n *task.Notice, retry time.Duration) (err error) {
	ctx, done := s.bound(ctx, "Settle", &err)
	defer done()
	return s.store.Settle(ctx, n, retry)
}

func (s safeStore) Remember(ctx context.Context, r *task.Remembered) (err error) {
	ctx, done := s.bound(ctx, "Remember", &err)
	defer done()
	return s.store.Remember(ctx, r)
}

func (s safeStore) Recall(ctx context.Context, key, call string) (r *task.Remembered, err error) {
	ctx, done := s.bound(ctx, "Recall", &err)
	defer done()
	return s.store.Recall(ctx, key, call)
}

func (s safeStore) Remembered(
	ctx context.Context, who []string, after *task.Remembered, limit int,
) (found []*task.Remembered, err error) {
	ctx, done := s.bound(ctx, "Remembered", &err)
	defer done()
	return s.store.Remembered(ctx, who, after, limit)
}

func (s safeStore) Forget(ctx context.Context, key string) (err error) {
	ctx, done := s.bound(ctx, "Forget", &err)
	defer done()
	return s.store.Forget(ctx, key)
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
		errors.Is(err, task.ErrNotFound) || errors.Is(err, task.ErrDecided) || errors.Is(err, task.ErrClosed) ||
		errors.Is(err, task.ErrLate) || errors.Is(err, task.ErrEarly)
}
