package sqlite

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task/storetest"
)

func TestStates(t *testing.T) {
	t.Parallel()
	storetest.RunStates(t, func(t *testing.T) func(t *testing.T) storetest.StateStore {
		path := filepath.Join(t.TempDir(), "tasks.db")
		return func(t *testing.T) storetest.StateStore { return open(t, path) }
	})
}

func TestGuard(t *testing.T) {
	t.Parallel()
	storetest.RunGuard(t, func(t *testing.T) func(t *testing.T) storetest.Guard {
		path := filepath.Join(t.TempDir(), "tasks.db")
		return func(t *testing.T) storetest.Guard { return open(t, path).Guard() }
	})
}

// What was used is remembered when all instances have ended, and forgotten when it has expired.
func TestGuardRemembers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.db")
	for i := range 3 {
		s := open(t, path)
		if fresh, err := s.Guard().Use(t.Context(), "id", time.Now().Add(time.Hour)); fresh != (i == 0) || err != nil {
			t.Errorf("presentation %d: fresh is %v, %v", i, fresh, err)
		}
		for n := range 50 {
			expect.Must(s.Guard().Use(t.Context(), fmt.Sprint(i, n), time.Now().Add(-time.Second)))(t)
		}
		if n := query[int](t, s.conn, "SELECT count(*) FROM used_state"); n > 1+purgedStates {
			t.Errorf("there are %d states", n)
		}
		s.Close()
	}
}

// Expired states do not pile up while others are written.
func TestStatesArePurged(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	for i := range 50 {
		expect.Check(t, s.PutState(t.Context(), fmt.Sprint(i), "call", []byte("data"), time.Now().Add(-time.Second)))
	}
	if n := query[int](t, s.conn, "SELECT count(*) FROM state"); n > purgedStates {
		t.Errorf("there are %d expired states", n)
	}
}
