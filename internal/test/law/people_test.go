package law_test

import (
	"fmt"
	"runtime"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/test/law"
	"github.com/askback-mcp/askback/internal/test/sim"
	"github.com/askback-mcp/askback/task"
)

// The law holds for calls that wait for people and deadlines.
func TestPeople(t *testing.T) {
	seeds := uint64(8)
	if testing.Short() {
		seeds = 3
	}
	network := sim.Chances{sim.LostBefore: 0.03, sim.LostAfter: 0.03, sim.Delayed: 0.03}
	for _, test := range []struct {
		name string
		o    law.Options
	}{
		{"all is well", law.Options{}},
		{"leases are stolen", law.Options{Thefts: 0.1}},
		{"the network fails", law.Options{Chances: network}},
		{"hardly anything fails", law.Options{Chances: law.FewFaults}},
		{"everything fails", law.Options{Chances: law.Faults}},
		{"everything fails in an upgrade", law.Options{Chances: law.Faults, Thefts: 0.05, Reworded: true}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var all law.Summary
			for seed := range seeds {
				o := test.o
				o.Seed, o.Calls, o.Unit, o.Virtual = seed, 6, time.Second, true
				summary, bad, events := play(t, o)
				all.Add(summary)
				if len(bad) > 0 {
					t.Fatalf("seed %d: %q\n%s", seed, bad, story(t, o, events))
				}
			}
			t.Logf("%+v", all)
			all.Check(t, test.o)
		})
	}
}

// play lets a simulation run in a bubble. On one processor, and with the same random numbers, most seeds repeat their
// run exactly: what Go's scheduler chooses between two seams is all that differs.
func play(t *testing.T, o law.Options) (summary law.Summary, bad []string, events []sim.Event) {
	t.Run(fmt.Sprint("seed ", o.Seed), func(t *testing.T) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
		cryptotest.SetGlobalRandom(t, o.Seed)
		synctest.Test(t, func(t *testing.T) {
			o.Store = new(task.MemoryStore)
			summary, bad, events = law.Play(t, o)
		})
	})
	return summary, bad, events
}

// story returns the few faults with which a simulation still fails, as far as a hundred runs find them.
func story(t *testing.T, o law.Options, events []sim.Event) (text string) {
	runs := 0
	fails := func(only []sim.Event) bool {
		if runs++; runs > 100 {
			return false
		}
		o.Only = only
		_, bad, _ := play(t, o)
		return len(bad) > 0
	}
	for _, e := range sim.Shrink(events, fails) {
		text += e.String() + "\n"
	}
	return text
}
