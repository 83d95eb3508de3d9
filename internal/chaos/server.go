package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/child"
)

// server is one process of askback serve.
type server struct {
	*child.Process
	mu     sync.Mutex
	killed bool
}

// serving reports whether it listens, as far as one can know.
func (s *server) serving() bool { return s.Alive() && s.Listened() }

// kill ends the process with SIGKILL and returns when it is gone; false if it was before.
func (s *server) kill() bool {
	s.mu.Lock()
	alive := s.Alive()
	s.killed = s.killed || alive
	s.mu.Unlock()
	if alive {
		s.Kill()
	}
	return alive
}

func (s *server) wasKilled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killed
}

// startServer starts the server of a slot. One that ends by itself is started again. Its log
// is appended to the slot's file.
func (c *chaos) startServer(ctx context.Context, slot int) (*server, error) {
	log, err := os.OpenFile(c.logFile(slot), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, c.program, c.args...)
	cmd.Stderr = log
	p, err := child.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("starting a server: %w", err)
	}
	s := &server{Process: p}
	c.mu.Lock()
	c.servers[slot] = s
	c.mu.Unlock()
	go func() {
		<-s.Dead
		if !s.wasKilled() && ctx.Err() == nil {
			c.restartEnded(ctx, slot, s)
		}
	}()
	return s, nil
}

// patience is how long a server may take until it listens.
const patience = time.Minute

// restartEnded starts a server again that nobody has killed. While PostgreSQL is down,
// one that is started may find no database.
func (c *chaos) restartEnded(ctx context.Context, slot int, s *server) {
	c.mu.Lock()
	excused := s.Started.Before(c.outage) && !s.Listened() && time.Since(s.Started) < patience
	c.mu.Unlock()
	if !excused {
		c.ledger.violate("server %d ended by itself, or was not ready within %v: %s", slot+1, patience, c.lastWords(slot))
	}
	if sleep(ctx, pause) {
		c.revive(ctx, slot)
	}
}

func (c *chaos) revive(ctx context.Context, slot int) {
	if _, err := c.startServer(ctx, slot); err != nil && ctx.Err() == nil {
		c.ledger.violate("server %d: %v", slot+1, err)
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

// url returns the URL of any server that listens, or "".
func (c *chaos) url() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, slot := range rand.Perm(len(c.servers)) {
		if s := c.servers[slot]; s.serving() {
			return strings.TrimPrefix(s.Line, "listening on ")
		}
	}
	return ""
}

// stop kills all servers and returns when they are gone.
func (c *chaos) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		if s != nil {
			s.kill()
		}
	}
}
