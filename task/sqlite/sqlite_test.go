package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func(t *testing.T) task.Store {
		path := filepath.Join(t.TempDir(), "tasks.db")
		return func(t *testing.T) task.Store { return open(t, path) }
	})
}

func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
