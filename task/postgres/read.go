package postgres

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/task"
)

// Get implements [task.Store].
func (s *Store) Get(ctx context.Context, id string) (t *task.Task, err error) {
	defer s.wrap(ctx, "get a task", &err)
	err = s.on(ctx, clients, func(conn *pgxpool.Conn) (err error) {
		t, err = scan(conn.QueryRow(ctx, s.sql.get, lookup(id)))
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, task.ErrNotFound
	}
	return t, err
}

// Versions implements [task.Store].
func (s *Store) Versions(ctx context.Context, ids []string) (versions map[string]int64, err error) {
	defer s.wrap(ctx, "look for changed tasks", &err)
	storable := make([]string, len(ids))
	for i, id := range ids {
		storable[i] = fit(id)
	}
	versions = make(map[string]int64, len(ids))
	err = s.on(ctx, clients, func(conn *pgxpool.Conn) error {
		rows, _ := conn.Query(ctx, s.sql.versions, storable)
		var id string
		var version int64
		_, err := pgx.ForEachRow(rows, []any{&id, &version}, func() error {
			versions[id] = version
			return nil
		})
		return err
	})
	return versions, err
}

// List implements [task.Store]. It leaves out Outcome, and all but the first byte of Pending.
func (s *Store) List(
	ctx context.Context, principal, dialect string, created time.Time, id string, limit int,
) (tasks []*task.Task, err error) {
	defer s.wrap(ctx, "list tasks", &err)
	var from *time.Time
	if !created.IsZero() || id != "" {
		from = &created
	}
	return collect(ctx, s, clients, scanRow, s.sql.list, lookup(principal), lookup(dialect), from, fit(id), max(limit, 0))
}

// Select implements [task.Store]. It leaves out Outcome.
func (s *Store) Select(ctx context.Context, f task.Filter, after string, limit int) (tasks []*task.Task, err error) {
	defer s.wrap(ctx, "select tasks", &err)
	return collect(ctx, s, clients, scanRow, s.sql.selectTasks,
		fit(after), storable(f.Statuses), storable(f.Principals), storable(f.Targets), max(limit, 0))
}

// Count implements [task.Store].
func (s *Store) Count(ctx context.Context) (counts map[task.Status]int, err error) {
	defer s.wrap(ctx, "count tasks", &err)
	var working, asking int
	err = s.queryRow(ctx, clients, []any{&working, &asking}, s.sql.count)
	return map[task.Status]int{task.Working: working, task.InputRequired: asking}, err
}

// Journal implements [task.Store].
func (s *Store) Journal(ctx context.Context, id string, most int) (call []byte, entries [][]byte, err error) {
	defer s.wrap(ctx, "read a journal", &err)
	if most < 0 {
		most = math.MaxInt
	}
	bodies, err := collect(ctx, s, workers, pgx.RowTo[[]byte], s.sql.journal, lookup(id), most)
	switch {
	case err != nil:
		return nil, nil, err
	case len(bodies) == 0:
		return nil, nil, task.ErrNotFound
	}
	return bodies[0], bodies[1:], nil
}

// Expired implements [task.Store]. The tasks that expired first come first.
func (s *Store) Expired(ctx context.Context, limit int) (ids []string, err error) {
	defer s.wrap(ctx, "look for expired tasks", &err)
	return collect(ctx, s, clients, pgx.RowTo[string], s.sql.expired, max(limit, 0))
}
