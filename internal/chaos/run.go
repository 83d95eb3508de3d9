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
	"time"

	"github.com/askback-mcp/askback/internal/pgtest"
)

// chaos is a run: its servers and customers, and the one who kills.
type chaos struct {
	options
	log      io.Writer
	dir      string
	program  string   // the file of askback
	args     []string // of each server
	machines string   // directory
	observer observer
	ledger   *ledger
	random   *rand.Rand // of the one who kills
	sum      *summary

	mu      sync.Mutex
	servers []*server
	outage  time.Time // until when a server may end by itself before it listens
}

// run does what the options say. The error is one of the harness; the findings are in the summary.
func run(ctx context.Context, o options, log io.Writer) (_ *summary, err error) {
	begun := time.Now()
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &chaos{options: o, log: log, ledger: newLedger(), random: rand.New(rand.NewPCG(o.seed, 0)), sum: &summary{options: o}}
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
		if err := part(ctx); err != nil {
			return nil, err
		}
	}
	c.sum.took = time.Since(begun)
	return c.sum, nil
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
	store := c.dsn
	if c.store == "sqlite" {
		path := filepath.Join(c.dir, "tasks.db")
		store, c.observer = "sqlite:"+path, observeSQLite(path)
	} else {
		if store == "" {
			store = c.postgres.DSN()
		}
		c.observer = observePostgres(store)
	}
	keys, err := exec.CommandContext(ctx, c.program, "keys", "new").Output()
	if err != nil {
		return fmt.Errorf("askback keys new: %w", err)
	}
	keyFile := filepath.Join(c.dir, "askback.keys")
	if err := os.WriteFile(keyFile, keys, 0o600); err != nil {
		return err
	}
	c.args = append([]string{"serve", "--drain-delay", "0s", "--addr", "127.0.0.1:0", "--until-eof", "--keys", keyFile, "--data", data, "--store", store,
		"--pace", c.pace.String()}, c.serve...)
	c.servers = make([]*server, c.instances)
	for slot := range c.instances {
		s, err := c.startServer(ctx, slot)
		if err != nil {
			return err
		}
		if _, err := s.Wait(patience); err != nil {
			return fmt.Errorf("server %d does not start: %w: %s", slot+1, err, c.lastWords(slot))
		}
	}
	return nil
}

// work lets customers come until the last kill, and waits until all of them are served.
func (c *chaos) work(ctx context.Context) error {
	customers := &customers{
		http:   http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
		url:    c.url,
		ledger: c.ledger,
	}
	var all sync.WaitGroup
	defer all.Wait()
	served, hurry := context.WithCancel(ctx)
	defer hurry()
	killed := make(chan error, 1)
	all.Go(func() { killed <- c.keepKilling(ctx) })
	var orders []*order
	var err error
	for enough := false; !enough; {
		o := newOrder(c.seed, len(orders)+1)
		orders = append(orders, o)
		all.Go(func() { customers.serve(served, o) })
		select {
		case err = <-killed:
			enough = true
		case <-time.After(time.Duration(2 * rand.Float64() * float64(c.every))):
		}
	}
	if err != nil {
		return err
	}

	c.say("%d kills done; waiting until the tasks have ended", c.sum.kills)
	time.AfterFunc(c.drain, hurry)
	all.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, o := range orders {
		switch {
		case o.id == "":
			c.ledger.violate("%v after the last kill no server has taken order %d", c.drain, o.number)
		case o.ended == "":
			c.ledger.violate("%s: it has not ended %v after the last kill", o, c.drain)
		}
	}
	return nil
}
