package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/askback-mcp/askback/judge/process"
)

// attacker is a flood that goes on: the goroutines of this process, or a process of its own.
type attacker struct {
	full <-chan struct{}         // closed when the flood has reached its full extent
	stop func() (counted, error) // ends the flood
}

// counted is what an attacker counted.
type counted struct{ Sent, Refused int64 }

// here attacks from within this process.
func here(ctx context.Context, f *flood, s *process.Server) (*attacker, error) {
	ctx, stop := context.WithCancel(ctx)
	a := &attack{client: newClient(s, f.user), full: make(chan struct{})}
	attacked := make(chan struct{})
	go func() {
		defer close(attacked)
		f.attack(ctx, a)
	}()
	return &attacker{a.full, func() (counted, error) {
		stop()
		<-attacked
		a.close()
		return counted{a.sent.Load(), a.refused.Load()}, nil
	}}, nil
}

// away attacks from a process that the machine serves last. An attacker has processors of his own: here his work must
// not count as the server's, and must not keep the other caller from measuring.
func away(_ context.Context, f *flood, s *process.Server) (*attacker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "attacker")
	if err != nil {
		return nil, err
	}
	counts := filepath.Join(dir, "counts")
	cmd := exec.Command("nice", "-n", "19", self, "-attack", f.name, "-url", s.URL, "-counts", counts)
	p, err := process.Start(cmd, "")
	if err != nil {
		return nil, err
	}
	return &attacker{p.Ready, func() (got counted, err error) {
		defer os.RemoveAll(dir)
		if err := process.Stop(p); err != nil {
			return got, err
		}
		data, err := os.ReadFile(counts)
		if err != nil {
			return got, fmt.Errorf("the attacker ended by itself: %w", err)
		}
		return got, json.Unmarshal(data, &got)
	}}, nil
}

// runAttacker is the process of away. It prints a line when the flood has its full extent, attacks until ctx is done,
// and writes what it has counted to a file.
func runAttacker(ctx context.Context, name, url, counts string) error {
	for _, f := range floods {
		if f.name != name {
			continue
		}
		a, err := here(ctx, &f, &process.Server{URL: url})
		if err != nil {
			return err
		}
		select {
		case <-a.full:
			fmt.Println("full")
			<-ctx.Done()
		case <-ctx.Done():
		}
		got, err := a.stop()
		if err != nil {
			return err
		}
		data, err := json.Marshal(got)
		if err != nil {
			return err
		}
		return os.WriteFile(counts, data, 0o600)
	}
	return fmt.Errorf("no flood is named %q", name)
}
