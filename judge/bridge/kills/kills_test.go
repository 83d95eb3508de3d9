package main

import (
	"context"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/judge/process"
)

// TestMain makes the test binary a server behind the bridge, in the processes that are to be one.
func TestMain(m *testing.M) {
	if kind := os.Getenv(kindVariable); kind != "" {
		_ = serve(context.Background(), kind)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// A small run of each kind.
func TestNothingIsRepeated(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes as long as the lease of a bridge that died")
	}
	program, err := process.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]options{
		"sqlite": {bridges: 1}, "postgres": {bridges: 2}, "servers": {bridges: 1, servers: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.program, o.calls, o.kills, o.hosts, o.every, o.seed = program, 36, 8, 12, time.Second, rand.Uint64()
			if name == "postgres" {
				o.store = pgtest.DSN(t)
			}
			found, err := run(context.WithoutCancel(t.Context()), o, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", found)
			if len(found.violations) > 0 {
				t.Errorf("%d violations: see above; go run ./judge/bridge/kills does more of the same", len(found.violations))
			}
			if found.kills < o.kills || found.counts[once+" "+done]+found.counts[twice+" "+done] == 0 {
				t.Errorf("%d kills, and the ends %v prove nothing", found.kills, found.counts)
			}
		})
	}
}
