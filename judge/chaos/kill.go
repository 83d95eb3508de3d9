package main

import (
	"context"
	"os"
	"time"
)

// keepKilling kills until it is enough.
func (c *tormentor) keepKilling(ctx context.Context) error {
	crashes := 0
	if c.restart {
		crashes = max(1, c.kills/50)
	}
	for c.killed < c.kills {
		if c.crashed < crashes && c.killed >= (2*c.crashed+1)*c.kills/(2*crashes) {
			if err := c.crash(ctx); err != nil {
				return err
			}
			continue
		}
		// leave something for the others
		if (c.has(faultStop) || c.has(faultPartition) || c.has(faultLease) || c.has(faultRoll)) &&
			!sleep(ctx, time.Second+c.upTo(4*time.Second)) {
			return ctx.Err()
		}
		victims, err := c.choose(ctx)
		if err != nil {
			return err
		}
		if err := c.kill(ctx, victims); err != nil {
			return err
		}
	}
	return nil
}

// choose waits for the moment of the next kill, and returns the slots of the servers to kill.
func (c *tormentor) choose(ctx context.Context) (slots []int, err error) {
	slots = []int{c.random.IntN(c.instances)}
	if c.instances > 1 && c.random.IntN(10) == 0 {
		slots = c.random.Perm(c.instances)
	}
	kind := c.random.IntN(10)
	if kind == 0 { // while it starts
		sleep(ctx, c.upTo(50*time.Millisecond))
		return slots, ctx.Err()
	}
	for {
		if _, err := c.server(slots[0]).Wait(patience); err == nil {
			break
		}
		if !sleep(ctx, pause) { // it ended by itself, and is started again
			return nil, ctx.Err()
		}
	}
	if kind > 3 { // at any time
		sleep(ctx, 100*time.Millisecond+c.upTo(1400*time.Millisecond))
		return slots, ctx.Err()
	}
	sleep(ctx, c.upTo(time.Second))
	slot, err := c.stepDone(ctx)
	if slot >= 0 {
		slots = []int{slot}
		c.count(func(s *summary) { s.killsAimed++ })
	}
	return slots, err
}

// stepDone waits for the moment when a server has done a step and has yet to record it, and
// returns its slot; -1 if no such moment comes soon.
func (c *tormentor) stepDone(ctx context.Context) (slot int, err error) {
	size := func() int64 {
		info, err := os.Stat(c.effectsLog())
		if err != nil {
			return 0 // no step has been done yet
		}
		return info.Size()
	}
	before := size()
	into := c.upTo(4 * time.Millisecond) // a record takes about as long
	for range 10_000 {
		if !sleep(ctx, 200*time.Microsecond) {
			return -1, ctx.Err()
		}
		if size() == before {
			continue
		}
		effects, err := c.effects()
		if err != nil {
			return -1, err
		}
		sleep(ctx, into)
		return c.slot(effects[len(effects)-1].pid), nil
	}
	return -1, nil
}

// kill kills the servers of these slots that are in no other trouble, looks at what they left, and starts them again.
func (c *tormentor) kill(ctx context.Context, slots []int) error {
	before := c.killed
	var victims []int
	for _, slot := range slots {
		if !c.places[slot].busy.TryLock() {
			continue
		}
		defer c.places[slot].busy.Unlock()
		s := c.server(slot)
		listened := s.Listened()
		if !s.kill() {
			continue
		}
		c.ledger.killed(s.PID(), time.Now())
		victims = append(victims, slot)
		c.killed++
		c.count(func(sum *summary) {
			sum.kills++
			if listened {
				sum.startup = append(sum.startup, s.Up.Sub(s.Started))
			} else {
				sum.killsStarting++
			}
		})
	}
	if n := len(victims); n == c.instances && n > 1 {
		c.count(func(s *summary) { s.killsAll += n })
	}
	if err := c.look(ctx); err != nil {
		return err
	}
	for _, slot := range victims {
		c.revive(slot)
	}
	if before/20 != c.killed/20 {
		c.say("%d kills, %d tasks", c.killed, len(c.ledger.acknowledged()))
	}
	return nil
}

// crash ends PostgreSQL as a crash does, kills a server that is without it, and starts both again.
func (c *tormentor) crash(ctx context.Context) error {
	c.mu.Lock()
	c.outage = time.Now().Add(time.Hour)
	c.mu.Unlock()
	c.crashed++
	c.count(func(s *summary) { s.crashes++ })
	defer c.ledger.trouble(cutOff, 0)()
	if err := c.postgres.Stop(); err != nil {
		return err
	}
	sleep(ctx, c.upTo(500*time.Millisecond))
	slot := c.random.IntN(c.instances)
	if c.places[slot].busy.TryLock() {
		if s := c.server(slot); s.kill() {
			c.ledger.killed(s.PID(), time.Now())
			c.killed++
			c.count(func(s *summary) { s.kills++ })
			c.revive(slot) // and finds no database
		}
		c.places[slot].busy.Unlock()
	}
	sleep(ctx, c.upTo(2*time.Second))
	if err := c.postgres.Restart(); err != nil {
		return err
	}
	c.mu.Lock()
	c.outage = time.Now()
	c.mu.Unlock()
	return c.look(ctx)
}
