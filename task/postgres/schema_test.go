package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/askback-mcp/askback/internal/pgtest"
)

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func mustExec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
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
			`"askback": it has version 99, and this program knows version 1 only: run the Askback that made it, or name ` +
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
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %q, want it to say %q", err, c.want)
			}
			if after := query[[]string](t, conn, relations); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("it has %q now, want %q", after, before)
			}
		})
	}
}
