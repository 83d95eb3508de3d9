package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver

	"github.com/askback-mcp/askback/internal/pgtest"
)

// store is the database below the servers, which this program looks into.
type store interface {
	fill(ctx context.Context, tasks int) error
	// watch finds out how long statements wait for the migration, until longest is called.
	watch(ctx context.Context) (longest func() time.Duration)
	migrated(ctx context.Context) error   // waits until the migration is done
	check(ctx context.Context, r *report) // the quotas against the journals
}

// opened is a store, where servers find it, and what ends it.
type opened struct {
	store
	url   string
	close func()
}

func openStore(o options, dir string) (*opened, error) {
	switch o.store {
	case "postgres":
		if o.dsn != "" {
			return &opened{&postgres{url: o.dsn}, o.dsn, func() {}}, nil
		}
		server, close, err := pgtest.Open()
		if err != nil {
			return nil, err
		}
		return &opened{&postgres{url: server.DSN()}, server.DSN(), close}, nil
	case "sqlite":
		path := filepath.Join(dir, "tasks.db")
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
		if err != nil {
			return nil, err
		}
		return &opened{&sqlite{db}, "sqlite:" + path, func() { db.Close() }}, nil
	}
	return nil, fmt.Errorf("-store %q: want postgres or sqlite", o.store)
}

// Both fill a store with the columns that the previous release has, and earlier ones had.

type postgres struct {
	url    string
	before []string // relations of the release before
}

// relations are what statements rely on: without an index they would be slow.
const relations = `SELECT coalesce(array_agg(r ORDER BY r), '{}') FROM (
	SELECT indexdef FROM pg_indexes WHERE schemaname = 'askback'
	UNION ALL SELECT table_name || '.' || column_name || ' ' || data_type
	FROM information_schema.columns WHERE table_schema = 'askback') AS every (r)`

func (p *postgres) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.PgConn().Exec(ctx, sql).ReadAll()
	return err
}

func (p *postgres) read(ctx context.Context, sql string, to any) error {
	conn, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return conn.QueryRow(ctx, sql).Scan(to)
}

const parked = `
	INSERT INTO askback.task (id, principal, method, target, dialect, status, message, round, created, updated, expires,
		poll_interval, stopped, attempts, version, fence, entries)
	SELECT md5(n::text), 'user ' || n %% 200, 'tools/call', 'nothing', 'extension', 'input_required', '', 1, now(), now(),
		now() + interval '7 days', 0, false, 0, 1, 1, 2 FROM generate_series(1, %d) AS n;
	INSERT INTO askback.journal SELECT md5(n::text), seq, repeat('x', 300)::bytea
	FROM generate_series(1, %[1]d) AS n, generate_series(0, 2) AS seq;`

func (p *postgres) fill(ctx context.Context, tasks int) error {
	if err := p.read(ctx, relations, &p.before); err != nil {
		return err
	}
	if err := p.exec(ctx, fmt.Sprintf(parked, tasks)); err != nil {
		return err
	}
	var counts bool // whether the release counts bytes
	err := p.read(ctx, `SELECT count(*) > 0 FROM information_schema.columns
		WHERE table_name = 'task' AND column_name = 'bytes'`, &counts)
	if err == nil && counts {
		err = p.exec(ctx, `UPDATE askback.task SET bytes = 900 WHERE target = 'nothing'`)
	}
	if err == nil {
		err = p.exec(ctx, `VACUUM ANALYZE`)
	}
	return err
}

// watch looks every few milliseconds who waits for a lock of the migration.
func (p *postgres) watch(ctx context.Context) func() time.Duration {
	ctx, cancel := context.WithCancel(ctx)
	longest := make(chan time.Duration, 1)
	go func() {
		var found time.Duration
		defer func() { longest <- found }()
		conn, err := pgx.Connect(ctx, p.url)
		if err != nil {
			return
		}
		defer conn.Close(context.WithoutCancel(ctx))
		for ctx.Err() == nil {
			var waited *time.Duration
			err := conn.QueryRow(ctx, `
				SELECT max(clock_timestamp() - a.query_start) FROM pg_stat_activity AS a
				WHERE a.wait_event_type = 'Lock' AND a.application_name <> 'askback migration' AND EXISTS (
					SELECT FROM unnest(pg_blocking_pids(a.pid)) AS b (pid) JOIN pg_stat_activity AS m ON m.pid = b.pid
					WHERE m.application_name = 'askback migration')`).Scan(&waited)
			if err == nil && waited != nil {
				found = max(found, *waited)
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() time.Duration {
		cancel()
		return <-longest
	}
}

func (p *postgres) migrated(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for {
		var done bool
		err := p.read(ctx, `SELECT EXISTS (SELECT FROM askback.migration_step WHERE name = 'counted')`, &done)
		if err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the migration is not done: %w", ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (p *postgres) check(ctx context.Context, r *report) {
	var after []string
	if err := p.read(ctx, relations, &after); err != nil {
		r.fail("%v", err)
	}
	for _, relation := range p.before {
		if !slices.Contains(after, relation) {
			r.fail("the release before uses %s, which is gone", relation)
		}
	}
	var wrong int
	err := p.read(ctx, `SELECT count(*) FROM askback.task AS t
		WHERE bytes <> (SELECT sum(octet_length(body)) FROM askback.journal AS j WHERE j.id = t.id)`, &wrong)
	if err != nil || wrong > 0 {
		r.fail("%d tasks have other bytes than their journals, %v", wrong, err)
	}
}

type sqlite struct{ db *sql.DB }

func (s *sqlite) fill(ctx context.Context, tasks int) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	now := time.Now().UnixMilli()
	for n := range tasks {
		if _, err := tx.ExecContext(ctx, `
			INSERT INTO task (seq, id, version, fence, attempts, ended, created, updated, expires, poll, round, stopped, status,
				principal, dialect, method, target, message)
			VALUES (?, ?, 1, 1, 0, 0, ?, ?, ?, 0, 1, 0, 'input_required', ?, 'extension', 'tools/call', 'nothing', '')`,
			n+1, fmt.Sprint("parked ", n), now, now, now+7*24*3600*1000, fmt.Sprint("user ", n%200)); err != nil {
			return err
		}
		for entry := range 3 {
			if _, err := tx.ExecContext(ctx, `INSERT INTO journal VALUES (?, ?, ?)`, n+1, entry, make([]byte, 300)); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}

// In SQLite only one can write, and how long a write waits for the others is not to be seen: the slowest call says it.
func (s *sqlite) watch(context.Context) func() time.Duration {
	return func() time.Duration { return 0 }
}

func (s *sqlite) migrated(ctx context.Context) error { return nil } // when it is open

func (s *sqlite) check(ctx context.Context, r *report) {
	var wrong int
	err := s.db.QueryRowContext(ctx, `
		SELECT count(*) FROM task WHERE bytes <> (SELECT sum(length(entry)) FROM journal WHERE task = seq)`).Scan(&wrong)
	if err != nil || wrong > 0 {
		r.fail("%d tasks have other bytes than their journals, %v", wrong, err)
	}
}
