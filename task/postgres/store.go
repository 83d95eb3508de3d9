// Package postgres keeps tasks in PostgreSQL, for any number of instances that share
// them.
//
//	store, err := postgres.Open(ctx, os.Getenv("DATABASE_URL"))
//	if err != nil {
//		return err
//	}
//	defer store.Close()
//	engine := task.NewEngine(store, &task.Options{Handler: handler})
//
// # The database
//
// PostgreSQL 13 or newer, in the isolation level read committed, which is the default.
// [Open] makes the tables in a schema of their own, named askback, and brings those of
// an older version up to date; several instances may do so at once. The search_path of
// the URL names another schema, so that services, or tests, can share a database without
// seeing each other's tasks. A role that may not create a schema needs one that it may
// create tables in.
//
// Versions only add to the tables. Instances of the old version go on beside those of
// the new one; but an old one does not open what a newer one has changed.
//
// Like all that is changed often, tasks need what PostgreSQL clears away while it works:
// leave autovacuum on, and transactions in the same database short. While one stays open
// each Claim is slower than the one before.
//
// # The URL
//
// Both forms of PostgreSQL do, URL and "key=value key=value", with the parameters of
// pgxpool: pool_max_conns (by default the number of CPUs, and 4 at least) and its like.
// [Store.Watch] takes a connection more.
//
// Through PgBouncer in transaction mode, give default_query_exec_mode=exec: prepared
// statements and the settings of a session are for a connection of one's own. Watch
// needs that too, and returns an error.
//
// # States
//
// The Store also keeps states, as an state.Store, in a table of their own: see
// [Store.PutState]. Writes delete those that have expired.
//
// # Text
//
// PostgreSQL keeps text without zero bytes and in valid UTF-8 only. Create and Update
// refuse another ID, Principal, Method, Target, Dialect or Status; what does not fit of
// a Message becomes U+FFFD. An ID may have up to 2 KB, and so may Principal and Dialect
// together.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/task"
)

// Store is a [task.Store] and a [task.Watcher]. It is safe for concurrent use.
//
// When the connection or the server is lost, methods return an error, and work again
// when the server does. It is a *pgconn.ConnectError if there was no connection to be
// had; the server's own errors are a *pgconn.PgError, with the code 57P01 if it shut
// down. Whether a write was done whose connection broke off, nobody knows.
//
// A write lasts as the server's synchronous_commit says, which by default is that it
// survives a crash.
type Store struct {
	pool   *pgxpool.Pool
	schema string
	sql    statements

	news chan string // ids that others are to be told

	puts atomic.Int64 // of states

	closing  context.Context
	stop     context.CancelFunc
	watchers sync.WaitGroup
}

var (
	_ task.Store   = (*Store)(nil)
	_ task.Watcher = (*Store)(nil)
)

// Open connects to the database with this URL and makes its tables fit; see the package
// comment. Errors never show the URL, which may hold a password.
func Open(ctx context.Context, url string) (*Store, error) {
	config, schema, err := parse(url)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("task/postgres: %w", err)
	}
	if err := migrate(ctx, pool, schema, migrations); err != nil {
		pool.Close()
		return nil, fmt.Errorf("task/postgres: prepare the schema %q: %w", schema, err)
	}
	s := &Store{pool: pool, schema: schema, sql: newStatements(schema), news: make(chan string, 1024)}
	s.closing, s.stop = context.WithCancel(context.Background())
	s.watchers.Go(s.notify)
	return s, nil
}

// Close ends each Watch, waits for the calls that are under way, and closes the
// connections. The error is nil.
func (s *Store) Close() error {
	s.stop()
	s.watchers.Wait()
	s.pool.Close()
	return nil
}

// Create implements [task.Store].
func (s *Store) Create(ctx context.Context, t *task.Task, ttl time.Duration, call []byte, entries [][]byte, quota int) error {
	const what = "create a task"
	for _, text := range []struct{ name, value string }{
		{"ID", t.ID}, {"Principal", t.Principal}, {"Method", t.Method},
		{"Target", t.Target}, {"Dialect", t.Dialect}, {"Status", string(t.Status)},
	} {
		if err := check(text.name, text.value); err != nil {
			return fmt.Errorf("task/postgres: %s: %w", what, err)
		}
	}
	var created, expires time.Time
	args := []any{
		t.ID, t.Principal, t.Method, t.Target, t.Dialect,
		string(t.Status), fit(t.Message), optional(t.Pending), optional(t.Outcome), t.Round,
		int64(t.PollInterval), t.Stopped, t.Attempts, ttl.Truncate(time.Millisecond),
		call, list(entries), quota,
	}
	var err error
	if quota <= 0 {
		err = s.pool.QueryRow(ctx, s.sql.create, args...).Scan(&created, &expires)
	} else {
		// The count is exact since its statement begins when the lock is held. Both go
		// to the server at once, and are one transaction.
		var batch pgx.Batch
		batch.Queue(s.sql.lockPrincipal, t.Principal)
		batch.Queue(s.sql.create, args...).QueryRow(func(row pgx.Row) error {
			return row.Scan(&created, &expires)
		})
		err = s.pool.SendBatch(ctx, &batch).Close()
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return task.ErrQuota
	}
	if code(err) == uniqueViolation {
		return task.ErrExists
	}
	if err != nil {
		return s.failed(ctx, what, err)
	}
	t.Created, t.Updated, t.Expires = created.UTC(), created.UTC(), expires.UTC()
	t.Version, t.Fence = 0, 0
	s.tell(t.ID)
	return nil
}

// Get implements [task.Store].
func (s *Store) Get(ctx context.Context, id string) (*task.Task, error) {
	if check("", id) != nil {
		return nil, task.ErrNotFound // and no id that is stored
	}
	t, err := scan(s.pool.QueryRow(ctx, s.sql.get, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, task.ErrNotFound
	}
	if err != nil {
		return nil, s.failed(ctx, "get a task", err)
	}
	return t, nil
}

// List implements [task.Store]. It leaves out Pending and Outcome.
func (s *Store) List(ctx context.Context, principal, dialect string, created time.Time, id string, limit int) ([]*task.Task, error) {
	for _, text := range []string{principal, dialect, id} {
		if check("", text) != nil {
			return nil, nil // nothing like it is stored
		}
	}
	var from *time.Time
	if !created.IsZero() || id != "" {
		from = &created
	}
	rows, _ := s.pool.Query(ctx, s.sql.list, principal, dialect, from, id, max(limit, 0))
	tasks, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*task.Task, error) { return scan(row) })
	if err != nil {
		return nil, s.failed(ctx, "list tasks", err)
	}
	return tasks, nil
}

// Claim implements [task.Store]. The order of principals is that of their bytes. A task
// that is being written to at this moment is not claimed.
func (s *Store) Claim(ctx context.Context, after string, lease time.Duration) (*task.Task, error) {
	t, err := scan(s.pool.QueryRow(ctx, s.sql.claim, fit(after), lease))
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, s.failed(ctx, "claim a task", err)
	}
	return t, nil
}

// Journal implements [task.Store].
func (s *Store) Journal(ctx context.Context, id string) (call []byte, entries [][]byte, err error) {
	if check("", id) != nil {
		return nil, nil, task.ErrNotFound
	}
	rows, _ := s.pool.Query(ctx, s.sql.journal, id)
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, nil, s.failed(ctx, "read a journal", err)
	}
	if len(bodies) == 0 {
		return nil, nil, task.ErrNotFound
	}
	return bodies[0], bodies[1:], nil
}

// Append implements [task.Store].
func (s *Store) Append(ctx context.Context, id string, fence int64, entry []byte) error {
	if check("", id) != nil {
		return task.ErrNotFound
	}
	tag, err := s.pool.Exec(ctx, s.sql.append, id, fence, entry)
	if err == nil && tag.RowsAffected() == 0 {
		return s.refused(ctx, id, &fence)
	}
	if err != nil {
		return s.failed(ctx, "append to a journal", err)
	}
	return nil
}

// Renew implements [task.Store]. A task that is parked stays parked.
func (s *Store) Renew(ctx context.Context, id string, fence int64, lease time.Duration) (version int64, err error) {
	if check("", id) != nil {
		return 0, task.ErrNotFound
	}
	err = s.pool.QueryRow(ctx, s.sql.renew, id, fence, lease).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, s.refused(ctx, id, &fence)
	}
	if err != nil {
		return 0, s.failed(ctx, "renew a lease", err)
	}
	return version, nil
}

// Update implements [task.Store]. Who has lost its lease is told that rather than
// [task.ErrConflict].
func (s *Store) Update(ctx context.Context, t *task.Task, u task.Update) error {
	const what = "update a task"
	if check("", t.ID) != nil {
		return task.ErrNotFound
	}
	if err := check("Status", string(t.Status)); err != nil {
		return fmt.Errorf("task/postgres: %s: %w", what, err)
	}
	var fence *int64
	if u.Leased {
		fence = &t.Fence
	}
	var due *time.Duration
	if u.Due >= 0 {
		due = &u.Due
	}
	var updated time.Time
	var version int64
	err := s.pool.QueryRow(ctx, s.sql.update,
		t.ID, t.Version, fence,
		string(t.Status), fit(t.Message), optional(t.Pending), optional(t.Outcome), t.Round,
		t.Expires.Truncate(time.Millisecond), t.Stopped, t.Attempts,
		u.Keep, due, list(u.Entries),
	).Scan(&updated, &version)
	if errors.Is(err, pgx.ErrNoRows) {
		return s.refused(ctx, t.ID, fence)
	}
	if err != nil {
		return s.failed(ctx, what, err)
	}
	t.Updated, t.Version = updated.UTC(), version
	s.tell(t.ID)
	return nil
}

// Expired implements [task.Store]. Those that have been so longest come first.
func (s *Store) Expired(ctx context.Context, limit int) (ids []string, err error) {
	rows, _ := s.pool.Query(ctx, s.sql.expired, max(limit, 0))
	ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, s.failed(ctx, "look for expired tasks", err)
	}
	return ids, nil
}

// Purge implements [task.Store]. It leaves tasks that will be due later, such as those
// under a lease.
func (s *Store) Purge(ctx context.Context, grace time.Duration, limit int) (n int, err error) {
	// A statement does not see what came after it began. So one locks the tasks, and
	// another deletes all that had been added to their journals when they were locked.
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		rows, _ := tx.Query(ctx, s.sql.purgeable, grace, max(limit, 0))
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(ids) == 0 {
			return err
		}
		n = len(ids)
		_, err = tx.Exec(ctx, s.sql.purge, ids)
		return err
	})
	if err != nil {
		return 0, s.failed(ctx, "purge tasks", err)
	}
	return n, nil
}

// refused says why a write under a condition found no task. A fence of nil is no
// condition. A fence, once passed, does not come back, so it does not matter that this
// is a look at a later time.
func (s *Store) refused(ctx context.Context, id string, fence *int64) error {
	var stored int64
	err := s.pool.QueryRow(ctx, s.sql.fence, id).Scan(&stored)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return task.ErrNotFound
	case err != nil:
		return s.failed(ctx, "see why a write was refused", err)
	case fence != nil && *fence != stored:
		return task.ErrLeaseLost
	}
	return task.ErrConflict
}

// failed adds to an error what was being done. If the server is gone, so are the other
// connections, which would each fail one more call.
func (s *Store) failed(ctx context.Context, what string, err error) error {
	if ctx.Err() == nil && lost(err) {
		s.pool.Reset()
	}
	return fmt.Errorf("task/postgres: %s: %w", what, err)
}

// lost reports whether an error says that the connection broke off.
func lost(err error) bool {
	switch code(err) {
	case "57P01", "57P02", "57P03": // admin_shutdown, crash_shutdown, cannot_connect_now
		return true
	}
	var broken *net.OpError
	return errors.As(err, &broken) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

const uniqueViolation = "23505"

// code returns the code of an error of the server, or "".
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// check refuses what PostgreSQL does not keep.
func check(name, text string) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("the %s %.100q is not valid UTF-8, which PostgreSQL does not store: choose another", name, text)
	}
	if strings.Contains(text, "\x00") {
		return fmt.Errorf("the %s %.100q has a zero byte, which PostgreSQL does not store: choose another", name, text)
	}
	return nil
}

// fit replaces what PostgreSQL does not keep.
func fit(text string) string {
	if check("", text) == nil {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd")
}

// optional returns bytes that are stored as NULL if there are none.
func optional(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// list returns a list that is not stored as NULL.
func list(entries [][]byte) [][]byte {
	if entries == nil {
		return [][]byte{}
	}
	return entries
}
