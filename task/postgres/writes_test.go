package postgres

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task"
)

func openPrivate(t *testing.T) *Store {
	t.Helper()
	return openAt(t, pgtest.DSN(t))
}

// openAt opens a store until the end of the test.
func openAt(t testing.TB, dsn string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dsn)
	expect.Check(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// A claim that meets a journal in the middle of a write returns none of it: the engine then reads all of it.
func TestAClaimReturnsAWholeJournalOrNone(t *testing.T) {
	t.Parallel()
	s := openPrivate(t)
	entries := [][]byte{[]byte("a"), []byte("b")}
	for _, c := range []struct {
		says string
		more int // rows of the journal that the row of the task counts, and the claim does not see, or the reverse
		want *task.Claimed
	}{
		{"all of it", 0, &task.Claimed{Call: []byte("call"), Entries: entries}},
		{"an entry that the claim does not see", 1, &task.Claimed{}},
		{"an entry that the task does not count", -1, &task.Claimed{}},
	} {
		n := groupTask("alice")
		expect.Check(t, s.Create(t.Context(), n, time.Hour, 0, []byte("call"), entries, task.Quota{}))
		grow := inSchema(`UPDATE {schema}.task SET entries = entries + $1 WHERE id = $2`, s.schema)
		expect.Must(s.pool.Exec(t.Context(), grow, c.more, n.ID))(t)
		claimed, err := s.Claim(t.Context(), "", nil, time.Hour, 9)
		if err != nil || len(claimed) != 1 {
			t.Fatalf("%s: %d claims, %v", c.says, len(claimed), err)
		}
		if got := (&task.Claimed{Call: claimed[0].Call, Entries: claimed[0].Entries}); !cmp.Equal(got, c.want) {
			t.Errorf("%s: got the call %q and the entries %q", c.says, got.Call, got.Entries)
		}
	}
}

// What counts towards a quota does not change between the look at the quota and the write, in whatever transactions,
// and by whatever instances, a principal's tasks grow.
func TestQuotasAreLockedWhileTheyAreUsed(t *testing.T) {
	t.Parallel()
	s := openPrivate(t)
	ctx := t.Context()
	grows := groupTask("alice")
	expect.Check(t, s.Create(ctx, grows, time.Hour, 0, nil, nil, task.Quota{}))
	quota := task.Quota{Unfinished: 9, Kept: 9, Bytes: 100}
	for says, write := range map[string]func() error{
		"creating": func() error { return s.Create(ctx, groupTask("alice"), time.Hour, 0, nil, nil, quota) },
		"growing": func() error {
			return s.Update(ctx, grows, task.Update{Entries: [][]byte{[]byte("more")}, Quota: task.Quota{Bytes: 100}})
		},
	} {
		other, err := s.pool.Begin(ctx) // another instance that is in the middle of a write of alice's
		expect.Check(t, err)
		t.Cleanup(func() { _ = other.Rollback(context.Background()) }) // if the test fails before
		expect.Must(other.Exec(ctx, s.sql.lockQuotas, []string{"alice"}, []string{}))(t)
		written := make(chan error, 1)
		go func() { written <- write() }()
		waits(t, s, written)
		expect.Check(t, other.Rollback(ctx))
		select {
		case err := <-written:
			if err != nil {
				t.Errorf("%s: %v", says, err)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("%s: it waits for a lock that is free", says)
		}
	}
	bob := groupTask("bob")
	expect.Check(t, s.Create(ctx, bob, time.Hour, 0, nil, nil, quota))
}

// waits returns when a write waits for a lock, and fails the test if it ends before.
func waits(t *testing.T, s *Store, written <-chan error) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		select {
		case err := <-written:
			t.Fatalf("the write does not wait for the lock: %v", err)
		case <-time.After(time.Millisecond):
		}
		var waiting int
		err := s.pool.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		expect.Check(t, err)
		if waiting > 0 {
			return
		}
	}
	t.Fatal("the write neither ends nor waits for the lock")
}

// The writes of a transaction lock their tasks in one order, so that no two transactions wait for each other.
func TestWritesAreMadeInTheOrderOfTheirTasks(t *testing.T) {
	t.Parallel()
	s := openPrivate(t)
	var made []string
	var writes []*write
	for _, id := range []string{"c", "a", "d", "b"} {
		writes = append(writes, &write{ctx: context.Background(), id: id, sql: `SELECT 1`, result: func(row pgx.Row) error {
			made = append(made, id)
			return row.Scan(new(int))
		}})
	}
	expect.Check(t, s.transact(writes))
	if !slices.IsSorted(made) || len(made) != len(writes) {
		t.Errorf("made in the order %q", made)
	}
}

// When one connection breaks off, the others of the pool are taken to be broken as well: each would fail one more call.
func TestConnectionsBreakOffTogether(t *testing.T) {
	t.Parallel()
	s := openPrivate(t)
	ctx := t.Context()
	var held []interface{ Release() }
	for range 4 {
		c, err := s.pool.Acquire(ctx)
		expect.Check(t, err)
		held = append(held, c)
	}
	for _, c := range held {
		c.Release()
	}
	admin, err := pgx.ConnectConfig(ctx, s.pool.Config().ConnConfig)
	expect.Check(t, err)
	defer admin.Close(ctx)
	// The backends are killed, and have ended when this returns.
	var killed int
	err = admin.QueryRow(ctx, `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid, 20000)) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`).Scan(&killed)
	if err != nil || killed < 4 {
		t.Fatalf("killed %d backends, %v", killed, err)
	}
	failed := 0
	for range 8 {
		if _, err := s.Expired(ctx, 1); err != nil {
			failed++
		}
	}
	if failed > 1 {
		t.Errorf("%d calls failed, want at most one", failed)
	}
}
