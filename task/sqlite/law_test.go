package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/askback-mcp/askback/internal/test/law"
)

// The law of people holds on this store.
func TestPeopleLaw(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	law.CheckStore(t, s)
}
