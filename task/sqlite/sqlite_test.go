package sqlite

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) func(t *testing.T) task.Store {
		path := filepath.Join(t.TempDir(), "tasks.db")
		return func(t *testing.T) task.Store { return patient(t, path) }
	})
}

// A backup of the file is put back.
func TestStoreThatLosesCommits(t *testing.T) {
	t.Parallel()
	storetest.RunLostCommits(t, func(t *testing.T) (func(*testing.T) task.Store, func(*testing.T) func(*testing.T)) {
		path := filepath.Join(t.TempDir(), "tasks.db")
		return func(t *testing.T) task.Store { return patient(t, path) }, func(t *testing.T) func(*testing.T) {
			backup, err := os.ReadFile(path)
			expect.Check(t, err)
			return func(t *testing.T) {
				if left, err := filepath.Glob(path + "-*"); len(left) > 0 || err != nil {
					t.Fatalf("beside the file there is still %q, %v", left, err)
				}
				expect.Check(t, os.WriteFile(path, backup, 0o600))
			}
		}
	})
}

// open opens a store until the end of the test.
func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path)
	expect.Check(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// patient opens a store that waits for other handles of its file as long as it takes: on a loaded machine SQLite, which
// serves no turns, lets one of many writers wait for longer than busyTimeout.
func patient(t *testing.T, path string) *Store {
	s := open(t, path)
	mustExec(t, s.conn, "PRAGMA busy_timeout = 600000")
	return s
}
