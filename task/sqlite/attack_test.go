package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/askback-mcp/askback/internal/test/desktest"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task/sqlite"
)

func TestAttacksOnTheDesk(t *testing.T) {
	t.Parallel()
	s := expect.Must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tasks.db")))(t)
	t.Cleanup(func() { s.Close() })
	desktest.Attacks(t, s)
}
