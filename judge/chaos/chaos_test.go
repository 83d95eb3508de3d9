package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/pgtest"
)

// A small run of each kind. What a task that was hit waits for is mostly the end of the
// dead server's lease; therefore they run at once.
func TestTasksSurviveKills(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes as long as the lease of a server that died")
	}
	for name, o := range map[string]options{
		"sqlite":   {store: "sqlite", instances: 1, kills: 8, faults: []string{faultKill}},
		"postgres": {store: "postgres", instances: 3, kills: 6, restart: true, faults: []string{faultKill, faultLoss}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.seed = rand.Uint64()
			o.pace, o.every, o.drain = 200*time.Millisecond, 300*time.Millisecond, 2*time.Minute
			if o.store == "postgres" {
				o.postgres = pgtest.Start(t)
			}
			s, err := run(t.Context(), o, t.Output())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("\n%s", s)
			if len(s.violations) > 0 {
				t.Errorf("%d violations: see above; go run ./judge/chaos does more of the same", len(s.violations))
			}
			if s.kills < o.kills || s.completed == 0 || o.restart && s.crashes == 0 {
				t.Errorf("%d kills, %d crashes and %d completed tasks prove nothing", s.kills, s.crashes, s.completed)
			}
			if s.leases < s.completed || s.entries < len(steps)*s.completed {
				t.Errorf("the database noted %d leases and %d entries of %d completed tasks", s.leases, s.entries, s.completed)
			}
		})
	}
}
