package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// summary is the outcome of a run.
type summary struct {
	options    options
	took       time.Duration
	dir        string // where the files are, if they are left
	counts     map[counter]int
	refusals   map[string]int
	violations []violation
}

// String is a table for people.
func (s *summary) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "servers\t%d, on %s\n", s.options.instances, s.options.store)
	fmt.Fprintf(w, "seed\t%d\n", s.options.seed)
	fmt.Fprintf(w, "took\t%v\n", s.took.Round(time.Second))
	for _, c := range counters {
		if s.counts[c] > 0 {
			fmt.Fprintf(w, "%s\t%d\n", c, s.counts[c])
		}
	}
	for _, text := range slices.Sorted(maps.Keys(s.refusals)) {
		fmt.Fprintf(w, "requests refused\t%d: %s\n", s.refusals[text], text)
	}
	fmt.Fprintf(w, "violations\t%d\n", len(s.violations))
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
	columns := []struct {
		title    string
		counters []counter
	}{
		{"tasks", []counter{completed, cancelled}}, {"calls", []counter{calls}}, {"kills", []counter{kills}},
		{"stops", []counter{stops}}, {"partitions", []counter{partitions}}, {"restarts", []counter{restarts}},
		{"lost responses", []counter{lostByDatabase, lostByServers}}, {"run again", []counter{repeatedSteps}},
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "seed\ttook\t")
	for _, c := range columns {
		fmt.Fprintf(w, "%s\t", c.title)
	}
	for _, k := range kinds {
		fmt.Fprintf(w, "%s\t", k)
	}
	fmt.Fprintln(w)
	for _, s := range all {
		fmt.Fprintf(w, "%d\t%v\t", s.options.seed, s.took.Round(time.Second))
		for _, column := range columns {
			n := 0
			for _, c := range column.counters {
				n += s.counts[c]
			}
			fmt.Fprintf(w, "%d\t", n)
		}
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
