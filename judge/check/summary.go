package main

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
)

// A summary sums up the runs on one server.
type summary struct {
	on                           subject
	runs, wrong, found, requests int
	longest                      time.Duration
	memory                       int64
	others                       []string // what was found besides, or wrongly
	details                      []string
}

// parallel is how many servers are checked at once; most of a run is waiting.
const parallel = 4

// sums checks servers, some of them at once, and returns the summaries in the order of the servers.
func (j *judge) sums(ctx context.Context, all []subject, runs int) iter.Seq[*summary] {
	return func(yield func(*summary) bool) {
		ready := make([]chan *summary, len(all))
		places := make(chan struct{}, parallel)
		for i, s := range all {
			ready[i] = make(chan *summary, 1)
			go func() {
				places <- struct{}{}
				defer func() { <-places }()
				sum := &summary{on: s}
				for range runs {
					sum.add(j.check(ctx, s))
				}
				ready[i] <- sum
			}()
		}
		for _, sum := range ready {
			if !yield(<-sum) {
				return
			}
		}
	}
}

func (s *summary) add(o outcome) {
	fault := s.on.fault
	s.runs++
	s.requests = max(s.requests, o.Requests)
	s.longest = max(s.longest, o.took)
	s.memory = max(s.memory, o.memory)
	if o.err != nil {
		s.wrong++
		s.details = append(s.details, o.err.Error())
		return
	}
	found, why := false, []string{}
	for _, v := range o.Verdicts {
		meant := fault != nil && v.Probe == fault.Probe
		text, isGrave := grave(v)
		if meant && string(v.Level) == fault.Level {
			found = true
		} else if name := v.Probe + "=" + string(v.Level); isGrave && !slices.Contains(s.others, name) {
			s.others = append(s.others, name)
		}
		if isGrave && fault == nil || meant && !found {
			why = append(why, text)
		}
	}
	if found {
		s.found++
		return
	}
	if fault != nil || len(why) > 0 {
		s.wrong++
		if o.Stopped != "" {
			why = append(why, "stopped: "+o.Stopped)
		}
	}
	s.details = append(s.details, why...)
}

// line is the row of the table.
func (s *summary) line() string {
	var b strings.Builder
	word := "ok   "
	if s.wrong > 0 {
		word = "WRONG"
	}
	fmt.Fprintf(&b, "%s %-22s", word, s.on.Name)
	if f := s.on.fault; f != nil {
		fmt.Fprintf(&b, " %-20s %-4s %d of %d", f.Probe, f.Level, s.found, s.runs)
	} else {
		fmt.Fprintf(&b, " %-25s %d of %d", "silent", s.runs-s.wrong, s.runs)
	}
	fmt.Fprintf(&b, ", at most %d requests, %.1fs, %d MB", s.requests, s.longest.Seconds(), s.memory>>20)
	if len(s.others) > 0 {
		fmt.Fprintf(&b, "; also %s", strings.Join(s.others, " "))
	}
	slices.Sort(s.details)
	for _, d := range slices.Compact(s.details) {
		fmt.Fprintf(&b, "\n      %.400s", d)
	}
	return b.String()
}
