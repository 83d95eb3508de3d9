package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/pgtest"
)

// A small run of each kind. What a task that was hit waits for is mostly the end of the
// dead server's lease; therefore they run at once.
func TestTasksSurviveKills(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes as long as the lease of a server that died")
	}
	for name, o := range map[string]options{
		"sqlite": {store: "sqlite", instances: 1, kills: 8, faults: []string{faultKill}, voting: true},
		"postgres": {store: "postgres", instances: 3, kills: 6, voting: true,
			faults: []string{faultKill, faultCrash, faultLoss}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.seed = rand.Uint64()
			o.every = 300 * time.Millisecond
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
			n := s.counts
			if n[kills] < o.kills || n[completed] == 0 || o.store == "postgres" && n[crashes] == 0 {
				t.Errorf("%d kills, %d crashes and %d completed tasks prove nothing", n[kills], n[crashes], n[completed])
			}
			if n[decisions]+n[unanswered] == 0 {
				t.Error("nothing was decided")
			}
			if n[leases] < n[completed] || n[recordedEntries] < len(steps)*n[completed] {
				t.Errorf("the database noted %d leases and %d entries of %d completed tasks",
					n[leases], n[recordedEntries], n[completed])
			}
		})
	}
}
