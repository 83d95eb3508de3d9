package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/judge/process"
)

// run does what the options say. The error is one of the harness; the findings are in the summary.
func run(ctx context.Context, o options, log io.Writer) (s *summary, err error) {
	begun := time.Now()
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &chaos{options: o, running: ctx, logged: log, ledger: newLedger()}
	s = &summary{options: o}
	if c.dir, err = os.MkdirTemp("", "chaos-"); err != nil {
		return nil, err
	}
	c.say("seed %d, in %s", o.seed, c.dir)
	defer func() {
		switch {
		case outer.Err() != nil:
			err = errors.New("interrupted")
			os.RemoveAll(c.dir)
		case err != nil || len(s.violations) > 0:
			s.dir = c.dir
			c.say("the files are left in %s", c.dir)
		default:
			os.RemoveAll(c.dir)
		}
	}()
	if c.store == "postgres" && c.postgres == nil {
		server, stop, err := pgtest.Open()
		if err != nil {
			return nil, err
		}
		defer stop()
		c.postgres = server
	}
	defer c.stop()
	defer func() {
		if c.people != nil {
			c.people.store.Close()
		}
	}()
	for _, part := range []func(context.Context) error{c.start, c.work, c.account} {
		err := part(ctx)
		s.violations = c.ledger.found()
		if c.impatient && len(s.violations) > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	s.read(c.ledger)
	s.took = time.Since(begun)
	return s, nil
}

// start builds and starts the servers.
func (c *chaos) start(ctx context.Context) (err error) {
	if c.program, err = process.Build(ctx, c.dir); err != nil {
		return err
	}
	data := filepath.Join(c.dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	c.machines = filepath.Join(data, "machines")
	dsn := ""
	if c.store == "sqlite" {
		path := filepath.Join(c.dir, "tasks.db")
		c.storeURL, c.observer = "sqlite:"+path, observeSQLite(path)
	} else {
		dsn = c.postgres.DSN()
		c.storeURL, c.observer = dsn, observePostgres(dsn)
	}
	c.keys = filepath.Join(c.dir, "askback.keys")
	if err := process.NewKeys(c.keys); err != nil {
		return err
	}
	for n := range c.instances {
		s, err := c.newSlot(n+1, dsn)
		if err != nil {
			return err
		}
		server, err := s.start()
		if err != nil {
			return err
		}
		c.slots = append(c.slots, s)
		if _, err := server.Wait(patience); err != nil {
			return fmt.Errorf("%s does not start: %w: %s", s, err, process.Tail(s.log()))
		}
	}
	if c.voting {
		if c.people, err = c.newPeople(ctx); err != nil {
			return err
		}
	}
	return c.observer.watch(ctx)
}

// work lets customers come until the last fault, and waits until all of them are served. If it is impatient it ends at
// the first violation.
func (c *chaos) work(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	customers := &customers{
		http:     &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
		url:      c.url,
		ledger:   c.ledger,
		rotation: &c.rotation,
	}
	var all, others sync.WaitGroup
	defer others.Wait()
	defer all.Wait()
	defer end()
	if c.impatient {
		others.Go(func() { c.judgeUntilViolation(ctx, end) })
	}
	others.Go(func() { customers.revisit(ctx) })
	served, giveUp := context.WithCancel(ctx)
	defer giveUp()
	c.setLoss(true)
	calling, enoughCalls := context.WithCancel(ctx)
	defer enoughCalls()
	var deciding sync.WaitGroup
	defer deciding.Wait()
	if c.people != nil {
		deciding.Go(func() { c.people.work(ctx, calling, customers) })
	}
	injected := make(chan error, 1)
	all.Go(func() { injected <- c.injectFaults(ctx) })
	var orders []*order
	var err error
	for enough := false; !enough; {
		o := newOrder(c.seed, len(orders)+1)
		orders = append(orders, o)
		all.Go(func() { customers.serve(served, o) })
		if c.has(faultRoll) {
			all.Go(func() {
				if customers.link(served, o.number) {
					c.ledger.count(calls, 1)
				}
			})
		}
		select {
		case err = <-injected:
			enough = true
		case <-time.After(time.Duration(2 * rand.Float64() * float64(c.every))):
		}
	}
	if err != nil {
		return err
	}

	c.say("all faults are injected; waiting until %d tasks have ended", len(orders))
	c.setLoss(false)
	enoughCalls()
	time.AfterFunc(drain, giveUp)
	all.Wait()
	deciding.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, o := range orders {
		switch {
		case o.id == "":
			c.ledger.violate(kindLost, "%v after the last fault no server has taken order %d", drain, o.number)
		case o.ended == "":
			c.ledger.violate(kindLost, "%s: it has not ended %v after the last fault", o, drain)
		}
	}
	for _, o := range c.ledger.endedOrders() {
		for !customers.lookAgain(ctx, o) {
			if !sleep(ctx, pause) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// injectFaults injects all faults, and returns when the last one is over.
func (c *chaos) injectFaults(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for i, one := range []struct {
		faults []string
		inject func(*injector, context.Context) error
	}{
		{[]string{faultKill}, (*injector).killServers},
		{[]string{faultStop, faultPartition, faultLease}, (*injector).holdBack},
		{[]string{faultRoll}, (*injector).roll},
	} {
		if slices.ContainsFunc(one.faults, c.has) {
			all.Go(func() {
				in := &injector{chaos: c, random: rand.New(rand.NewPCG(c.seed, uint64(i)))}
				if err := one.inject(in, ctx); err != nil {
					cancel(err)
				}
			})
		}
	}
	all.Wait()
	return context.Cause(ctx)
}

// judgeUntilViolation judges until there is a violation, and then calls end.
func (c *chaos) judgeUntilViolation(ctx context.Context, end func()) {
	judging := time.NewTicker(2 * time.Second)
	defer judging.Stop()
	for {
		select {
		case <-c.ledger.first:
			end()
			return
		case <-ctx.Done():
			return
		case <-judging.C:
			if c.people != nil {
				_ = c.people.judge(ctx, false)
			}
			if effects, err := c.judge(ctx); err == nil {
				c.ledger.repeats(effects)
			}
		}
	}
}

// read takes what a ledger has counted, at the end of a run.
func (s *summary) read(l *ledger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.counts, s.refusals = l.counts, l.refusals
}
