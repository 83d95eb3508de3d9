package law_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/test/law"
	"github.com/askback-mcp/askback/task"
)

// The law holds for calls that wait for people and deadlines.
func TestPeople(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 3
	}
	for _, o := range []law.Options{
		{},
		{Kills: 12},
		{Thefts: 0.1},
		{Loss: 0.1},
		{Loss: 0.05, Kills: 6, Thefts: 0.05},
		{Loss: 0.05, Kills: 6, Thefts: 0.05, Reworded: true},
	} {
		t.Run(fmt.Sprintf("%.0f percent lost, %d kills, %.0f percent stolen, reworded %t", 100*o.Loss, o.Kills, 100*o.Thefts,
			o.Reworded),
			func(t *testing.T) {
				var all law.Summary
				for seed := range seeds {
					synctest.Test(t, func(t *testing.T) {
						o.Seed, o.Calls, o.Unit, o.Store = seed, 6, time.Second, new(task.MemoryStore)
						all.Add(law.People(t, o))
					})
					if t.Failed() {
						t.Fatalf("seed %d", seed)
					}
				}
				t.Logf("%+v", all)
				all.Check(t, o)
			})
	}
}
