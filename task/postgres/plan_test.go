package postgres

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
)

// The arguments of an update, and those that questions add.
const (
	createArguments = "'','user 1','','','','','',null,null,0,0,false,0,'1h','','{}',10,10,10,0,'0s',0,'','0s','1h',0,true"
	updateArguments = "'',0,0,'','',null,null,0,'1h',false,0,false,'1h','{}',0,null,0,'','',false"
	listArguments   = "'{a,b}',null,'','',null,'{a}','{a}',10,'{f,t}','user 1','{b}'"
	eventArguments  = "'{caller:user 1,user:bob}',10,'{ended}','task','deploy',10"
	askArguments    = ",'{a}','{a}','{[]}','{c}','{1h}','{1m}','{d}','NAME','{b}'"
)

// A plan is kept with its statement, so it must be good for a large table even if it was
// made for an empty one.
func TestPlansUseIndexes(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.DSN(t))
	ctx := t.Context()
	// A few locks and candidates are sorted, and what several lists give.
	bad := regexp.MustCompile(`Seq Scan|Bitmap|Sort Key: (task|journal|state|used|question|notice)|` +
		`(?s)Sort Key: entry.*Sort Key: entry`)
	for _, table := range []struct{ says, sql string }{
		{"new", ""},
		{"empty and analyzed", "VACUUM ANALYZE"},
		{"small", insertTasks("1, 5") + "; ANALYZE"},
		{"grown since", insertTasks("6, 20000")},
		{"large", "VACUUM ANALYZE"},
	} {
		conn, err := s.pool.Acquire(ctx)
		expect.Check(t, err)
		defer conn.Release() // for a test that fails; Close waits for it
		expect.Must(conn.Conn().PgConn().Exec(ctx, inSchema(table.sql, s.schema)).ReadAll())(t)
		for _, c := range []struct{ says, sql, args, index string }{
			{"get", s.sql.get, "''", "task_pkey"},
			{"create", s.sql.create, createArguments, "task_kept"},
			{"create, asking", s.sql.createAsking, createArguments + strings.TrimSuffix(askArguments, ",'{b}'"),
				"question_pkey"},
			{"versions", s.sql.versions, "'{a,b}'", "task_pkey"},
			{"lock quotas", s.sql.lockQuotas, "'{a}','{b}'", "task_pkey"},
			{"evictable", s.sql.evictable, "'user 1','1h',10,0", "task_evictable"},
			{"use a state", s.sql.useState, "'','infinity'", "Insert on used_state"},
			{"purge used states", s.sql.purgeUsed, "32", "used_state_expires"},
			{"list", s.sql.list, "'','','infinity','',10", "task_list"},
			{"claim", s.sql.claim, "'user 1','{user 2}','{deploy}','{2}','1m',5,'nonce'", "task_due"},
			{"journal", s.sql.journal, "'',0", "journal_pkey"},
			{"append", s.sql.append, "'',0,'',0,''", "task_pkey"},
			{"renew", s.sql.renew, "'{a,b}','{1,2}','{x,y}','1m'", "task_pkey"},
			{"update", s.sql.update[updateKind{}], updateArguments, "task_pkey"},
			{"update within", s.sql.update[updateKind{within: true}], updateArguments + ",10", "task_kept"},
			{"park", s.sql.update[updateKind{stopAsking: true}], updateArguments, "task_pkey"},
			{"ask", s.sql.update[updateKind{asking: true}], updateArguments + askArguments, "question_open"},
			{"ask, keys", s.sql.update[updateKind{asking: true}], updateArguments + askArguments, "question_pkey"},
			{"answer within", s.sql.update[updateKind{within: true, asking: true}],
				updateArguments + askArguments + ",10", "task_kept"},
			{"ask no more, with answers", s.sql.update[updateKind{asking: true, stopAsking: true}], updateArguments +
				askArguments, "question_pkey"},
			{"lock a task", s.sql.lockTask, "''", "task_pkey"},
			{"questions", s.sql.questions, "''", "question_name"},
			{"waiting", s.sql.asked, listArguments, "Index Scan using question_list_asked"},
			{"waiting, the newest first", s.sql.newest, listArguments, "Index Scan Backward using question_list_asked"},
			{"waiting by deadline", s.sql.byDeadline, listArguments, "Index Scan using question_list_deadline"},
			{"changes", s.sql.changes, "null,'','',10", "question_changes"},
			{"vote", s.sql.vote, "'','',0,false,'{a}',null,null,null,'{b}'", "question_pkey"},
			{"move", s.sql.move, "'','',0,false,'{a}',now(),null,null,'{b}'", "question_pkey"},
			{"decide", s.sql.decide, "'','',0,false,'{a}',null,null,'d','{b}'", "question_pkey"},
			{"remind", s.sql.remind, "10", "question_remind"},
			{"notices", s.sql.notices, "'user 1','{user 2}','{2}','1m',5,'0s'", "notice_due"},
			{"notices of a task", s.sql.notices, "'user 1','{user 2}','{2}','1m',5,'0s'", "notice_first"},
			{"lock a notice", s.sql.lockNotice, "''", "notice_first"},
			{"settle", s.sql.settle, "'','','',1", "notice_first"},
			{"try a notice again", s.sql.retry, "'','','',1,'1m'", "notice_first"},
			{"refused notices", s.sql.refused, "10", "notice_refused"},
			{"events", s.sql.events, eventArguments, "event_log"},
			{"new events", s.sql.events, eventArguments, "event_new"},
			{"deleted events", s.sql.events, eventArguments, "deleted_event_pkey"},
			{"the event at a position", s.sql.events, eventArguments, "event_at"},
			{"number events", s.sql.numberEvents, "'{caller:user 1,user:bob}'", "event_new"},
			{"emit", s.sql.emit, "'{emitted:a}','1','{}','1h'", "Insert on event"},
			{"trim events", s.sql.trimEvents, "'{emitted:a}',10", "event_emitted"},
			{"purge events", s.sql.purgeEvents, "", "event_expires"},
			{"forget events", s.sql.forgetEvents, "'1h'", "deleted_event_written"},
			{"add a subscription", s.sql.addSubscription, "'a','2026-11-29',null,'2026-11-29','version','','user 1','',10",
				"subscription_principal"},
			{"save a subscription", s.sql.saveSubscription, "'a','2026-11-29',null,'2026-11-29','version','','old'",
				"subscription_pkey"},
			{"subscribed", s.sql.subscribed, "'user 1'", "subscription_principal"},
			{"end subscriptions", s.sql.endSubscriptions, "", "subscription_expires"},
			{"wake subscriptions", s.sql.wakeSubscriptions, "", "event_fresh"},
			{"the subscriptions that are woken", s.sql.wakeSubscriptions, "", "subscription_principal"},
			{"claim subscriptions", s.sql.claimSubscriptions, "'{user 1}','{host}',32,'1m','version'", "subscription_due"},
			{"overdue", s.sql.overdue, "10", "question_overdue"},
			{"count", s.sql.count, "", "task_expired"},
			{"expired", s.sql.expired, "10", "task_expired"},
			{"purgeable", s.sql.purgeable, "'1h',10,0", "task_purgeable"},
			{"purge", s.sql.purge, "'{}'", "journal_pkey"},
			{"put a state", s.sql.putState, "'','','infinity',''", "state_pkey"},
			{"add a state", s.sql.addState, "'','','infinity',''", "state_pkey"},
			{"swap a state", s.sql.swapState, "'','','infinity','',''", "state_pkey"},
			{"get a state", s.sql.getState, "''", "state_pkey"},
			{"find states", s.sql.findStates, "'a',2", "state_call"},
			{"delete a state", s.sql.deleteState, "''", "state_pkey"},
			{"purge states", s.sql.purgeStates, "32", "state_expires"},
			{"remember", s.sql.remember, "'','{a}','',now(),'infinity',1", "remembered_pkey"},
			{"whom it concerns", s.sql.rememberWho, "'','{a}'", "remembered_whose"},
			{"recallable", s.sql.recallable, "''", "remembered_pkey"},
			{"recall", s.sql.recall, "'',''", "recalled_pkey"},
			{"remembered", s.sql.remembered, "null,'',10", "remembered_newest"},
			{"remembered, by whom it concerns", s.sql.rememberedBy, "null,'',10,'{a,b}'", "remembered_who_pkey"},
			{"forget", s.sql.forget, "''", "remembered_pkey"},
			{"purge remembered", s.sql.purgeRemembered, "", "remembered_until"},
		} {
			for _, mode := range []string{"force_generic_plan", "force_custom_plan"} {
				batch := fmt.Sprintf("SET plan_cache_mode = %s; PREPARE p AS %s", mode, c.sql)
				if _, err := conn.Conn().PgConn().Exec(ctx, batch).ReadAll(); err != nil {
					t.Fatalf("%s: %v", c.says, err)
				}
				args := "(" + c.args + ")"
				if c.args == "" {
					args = ""
				}
				rows, err := conn.Query(ctx, "EXPLAIN EXECUTE p"+args, pgx.QueryExecModeSimpleProtocol)
				expect.Check(t, err)
				lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
				if err != nil {
					t.Fatalf("%s: %v", c.says, err)
				}
				plan := strings.Join(lines, "\n")
				if bad.MatchString(plan) || !strings.Contains(plan, c.index) {
					t.Errorf("%s, with a table that is %s, %s:\n%s", c.says, table.says, mode, plan)
				}
				expect.Must(conn.Exec(ctx, "DEALLOCATE p; RESET plan_cache_mode", pgx.QueryExecModeSimpleProtocol))(t)
			}
		}
		conn.Release()
	}
}

// What it takes to wake a task and to claim it does not grow with those that wait for input, also if the plans were
// made when there were none.
func TestWakingAndClaimingBesideParkedTasks(t *testing.T) {
	s := openAt(t, pgtest.DSN(t))
	conn, err := s.pool.Acquire(t.Context())
	expect.Check(t, err)
	defer conn.Release()
	exec := func(sql string) {
		t.Helper()
		expect.Must(conn.Conn().PgConn().Exec(t.Context(), inSchema(sql, s.schema)).ReadAll())(t)
	}
	park := func(series string) string {
		return `INSERT INTO {schema}.task (id, principal, method, target, dialect, status, message, pending, round, created,
			updated, expires,
				poll_interval, stopped, attempts, version, fence, entries, bytes)
			SELECT 'parked ' || i, 'user ' || i % 1000, 'tools/call', 'deploy', 'extension', 'input_required', '',
				repeat('p', 300)::bytea, 1,
				now(), now(), now() + interval '1 day', 0, false, 0, 1, 1, 3, 100
			FROM generate_series(` + series + `) i`
	}
	exec(park("1, 3"))
	exec("SET plan_cache_mode = force_generic_plan; PREPARE wake AS " + s.sql.update[updateKind{within: true}] +
		"; PREPARE claim AS " + s.sql.claim)
	// pages reads how many pages of tables and indexes a statement has touched.
	pages := func(sql string) (n int) {
		t.Helper()
		rows, err := conn.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS) EXECUTE "+sql, pgx.QueryExecModeSimpleProtocol)
		expect.Check(t, err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		expect.Check(t, err)
		for _, line := range lines {
			if _, buffers, ok := strings.Cut(line, "Buffers: shared "); ok { // the first is that of all
				for _, kind := range strings.Fields(buffers) {
					var some int
					fmt.Sscanf(kind, "hit=%d", &some)
					fmt.Sscanf(kind, "read=%d", &some)
					n += some
				}
				return n
			}
		}
		t.Fatalf("no buffers in\n%s", strings.Join(lines, "\n"))
		return 0
	}
	measure := func(id int) (wake, claim, none int) {
		wake = pages(fmt.Sprintf(
			"wake('parked %d',1,null,'working','',null,null,1,null,false,0,false,'0s','{answer}',6,null,0,'','',"+
				"false,1000000)",
			id))
		claim = pages("claim('user 5','{user 7}','{deploy}','{2}','1h',15,'nonce')")
		return wake, claim, pages("claim('user 5','{user 7}','{deploy}','{2}','1h',15,'nonce')")
	}
	measure(1)
	wake, claim, none := measure(2)
	exec(park("4, 100000"))
	wakeAmong, claimAmong, noneAmong := measure(3)
	t.Logf("pages: alone %d to wake, %d to claim and %d to find none; beside 100,000 tasks %d, %d and %d", wake, claim,
		none, wakeAmong, claimAmong, noneAmong)
	// An index has more levels then, and to wake a task reads what its principal has: a hundred tasks here.
	if wakeAmong > wake+200 || claimAmong > claim+20 || noneAmong > none+10 {
		t.Error("they grow")
	}
}

// insertTasks is a statement that adds tasks, of which one in a hundred is due.
func insertTasks(series string) string {
	return `INSERT INTO {schema}.state SELECT md5(i::text), md5(i::text), now() + interval '1 day' * (i % 3 - 1), ''
		FROM generate_series(` + series + `) i;
		INSERT INTO {schema}.remembered SELECT md5(i::text), '{}', '', now() - interval '1 s' * i,
			now() + interval '1 day' * (i % 3 - 1), 1 FROM generate_series(` + series + `) i;
		INSERT INTO {schema}.remembered_who SELECT 'user:' || i % 100, md5(i::text) FROM generate_series(` + series + `) i;
		INSERT INTO {schema}.recalled SELECT md5(i::text), 'call' FROM generate_series(` + series + `) i;
		INSERT INTO {schema}.question (task, key, name, principal, target, equal, who, content, asked, deadline, status,
			expired, version)
		SELECT md5(i::text), 'key', md5(i::text), 'user 1', 'deploy', '', ARRAY['user:' || i % 100, 'group:a'], '', now(),
			now() + interval '1 hour' * (i % 3 - 1), CASE WHEN i % 10 = 0 THEN 'withdrawn' ELSE 'open' END, false, 0
		FROM generate_series(` + series + `) i;
		INSERT INTO {schema}.notice (task, key, kind, principal, target, who, asked, written, due)
		SELECT md5((i / 2)::text), 'key ' || i, 'decided', 'user ' || i % 100, 'deploy', '{}', now(), now(),
			CASE WHEN i % 4 > 0 THEN now() END
		FROM generate_series(` + series + `) i;
		INSERT INTO {schema}.event (task, kind, key, outcome, principal, target, written, position, reader)
		SELECT md5(i::text), 'ended', '', 'failed', 'user ' || i % 100, 'deploy', now(), CASE WHEN i % 100 > 2 THEN i END,
			'caller:user ' || i % 100
		FROM generate_series(` + series + `) i;
		INSERT INTO {schema}.event (task, kind, key, outcome, principal, target, written, reader, expires)
		SELECT '', 'emitted', i, '{}', '', '', now(), 'emitted:' || i % 100, now() + interval '1 hour' * (i % 300 - 1)
		FROM generate_series(` + series + `) i;
		UPDATE {schema}.event SET fresh = false WHERE id % 10 > 0;
		INSERT INTO {schema}.subscription SELECT md5(i::text), 'user ' || i % 100, 'host ' || i % 10,
			now() + interval '1 hour' * (i % 300), CASE WHEN i % 100 = 0 THEN now() END, '-infinity', '', ''
		FROM generate_series(` + series + `) i;
		INSERT INTO {schema}.deleted_event SELECT 'caller:user ' || i, i, now() FROM generate_series(` + series + `) i;
		INSERT INTO {schema}.task (id, principal, method, target, dialect, status, message, round, created, updated,
			expires, due,
			poll_interval, stopped, attempts, version, fence, entries, bytes)
		SELECT md5(i::text), 'user ' || i % 100, 'tools/call', 'deploy', 'extension',
			CASE WHEN i % 10 = 0 THEN 'completed' ELSE 'working' END, '', 0, now(), now(), now() + interval '1 day',
			CASE WHEN i % 100 = 0 THEN now() END, 0, false, 0, 0, 0, 0, 0
		FROM generate_series(` + series + `) i`
}
