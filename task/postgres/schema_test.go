package postgres

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/askback-mcp/askback/internal/pgtest"
	"github.com/askback-mcp/askback/task"
)

// The tasks of an older version count in the quota.
func TestMigrationCountsBytes(t *testing.T) {
	dsn := pgtest.DSN(t)
	ctx := t.Context()
	config, schema, err := parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := migrate(ctx, pool, schema, migrations[:2]); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`INSERT INTO {schema}.task (id, principal, method, target, dialect, status, message, round, created, updated, expires,
			poll_interval, stopped, attempts, version, fence, entries, outcome)
		VALUES ('old', 'alice', '', '', '', 'working', '', 0, now(), now(), now(), 0, false, 0, 0, 0, 1, null),
			('ended', 'alice', '', '', '', 'failed', '', 0, now(), now(), now(), 0, false, 0, 0, 0, 0, 'why')`,
		`INSERT INTO {schema}.journal (id, seq, body) VALUES ('old', 0, 'call'), ('old', 1, 'entry'), ('ended', 0, 'call')`,
	} {
		if _, err := pool.Exec(ctx, inSchema(sql, schema)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var used task.Quota
	err = s.pool.QueryRow(ctx, inSchema(usage("$1", "null"), s.schema), "alice").Scan(&used.Unfinished, &used.Kept, &used.Bytes)
	if want := (task.Quota{Unfinished: 1, Kept: 2, Bytes: 4 + 5 + 4 + 3}); used != want || err != nil {
		t.Errorf("alice has %+v, %v; want %+v", used, err, want)
	}
}

func TestMigrations(t *testing.T) {
	dsn := pgtest.DSN(t)
	ctx := t.Context()
	old, err := Open(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	n := &task.Task{ID: "1", Status: task.Working}
	if err := old.Create(ctx, n, time.Hour, 0, []byte("call"), nil, task.Quota{}); err != nil {
		t.Fatal(err)
	}

	// A migration that fails leaves nothing behind.
	broken := append(slices.Clone(migrations), `ALTER TABLE {schema}.task ADD COLUMN extra int; SELECT 1/0`)
	if err := migrate(ctx, old.pool, old.schema, broken); err == nil || !strings.Contains(err.Error(), fmt.Sprint("migrate to version ", len(broken))) {
		t.Fatalf("a broken migration: the error is %v", err)
	}

	newer := append(slices.Clone(migrations),
		`ALTER TABLE {schema}.task ADD COLUMN extra int`,
		`UPDATE {schema}.task SET extra = 7; CREATE TABLE {schema}.another (a int)`)
	var instances sync.WaitGroup
	for range 5 {
		instances.Go(func() {
			if err := migrate(ctx, old.pool, old.schema, newer); err != nil {
				t.Error(err)
			}
		})
	}
	instances.Wait()
	var extra int
	if err := old.pool.QueryRow(ctx, "SELECT extra FROM askback.task").Scan(&extra); err != nil || extra != 7 {
		t.Errorf("the migrations have not been done: %d, %v", extra, err)
	}

	// The instance of the old version goes on, but no other starts.
	if got, err := old.Get(ctx, n.ID); err != nil || got.ID != n.ID {
		t.Errorf("Get by the old version: %v, %v", got, err)
	}
	if err := old.Update(ctx, n, task.Update{Due: 0, Entries: [][]byte{{1}}}); err != nil {
		t.Errorf("Update by the old version: %v", err)
	}
	if c, err := old.Claim(ctx, "", nil, time.Minute, 1); err != nil || c == nil {
		t.Errorf("Claim by the old version: %v, %v", c, err)
	}
	if _, err := Open(ctx, dsn); err == nil || !strings.Contains(err.Error(), "made by a newer Askback") {
		t.Errorf("Open by the old version: the error is %v", err)
	}
}
