package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Faults that the option -faults names.
const (
	faultKill      = "kill"      // SIGKILL
	faultStop      = "stop"      // SIGSTOP for about the time of a lease, and SIGCONT
	faultPartition = "partition" // a server without its database for about the time of a lease
	faultLease     = "lease"     // a server without its database until it has lost a lease within a step
	faultLoss      = "loss"      // responses of databases and servers lost or late, and requests that reach the database late
	faultRoll      = "roll"      // restarts by SIGTERM, one server after another, with a rotation of keys and two releases
)

var allFaults = []string{faultKill, faultStop, faultPartition, faultLease, faultLoss, faultRoll}

// tormentor brings about one kind of faults. Several do so at once.
type tormentor struct {
	*chaos
	random          *rand.Rand
	killed, crashed int
}

// torment brings about all faults, and returns when the last one is over.
func (c *chaos) torment(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i, one := range []struct {
		faults []string
		bring  func(*tormentor, context.Context) error
	}{
		{[]string{faultKill}, (*tormentor).keepKilling},
		{[]string{faultStop, faultPartition, faultLease}, (*tormentor).holdBack},
		{[]string{faultRoll}, (*tormentor).roll},
	} {
		if slices.ContainsFunc(one.faults, c.has) {
			all.Go(func() {
				t := &tormentor{chaos: c, random: rand.New(rand.NewPCG(c.seed, uint64(i)))}
				if err := one.bring(t, ctx); err != nil {
					cancel(err)
				}
			})
		}
	}
	all.Wait()
	return context.Cause(ctx)
}

// has reports whether a fault is among those that are wanted.
func (c *chaos) has(fault string) bool { return slices.Contains(c.faults, fault) }

// upTo is a random time, shorter than the limit.
func (c *tormentor) upTo(limit time.Duration) time.Duration {
	return time.Duration(c.random.Int64N(int64(limit)))
}

// holdBack stops servers and cuts them off from the database, for times around that of a lease: what a server sent
// before arrives shortly before or after another has taken its lease.
func (c *tormentor) holdBack(ctx context.Context) error {
	var plan []func(context.Context, int, time.Duration) error
	if c.has(faultStop) {
		plan = append(plan, c.stopServer, c.stopServer)
	}
	if c.has(faultPartition) && c.store == "postgres" {
		plan = append(plan, c.partition, c.partition, c.partitionEnding, c.partitionEnding)
	}
	if c.has(faultLease) && c.store == "postgres" {
		plan = append(plan, c.partitionSlow)
	}
	c.random.Shuffle(len(plan), func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })
	for _, bring := range plan {
		if !sleep(ctx, time.Second+c.upTo(time.Second)) {
			return ctx.Err()
		}
		slot := c.random.IntN(c.instances)
		for !c.places[slot].busy.TryLock() {
			if !sleep(ctx, 20*time.Millisecond) {
				return ctx.Err()
			}
			slot = c.random.IntN(c.instances)
		}
		err := c.up(ctx, slot)
		if err == nil {
			err = bring(ctx, slot, 7*time.Second+c.upTo(6*time.Second))
		}
		if err == nil {
			sleep(ctx, time.Second) // whatever comes late comes now
			err = c.look(ctx)
		}
		c.places[slot].busy.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// up waits until the server of a slot listens.
func (c *chaos) up(ctx context.Context, slot int) error {
	for {
		if _, err := c.server(slot).Wait(patience); err == nil && c.server(slot).serving() {
			return nil
		}
		if !sleep(ctx, pause) { // it ended by itself, and is started again
			return ctx.Err()
		}
	}
}

// stopServer stops the process of a slot where it is. Sometimes it is told to end meanwhile, and learns of that when it
// goes on.
func (c *tormentor) stopServer(ctx context.Context, slot int, d time.Duration) error {
	s := c.server(slot)
	end := c.ledger.trouble(stopped, s.PID())
	if err := s.Signal(stopSignal); err != nil {
		return fmt.Errorf("stopping server %d: %w", slot+1, err)
	}
	c.count(func(s *summary) { s.stops++ })
	sleep(ctx, d)
	ending := c.random.IntN(2) == 0
	if ending {
		if err := c.tellToEnd(slot); err != nil {
			return err
		}
	}
	err := s.Signal(continueSignal)
	end()
	if err == nil && ending {
		err = c.replace(ctx, slot)
	}
	return err
}

// partition cuts a server off from the database. Sometimes it is told to end meanwhile.
func (c *tormentor) partition(ctx context.Context, slot int, d time.Duration) error {
	ending := c.random.IntN(2) == 0
	err := c.cut(ctx, slot, everything, func() error {
		sleep(ctx, d/10)
		if ending {
			if err := c.tellToEnd(slot); err != nil {
				return err
			}
		}
		sleep(ctx, d-d/10)
		return nil
	})
	if err == nil && ending {
		err = c.replace(ctx, slot)
	}
	return err
}

// partitionEnding cuts a server off and tells it to end at once: it gives its tasks back, but that arrives when another
// has taken one of them. The requests of the others are slow, so that they have not changed what they took. Where they are
// many they wait for a connection until it is too late, which no silence of a connection shows.
func (c *tormentor) partitionEnding(ctx context.Context, slot int, d time.Duration) error {
	slowed := make(map[int]bool) // processes
	slow := func(late time.Duration) {
		for other, place := range c.places {
			if other != slot {
				place.database.slow.Store(int64(late))
				slowed[c.server(other).PID()] = true
			}
		}
	}
	begun := time.Now()
	slow(300 * time.Millisecond)
	defer func() {
		slow(0)
		for pid := range slowed {
			c.ledger.silent(pid, begun, time.Now())
		}
	}()
	err := c.cut(ctx, slot, statements, func() error {
		if err := c.tellToEnd(slot); err != nil {
			return err
		}
		return c.observer.taken(ctx, c.places[slot].name(slot), lease+d/2)
	})
	if err != nil {
		return err
	}
	return c.replace(ctx, slot)
}

// cut cuts a server off from the database until the function returns.
func (c *tormentor) cut(ctx context.Context, slot int, meant func([]byte) bool, until func() error) error {
	defer c.ledger.trouble(cutOff, c.server(slot).PID())()
	defer c.places[slot].database.interrupt(meant)()
	c.count(func(s *summary) { s.partitions++ })
	return until()
}

// slowPace makes a step longer than a lease.
const slowPace = 15 * time.Second

// partitionSlow cuts a server off whose steps take longer than a lease, so that it loses the lease within a step.
func (c *tormentor) partitionSlow(ctx context.Context, slot int, _ time.Duration) error {
	place := c.places[slot]
	pace := place.pace
	place.pace = slowPace
	err := c.restartServer(ctx, slot)
	if err == nil {
		err = c.observer.holds(ctx, place.name(slot), patience)
	}
	if err == nil {
		err = c.cut(ctx, slot, everything, func() error {
			begun := time.Now() // the steps that run now end, if nothing interrupts them, when this time has passed
			if err := c.observer.taken(ctx, place.name(slot), patience); err != nil {
				return err
			}
			sleep(ctx, slowPace+time.Second-time.Since(begun))
			return nil
		})
		sleep(ctx, time.Second)
	}
	place.pace = pace
	if err != nil {
		return err
	}
	return c.restartServer(ctx, slot)
}

// restartServer ends the server of a slot by SIGTERM and starts another.
func (c *tormentor) restartServer(ctx context.Context, slot int) error {
	err := c.up(ctx, slot)
	if err == nil {
		err = c.tellToEnd(slot)
	}
	if err == nil {
		err = c.replace(ctx, slot)
	}
	return err
}

// tellToEnd tells a server to finish what it does, and to end.
func (c *tormentor) tellToEnd(slot int) error {
	s := c.server(slot)
	s.expectEnd()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("ending server %d: %w", slot+1, err)
	}
	return nil
}

// replace starts another server when that of the slot has ended.
func (c *tormentor) replace(ctx context.Context, slot int) error {
	s := c.server(slot)
	select {
	case <-s.Dead:
	case <-time.After(patience):
		c.ledger.violate(ended, "server %d does not end %v after SIGTERM: %s", slot+1, patience, c.lastWords(slot))
		s.kill()
	case <-ctx.Done():
		return ctx.Err()
	}
	c.count(func(s *summary) { s.restarts++ })
	c.revive(slot)
	return c.up(ctx, slot)
}

// roll rotates the keys in three steps, and restarts all servers after each, with either release of link_accounts.
func (c *tormentor) roll(ctx context.Context) error {
	for step := range 3 {
		if step == 2 {
			c.rotation.forget()
		}
		out, err := exec.CommandContext(ctx, c.program, "keys", "rotate", "--force", c.keys).CombinedOutput()
		if err != nil {
			return fmt.Errorf("askback keys rotate: %w\n%s", err, out)
		}
		c.count(func(s *summary) { s.rotations++ })
		for _, slot := range c.random.Perm(c.instances) {
			if !sleep(ctx, c.upTo(time.Second)) {
				return ctx.Err()
			}
			place := c.places[slot]
			place.busy.Lock()
			place.release = 1 + c.random.IntN(2)
			place.pace = c.pace << (2 * c.random.IntN(2)) // longer steps are met by more faults
			err := c.restartServer(ctx, slot)
			place.busy.Unlock()
			if err != nil {
				return err
			}
		}
		if step == 1 {
			c.rotation.switched()
		}
	}
	return nil
}

// rotation knows which states no server can open any more. It is safe for concurrent use.
type rotation struct {
	mu       sync.Mutex
	switchAt time.Time // since when no server seals with the old key; zero before
	over     bool      // servers forget the old key
}

func (r *rotation) switched() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.switchAt = time.Now()
}

func (r *rotation) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

// forgotten reports whether a state that came at this time may be refused.
func (r *rotation) forgotten(came time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over && came.Before(r.switchAt)
}
