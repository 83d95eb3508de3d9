package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/askback-mcp/askback/internal/child"
)

// server is one process of askback serve.
type server struct {
	*child.Process
	mu     sync.Mutex
	killed bool
}

// startServer starts the program. Its log is appended to the file.
func startServer(ctx context.Context, program string, args []string, logFile string) (*server, error) {
	log, err := os.OpenFile(logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stderr = log
	p, err := child.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("starting a server: %w", err)
	}
	return &server{Process: p}, nil
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

// fleet is a number of servers, each of which is started again when it has ended.
type fleet struct {
	program string
	args    []string
	logs    string // directory

	// ended is told of a server that ended by itself.
	ended func(slot int, s *server)

	mu      sync.Mutex
	servers []*server
}

// start starts the server of a slot.
func (f *fleet) start(ctx context.Context, slot int) (*server, error) {
	s, err := startServer(ctx, f.program, f.args, f.logFile(slot))
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.servers[slot] = s
	f.mu.Unlock()
	go func() {
		<-s.Dead
		if !s.wasKilled() && ctx.Err() == nil {
			f.ended(slot, s)
		}
	}()
	return s, nil
}

func (f *fleet) logFile(slot int) string {
	return filepath.Join(f.logs, fmt.Sprintf("server-%d.log", slot+1))
}

func (f *fleet) server(slot int) *server {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.servers[slot]
}

// slot returns the slot of a process that runs, or -1.
func (f *fleet) slot(pid int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.IndexFunc(f.servers, func(s *server) bool { return s.PID() == pid && s.serving() })
}

// url returns the URL of a server that listens, the one that choose takes among n, or "".
func (f *fleet) url(choose func(n int) int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var urls []string
	for _, s := range f.servers {
		if s != nil && s.serving() {
			urls = append(urls, strings.TrimPrefix(s.Line, "listening on "))
		}
	}
	if len(urls) == 0 {
		return ""
	}
	return urls[choose(len(urls))]
}

// stop kills all servers and returns when they are gone.
func (f *fleet) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.servers {
		if s != nil {
			s.kill()
		}
	}
}
