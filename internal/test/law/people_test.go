package law_test

import (
	"cmp"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/law"
	"github.com/askback-mcp/askback/internal/test/sim"
	"github.com/askback-mcp/askback/task"
)

var (
	seeds  = flag.Uint64("seeds", 3, "how many seeds each world has")
	first  = flag.Uint64("first", 0, "the first of them")
	shrink = flag.Bool("shrink", true, "tell the story of a world's first seed that fails, in a hundred runs")
)

var deaths = sim.Chances{sim.KilledBefore: 0.0005, sim.KilledAfter: 0.0005, sim.KilledLate: 0.003}

// worlds are what the law is tried in.
var worlds = []struct {
	name string
	o    law.Options
}{
	{"all is well", law.Options{}},
	{"leases are stolen", law.Options{Thefts: 0.1}},
	{"the network fails", law.Options{Chances: law.Network}},
	{"clocks are off", law.Options{Clocks: 10 * time.Minute}},
	{"clocks are off, and jump", law.Options{Clocks: 10 * time.Minute, Jumps: true, Chances: law.Faults}},
	{"hardly anything fails", law.Options{Chances: law.FewFaults}},
	{"servers die", law.Options{Calls: 15, Chances: deaths}},
	{"the store is slow", law.Options{Chances: sim.Chances{sim.Delayed: 0.3}, Servers: 1}},
	{"everything fails", law.Options{Chances: law.Faults}},
	{"everything fails in an upgrade", law.Options{Chances: law.Faults, Thefts: 0.05, Reworded: true, Rotated: true}},
	{"rows are locked", law.Options{Chances: law.Network, Locked: 0.5}},
	{"a row is poisoned", law.Options{Poisoned: true}},
	{"the store loses commits", law.Options{Chances: law.FewFaults, Restored: 0.5}},
	{"callers poll", law.Options{Chances: law.Faults, Polled: true}},
	{"callers poll, and the store loses commits", law.Options{Chances: law.FewFaults, Restored: 0.5, Polled: true}},
	{"events are posted", law.Options{Chances: law.FewFaults, Posted: true}},
	{"events are posted over days", law.Options{Unit: time.Minute, Chances: law.FewFaults, Servers: 1, Posted: true}},
	{"events are posted, and the store loses commits", law.Options{Chances: law.FewFaults, Restored: 0.3, Posted: true}},
	{"people come late", law.Options{Chances: law.FewFaults, TTL: 20}},
	{"people come late, and clocks are off", law.Options{TTL: 20, Clocks: 10 * time.Minute}},
	{"people take hours", law.Options{Unit: time.Minute, Chances: law.FewFaults, Servers: 1, TTL: 60}},
	{"nobody takes notices for long", law.Options{Chances: law.FewFaults, Servers: 1, TTL: 30, Dead: 1800}},
	{"a crowd is before everybody", law.Options{Servers: 1, Crowded: true}},
}

// The law holds for calls that wait for people and deadlines.
func TestPeople(t *testing.T) {
	var total law.Summary
	for _, world := range worlds {
		t.Run(world.name, func(t *testing.T) {
			var all law.Summary
			for seed := *first; seed < *first+*seeds; seed++ {
				o := world.o
				o.Seed, o.Calls, o.Unit, o.Virtual = seed, cmp.Or(o.Calls, 8), cmp.Or(o.Unit, time.Second), true
				t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
					summary, bad, events := play(t, o)
					all.Add(summary)
					if len(bad) == 0 {
						return
					}
					t.Errorf("seed %d: %q", seed, bad)
					if *shrink {
						*shrink = false
						t.Log(story(t, o, events))
					}
				})
			}
			t.Logf("%+v", all)
			total.Add(all)
			if *seeds >= 20 { // with few, some world may have had only people who decline
				all.Check(t, world.o)
			}
		})
	}
	if *seeds >= 3 {
		total.Check(t, law.Options{Chances: law.FewFaults})
	}
	if *seeds >= 3 && (total.Repeated == 0 || total.Unknown == 0 || total.Sessions == 0 || total.Streamed == 0 ||
		total.Posted == 0) {
		t.Errorf("no step ran again, none that must not was cut off, no session has seen its call end, or no event came "+
			"on a stream: %+v", total)
	}
}

// play is one run of a world.
func play(t *testing.T, o law.Options) (summary law.Summary, bad []string, events []sim.Event) {
	sim.Play(t, "play", o.Seed, func(t *testing.T) {
		o.Store = new(task.MemoryStore)
		summary, bad, events = law.People(t, o)
	})
	return summary, bad, events
}

// story tells of the few faults with which a simulation still fails.
func story(t *testing.T, o law.Options, events []sim.Event) string {
	return sim.Story(events, func(only []sim.Event) bool {
		o.Only = only
		_, bad, _ := play(t, o)
		return len(bad) > 0
	})
}
