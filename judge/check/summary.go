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

// sums checks servers, some of them at once, and returns the summaries in the order of the servers.
func (j *judge) sums(ctx context.Context, all []subject, runs, parallel int, verbose bool) iter.Seq[*summary] {
	return func(yield func(*summary) bool) {
		ready := make([]chan *summary, len(all))
		places := make(chan struct{}, max(1, parallel))
		for i, s := range all {
			ready[i] = make(chan *summary, 1)
			go func() {
				places <- struct{}{}
				defer func() { <-places }()
				sum := &summary{on: s}
				for range runs {
					sum.add(j.check(ctx, s), verbose)
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

func (s *summary) add(o outcome, verbose bool) {
	on := s.on
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
		meant := on.fault != nil && v.Probe == on.fault.Probe
		switch {
		case meant && v.Level == on.fault.Level:
			found = true
		case v.grave():
			if name := v.Probe + "=" + v.Level; !slices.Contains(s.others, name) {
				s.others = append(s.others, name)
			}
			if on.fault == nil || verbose {
				why = append(why, fmt.Sprintf("%s %s: %s (%s) %s", v.Level, v.Probe, v.Target, v.Proof, v.Reason))
			}
		}
		if meant && !found {
			why = append(why, fmt.Sprintf("%s %s: %s (%s) %s", v.Level, v.Probe, v.Target, v.Proof, v.Reason))
		}
	}
	if found {
		s.found++
	} else if on.fault != nil || len(why) > 0 {
		s.wrong++
		if o.Stopped != "" {
			why = append(why, "stopped: "+o.Stopped)
		}
	}
	if on.fault == nil || !found || verbose {
		s.details = append(s.details, why...)
	}
}

// line is the row of the table.
func (s *summary) line() string {
	on := s.on
	var b strings.Builder
	word := "ok   "
	if s.wrong > 0 {
		word = "WRONG"
	}
	fmt.Fprintf(&b, "%s %-22s", word, on.name)
	if on.fault != nil {
		fmt.Fprintf(&b, " %-20s %-4s %d of %d", on.fault.Probe, on.fault.Level, s.found, s.runs)
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
