package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/askback-mcp/askback/task"
)

const (
	getSQL  = `SELECT ` + whole + ` FROM task WHERE id = ?`
	listSQL = `SELECT ` + columns + `, substr(pending, 1, 1) FROM task
		WHERE principal = ? AND dialect = ? AND (created, id) < (?, ?)
		ORDER BY created DESC, id DESC LIMIT ?`
	selectSQL = `SELECT ` + columns + `, pending FROM task WHERE id > ?1
		AND (?2 IS NULL OR status IN (SELECT value FROM json_each(?2)))
		AND (?3 IS NULL OR principal IN (SELECT value FROM json_each(?3)))
		AND (?4 IS NULL OR target IN (SELECT value FROM json_each(?4)))
		ORDER BY id LIMIT ?5`
	countSQL = `SELECT count(*) FILTER (WHERE status = 'working'), count(*) FILTER (WHERE status = 'input_required')
		FROM task INDEXED BY task_expiry WHERE ended = 0`
	versionsSQL = `SELECT id, version FROM task WHERE id IN (SELECT value FROM json_each(?))`
	journalSQL  = `SELECT entry FROM journal WHERE task = (SELECT seq FROM task WHERE id = ?) AND n <= ? ORDER BY n`
	expiredSQL  = `SELECT id FROM task WHERE ended = 0 AND expires <= ? ORDER BY expires LIMIT ?`
)

// Get reads the row of a task. See [task.Store].
func (s *Store) Get(ctx context.Context, id string) (t *task.Task, err error) {
	defer s.wrap(ctx, "get a task", &err)
	t, err = scanWhole(s.r[getSQL].QueryRowContext(ctx, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, cmp.Or(s.present(), task.ErrNotFound)
	}
	return t, err
}

// Versions reads the versions of tasks. See [task.Store].
func (s *Store) Versions(ctx context.Context, ids []string) (versions map[string]int64, err error) {
	defer s.wrap(ctx, "look for changed tasks", &err)
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	type row struct {
		id      string
		version int64
	}
	rows, err := collect(ctx, s.r[versionsSQL], func(rows *sql.Rows, r *row) error { return rows.Scan(&r.id, &r.version) },
		string(list))
	versions = make(map[string]int64, len(rows))
	for _, r := range rows {
		versions[r.id] = r.version
	}
	return versions, err
}

// List reads tasks of a principal, without Outcome and Nonce, and with the first byte of Pending. See [task.Store].
func (s *Store) List(
	ctx context.Context, principal, dialect string, created time.Time, id string, limit int,
) (tasks []*task.Task, err error) {
	defer s.wrap(ctx, "list tasks", &err)
	before := int64(math.MaxInt64)
	if !created.IsZero() {
		before = created.UnixMilli()
	}
	return collect(ctx, s.r[listSQL], func(rows *sql.Rows, t **task.Task) error {
		*t = new(task.Task)
		return scan(rows, *t, &(*t).Pending)
	}, principal, dialect, before, id, max(limit, 0))
}

// Select reads tasks of all principals, without Outcome and Nonce. See [task.Store].
func (s *Store) Select(ctx context.Context, f task.Filter, after string, limit int) (tasks []*task.Task, err error) {
	defer s.wrap(ctx, "select tasks", &err)
	return collect(ctx, s.r[selectSQL], func(rows *sql.Rows, t **task.Task) error {
		*t = new(task.Task)
		return scan(rows, *t, &(*t).Pending)
	}, after, listOrNull(f.Statuses), listOrNull(f.Principals), listOrNull(f.Targets), max(limit, 0))
}

// Count counts the tasks that have not ended. See [task.Store].
func (s *Store) Count(ctx context.Context) (counts map[task.Status]int, err error) {
	defer s.wrap(ctx, "count tasks", &err)
	var working, asking int
	err = s.r[countSQL].QueryRowContext(ctx).Scan(&working, &asking)
	return map[task.Status]int{task.Working: working, task.InputRequired: asking}, err
}

// Journal reads the call and the entries of a task. See [task.Store].
func (s *Store) Journal(ctx context.Context, id string, most int) (call []byte, entries [][]byte, err error) {
	defer s.wrap(ctx, "read the journal of a task", &err)
	if most < 0 {
		most = math.MaxInt
	}
	all, err := collect(ctx, s.r[journalSQL], column[[]byte], id, most)
	switch {
	case err != nil:
		return nil, nil, err
	case len(all) == 0: // each task has entry 0
		return nil, nil, task.ErrNotFound
	}
	return all[0], all[1:], nil
}

// Expired finds tasks whose time to live has ended. See [task.Store].
func (s *Store) Expired(ctx context.Context, limit int) (ids []string, err error) {
	defer s.wrap(ctx, "find expired tasks", &err)
	return collect(ctx, s.r[expiredSQL], column[string], time.Now().UnixMilli(), max(limit, 0))
}
