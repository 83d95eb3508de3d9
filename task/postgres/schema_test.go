package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/internal/pgtest"
	"github.com/askback-mcp/askback/task"
)

// store2 is the schema of version 2, which has no bytes and quotas by another index.
const store2 = `
	CREATE SCHEMA askback;
	CREATE TABLE askback.migration (version int PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now());
	INSERT INTO askback.migration VALUES (1), (2);
	{tables}
	CREATE INDEX task_unfinished ON askback.task (principal) WHERE ` + unfinished + `;`

// open2 makes a store of version 2 and fills it with tasks of 10 principals, with 20 bytes each. It returns a
// connection to it.
func open2(t *testing.T, tasks int) (url string, conn *pgx.Conn) {
	t.Helper()
	url = pgtest.DSN(t)
	conn = connect(t, url)
	sql := strings.Replace(store2, "{tables}", inSchema(steps[0].sql+steps[1].sql, "askback"), 1)
	mustExec(t, conn, sql)
	mustExec(t, conn, fmt.Sprintf(`
		INSERT INTO askback.task (id, principal, method, target, dialect, status, message, round, created, updated, expires,
			poll_interval, stopped, attempts, version, fence, entries)
		SELECT n, 'user ' || n %% 10, '', '', '', 'working', '', 0, now(), now(), 'infinity', 0, false, 0, 0, 0, 1
		FROM generate_series(1, %d) AS n;
		INSERT INTO askback.journal SELECT n, seq, repeat('x', 10)::bytea
			FROM generate_series(1, %[1]d) AS n, generate_series(0, 1) AS seq`, tasks))
	return url, conn
}

// append2 adds an entry of 7 bytes as instances of version 2 do.
const append2 = `
	WITH t AS (UPDATE askback.task SET attempts = 0, entries = entries + 1 WHERE id = '%s' RETURNING id, entries)
	INSERT INTO askback.journal (id, seq, body) SELECT id, entries, 'entry 2' FROM t`

// create2 makes a task of user 1 as instances of version 2 do, with 5 bytes.
const create2 = `
	INSERT INTO askback.task (id, principal, method, target, dialect, status, message, round, created, updated, expires,
		poll_interval, stopped, attempts, version, fence, entries)
	VALUES ('%s', 'user 1', '', '', '', 'working', '', 0, now(), now(), 'infinity', 0, false, 0, 0, 0, 0);
	INSERT INTO askback.journal VALUES ('%[1]s', 0, 'call!')`

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

// checkQuotas fails unless the store counts for each principal what its tasks and their journals are.
func checkQuotas(t *testing.T, conn *pgx.Conn, when string) {
	t.Helper()
	for n := range 10 {
		principal := fmt.Sprint("user ", n)
		var used task.Quota
		err := conn.QueryRow(t.Context(), inSchema(usage("$1", "null"), "askback"), principal).
			Scan(&used.Unfinished, &used.Kept, &used.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		var want task.Quota
		err = conn.QueryRow(t.Context(), `
			SELECT count(DISTINCT t.id), count(DISTINCT t.id), sum(octet_length(body))
				FROM askback.task AS t JOIN askback.journal USING (id)
			WHERE principal = $1`, principal).Scan(&want.Unfinished, &want.Kept, &want.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if used != want {
			t.Errorf("%s %s has %+v, want %+v", when, principal, used, want)
		}
	}
}

func newMigration(t *testing.T, url string) *migration {
	t.Helper()
	s, err := Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &migration{pool: s.pool, schema: s.schema, steps: steps}
}

// unmigrated returns the migration of a store.
func unmigrated(t *testing.T, url string) *migration {
	t.Helper()
	config, schema, err := parse(url)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return &migration{pool: pool, schema: schema, steps: steps}
}

// unfilled opens a store without filling it.
func unfilled(t *testing.T, url string) *migration {
	t.Helper()
	m := unmigrated(t, url)
	if left, err := m.prepare(t.Context()); err != nil || !left {
		t.Fatalf("there are fills left: %t, %v", left, err)
	}
	return m
}

// Before, while and after tasks that are there are counted, quotas are right, whatever instances of the release before
// write.
func TestQuotasWhileTasksAreCounted(t *testing.T) {
	t.Parallel()
	url, conn := open2(t, 5*fillRows)
	m := unfilled(t, url)
	checkQuotas(t, conn, "before,")
	mustExec(t, conn, fmt.Sprintf(append2, "1"))
	mustExec(t, conn, fmt.Sprintf(create2, "new"))
	checkQuotas(t, conn, "before, when others have written,")

	last := ""
	for range 2 {
		next, over, err := m.fillSome(t.Context(), connect(t, url), steps[len(steps)-1].fill, last)
		if err != nil || over || next == nil {
			t.Fatal(next, over, err)
		}
		last = *next
	}
	const counted = `SELECT count(*) FROM askback.task WHERE bytes IS NOT NULL`
	if n := query[int](t, conn, counted); n != 2*fillRows {
		t.Errorf("%d tasks are counted, want %d", n, 2*fillRows)
	}
	checkQuotas(t, conn, "half way,")
	mustExec(t, conn, fmt.Sprintf(append2, "1")) // was counted
	mustExec(t, conn, fmt.Sprintf(append2, "9")) // was not
	checkQuotas(t, conn, "half way, when others have written,")
	if n := query[int](t, conn, `SELECT max(version) FROM askback.migration`); n != 2 {
		t.Errorf("the version is %d, so an instance of version 3 takes all tasks for counted", n)
	}

	// Another instance goes on. One row is locked at first, and is counted nevertheless.
	mustExec(t, conn, `BEGIN; UPDATE askback.task SET attempts = 1 WHERE id = '9'`)
	filling := connect(t, url)
	over, err := m.pass(t.Context(), filling, steps[len(steps)-1].fill)
	if err != nil || !over {
		t.Errorf("a locked row was passed over: %t, %v", over, err)
	}
	mustExec(t, conn, `COMMIT`)
	if err := m.fill(t.Context(), filling); err != nil {
		t.Fatal(err)
	}
	if n, all := query[int](t, conn, counted), query[int](t, conn, `SELECT count(*) FROM askback.task`); n != all {
		t.Errorf("%d of %d tasks are counted", n, all)
	}
	mustExec(t, conn, fmt.Sprintf(append2, "2"))
	mustExec(t, conn, fmt.Sprintf(create2, "newer"))
	checkQuotas(t, conn, "afterwards, when others have written,")
	if n := query[int](t, conn, `SELECT max(version) FROM askback.migration`); n != version {
		t.Errorf("the version is %d, want %d", n, version)
	}
	if left, err := m.prepare(t.Context()); left || err != nil {
		t.Errorf("there is something left: %t, %v", left, err)
	}
}

// What a release before has left wrong is corrected, too.
func TestTasksThatWereCountedWrong(t *testing.T) {
	t.Parallel()
	url, conn := open2(t, 50)
	m := unfilled(t, url)
	mustExec(t, conn, `UPDATE askback.task SET bytes = 3`)
	if err := m.fill(t.Context(), connect(t, url)); err != nil {
		t.Fatal(err)
	}
	checkQuotas(t, conn, "afterwards,")
}

// An instance that opens a store makes the fills by itself.
func TestAnInstanceFills(t *testing.T) {
	t.Parallel()
	url, conn := open2(t, 2*fillRows)
	s, err := Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for query[int](t, conn, `SELECT max(version) FROM askback.migration`) != version {
		if err := wait(ctx, 10*time.Millisecond); err != nil {
			t.Fatal("it fills nothing")
		}
	}
	checkQuotas(t, conn, "afterwards,")
}

// A migration takes nothing away that statements of the release before use: their plans would be slow without an index.
func TestAMigrationTakesNothingAway(t *testing.T) {
	t.Parallel()
	url, conn := open2(t, 10)
	const relations = `SELECT array_agg(r ORDER BY r) FROM (
		SELECT indexdef FROM pg_indexes WHERE schemaname = 'askback'
		UNION ALL SELECT table_name || '.' || column_name || ' ' || data_type
			FROM information_schema.columns WHERE table_schema = 'askback'
	) AS all_of (r)`
	before := query[[]string](t, conn, relations)
	m := unfilled(t, url)
	if err := m.fill(t.Context(), connect(t, url)); err != nil {
		t.Fatal(err)
	}
	after := query[[]string](t, conn, relations)
	for _, r := range before {
		if !slices.Contains(after, r) {
			t.Errorf("%s is gone", r)
		}
	}
	// But for what the release after takes away, the result is a store that was made at once.
	other := connect(t, pgtest.DSN(t))
	newMigration(t, other.Config().ConnString())
	after = slices.DeleteFunc(after, func(r string) bool { return strings.Contains(r, "task_unfinished") })
	if diff := cmp.Diff(query[[]string](t, other, relations), after); diff != "" {
		t.Errorf("a new store differs (-new +migrated):\n%s", diff)
	}
}

// While a migration waits for a lock, others that came after it have it, too; and it says who keeps it waiting.
func TestAMigrationKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	url, conn := open2(t, 10)
	reader := connect(t, url)
	mustExec(t, reader, `BEGIN; SELECT count(*) FROM askback.task`) // as a backup does
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	opened := make(chan error, 1)
	go func() {
		s, err := Open(ctx, url)
		if err == nil {
			s.Close()
		}
		opened <- err
	}()
	for n := 0; n < 3; { // attempts
		waiting := query[int](t, conn, `SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'`)
		switch waiting {
		case 0:
			select {
			case err := <-opened:
				t.Fatalf("Open returned although the table is locked: %v", err)
			case <-ctx.Done():
				t.Fatal("it does not even try")
			case <-time.After(time.Millisecond):
			}
		default:
			n++
			mustExec(t, conn, fmt.Sprintf(create2, fmt.Sprint("meanwhile ", n))) // waits behind it
		}
	}
	select {
	case err := <-opened:
		t.Fatalf("it was opened although its table is locked: %v", err)
	default:
	}
	mustExec(t, reader, `COMMIT`)
	if err := <-opened; err != nil {
		t.Error(err)
	}

	// One that has waited for long gives up.
	url, _ = open2(t, 1)
	reader = connect(t, url)
	mustExec(t, reader, `BEGIN; SELECT count(*) FROM askback.task`)
	reading := query[uint32](t, reader, `SELECT pg_backend_pid()`)
	p := patience
	patience = 0
	defer func() { patience = p }()
	if _, err := Open(t.Context(), url); err == nil || !strings.Contains(err.Error(), fmt.Sprint("process ", reading)) {
		t.Errorf("the error is %v, want it to name process %d", err, reading)
	}
}

// An attempt at an index that came to nothing leaves one that is not valid.
func TestAnIndexThatIsNotValid(t *testing.T) {
	t.Parallel()
	url, conn := open2(t, 10)
	mustExec(t, conn, `CREATE INDEX task_kept ON askback.task (principal) WHERE `+kept+`;
		UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'askback.task_kept'::regclass`)
	unfilled(t, url)
	if !query[bool](t, conn, `SELECT indisvalid FROM pg_index WHERE indexrelid = 'askback.task_kept'::regclass`) {
		t.Error("it is still not valid")
	}
}

// Many instances start at once, on a store of the release before and on none.
func TestManyInstancesMigrateAtOnce(t *testing.T) {
	t.Parallel()
	old, _ := open2(t, 3*fillRows)
	for _, url := range []string{old, pgtest.DSN(t)} {
		var instances sync.WaitGroup
		for i := range 5 {
			instances.Go(func() {
				s, err := Open(t.Context(), url)
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				n := &task.Task{ID: fmt.Sprint("of ", i), Principal: "user 1", Status: task.Working}
				if err := s.Create(t.Context(), n, time.Hour, 0, []byte("call"), nil, task.Quota{Kept: 1000}); err != nil {
					t.Error(err)
				}
			})
		}
		instances.Wait()
	}
}

// A store that a newer release has only added to is opened; one that it has changed otherwise is not.
func TestStoresOfANewerRelease(t *testing.T) {
	t.Parallel()
	url := pgtest.DSN(t)
	m := newMigration(t, url)
	m.steps = append(slices.Clone(steps),
		step{name: "extra", sql: `ALTER TABLE {schema}.task ADD COLUMN extra int`},
		step{name: "by extra", index: `task_extra ON {schema}.task (extra)`})
	if _, err := m.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn := connect(t, url)
	if !query[bool](t, conn, `SELECT to_regclass('askback.task_extra') IS NOT NULL`) {
		t.Error("the steps of the newer release were not made")
	}
	s, err := Open(t.Context(), url)
	if err != nil {
		t.Fatalf("beside a newer release that has added a column: %v", err)
	}
	defer s.Close()
	working := &task.Task{ID: "1", Status: task.Working}
	if err := s.Create(t.Context(), working, time.Hour, 0, nil, nil, task.Quota{}); err != nil {
		t.Errorf("a task beside the newer release: %v", err)
	}
	mustExec(t, conn, fmt.Sprintf(`INSERT INTO askback.migration VALUES (%d)`, version+1))
	if _, err := Open(t.Context(), url); err == nil || !strings.Contains(err.Error(), "made by a newer Askback") {
		t.Errorf("the error is %v", err)
	}
}

// A step that fails leaves nothing of it behind, and says which one it was.
func TestAStepThatFails(t *testing.T) {
	t.Parallel()
	url := pgtest.DSN(t)
	m := newMigration(t, url)
	m.steps = append(slices.Clone(steps),
		step{name: "broken", sql: `ALTER TABLE {schema}.task ADD COLUMN extra int; SELECT 1/0`})
	if _, err := m.prepare(t.Context()); err == nil || !strings.Contains(err.Error(), `step "broken"`) {
		t.Errorf("the error is %v", err)
	}
	if query[int](t, connect(t, url), `SELECT count(*) FROM information_schema.columns WHERE column_name = 'extra'`) > 0 {
		t.Error("it has left a column")
	}
}
