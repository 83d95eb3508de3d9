package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// summary is what a run came to.
type summary struct {
	options options
	took    time.Duration
	dir     string // where the files are, if they are left

	kills         int
	killsInStep   int // at least
	killsAimed    int // at the moment between a step and its record
	killsStarting int // before the server listened
	killsAll      int // with those of all servers at once
	crashes       int // of PostgreSQL

	completed, cancelled, proposals int // tasks
	unacknowledged                  int
	broken                          int // requests
	refusals                        map[string]int

	recorded, effects, repeated int // steps
	recordedTwice               int // entries of a journal for the same step
	leftovers                   int // directories of completed tasks

	stalls  []time.Duration // sorted
	startup []time.Duration // sorted: from the start of a process until it listens

	violations []string
}

// String is a table for people.
func (s *summary) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("servers", "%d, on %s", s.options.instances, s.options.store)
	row("seed", "%d", s.options.seed)
	row("took", "%v", s.took.Round(time.Second))
	row("kills", "%d: at least %d hit a step, %d were aimed between a step and its record,", s.kills, s.killsInStep, s.killsAimed)
	row("", "%d came before the server listened, %d hit all servers at once", s.killsStarting, s.killsAll)
	if s.crashes > 0 {
		row("crashes of PostgreSQL", "%d", s.crashes)
	}
	row("tasks", "%d completed, %d cancelled; %d of them in the proposals' dialect", s.completed, s.cancelled, s.proposals)
	row("never acknowledged", "%d tasks that were created, but the answer was lost", s.unacknowledged)
	row("requests cut off", "%d", s.broken)
	for _, text := range slices.Sorted(maps.Keys(s.refusals)) {
		row("requests refused", "%d: %s", s.refusals[text], text)
	}
	row("steps recorded", "%d, by %d runs of them", s.recorded, s.effects)
	row("steps run again", "%d, as their process died before it recorded them", s.repeated)
	if s.recordedTwice > 0 {
		row("steps recorded twice", "%d", s.recordedTwice)
	}
	if s.leftovers > 0 {
		row("left of completed tasks", "%d directories that an interrupted step had begun", s.leftovers)
	}
	if n := len(s.stalls); n > 0 {
		row("from kill to progress", "median %.1f s, longest %.1f s (%d times)", s.stalls[n/2].Seconds(), s.stalls[n-1].Seconds(), n)
	}
	if n := len(s.startup); n > 0 {
		row("from start to listening", "median %d ms, longest %d ms", s.startup[n/2].Milliseconds(), s.startup[n-1].Milliseconds())
	}
	row("violations", "%d", len(s.violations))
	w.Flush()
	for _, v := range s.violations {
		fmt.Fprintf(&b, "  - %s\n", v)
	}
	if s.dir != "" {
		fmt.Fprintf(&b, "The files are left in %s.\n", s.dir)
	}
	return b.String()
}
