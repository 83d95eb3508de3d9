package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/askback-mcp/askback/internal/child"
)

// fleet is the servers, by their names.
type fleet struct {
	dir, store string
	ctx        context.Context

	mu      sync.Mutex
	servers map[string]*server
}

type server struct {
	*child.Process
	url string
}

// startsWithin is how long a server may take to start or to stop.
const startsWithin = 2 * time.Minute

// command returns the command of a server. Both releases know these flags.
func (f *fleet) command(name, program string) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(f.dir, name+".log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	// One key for all, made by the first.
	keys := filepath.Join(f.dir, "keys")
	if _, err := os.Stat(keys); err != nil {
		if out, err := exec.CommandContext(f.ctx, program, "keys", "new", keys).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("make keys: %w: %s", err, out)
		}
	}
	cmd := exec.CommandContext(f.ctx, program, "serve", "--addr", "127.0.0.1:0", "--pace", "200ms",
		"--keys", keys, "--data", filepath.Join(f.dir, "data"), "--store", f.store)
	cmd.Stderr = log
	return cmd, nil
}

// start starts a server and waits until it serves.
func (f *fleet) start(name, program string) error {
	cmd, err := f.command(name, program)
	if err != nil {
		return err
	}
	p, err := child.Start(cmd)
	if err != nil {
		return err
	}
	line, err := p.Wait(startsWithin)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(f.dir, name+".log"))
		return fmt.Errorf("server %s: %w; its log is\n%s", name, err, log)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.servers == nil {
		f.servers = make(map[string]*server)
	}
	f.servers[name] = &server{p, line[strings.Index(line, "http://"):]}
	return nil
}

// startAndKill starts a server that nobody calls, and kills it.
func (f *fleet) startAndKill(program string, after time.Duration) error {
	cmd, err := f.command("killed", program)
	if err != nil {
		return err
	}
	p, err := child.Start(cmd)
	if err != nil {
		return err
	}
	time.Sleep(after)
	p.Kill()
	return nil
}

// stop stops a server as an operator does. Requests go to the others from then on.
func (f *fleet) stop(name string) error {
	f.mu.Lock()
	s := f.servers[name]
	delete(f.servers, name)
	f.mu.Unlock()
	if err := s.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.Dead:
		return nil
	case <-time.After(startsWithin):
		s.Kill()
		return fmt.Errorf("server %s did not stop within %v", name, startsWithin)
	}
}

// urls returns the URLs of the running servers.
func (f *fleet) urls() (urls []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.servers {
		urls = append(urls, s.url)
	}
	return urls
}

func (f *fleet) killAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.servers {
		s.Kill()
	}
}

// bad is what servers log when they lose a lease or cannot write.
var bad = []string{"lease is lost", "renewing a lease failed", "claiming failed", "a write failed", "was not stored"}

// checkLogs looks for what servers say when a lease is lost or a write has failed.
func (f *fleet) checkLogs(r *report) {
	for _, name := range []string{"old", "new"} {
		log, err := os.ReadFile(filepath.Join(f.dir, name+".log"))
		if os.IsNotExist(err) {
			continue // it was never started
		} else if err != nil {
			r.fail("the log of %s: %v", name, err)
		}
		for line := range bytes.Lines(log) {
			for _, bad := range bad {
				if bytes.Contains(line, []byte(bad)) {
					r.fail("the log of %s: %s", name, bytes.TrimSpace(line))
				}
			}
		}
	}
}
