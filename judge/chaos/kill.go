package main

import (
	"context"
	"os"
	"slices"
	"time"
)

// killServers kills until it is enough, and crashes PostgreSQL once in 50 kills if that is wanted.
func (in *injector) killServers(ctx context.Context) error {
	crashes := 0
	if in.has(faultCrash) {
		crashes = max(1, in.kills/50)
	}
	for in.killed < in.kills {
		if in.crashed < crashes && in.killed >= (2*in.crashed+1)*in.kills/(2*crashes) {
			if err := in.crash(ctx); err != nil {
				return err
			}
			continue
		}
		// leave something for the others
		others := []string{faultStop, faultPartition, faultLease, faultRoll}
		if slices.ContainsFunc(others, in.has) && !sleep(ctx, time.Second+in.upTo(4*time.Second)) {
			return ctx.Err()
		}
		victims, err := in.choose(ctx)
		if err != nil {
			return err
		}
		if err := in.kill(ctx, victims); err != nil {
			return err
		}
	}
	return nil
}

// choose waits for the moment of the next kill, and returns the slots of the servers to kill.
func (in *injector) choose(ctx context.Context) (victims []*slot, err error) {
	victims = []*slot{in.anySlot()}
	if len(in.slots) > 1 && in.random.IntN(10) == 0 {
		victims = in.slots
	}
	moment := in.random.IntN(10)
	if moment == 0 { // while it starts
		sleep(ctx, in.upTo(50*time.Millisecond))
		return victims, ctx.Err()
	}
	for {
		if _, err := victims[0].server().Wait(patience); err == nil {
			break
		}
		if !sleep(ctx, pause) { // it ended by itself, and is started again
			return nil, ctx.Err()
		}
	}
	if in.people != nil && moment > 6 { // when a vote was given, or a deadline passes
		select {
		case <-in.people.moments:
			sleep(ctx, in.upTo(20*time.Millisecond))
			in.ledger.count(killsDecided, 1)
		case <-time.After(2 * time.Second):
		case <-ctx.Done():
		}
		return victims, ctx.Err()
	}
	if moment > 3 { // at any time
		sleep(ctx, 100*time.Millisecond+in.upTo(1400*time.Millisecond))
		return victims, ctx.Err()
	}
	sleep(ctx, in.upTo(time.Second))
	s, err := in.stepDone(ctx)
	if s != nil {
		victims = []*slot{s}
		in.ledger.count(killsAimed, 1)
	}
	return victims, err
}

// stepDone waits for the moment when a server has done a step and has yet to record it, and returns its slot; nil if no
// such moment comes soon.
func (in *injector) stepDone(ctx context.Context) (*slot, error) {
	size := func() int64 {
		info, err := os.Stat(in.effectsLog())
		if err != nil {
			return 0 // no step has been done yet
		}
		return info.Size()
	}
	before := size()
	into := in.upTo(4 * time.Millisecond) // a record takes about as long
	for range 10_000 {
		if !sleep(ctx, 200*time.Microsecond) {
			return nil, ctx.Err()
		}
		if size() == before {
			continue
		}
		effects, err := readEffects(in.effectsLog())
		if err != nil {
			return nil, err
		}
		sleep(ctx, into)
		for _, s := range in.slots {
			if server := s.server(); server.PID() == effects[len(effects)-1].pid && server.url() != "" {
				return s, nil
			}
		}
		return nil, nil
	}
	return nil, nil
}

// kill kills the servers of these slots that are in no other trouble, looks at what they left, and starts them again.
func (in *injector) kill(ctx context.Context, slots []*slot) error {
	before := in.killed
	var victims []*slot
	for _, s := range slots {
		if !s.busy.TryLock() {
			continue
		}
		defer s.busy.Unlock()
		server := s.server()
		listened := server.Listened()
		if !server.kill() {
			continue
		}
		in.ledger.killed(server.PID(), time.Now())
		victims = append(victims, s)
		in.killed++
		if !listened {
			in.ledger.count(killsStarting, 1)
		}
	}
	if n := len(victims); n == len(in.slots) && n > 1 {
		in.ledger.count(killsAll, n)
	}
	if err := in.observe(ctx); err != nil {
		return err
	}
	for _, s := range victims {
		s.startAgain()
	}
	if before/20 != in.killed/20 {
		in.say("%d kills, %d tasks", in.killed, len(in.ledger.acknowledged()))
	}
	return nil
}

// crash ends PostgreSQL as a crash does, kills a server that is without it, and starts both again.
func (in *injector) crash(ctx context.Context) error {
	in.setOutage(time.Now().Add(time.Hour))
	in.crashed++
	in.ledger.count(crashes, 1)
	defer in.ledger.trouble(cutOff, 0)()
	if err := in.postgres.Stop(); err != nil {
		return err
	}
	sleep(ctx, in.upTo(500*time.Millisecond))
	if s := in.anySlot(); s.busy.TryLock() {
		if server := s.server(); server.kill() {
			in.ledger.killed(server.PID(), time.Now())
			in.killed++
			s.startAgain() // and finds no database
		}
		s.busy.Unlock()
	}
	sleep(ctx, in.upTo(2*time.Second))
	if err := in.postgres.Restart(); err != nil {
		return err
	}
	in.setOutage(time.Now())
	return in.observe(ctx)
}
