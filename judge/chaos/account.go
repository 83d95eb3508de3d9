package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// account verifies what is left after the last task, and counts it.
func (c *chaos) account(ctx context.Context) error {
	if err := c.awaitCleanup(ctx); err != nil {
		return err
	}
	if c.people != nil {
		if err := c.people.judge(ctx, true); err != nil {
			return err
		}
	}
	effects, err := c.judge(ctx)
	if err != nil {
		return err
	}
	l := c.ledger
	l.count(repeatedSteps, l.repeats(effects))
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range c.slots {
		for _, p := range s.proxies() {
			lost := lostByServers
			if p == s.database {
				lost = lostByDatabase
			}
			l.counts[lost] += int(p.lost.Load())
			l.counts[held] += int(p.holds.Load())
			l.counts[silences] += int(p.silences.Load())
			l.counts[delayed] += int(p.delayed.Load())
		}
	}
	l.counts[recorded] = len(l.recorded)
	for _, e := range effects {
		if steps[e.step] {
			l.counts[done]++
		}
	}
	c.checkRecords()
	return c.checkOrders()
}

// checkRecords checks what the database has last been seen to hold. The ledger is locked.
func (c *chaos) checkRecords() {
	l := c.ledger
	for _, r := range l.last {
		times := make(map[string]int)
		for _, name := range r.steps {
			times[name]++
		}
		o := l.orders[r.task]
		for name := range steps {
			if times[name] == 0 && o != nil && o.ended == "completed" {
				l.violate(kindLost, "%s: it is completed, and its step %s is not recorded", o, name)
			}
		}
		if o == nil {
			l.counts[unacknowledged]++
			if r.status == "failed" || r.status == "cancelled" {
				l.violate(kindWrong, "task %s, which nobody knows of, is %s", r.task, r.status)
			}
		}
	}
}

// checkOrders checks the machines of all orders. The ledger is locked.
func (c *chaos) checkOrders() error {
	l := c.ledger
	for id, o := range l.orders {
		if !o.extension {
			l.counts[proposals]++
		}
		switch o.ended {
		case "completed":
			l.counts[completed]++
			if err := checkMachine(c.machines, o, l.calls[id]); err != nil {
				l.violate(kindWrong, "%s: its machine is not whole: %v", o, err)
			}
			left, err := remains(c.machines, o.name, l.calls[id])
			if err != nil {
				return err
			}
			l.counts[leftovers] += len(left) - 1
		case "cancelled":
			l.counts[cancelled]++
		}
	}
	return nil
}

// awaitCleanup waits until nothing is left of the tasks that were cancelled.
func (c *chaos) awaitCleanup(ctx context.Context) error {
	deadline := time.Now().Add(drain)
	for {
		if err := c.observe(ctx); err != nil {
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
				left = append(left, fmt.Sprintf("%s: it is cancelled, and %v later this is left of it: %s",
					o, drain, strings.Join(remaining, ", ")))
			}
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			for _, text := range left {
				c.ledger.violate(kindWrong, "%s", text)
			}
			return nil
		}
		if !sleep(ctx, time.Second) {
			return ctx.Err()
		}
	}
}
