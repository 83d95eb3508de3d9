package main

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/internal/child"
)

// server is one process of askback serve.
type server struct {
	*child.Process
	mu       sync.Mutex
	expected bool // it was killed, or told to end
}

// serving reports whether it listens, as far as one can know.
func (s *server) serving() bool { return s.Alive() && s.Listened() }

// expectEnd notes that the process is about to end. It returns false if it has ended before.
func (s *server) expectEnd() (alive bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	alive = s.Alive()
	s.expected = s.expected || alive
	return alive
}

// kill ends the process with SIGKILL and returns when it is gone; false if it was before.
func (s *server) kill() bool {
	alive := s.expectEnd()
	if alive {
		s.Kill()
	}
	return alive
}

func (s *server) endExpected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expected
}

// place is where one server runs after another. Who has locked busy may change it, or harm its server.
type place struct {
	busy     sync.Mutex
	database *proxy // nil if the server reaches the database itself
	web      *proxy // nil if customers reach the server itself
	release  int    // of link_accounts
	pace     time.Duration
	starts   atomic.Int64
}

// name is how the database knows the process that was started last in a place.
func (p *place) name(slot int) string { return fmt.Sprintf("%d.%d", slot+1, p.starts.Load()) }

// prepare makes the places of all servers. DSN is that of PostgreSQL, or empty.
func (c *chaos) prepare(dsn string) (err error) {
	c.places = make([]*place, c.instances)
	c.servers = make([]*server, c.instances)
	for slot := range c.places {
		p := &place{release: 2, pace: c.pace}
		c.places[slot] = p
		if c.has(faultRoll) {
			p.release, p.pace = 1+slot%2, c.pace<<(2*(slot%2))
		}
		if !c.has(faultLoss) && !c.has(faultPartition) && !c.has(faultLease) {
			continue
		}
		if dsn != "" {
			database, err := url.Parse(dsn)
			if err != nil {
				return fmt.Errorf("the URL of PostgreSQL: %w", err)
			}
			if p.database, err = newProxy(func() string { return database.Host }, 0.01, 0.02, time.Second); err != nil {
				return err
			}
			p.database.hold, p.database.held = 0.005, longerThanALease
			p.database.patience = silence
			p.database.silent = func(from, to time.Time) {
				if s := c.server(slot); s != nil {
					c.ledger.silent(s.PID(), from, to)
				}
			}
		}
		address := func() string {
			u, _ := url.Parse(c.server(slot).url()) // of a server's own making
			return u.Host
		}
		if p.web, err = newProxy(address, 0.03, 0.03, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// calm ends all losses and delays.
func (c *chaos) calm() {
	for _, p := range c.places {
		for _, network := range []*proxy{p.database, p.web} {
			if network != nil {
				network.faulty.Store(false)
			}
		}
	}
}

// arguments are those of the next process in a place, and the name by which the database will know it.
func (c *chaos) arguments(slot int) (args []string, name string, err error) {
	p := c.places[slot]
	store := c.storeURL
	if c.store == "postgres" {
		p.starts.Add(1)
		name = p.name(slot)
		u, err := url.Parse(store)
		if err != nil {
			return nil, "", fmt.Errorf("the URL of PostgreSQL: %w", err)
		}
		q := u.Query()
		q.Set("application_name", name)
		u.RawQuery = q.Encode()
		if p.database != nil {
			u.Host = p.database.addr()
		}
		store = u.String()
	}
	args = slices.Concat([]string{"serve", "--drain-delay", "0s", "--addr", "127.0.0.1:0", "--until-eof", "--keys", c.keys, "--data", filepath.Dir(c.machines),
		"--store", store, "--pace", p.pace.String(), "--release", strconv.Itoa(p.release)}, c.serve)
	return args, name, nil
}

// startServer starts the server of a slot. One that ends by itself is started again. Its log
// is appended to the slot's file.
func (c *chaos) startServer(slot int) (*server, error) {
	log, err := os.OpenFile(c.logFile(slot), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p := c.places[slot]
	if p.database != nil {
		p.database.faulty.Store(false) // a server that finds no database when it starts ends
	}
	args, name, err := c.arguments(slot)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(c.running, c.program, args...)
	cmd.Stderr = log
	process, err := child.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("starting a server: %w", err)
	}
	s := &server{Process: process}
	c.ledger.named(name, s.PID())
	c.mu.Lock()
	c.servers[slot] = s
	c.mu.Unlock()
	go func() {
		select {
		case <-s.Ready:
			for _, network := range []*proxy{p.database, p.web} {
				if network != nil {
					network.faulty.Store(c.has(faultLoss) && c.hostile.Load())
				}
			}
		case <-s.Dead:
		}
		<-s.Dead
		if !s.endExpected() && c.running.Err() == nil {
			c.restartEnded(slot, s)
		}
	}()
	return s, nil
}

// longerThanALease is how late a held request reaches the database: what it wants to write is no longer its sender's.
const longerThanALease = 12 * time.Second

// silence is how long a database is without an answer before a server is taken for cut off: a little less than the
// deadline of a store.
const silence = 4 * time.Second

// patience is how long a server may take until it listens, or until it has ended.
const patience = time.Minute

// restartEnded starts a server again that nobody has killed. While PostgreSQL is down,
// one that is started may find no database.
func (c *chaos) restartEnded(slot int, s *server) {
	c.mu.Lock()
	excused := s.Started.Before(c.outage) && !s.Listened() && time.Since(s.Started) < patience
	c.mu.Unlock()
	if !excused {
		c.ledger.violate(ended, "server %d ended by itself, or was not ready within %v: %s", slot+1, patience, c.lastWords(slot))
	}
	if sleep(c.running, pause) {
		c.revive(slot)
	}
}

func (c *chaos) revive(slot int) {
	if _, err := c.startServer(slot); err != nil && c.running.Err() == nil {
		c.ledger.violate(ended, "server %d: %v", slot+1, err)
	}
}

func (c *chaos) logFile(slot int) string {
	return filepath.Join(c.dir, fmt.Sprintf("server-%d.log", slot+1))
}

func (c *chaos) lastWords(slot int) string {
	log, _ := os.ReadFile(c.logFile(slot)) // which may not be there
	return string(log[max(0, len(log)-2000):])
}

func (c *chaos) server(slot int) *server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.servers[slot]
}

// slot returns the slot of a process that runs, or -1.
func (c *chaos) slot(pid int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.IndexFunc(c.servers, func(s *server) bool { return s.PID() == pid && s.serving() })
}

// url returns the URL of a server that listens, or "".
func (s *server) url() string {
	if !s.serving() {
		return ""
	}
	return strings.TrimPrefix(s.Line, "listening on ")
}

// url returns the URL at which customers reach any server that listens, or "".
func (c *chaos) url() string {
	for _, slot := range rand.Perm(c.instances) {
		url := c.server(slot).url()
		if web := c.places[slot].web; url != "" && web != nil {
			return "http://" + web.addr() + "/mcp"
		}
		if url != "" {
			return url
		}
	}
	return ""
}

// stop kills all servers and returns when they are gone.
func (c *chaos) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for slot, s := range c.servers {
		if s != nil {
			s.kill()
		}
		for _, network := range []*proxy{c.places[slot].database, c.places[slot].web} {
			if network != nil {
				network.close()
			}
		}
	}
}
