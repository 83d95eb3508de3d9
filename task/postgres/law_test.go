package postgres_test

import (
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/law"
	"github.com/askback-mcp/askback/internal/test/pgtest"
)

// The law of people holds on this store.
func TestPeopleLaw(t *testing.T) {
	t.Parallel()
	s := open(t, pgtest.DSN(t))
	t.Cleanup(func() { s.Close() })
	var all law.Summary
	o := law.Options{Store: s, Unit: 100 * time.Millisecond, Chances: law.Faults, Thefts: 0.05, Reworded: true}
	for o.Seed = range 2 {
		o.Calls = 8
		all.Add(law.People(t, o))
	}
	t.Logf("%+v", all)
	all.Check(t, o)
}
