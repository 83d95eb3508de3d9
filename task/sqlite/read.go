package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"time"

	"github.com/askback-mcp/askback/task"
)

const (
	columns = `id, principal, method, target, dialect, status, message, round,
		created, updated, expires, poll, stopped, attempts, version, fence`

	getSQL     = `SELECT ` + columns + `, pending, outcome FROM task WHERE id = ?`
	listSQL    = `SELECT ` + columns + ` FROM task WHERE principal = ? AND dialect = ? AND (created, id) < (?, ?) ORDER BY created DESC, id DESC LIMIT ?`
	journalSQL = `SELECT entry FROM journal WHERE task = (SELECT seq FROM task WHERE id = ?) ORDER BY n`
	expiredSQL = `SELECT id FROM task WHERE ended = 0 AND expires <= ? ORDER BY expires LIMIT ?`

	// Those that write look first, for it is seldom that there is something to do.
	anyDueSQL       = `SELECT EXISTS (SELECT 1 FROM task WHERE due IS NOT NULL) OR EXISTS (SELECT 1 FROM task WHERE wake <= ?)`
	anyPurgeableSQL = `SELECT EXISTS (SELECT 1 FROM task WHERE ended = 1 AND due IS NULL AND wake IS NULL AND expires <= ?)`
)

// reads are the statements of the readers.
type reads struct {
	get, list, journal, expired, anyDue, anyPurgeable *sql.Stmt

	getState, findStates *sql.Stmt
}

func (s *Store) prepareReads(ctx context.Context) error {
	r := &s.r
	return s.prepare(ctx, s.readers, map[**sql.Stmt]string{
		&r.get: getSQL, &r.list: listSQL, &r.journal: journalSQL,
		&r.expired: expiredSQL, &r.anyDue: anyDueSQL, &r.anyPurgeable: anyPurgeableSQL,
		&r.getState: getStateSQL, &r.findStates: findStatesSQL,
	})
}

// Get reads the row of a task. See [task.Store].
func (s *Store) Get(ctx context.Context, id string) (*task.Task, error) {
	t := new(task.Task)
	err := scan(s.r.get.QueryRowContext(ctx, id), t, &t.Pending, &t.Outcome)
	if errors.Is(err, sql.ErrNoRows) {
		err = task.ErrNotFound
	}
	if err != nil {
		return nil, s.failed(ctx, "get a task", err)
	}
	return t, nil
}

// scan reads columns, and what comes after them.
func scan(row interface{ Scan(...any) error }, t *task.Task, more ...any) error {
	var created, updated, expires, poll int64
	to := [18]any{&t.ID, &t.Principal, &t.Method, &t.Target, &t.Dialect, &t.Status, &t.Message, &t.Round,
		&created, &updated, &expires, &poll, &t.Stopped, &t.Attempts, &t.Version, &t.Fence}
	err := row.Scan(append(to[:16], more...)...)
	t.Created, t.Updated, t.Expires = timeAt(created), timeAt(updated), timeAt(expires)
	t.PollInterval = time.Duration(poll) * time.Millisecond
	return err
}

func timeAt(milliseconds int64) time.Time { return time.UnixMilli(milliseconds).UTC() }

// List reads tasks of a principal, without Pending and Outcome. See [task.Store].
func (s *Store) List(ctx context.Context, principal, dialect string, created time.Time, id string, limit int) ([]*task.Task, error) {
	before := int64(math.MaxInt64)
	if !created.IsZero() {
		before = created.UnixMilli()
	}
	var ts []*task.Task
	err := each(ctx, s.r.list, func(rows *sql.Rows) error {
		t := new(task.Task)
		ts = append(ts, t)
		return scan(rows, t)
	}, principal, dialect, before, id, max(limit, 0))
	if err != nil {
		return nil, s.failed(ctx, "list tasks", err)
	}
	return ts, nil
}

// Journal reads the call and the entries of a task. See [task.Store].
func (s *Store) Journal(ctx context.Context, id string) (call []byte, entries [][]byte, err error) {
	found := false
	err = each(ctx, s.r.journal, func(rows *sql.Rows) error {
		var entry []byte
		if err := rows.Scan(&entry); err != nil {
			return err
		}
		if !found {
			found, call = true, entry
		} else {
			entries = append(entries, entry)
		}
		return nil
	}, id)
	if err == nil && !found {
		err = task.ErrNotFound // each task has entry 0
	}
	if err != nil {
		return nil, nil, s.failed(ctx, "read the journal of a task", err)
	}
	return call, entries, nil
}

// Expired finds tasks whose time to live has ended. See [task.Store].
func (s *Store) Expired(ctx context.Context, limit int) (ids []string, err error) {
	err = each(ctx, s.r.expired, func(rows *sql.Rows) error {
		var id string
		ids = append(ids, id)
		return rows.Scan(&ids[len(ids)-1])
	}, time.Now().UnixMilli(), max(limit, 0))
	if err != nil {
		return nil, s.failed(ctx, "find expired tasks", err)
	}
	return ids, nil
}

// each calls do for each row of a query.
func each(ctx context.Context, stmt *sql.Stmt, do func(*sql.Rows) error, args ...any) error {
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(rows); err != nil {
			return err
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}
