package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/askback-mcp/askback/internal/test/desktest"
	"github.com/askback-mcp/askback/task/sqlite"
)

func TestAttacksOnTheDesk(t *testing.T) {
	t.Parallel()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tasks.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	desktest.Attacks(t, s)
}
