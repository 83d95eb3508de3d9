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
)

// chaos is a run: servers, customers, and who kills.
type chaos struct {
	options
	log      io.Writer
	dir      string
	machines string
	observe  observer
	fleet    *fleet
	ledger   *ledger
	random   *rand.Rand // of the one who kills
	sum      *summary

	mu     sync.Mutex
	outage time.Time // until when it is no wonder that a server ends by itself
}

// run does what the options say. The error is that of the harness; what it was to find
// out is in the summary.
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
	if err := c.build(ctx); err != nil {
		return nil, err
	}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	defer c.fleet.stop()
	if err := c.work(ctx); err != nil {
		return nil, err
	}
	if err := c.account(ctx); err != nil {
		return nil, err
	}
	c.sum.took = time.Since(begun)
	return c.sum, nil
}

func (c *chaos) say(format string, args ...any) {
	fmt.Fprintf(c.log, "chaos: "+format+"\n", args...)
}

func (c *chaos) program() string { return filepath.Join(c.dir, "askback") }

// build makes the program that is to be killed.
func (c *chaos) build(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", c.program(), "github.com/askback-mcp/askback/cmd/askback")
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
		store, c.observe = "sqlite:"+path, observeSQLite(path)
	} else {
		if store == "" {
			store = c.postgres.DSN()
		}
		c.observe = observePostgres(store)
	}
	keys, err := exec.CommandContext(ctx, c.program(), "keys", "new").Output()
	if err != nil {
		return fmt.Errorf("askback keys new: %w", err)
	}
	keyFile := filepath.Join(c.dir, "askback.keys")
	if err := os.WriteFile(keyFile, keys, 0o600); err != nil {
		return err
	}
	args := []string{"serve", "--addr", "127.0.0.1:0", "--until-eof", "--keys", keyFile, "--data", data, "--store", store, "--pace", c.pace.String()}
	c.fleet = &fleet{program: c.program(), args: append(args, c.serve...), logs: c.dir, servers: make([]*server, c.instances)}
	c.fleet.ended = func(slot int, s *server) { c.endedByItself(ctx, slot, s) }
	for slot := range c.instances {
		s, err := c.fleet.start(ctx, slot)
		if err != nil {
			c.fleet.stop()
			return err
		}
		if !ready(ctx, s) {
			c.fleet.stop()
			return fmt.Errorf("server %d does not start: %s", slot+1, c.lastWords(slot))
		}
	}
	return nil
}

// patience is how long a server may take until it listens.
const patience = time.Minute

// ready waits until a server listens; false if it ended before, or takes too long.
func ready(ctx context.Context, s *server) bool {
	select {
	case <-s.Ready:
		return true
	case <-s.Dead:
	case <-time.After(patience):
	case <-ctx.Done():
	}
	return false
}

func (c *chaos) lastWords(slot int) string {
	log, _ := os.ReadFile(c.fleet.logFile(slot)) // which may not be there
	return string(log[max(0, len(log)-2000):])
}

// endedByItself starts a server again that nobody has killed. While PostgreSQL is down,
// one that is started may find no database.
func (c *chaos) endedByItself(ctx context.Context, slot int, s *server) {
	c.mu.Lock()
	excused := s.Started.Before(c.outage) && !s.Listened()
	c.mu.Unlock()
	if !excused {
		c.ledger.violate("server %d ended by itself: %s", slot+1, c.lastWords(slot))
	}
	if sleep(ctx, pause) {
		c.revive(ctx, slot)
	}
}

func (c *chaos) revive(ctx context.Context, slot int) {
	if _, err := c.fleet.start(ctx, slot); err != nil && ctx.Err() == nil {
		c.ledger.violate("server %d: %v", slot+1, err)
	}
}

// work lets customers come until the last kill, and waits until all of them are served.
func (c *chaos) work(ctx context.Context) error {
	customers := &customers{
		client: &client{http: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}, url: func() string { return c.fleet.url(rand.IntN) }},
		ledger: c.ledger,
	}
	var all sync.WaitGroup
	defer all.Wait()
	served, hurry := context.WithCancel(ctx)
	defer hurry()
	coming, enough := context.WithCancel(ctx)
	defer enough()
	var orders []*order
	var door sync.WaitGroup
	door.Go(func() {
		for number := 1; ; number++ {
			o := newOrder(c.seed, number)
			orders = append(orders, o)
			all.Go(func() { customers.serve(served, o) })
			if !sleep(coming, time.Duration(2*rand.Float64()*float64(c.every))) {
				return
			}
		}
	})
	err := c.keepKilling(ctx)
	enough()
	door.Wait()
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

// look observes the database and the log of effects.
func (c *chaos) look(ctx context.Context) error {
	ids := c.ledger.acknowledged()
	records, err := c.observe(ctx)
	if err != nil {
		return fmt.Errorf("reading the journals: %w", err)
	}
	effects, err := c.effects()
	if err != nil {
		return err
	}
	c.ledger.observe(ids, records, effects)
	return nil
}

func (c *chaos) effectsLog() string { return filepath.Join(c.machines, "effects.log") }

func (c *chaos) effects() ([]effect, error) { return readEffects(c.effectsLog()) }
