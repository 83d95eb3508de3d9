package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// server is one process of askback serve.
type server struct {
	cmd     *exec.Cmd
	stdin   io.Closer // held open: its end would tell the process that this one is gone
	started time.Time
	ready   chan struct{} // closed when it listens
	url     string        // valid once it is ready
	up      time.Time     // when it was
	dead    chan struct{} // closed when it has ended

	mu     sync.Mutex
	killed bool
}

// startServer starts the program. Its log is appended to the file.
func startServer(ctx context.Context, program string, args []string, logFile string) (*server, error) {
	s := &server{ready: make(chan struct{}), dead: make(chan struct{})}
	log, err := os.OpenFile(logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s.cmd = exec.CommandContext(ctx, program, args...)
	s.cmd.Stderr = log
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	s.started = time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a server: %w", err)
	}
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		if url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on "); ok {
			s.url, s.up = url, time.Now()
			close(s.ready)
		}
		_ = s.cmd.Wait() // how it ended shows in its log
		close(s.dead)
	}()
	return s, nil
}

func (s *server) pid() int { return s.cmd.Process.Pid }

func (s *server) alive() bool {
	select {
	case <-s.dead:
		return false
	default:
		return true
	}
}

// serving reports whether it listens, as far as one can know.
func (s *server) serving() bool { return s.alive() && s.isReady() }

// isReady reports whether it listens, or did.
func (s *server) isReady() bool {
	select {
	case <-s.ready:
		return true
	default:
		return false
	}
}

// kill ends the process with SIGKILL and returns when it is gone; false if it was before.
func (s *server) kill() bool {
	s.mu.Lock()
	alive := s.alive()
	s.killed = s.killed || alive
	s.mu.Unlock()
	if !alive {
		return false
	}
	_ = s.cmd.Process.Kill() // it may be gone this very moment
	<-s.dead
	return true
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
		<-s.dead
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
	return slices.IndexFunc(f.servers, func(s *server) bool { return s.pid() == pid && s.serving() })
}

// url returns the URL of a server that listens, the one that choose takes among n, or "".
func (f *fleet) url(choose func(n int) int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var urls []string
	for _, s := range f.servers {
		if s != nil && s.serving() {
			urls = append(urls, s.url)
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
