package main

import (
	"fmt"
	"math/rand/v2"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/judge/process"
)

// server is one process of askback serve.
type server struct {
	*child.Process
	mu       sync.Mutex
	expected bool // it was killed, or told to end
}

// url returns the URL of a server that listens, as far as one can know, or "".
func (s *server) url() string {
	if !s.Alive() || !s.Listened() {
		return ""
	}
	return strings.TrimPrefix(s.Line, "listening on ")
}

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

// slot is where one server runs after another. Who has locked busy may change it, or harm its server.
type slot struct {
	*chaos
	number   int // from 1
	busy     sync.Mutex
	database *proxy // nil if the server reaches the database itself
	web      *proxy // nil if customers reach the server itself
	release  int    // of link_accounts
	pace     time.Duration
	starts   atomic.Int64
	latest   atomic.Pointer[server]
}

func (s *slot) String() string { return fmt.Sprintf("server %d", s.number) }

// server returns the server that was started last.
func (s *slot) server() *server { return s.latest.Load() }

// name is how the database knows the process that was started last.
func (s *slot) name() string { return fmt.Sprintf("%d.%d", s.number, s.starts.Load()) }

func (s *slot) log() string { return filepath.Join(s.dir, fmt.Sprintf("server-%d.log", s.number)) }

// proxies returns those in front of and behind the server, if there are any.
func (s *slot) proxies() []*proxy {
	return slices.DeleteFunc([]*proxy{s.database, s.web}, func(p *proxy) bool { return p == nil })
}

// setLoss says whether responses are lost and late, if that is a fault of this run.
func (s *slot) setLoss(lossy bool) {
	for _, p := range s.proxies() {
		p.faulty.Store(lossy && s.has(faultLoss))
	}
}

// newSlot makes a slot, and the proxies of its servers. DSN is the connection string of PostgreSQL, or empty.
func (c *chaos) newSlot(number int, dsn string) (s *slot, err error) {
	s = &slot{chaos: c, number: number, release: 2, pace: pace}
	if c.has(faultRoll) {
		s.release, s.pace = 1+number%2, pace<<(2*(number%2))
	}
	if !c.has(faultLoss) && !c.has(faultPartition) && !c.has(faultLease) {
		return s, nil
	}
	if dsn != "" {
		database, err := url.Parse(dsn)
		if err != nil {
			return nil, fmt.Errorf("the URL of PostgreSQL: %w", err)
		}
		if s.database, err = newProxy(func() string { return database.Host }, 0.01, 0.02, time.Second); err != nil {
			return nil, err
		}
		s.database.hold, s.database.held = 0.005, longerThanALease
		s.database.patience = silence
		s.database.silent = func(from, to time.Time) {
			if server := s.server(); server != nil {
				c.ledger.cutOff(server.PID(), from, to)
			}
		}
	}
	s.web, err = newProxy(func() string {
		u, _ := url.Parse(s.server().url()) // of a server's own making
		return u.Host
	}, 0.03, 0.03, time.Second)
	return s, err
}

// arguments are the arguments of the next process, and the name by which the database will know it.
func (s *slot) arguments() (args []string, name string, err error) {
	store := s.storeURL
	if s.store == "postgres" {
		s.starts.Add(1)
		name = s.name()
		u, err := url.Parse(store)
		if err != nil {
			return nil, "", fmt.Errorf("the URL of PostgreSQL: %w", err)
		}
		q := u.Query()
		q.Set("application_name", name)
		u.RawQuery = q.Encode()
		if s.database != nil {
			u.Host = s.database.addr()
		}
		store = u.String()
	}
	args = []string{"serve", "--drain-delay", "0s", "--addr", "127.0.0.1:0", "--until-eof", "--keys", s.keys,
		"--data", filepath.Dir(s.machines), "--store", store, "--pace", s.pace.String(),
		"--release", strconv.Itoa(s.release), "--wait", "300ms"}
	return append(args, s.serve...), name, nil
}

// start starts a server. One that ends by itself is started again.
func (s *slot) start() (*server, error) {
	if s.database != nil {
		s.database.faulty.Store(false) // a server that finds no database when it starts ends
	}
	args, name, err := s.arguments()
	if err != nil {
		return nil, err
	}
	p, err := process.Start(exec.CommandContext(s.running, s.program, args...), s.log())
	if err != nil {
		return nil, err
	}
	started := &server{Process: p}
	s.ledger.named(name, p.PID())
	s.latest.Store(started)
	go func() {
		select {
		case <-p.Ready:
			s.setLoss(s.lossy.Load())
		case <-p.Dead:
		}
		<-p.Dead
		if !started.endExpected() && s.running.Err() == nil {
			s.startEnded(started)
		}
	}()
	return started, nil
}

// startEnded starts a server again that nobody has killed. While PostgreSQL is down, one that is started may find no
// database.
func (s *slot) startEnded(ended *server) {
	s.mu.Lock()
	excused := ended.Started.Before(s.outage) && !ended.Listened() && time.Since(ended.Started) < patience
	s.mu.Unlock()
	if !excused {
		s.ledger.violate(kindEnded, "%s ended by itself, or was not ready within %v: %s", s, patience, process.Tail(s.log()))
	}
	if sleep(s.running, pause) {
		s.startAgain()
	}
}

func (s *slot) startAgain() {
	if _, err := s.start(); err != nil && s.running.Err() == nil {
		s.ledger.violate(kindEnded, "%s: %v", s, err)
	}
}

// url returns the URL at which customers reach any server that listens, or "".
func (c *chaos) url() string {
	for _, n := range rand.Perm(len(c.slots)) {
		s := c.slots[n]
		url := s.server().url()
		if url != "" && s.web != nil {
			return "http://" + s.web.addr() + "/mcp"
		}
		if url != "" {
			return url
		}
	}
	return ""
}

// stop kills all servers and returns when they are gone.
func (c *chaos) stop() {
	for _, s := range c.slots {
		if server := s.server(); server != nil {
			server.kill()
		}
		for _, p := range s.proxies() {
			p.close()
		}
	}
}
