package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/storetest"
)

func TestStates(t *testing.T) {
	t.Parallel()
	storetest.RunStates(t, func(t *testing.T) func(t *testing.T) storetest.StateStore {
		path := filepath.Join(t.TempDir(), "tasks.db")
		return func(t *testing.T) storetest.StateStore {
			s := open(t, path)
			t.Cleanup(func() { s.Close() })
			return s
		}
	})
}

func TestGuard(t *testing.T) {
	t.Parallel()
	storetest.RunGuard(t, func(t *testing.T) func(t *testing.T) storetest.Guard {
		path := filepath.Join(t.TempDir(), "tasks.db")
		return func(t *testing.T) storetest.Guard {
			s := open(t, path)
			t.Cleanup(func() { s.Close() })
			return s.Guard()
		}
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
			if _, err := s.Guard().Use(t.Context(), fmt.Sprint(i, n), time.Now().Add(-time.Second)); err != nil {
				t.Fatal(err)
			}
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
	defer s.Close()
	for i := range 50 {
		if err := s.PutState(t.Context(), fmt.Sprint(i), "call", []byte("data"), time.Now().Add(-time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if n := query[int](t, s.conn, "SELECT count(*) FROM state"); n > purgedStates {
		t.Errorf("there are %d expired states", n)
	}
}

// A file of the first schema gets the table, and keeps its tasks.
func TestStatesInAnOlderFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := raw(t, path)
	mustExec(t, old, migrations[0])
	mustExec(t, old, fmt.Sprintf("PRAGMA application_id = %d", applicationID))
	mustExec(t, old, "PRAGMA user_version = 1")
	mustExec(t, old,
		`INSERT INTO task (id, principal, method, target, dialect, status, message, round, created, updated, expires,
		poll, stopped, attempts, version, fence, ended, outcome) VALUES
		('old', 'alice', '', '', '', 'working', '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, NULL),
		('ended', 'alice', '', '', '', 'failed', '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, x'776879')`)
	mustExec(t, old, `INSERT INTO journal (task, n, entry) VALUES (1, 0, x'63616c6c'), (1, 1, x'656e747279'), (2, 0, `+
		`x'63616c6c')`)
	old.Close()
	s := open(t, path)
	defer s.Close()
	if err := s.PutState(t.Context(), "id", "", []byte("data"), time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), "old"); err != nil {
		t.Error(err)
	}
	// What the principal has was counted.
	used, err := usage(s.w[usageSQL].QueryRowContext(t.Context(), "alice"))
	if want := (task.Quota{Unfinished: 1, Kept: 2, Bytes: 4 + 5 + 4 + 3}); used != want || err != nil {
		t.Errorf("alice has %+v, %v; want %+v", used, err, want)
	}
}
