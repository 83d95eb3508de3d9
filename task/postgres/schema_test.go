package postgres

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/pgtest"
	"github.com/askback-mcp/askback/task"
)

func TestMigrations(t *testing.T) {
	dsn := pgtest.DSN(t)
	ctx := t.Context()
	old, err := Open(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	n := &task.Task{ID: "1", Status: task.Working}
	if err := old.Create(ctx, n, time.Hour, []byte("call"), nil, task.Quota{}); err != nil {
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
	if c, err := old.Claim(ctx, "", nil, time.Minute); err != nil || c == nil {
		t.Errorf("Claim by the old version: %v, %v", c, err)
	}
	if _, err := Open(ctx, dsn); err == nil || !strings.Contains(err.Error(), "made by a newer Askback") {
		t.Errorf("Open by the old version: the error is %v", err)
	}
}
