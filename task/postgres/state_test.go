package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task/storetest"
)

func TestStates(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schemas(t)
	storetest.RunStates(t, func(*testing.T) func(t *testing.T) storetest.StateStore {
		dsn := schema()
		return func(t *testing.T) storetest.StateStore { return openAt(t, dsn) }
	})
}

func TestGuard(t *testing.T) {
	t.Parallel()
	schema := pgtest.Schemas(t)
	storetest.RunGuard(t, func(*testing.T) func(t *testing.T) storetest.Guard {
		dsn := schema()
		return func(t *testing.T) storetest.Guard { return openAt(t, dsn).Guard() }
	})
}

// States that were used are forgotten when they have expired.
func TestGuardForgets(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.DSN(t))
	for i := range 10 * purgeStatesEvery {
		if fresh, err := s.Guard().Use(t.Context(), fmt.Sprint(i), time.Now().Add(-time.Second)); !fresh || err != nil {
			t.Fatal(fresh, err)
		}
	}
	var n int
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM askback.used_state").Scan(&n); err != nil ||
		n > 2*purgeStatesEvery {
		t.Errorf("there are %d expired states, %v", n, err)
	}
}

// Expired states do not pile up while others are written.
func TestStatesArePurged(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.DSN(t))
	for i := range 10 * purgeStatesEvery {
		expect.Check(t, s.PutState(t.Context(), fmt.Sprint(i), "call", []byte("data"), time.Now().Add(-time.Second)))
	}
	var n int
	if err := s.pool.QueryRow(t.Context(), "SELECT count(*) FROM askback.state").Scan(&n); err != nil ||
		n > 2*purgeStatesEvery {
		t.Errorf("there are %d expired states, %v", n, err)
	}
}
