package postgres

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/askback-mcp/askback/internal/pgtest"
)

// A plan is kept with its statement, so it must be good for a large table even if it was
// made for an empty one.
func TestPlansUseIndexes(t *testing.T) {
	s, err := Open(t.Context(), pgtest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	bad := regexp.MustCompile(`Seq Scan|Bitmap|Sort`)
	for _, table := range []struct{ says, sql string }{
		{"new", ""},
		{"empty and analyzed", "VACUUM ANALYZE"},
		{"small", insertTasks("1, 5") + "; ANALYZE"},
		{"grown since", insertTasks("6, 20000")},
		{"large", "VACUUM ANALYZE"},
	} {
		conn, err := s.pool.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Conn().PgConn().Exec(ctx, inSchema(table.sql, s.schema)).ReadAll(); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ says, sql, args, index string }{
			{"get", s.sql.get, "''", "task_pkey"},
			{"create", s.sql.create, "'','user 1','','','','','',null,null,0,0,false,0,'1h','','{}',10,10,10,0", "task_kept"},
			{"versions", s.sql.versions, "'{a,b}'", "task_pkey"},
			{"usage", s.sql.usage, "'user 1'", "task_kept"},
			{"evictable", s.sql.evictable, "'user 1','1h',10", "task_evictable"},
			{"use a state", s.sql.useState, "'','infinity'", "Insert on used_state"},
			{"purge used states", s.sql.purgeUsed, "32", "used_state_expires"},
			{"list", s.sql.list, "'','','infinity','',10", "task_list"},
			{"claim", s.sql.claim, "'{user 1,user 3}','{user 2,NULL}','1m'", "task_due"},
			{"journal", s.sql.journal, "''", "journal_pkey"},
			{"append", s.sql.append, "'',0,'',0", "task_pkey"},
			{"renew", s.sql.renew, "'',0,'1m'", "task_pkey"},
			{"update", s.sql.update, "'',0,0,'','',null,null,0,'infinity',false,0,false,'1h','{}',0", "task_pkey"},
			{"expired", s.sql.expired, "10", "task_expired"},
			{"purgeable", s.sql.purgeable, "'1h',10", "task_purgeable"},
			{"purge", s.sql.purge, "'{}'", "journal_pkey"},
			{"put a state", s.sql.putState, "'','','infinity',''", "state_pkey"},
			{"add a state", s.sql.addState, "'','','infinity',''", "state_pkey"},
			{"swap a state", s.sql.swapState, "'','','infinity','',''", "state_pkey"},
			{"get a state", s.sql.getState, "''", "state_pkey"},
			{"find states", s.sql.findStates, "'a',2", "state_call"},
			{"delete a state", s.sql.deleteState, "''", "state_pkey"},
			{"purge states", s.sql.purgeStates, "32", "state_expires"},
		} {
			for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
				batch := fmt.Sprintf("SET plan_cache_mode = %s; PREPARE p AS %s", mode, c.sql)
				if _, err := conn.Conn().PgConn().Exec(ctx, batch).ReadAll(); err != nil {
					t.Fatalf("%s: %v", c.says, err)
				}
				rows, err := conn.Query(ctx, "EXPLAIN EXECUTE p("+c.args+")", pgx.QueryExecModeSimpleProtocol)
				if err != nil {
					t.Fatal(err)
				}
				lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if err != nil {
					t.Fatalf("%s: %v", c.says, err)
				}
				plan := strings.Join(lines, "\n")
				if bad.MatchString(plan) || !strings.Contains(plan, c.index) {
					t.Errorf("%s, with a table that is %s, %s:\n%s", c.says, table.says, mode, plan)
				}
				if _, err := conn.Exec(ctx, "DEALLOCATE p; RESET plan_cache_mode", pgx.QueryExecModeSimpleProtocol); err != nil {
					t.Fatal(err)
				}
			}
		}
		conn.Release()
	}
}

// insertTasks is a statement that adds tasks, of which one in a hundred is due.
func insertTasks(series string) string {
	return `INSERT INTO {schema}.state SELECT md5(i::text), md5(i::text), now() + interval '1 day' * (i % 3 - 1), '' FROM generate_series(` + series + `) i;
		INSERT INTO {schema}.task (id, principal, method, target, dialect, status, message, round, created, updated, expires, due,
			poll_interval, stopped, attempts, version, fence, entries)
		SELECT md5(i::text), 'user ' || i % 100, 'tools/call', 'deploy', 'extension',
			CASE WHEN i % 10 = 0 THEN 'completed' ELSE 'working' END, '', 0, now(), now(), now() + interval '1 day',
			CASE WHEN i % 100 = 0 THEN now() END, 0, false, 0, 0, 0, 0
		FROM generate_series(` + series + `) i`
}
