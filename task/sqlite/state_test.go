package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/askback-mcp/askback/task/storetest"
)

func TestStates(t *testing.T) {
	storetest.RunStates(t, func(t *testing.T) func(t *testing.T) storetest.StateStore {
		path := filepath.Join(t.TempDir(), "tasks.db")
		return func(t *testing.T) storetest.StateStore {
			s := open(t, path)
			t.Cleanup(func() { s.Close() })
			return s
		}
	})
}

// Expired states do not pile up while others are written.
func TestStatesArePurged(t *testing.T) {
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
	path := filepath.Join(t.TempDir(), "tasks.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := raw(t, path)
	mustExec(t, old, migrations[0])
	mustExec(t, old, fmt.Sprintf("PRAGMA application_id = %d", applicationID))
	mustExec(t, old, "PRAGMA user_version = 1")
	mustExec(t, old, `INSERT INTO task (id, principal, method, target, dialect, status, message, round, created, updated, expires,
		poll, stopped, attempts, version, fence, ended) VALUES ('old', '', '', '', '', 'working', '', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)`)
	old.Close()
	s := open(t, path)
	defer s.Close()
	if err := s.PutState(t.Context(), "id", "", []byte("data"), time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if _, err := s.Get(t.Context(), "old"); err != nil {
		t.Error(err)
	}
}
