package postgres_test

import (
	"testing"

	"github.com/askback-mcp/askback/internal/test/law"
	"github.com/askback-mcp/askback/internal/test/pgtest"
)

// The law of people holds on this store.
func TestPeopleLaw(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.DSN(t))
	law.CheckStore(t, s)
}
