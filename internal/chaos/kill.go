package main

import (
	"context"
	"os"
	"time"
)

// keepKilling kills until it is enough.
func (c *chaos) keepKilling(ctx context.Context) error {
	crashes := 0
	if c.restart {
		crashes = max(1, c.kills/50)
	}
	for c.sum.kills < c.kills {
		if c.sum.crashes < crashes && c.sum.kills >= (2*c.sum.crashes+1)*c.kills/(2*crashes) {
			if err := c.crash(ctx); err != nil {
				return err
			}
			continue
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

// upTo is a random time, shorter than the limit.
func (c *chaos) upTo(limit time.Duration) time.Duration {
	return time.Duration(c.random.Int64N(int64(limit)))
}

// choose waits for the moment of the next kill, and returns the slots of the servers to kill.
func (c *chaos) choose(ctx context.Context) (slots []int, err error) {
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
		c.sum.killsAimed++
	}
	return slots, err
}

// stepDone waits for the moment when a server has done a step and has yet to record it, and
// returns its slot; -1 if no such moment comes soon.
func (c *chaos) stepDone(ctx context.Context) (slot int, err error) {
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

// kill kills the servers of these slots, looks at what they left, and starts them again.
func (c *chaos) kill(ctx context.Context, slots []int) error {
	killed := 0
	for _, slot := range slots {
		s := c.server(slot)
		listened := s.Listened()
		if !s.kill() {
			continue
		}
		c.ledger.killed(s.PID(), time.Now())
		killed++
		if listened {
			c.sum.startup = append(c.sum.startup, s.Up.Sub(s.Started))
		} else {
			c.sum.killsStarting++
		}
	}
	if len(slots) == c.instances && c.instances > 1 && killed > 1 {
		c.sum.killsAll += killed
	}
	if err := c.look(ctx); err != nil {
		return err
	}
	for _, slot := range slots {
		if s := c.server(slot); s.wasKilled() {
			c.revive(ctx, slot)
		}
	}
	if before := c.sum.kills; before/20 != (before+killed)/20 {
		c.say("%d kills, %d tasks", before+killed, len(c.ledger.acknowledged()))
	}
	c.sum.kills += killed
	return nil
}

// crash ends PostgreSQL as a crash does, kills a server that is without it, and starts both again.
func (c *chaos) crash(ctx context.Context) error {
	c.mu.Lock()
	c.outage = time.Now().Add(time.Hour)
	c.mu.Unlock()
	c.sum.crashes++
	if err := c.postgres.Stop(); err != nil {
		return err
	}
	sleep(ctx, c.upTo(500*time.Millisecond))
	slot := c.random.IntN(c.instances)
	if s := c.server(slot); s.kill() {
		c.ledger.killed(s.PID(), time.Now())
		c.sum.kills++
		c.revive(ctx, slot) // and finds no database
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
