package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// summary is the outcome of a run.
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

	stops, partitions, restarts, rotations int
	lostByDatabase, lostByServers, delayed int64
	held                                   int64 // requests that reached the database only after the lease of their sender
	silent                                 int64 // requests that the database left without a response for long, by itself
	calls                                  int   // of link_accounts, which a client carries from round to round

	completed, cancelled, proposals int // tasks
	unacknowledged                  int
	broken                          int // requests
	refusals                        map[string]int

	recorded, effects, repeated int // steps
	late                        int // steps of workers that were woken after another had their task
	leases, entries             int // that the database noted
	leftovers                   int // directories of completed tasks

	stalls  []time.Duration // sorted
	startup []time.Duration // sorted: from the start of a process until it listens

	violations []violation
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
	if s.stops+s.partitions+s.restarts > 0 {
		row("servers stopped for a while", "%d; cut off from the database %d", s.stops, s.partitions)
		row("servers ended by SIGTERM", "%d; steps of key rotations %d", s.restarts, s.rotations)
	}
	if s.lostByDatabase+s.lostByServers+s.delayed > 0 {
		row("responses lost", "%d of the database, %d of servers; %d delayed; %d requests held", s.lostByDatabase, s.lostByServers, s.delayed, s.held)
	}
	if s.silent > 0 {
		row("left unanswered", "%d requests by the database itself, for %v or longer", s.silent, silence)
	}
	row("tasks", "%d completed, %d cancelled; %d of them in the proposals' dialect", s.completed, s.cancelled, s.proposals)
	if s.calls > 0 {
		row("calls in rounds", "%d completed", s.calls)
	}
	row("never acknowledged", "%d tasks that were created, but the answer was lost", s.unacknowledged)
	row("requests cut off", "%d", s.broken)
	for _, text := range slices.Sorted(maps.Keys(s.refusals)) {
		row("requests refused", "%d: %s", s.refusals[text], text)
	}
	row("steps recorded", "%d, by %d runs of them", s.recorded, s.effects)
	row("leases taken", "%d, under which %d entries were recorded", s.leases, s.entries)
	row("steps run again", "%d, as their process could not record them", s.repeated)
	if s.late > 0 {
		row("steps run late", "%d, by processes that were stopped or cut off when another took the task", s.late)
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

// table compares runs of several seeds.
func table(all []*summary) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "seed\ttook\ttasks\tcalls\tkills\tstops\tpartitions\trestarts\tlost responses\trun again\t")
	for _, k := range kinds {
		fmt.Fprintf(w, "%s\t", k)
	}
	fmt.Fprintln(w)
	for _, s := range all {
		fmt.Fprintf(w, "%d\t%v\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t", s.options.seed, s.took.Round(time.Second), s.completed+s.cancelled,
			s.calls, s.kills, s.stops, s.partitions, s.restarts, s.lostByDatabase+s.lostByServers, s.repeated)
		found := make(map[kind]int)
		for _, v := range s.violations {
			found[v.kind]++
		}
		for _, k := range kinds {
			fmt.Fprintf(w, "%d\t", found[k])
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	return b.String()
}

// account verifies what is left after the last task, and completes the summary.
func (c *chaos) account(ctx context.Context) error {
	if err := c.cleanedUp(ctx); err != nil {
		return err
	}
	effects, err := c.judge(ctx)
	if err != nil {
		return err
	}
	l, s := c.ledger, c.sum
	s.late, s.leases, s.entries = l.lateEffects, l.leases, l.entries
	for _, p := range c.places {
		if p.database != nil {
			s.lostByDatabase += p.database.lost.Load()
			s.held += p.database.holds.Load()
			s.silent += p.database.silences.Load()
			s.delayed += p.database.delayed.Load()
		}
		if p.web != nil {
			s.lostByServers += p.web.lost.Load()
			s.delayed += p.web.delayed.Load()
		}
	}
	s.repeated = l.repeats(effects)
	s.stalls, s.killsInStep = l.stalls(effects)
	slices.Sort(s.startup)
	s.recorded = len(l.recorded)
	for _, e := range effects {
		if steps[e.step] > 0 {
			s.effects++
		}
	}
	s.broken, s.refusals = l.broken, l.refusals
	for _, r := range l.last {
		times := make(map[string]int)
		for _, name := range r.steps {
			times[name]++
		}
		o := l.orders[r.task]
		for name := range steps {
			if times[name] == 0 && o != nil && o.ended == "completed" {
				l.violate(lost, "%s: it is completed, and its step %s is not recorded", o, name)
			}
		}
		if o == nil {
			s.unacknowledged++
			if r.status == "failed" || r.status == "cancelled" {
				l.violate(wrong, "task %s, which nobody knows of, is %s", r.task, r.status)
			}
		}
	}
	for id, o := range l.orders {
		if !o.extension {
			s.proposals++
		}
		switch o.ended {
		case "completed":
			s.completed++
			if err := checkMachine(c.machines, o, l.calls[id]); err != nil {
				l.violate(wrong, "%s: its machine is not whole: %v", o, err)
			}
			left, err := remains(c.machines, o.name, l.calls[id])
			if err != nil {
				return err
			}
			s.leftovers += len(left) - 1
		case "cancelled":
			s.cancelled++
		}
	}
	return nil
}

// cleanedUp waits until nothing is left of the tasks that were cancelled.
func (c *chaos) cleanedUp(ctx context.Context) error {
	deadline := time.Now().Add(c.drain)
	for {
		if err := c.look(ctx); err != nil {
			return err
		}
		var left []string
		for id, o := range c.ledger.orders {
			if o.ended != "cancelled" {
				continue
			}
			remaining, err := remains(c.machines, o.name, c.ledger.calls[id])
			if err != nil {
				return err
			}
			if len(remaining) > 0 {
				left = append(left, fmt.Sprintf("%s: it is cancelled, and %v later this is left of it: %s", o, c.drain, strings.Join(remaining, ", ")))
			}
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			for _, text := range left {
				c.ledger.violate(wrong, "%s", text)
			}
			return nil
		}
		if !sleep(ctx, time.Second) {
			return ctx.Err()
		}
	}
}
