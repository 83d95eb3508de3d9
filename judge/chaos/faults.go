package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/judge/process"
)

// injector injects one kind of faults. Several do so at once.
type injector struct {
	*chaos
	random          *rand.Rand
	killed, crashed int
}

// upTo is a random time, shorter than the limit.
func (in *injector) upTo(limit time.Duration) time.Duration {
	return time.Duration(in.random.Int64N(int64(limit)))
}

// anySlot is a slot at random.
func (in *injector) anySlot() *slot { return in.slots[in.random.IntN(len(in.slots))] }

// holdBack stops servers and cuts them off from the database, for times around the length of a lease: what a server
// sent before arrives shortly before or after another has taken its lease.
func (in *injector) holdBack(ctx context.Context) error {
	var plan []func(context.Context, *slot, time.Duration) error
	if in.has(faultStop) {
		plan = append(plan, in.stopServer, in.stopServer)
	}
	if in.has(faultPartition) {
		plan = append(plan, in.partition, in.partition, in.partitionEnding, in.partitionEnding)
	}
	if in.has(faultLease) {
		plan = append(plan, in.partitionSlow)
	}
	in.random.Shuffle(len(plan), func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })
	for _, inject := range plan {
		if !sleep(ctx, time.Second+in.upTo(time.Second)) {
			return ctx.Err()
		}
		s := in.anySlot()
		for !s.busy.TryLock() {
			if !sleep(ctx, 20*time.Millisecond) {
				return ctx.Err()
			}
			s = in.anySlot()
		}
		err := s.waitUp(ctx)
		if err == nil {
			err = inject(ctx, s, 7*time.Second+in.upTo(6*time.Second))
		}
		if err == nil {
			sleep(ctx, time.Second) // everything late comes now
			err = in.observe(ctx)
		}
		s.busy.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// waitUp waits until the server of a slot listens.
func (s *slot) waitUp(ctx context.Context) error {
	for {
		if _, err := s.server().Wait(patience); err == nil && s.server().url() != "" {
			return nil
		}
		if !sleep(ctx, pause) { // it ended by itself, and is started again
			return ctx.Err()
		}
	}
}

// stopServer stops a process where it is. Sometimes it is told to end meanwhile, and learns of that when it continues.
func (in *injector) stopServer(ctx context.Context, s *slot, d time.Duration) error {
	server := s.server()
	end := in.ledger.trouble(stopped, server.PID())
	if err := server.Signal(stopSignal); err != nil {
		return fmt.Errorf("stop %s: %w", s, err)
	}
	in.ledger.count(stops, 1)
	sleep(ctx, d)
	ending := in.random.IntN(2) == 0
	if ending {
		if err := s.tellToEnd(); err != nil {
			return err
		}
	}
	err := server.Signal(continueSignal)
	end()
	if err == nil && ending {
		err = s.replace(ctx)
	}
	return err
}

// partition cuts a server off from the database. Sometimes it is told to end meanwhile.
func (in *injector) partition(ctx context.Context, s *slot, d time.Duration) error {
	ending := in.random.IntN(2) == 0
	err := s.cut(everything, func() error {
		sleep(ctx, d/10)
		if ending {
			if err := s.tellToEnd(); err != nil {
				return err
			}
		}
		sleep(ctx, d-d/10)
		return nil
	})
	if err == nil && ending {
		err = s.replace(ctx)
	}
	return err
}

// partitionEnding cuts a server off and tells it to end at once: it gives its tasks back, but that arrives when another
// has taken one of them. The requests of the others are slow, so that they have not changed what they took. Where they
// are many they wait for a connection until it is too late, which no silence of a connection shows.
func (in *injector) partitionEnding(ctx context.Context, s *slot, d time.Duration) error {
	slowed := make(map[int]bool) // processes
	slow := func(late time.Duration) {
		for _, other := range in.slots {
			if other != s {
				other.database.slow.Store(int64(late))
				slowed[other.server().PID()] = true
			}
		}
	}
	begun := time.Now()
	slow(300 * time.Millisecond)
	defer func() {
		slow(0)
		for pid := range slowed {
			in.ledger.cutOff(pid, begun, time.Now())
		}
	}()
	err := s.cut(statements, func() error {
		if err := s.tellToEnd(); err != nil {
			return err
		}
		return in.observer.taken(ctx, s.name(), lease+d/2)
	})
	if err != nil {
		return err
	}
	return s.replace(ctx)
}

// cut cuts a server off from the database until the function returns.
func (s *slot) cut(meant func([]byte) bool, until func() error) error {
	defer s.ledger.trouble(cutOff, s.server().PID())()
	defer s.database.interrupt(meant)()
	s.ledger.count(partitions, 1)
	return until()
}

// slowPace makes a step longer than a lease.
const slowPace = 15 * time.Second

// partitionSlow cuts a server off whose steps take longer than a lease, so that it loses the lease within a step.
func (in *injector) partitionSlow(ctx context.Context, s *slot, _ time.Duration) error {
	before := s.pace
	s.pace = slowPace
	err := s.restart(ctx)
	if err == nil {
		err = in.observer.holds(ctx, s.name(), patience)
	}
	if err == nil {
		err = s.cut(everything, func() error {
			begun := time.Now() // the steps that run now end, if nothing interrupts them, when this time has passed
			if err := in.observer.taken(ctx, s.name(), patience); err != nil {
				return err
			}
			sleep(ctx, slowPace+time.Second-time.Since(begun))
			return nil
		})
		sleep(ctx, time.Second)
	}
	s.pace = before
	if err != nil {
		return err
	}
	return s.restart(ctx)
}

// restart ends the server of a slot by SIGTERM and starts another.
func (s *slot) restart(ctx context.Context) error {
	err := s.waitUp(ctx)
	if err == nil {
		err = s.tellToEnd()
	}
	if err == nil {
		err = s.replace(ctx)
	}
	return err
}

// tellToEnd tells a server to finish what it does, and to end.
func (s *slot) tellToEnd() error {
	server := s.server()
	server.expectEnd()
	if err := server.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("end %s: %w", s, err)
	}
	return nil
}

// replace starts another server when the server of the slot has ended.
func (s *slot) replace(ctx context.Context) error {
	server := s.server()
	select {
	case <-server.Dead:
	case <-time.After(patience):
		s.ledger.violate(kindEnded, "%s does not end %v after SIGTERM: %s", s, patience, process.Tail(s.log()))
		server.kill()
	case <-ctx.Done():
		return ctx.Err()
	}
	s.ledger.count(restarts, 1)
	s.startAgain()
	return s.waitUp(ctx)
}

// roll rotates the keys in three steps, and restarts all servers after each, with either release of link_accounts.
func (in *injector) roll(ctx context.Context) error {
	for step := range 3 {
		if step == 2 {
			in.rotation.forget()
		}
		out, err := exec.CommandContext(ctx, in.program, "keys", "rotate", "--force", in.keys).CombinedOutput()
		if err != nil {
			return fmt.Errorf("askback keys rotate: %w\n%s", err, out)
		}
		in.ledger.count(rotations, 1)
		for _, n := range in.random.Perm(len(in.slots)) {
			if !sleep(ctx, in.upTo(time.Second)) {
				return ctx.Err()
			}
			s := in.slots[n]
			s.busy.Lock()
			s.release = 1 + in.random.IntN(2)
			s.pace = pace << (2 * in.random.IntN(2)) // longer steps are met by more faults
			err := s.restart(ctx)
			s.busy.Unlock()
			if err != nil {
				return err
			}
		}
		if step == 1 {
			in.rotation.switched()
		}
	}
	return nil
}
