package upgrade

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

// store is the database below the servers, which this test looks into. Fill writes the columns that the release before
// has, and earlier ones had.
type store interface {
	url() string // where servers find it
	fill(tasks int)
	watch() (longest func() time.Duration) // finds out how long statements wait for the migration, until longest is called
	migrated()                             // waits until the migration is done
	check()                                // the quotas against the journals
}

type postgres struct {
	*run
	dsn    string
	before []string // relations of the release before
}

func openPostgres(r *run) store { return &postgres{run: r, dsn: pgtest.DSN(r.t)} }

func (p *postgres) url() string { return p.dsn }

// relations are what statements rely on: without an index they would be slow.
const relations = `SELECT coalesce(array_agg(r ORDER BY r), '{}') FROM (
	SELECT indexdef FROM pg_indexes WHERE schemaname = 'askback'
	UNION ALL SELECT table_name || '.' || column_name || ' ' || data_type
	FROM information_schema.columns WHERE table_schema = 'askback') AS every (r)`

// query connects, and reads the only row of a statement.
func (p *postgres) query(sql string, to ...any) {
	p.t.Helper()
	conn, err := pgx.Connect(p.t.Context(), p.dsn)
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(p.t.Context()))
	if len(to) == 0 {
		_, err = conn.PgConn().Exec(p.t.Context(), sql).ReadAll()
	} else {
		err = conn.QueryRow(p.t.Context(), sql).Scan(to...)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

const parked = `
	INSERT INTO askback.task (id, principal, method, target, dialect, status, message, round, created, updated, expires,
		poll_interval, stopped, attempts, version, fence, entries)
	SELECT md5(n::text), 'user ' || n %% 200, 'tools/call', 'nothing', 'extension', 'input_required', '', 1, now(), now(),
		now() + interval '7 days', 0, false, 0, 1, 1, 2 FROM generate_series(1, %d) AS n;
	INSERT INTO askback.journal SELECT md5(n::text), seq, repeat('x', 300)::bytea
	FROM generate_series(1, %[1]d) AS n, generate_series(0, 2) AS seq;`

func (p *postgres) fill(tasks int) {
	p.query(relations, &p.before)
	p.query(fmt.Sprintf(parked, tasks))
	var counts bool // whether the release counts bytes
	p.query(`SELECT count(*) > 0 FROM information_schema.columns
		WHERE table_name = 'task' AND column_name = 'bytes'`, &counts)
	if counts {
		p.query(`UPDATE askback.task SET bytes = 900 WHERE target = 'nothing'`)
	}
	p.query(`VACUUM ANALYZE`)
}

// watch looks every few milliseconds who waits for a lock of the migration.
func (p *postgres) watch() func() time.Duration {
	ctx, cancel := context.WithCancel(p.t.Context())
	longest := make(chan time.Duration, 1)
	go func() {
		var found time.Duration
		defer func() { longest <- found }()
		conn, err := pgx.Connect(ctx, p.dsn)
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

func (p *postgres) migrated() {
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		var done bool
		p.query(`SELECT EXISTS (SELECT FROM askback.migration_step WHERE name = 'counted')`, &done)
		if done {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatal("the migration is not done")
		}
	}
}

func (p *postgres) check() {
	var after []string
	p.query(relations, &after)
	for _, relation := range p.before {
		if !slices.Contains(after, relation) {
			p.t.Errorf("the release before uses %s, which is gone", relation)
		}
	}
	var wrong int
	p.query(`SELECT count(*) FROM askback.task AS t
		WHERE bytes <> (SELECT sum(octet_length(body)) FROM askback.journal AS j WHERE j.id = t.id)`, &wrong)
	if wrong > 0 {
		p.t.Errorf("%d tasks have other bytes than their journals", wrong)
	}
}

type sqlite struct {
	*run
	db   *sql.DB
	path string
}

func openSQLite(r *run) store {
	path := filepath.Join(r.dir, "tasks.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { db.Close() })
	return &sqlite{r, db, path}
}

func (s *sqlite) url() string { return "sqlite:" + s.path }

func (s *sqlite) fill(tasks int) {
	ctx := s.t.Context()
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer tx.Rollback()
	now := time.Now().UnixMilli()
	for n := range tasks {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO task (seq, id, version, fence, attempts, ended, created, updated, expires, poll, round, stopped, status,
				principal, dialect, method, target, message)
			VALUES (?, ?, 1, 1, 0, 0, ?, ?, ?, 0, 1, 0, 'input_required', ?, 'extension', 'tools/call', 'nothing', '')`,
			n+1, fmt.Sprint("parked ", n), now, now, now+7*24*3600*1000, fmt.Sprint("user ", n%200))
		for entry := range 3 {
			if err == nil {
				_, err = tx.ExecContext(ctx, `INSERT INTO journal VALUES (?, ?, ?)`, n+1, entry, make([]byte, 300))
			}
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		s.t.Fatal(err)
	}
}

// In SQLite only one can write, and how long a write waits for the others is not to be seen: the slowest call says it.
func (s *sqlite) watch() func() time.Duration {
	return func() time.Duration { return 0 }
}

func (s *sqlite) migrated() {} // when it is open

func (s *sqlite) check() {
	var wrong int
	err := s.db.QueryRowContext(s.t.Context(), `
		SELECT count(*) FROM task WHERE bytes <> (SELECT sum(length(entry)) FROM journal WHERE task = seq)`).Scan(&wrong)
	if err != nil || wrong > 0 {
		s.t.Errorf("%d tasks have other bytes than their journals, %v", wrong, err)
	}
}
