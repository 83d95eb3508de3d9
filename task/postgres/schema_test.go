package postgres

import (
	"context"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	expect.Check(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func mustExec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func query[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// A schema with tables that this version does not know is refused, and stays as it is. So does one in which the tables
// cannot be made.
func TestASchemaThatIsRefused(t *testing.T) {
	t.Parallel()
	const relations = `SELECT coalesce(array_agg(relname ORDER BY relname), '{}')
		FROM pg_class WHERE relnamespace = 'askback'::regnamespace`
	for _, c := range []struct{ says, sql, want string }{
		{"another version", `CREATE TABLE askback.version (version int); INSERT INTO askback.version VALUES (99)`,
			`"askback": it has version 99, and this program knows version 2 only: run the Askback that made it, or name ` +
				`another schema with search_path in the URL`},
		{"no row", `CREATE TABLE askback.version (version int)`, "without a version that this program knows: run the"},
		{"tables without a version", `CREATE TABLE askback.task (id text)`, "without a version that this program knows"},
		{"somebody's table", `CREATE TABLE askback.notice (id text)`, `relation "notice" already exists`},
	} {
		t.Run(c.says, func(t *testing.T) {
			url := pgtest.DSN(t)
			conn := connect(t, url)
			mustExec(t, conn, `CREATE SCHEMA askback;`+c.sql)
			before := query[[]string](t, conn, relations)
			s, err := Open(t.Context(), url)
			if err == nil {
				s.Close()
				t.Fatal("it was opened")
			}
			expect.Contains(t, "the error", err.Error(), c.want)
			if after := query[[]string](t, conn, relations); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("it has %q now, want %q", after, before)
			}
		})
	}
}

// A task that cannot be deleted, or that somebody has locked, keeps no other in the store.
func TestATaskThatCannotBeDeleted(t *testing.T) {
	t.Parallel()
	s := openPrivate(t)
	conn := connect(t, s.pool.Config().ConnString())
	for i := range 6 {
		n := &task.Task{ID: fmt.Sprint(i), Principal: "alice", Status: task.Working}
		expect.Check(t, s.Create(t.Context(), n, -time.Hour, 0, []byte("call"), nil, task.Quota{}))
	}
	mustExec(t, conn, `BEGIN; SELECT FROM askback.task WHERE id = '1' FOR UPDATE`)
	if ids, err := s.Expired(t.Context(), 9); len(ids) != 5 || err != nil {
		t.Errorf("Expired beside a locked row: %q, %v", ids, err)
	}
	mustExec(t, conn, `COMMIT; UPDATE askback.task SET status = 'completed', due = NULL;
		CREATE FUNCTION askback.poison() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'poisoned'; END $$;
		CREATE TRIGGER poison BEFORE DELETE ON askback.task FOR EACH ROW WHEN (OLD.id IN ('0', '2'))
			EXECUTE FUNCTION askback.poison()`)
	if n, err := s.Purge(t.Context(), 0, 2); n != 2 || err == nil || !strings.Contains(err.Error(), "poisoned") {
		t.Errorf("Purge: %d, %v", n, err)
	}
	if n, err := s.Evict(t.Context(), "alice", -time.Hour, 9); n != 2 || err == nil {
		t.Errorf("Evict: %d, %v", n, err)
	}
	expect.Equal(t, "tasks are left", query[int](t, conn, `SELECT count(*) FROM askback.journal`), 2)
	mustExec(t, conn, `DROP TRIGGER poison ON askback.task`)
	expect.Equal(t, "Purge afterwards", expect.Must(s.Purge(t.Context(), 0, 9))(t), 2)
}

// Another schema is told from ours by its version, and not by the errors of its statements.
func TestAnotherSchemaHasAnotherVersion(t *testing.T) {
	const sum = 0xe1d45842 // of the tables with this version
	if now := crc32.ChecksumIEEE([]byte(tables)); now != sum {
		t.Errorf("the tables have changed since version %d: count the version up, and note %#x here", version, now)
	}
}
