package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

// People at the desks of three processes, which have the same file open, decide as one.
func TestPeopleRace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.db")
	var stores []task.Store
	for range 3 {
		s, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		stores = append(stores, s)
	}
	races := 200
	if testing.Short() || raceDetector {
		races = 50
	}
	harness.RaceAtDesks(t, stores, races)
}
