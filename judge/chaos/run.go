package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/internal/pgtest"
)

// chaos is a run: its servers and customers, and those who bring about faults.
type chaos struct {
	options
	running  context.Context // of the servers
	log      io.Writer
	dir      string
	program  string // the file of askback
	keys     string // the file of keys
	storeURL string
	machines string // directory
	observer observer
	ledger   *ledger
	rotation rotation
	places   []*place
	hostile  atomic.Bool // whether responses may be lost now
	looking  sync.Mutex

	mu      sync.Mutex
	sum     *summary
	servers []*server
	outage  time.Time // until when a server may end by itself before it listens
}

// run does what the options say. The error is one of the harness; the findings are in the summary.
func run(ctx context.Context, o options, log io.Writer) (_ *summary, err error) {
	begun := time.Now()
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &chaos{options: o, running: ctx, log: log, ledger: newLedger(), sum: &summary{options: o}}
	if c.dir, err = os.MkdirTemp("", "chaos-"); err != nil {
		return nil, err
	}
	c.say("seed %d, in %s", o.seed, c.dir)
	defer func() {
		switch {
		case outer.Err() != nil:
			err = errors.New("interrupted")
			os.RemoveAll(c.dir)
		case err != nil || len(c.sum.violations) > 0:
			c.sum.dir = c.dir
			c.say("the files are left in %s", c.dir)
		default:
			os.RemoveAll(c.dir)
		}
	}()
	if c.store == "postgres" && c.dsn == "" && c.postgres == nil {
		server, stop, err := pgtest.Open()
		if err != nil {
			return nil, err
		}
		defer stop()
		c.postgres = server
	}
	defer c.stop()
	for _, part := range []func(context.Context) error{c.build, c.begin, c.work, c.account} {
		err := part(ctx)
		c.sum.violations = c.ledger.found()
		if c.impatient && len(c.sum.violations) > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	c.sum.took = time.Since(begun)
	return c.sum, nil
}

// count changes the summary.
func (c *chaos) count(change func(*summary)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c.sum)
}

func (c *chaos) say(format string, args ...any) {
	fmt.Fprintf(c.log, "chaos: "+format+"\n", args...)
}

// build makes the program that is to be killed.
func (c *chaos) build(ctx context.Context) error {
	c.program = filepath.Join(c.dir, "askback")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", c.program, "github.com/askback-mcp/askback/cmd/askback")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building askback: %w\n%s", err, out)
	}
	return nil
}

// begin starts the servers.
func (c *chaos) begin(ctx context.Context) error {
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
		if dsn = c.dsn; dsn == "" {
			dsn = c.postgres.DSN()
		}
		c.storeURL, c.observer = dsn, observePostgres(dsn)
	}
	keys, err := exec.CommandContext(ctx, c.program, "keys", "new").Output()
	if err != nil {
		return fmt.Errorf("askback keys new: %w", err)
	}
	c.keys = filepath.Join(c.dir, "askback.keys")
	if err := os.WriteFile(c.keys, keys, 0o600); err != nil {
		return err
	}
	if err := c.prepare(dsn); err != nil {
		return err
	}
	for slot := range c.instances {
		s, err := c.startServer(slot)
		if err != nil {
			return err
		}
		if _, err := s.Wait(patience); err != nil {
			return fmt.Errorf("server %d does not start: %w: %s", slot+1, err, c.lastWords(slot))
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
		http:     http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
		url:      c.url,
		ledger:   c.ledger,
		rotation: &c.rotation,
	}
	var all, others sync.WaitGroup
	defer others.Wait()
	defer all.Wait()
	defer end()
	if c.impatient {
		others.Go(func() { c.keepJudging(ctx, end) })
	}
	others.Go(func() { customers.revisit(ctx) })
	served, hurry := context.WithCancel(ctx)
	defer hurry()
	for _, p := range c.places {
		for _, network := range []*proxy{p.database, p.web} {
			if network != nil {
				network.faulty.Store(c.has(faultLoss))
			}
		}
	}
	c.hostile.Store(true)
	tormented := make(chan error, 1)
	all.Go(func() { tormented <- c.torment(ctx) })
	var orders []*order
	var err error
	for enough := false; !enough; {
		o := newOrder(c.seed, len(orders)+1)
		orders = append(orders, o)
		all.Go(func() { customers.serve(served, o) })
		if c.has(faultRoll) {
			all.Go(func() {
				if customers.link(served, o.number) {
					c.count(func(s *summary) { s.calls++ })
				}
			})
		}
		select {
		case err = <-tormented:
			enough = true
		case <-time.After(time.Duration(2 * rand.Float64() * float64(c.every))):
		}
	}
	if err != nil {
		return err
	}

	c.say("%d kills done, and all other faults; waiting until %d tasks have ended", c.sum.kills, len(orders))
	c.hostile.Store(false)
	c.calm()
	time.AfterFunc(c.drain, hurry)
	all.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, o := range orders {
		switch {
		case o.id == "":
			c.ledger.violate(lost, "%v after the last fault no server has taken order %d", c.drain, o.number)
		case o.ended == "":
			c.ledger.violate(lost, "%s: it has not ended %v after the last fault", o, c.drain)
		}
	}
	for _, o := range c.ledger.endedOrders() {
		for !customers.recall(ctx, o) {
			if !sleep(ctx, pause) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// keepJudging judges until there is a violation, and then calls end.
func (c *chaos) keepJudging(ctx context.Context, end func()) {
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
			if effects, err := c.judge(ctx); err == nil {
				c.ledger.repeats(effects)
			}
		}
	}
}
