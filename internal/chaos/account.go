package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// account looks at what there is in the end.
func (c *chaos) account(ctx context.Context) error {
	if err := c.cleanedUp(ctx); err != nil {
		return err
	}
	if err := c.look(ctx); err != nil {
		return err
	}
	effects, err := c.effects()
	if err != nil {
		return err
	}
	l, s := c.ledger, c.sum
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
			s.recordedTwice += max(0, times[name]-1)
			if times[name] == 0 && o != nil && o.ended == "completed" {
				l.violate("%s: it is completed, and its step %s is not recorded", o, name)
			}
		}
		if o == nil {
			s.unacknowledged++
			if r.status == "failed" || r.status == "cancelled" {
				l.violate("task %s, which nobody knows of, is %s", r.task, r.status)
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
				l.violate("%s: its machine is not whole: %v", o, err)
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
	s.violations = slices.Clone(l.violations)
	slices.Sort(s.violations)
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
				c.ledger.violate("%s", text)
			}
			return nil
		}
		if !sleep(ctx, time.Second) {
			return ctx.Err()
		}
	}
}
