package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/judge/process"
)

// startAttacker starts a flood from a process that the machine serves last. An attacker has processors of his own: here
// his work must not count as the server's, and must not keep the other caller from measuring. The process is ready when
// the flood has reached its full extent.
func startAttacker(f *flood, s *process.Server) (*child.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return process.Start(exec.Command("nice", "-n", "19", self, "-attack", f.name, "-url", s.URL), "")
}

// runAttacker is that process: it floods until ctx is done, and tells what it has counted.
func runAttacker(ctx context.Context, name, url string) error {
	for _, f := range floods {
		if f.name != name {
			continue
		}
		a := &attack{client: newClient(&process.Server{URL: url}, f.user), full: make(chan struct{})}
		defer a.close()
		go func() { <-a.full; fmt.Println("full") }()
		f.attack(ctx, a)
		fmt.Fprintf(os.Stderr, "%s: %d sent, %d refused\n", name, a.sent.Load(), a.refused.Load())
		return nil
	}
	return fmt.Errorf("no flood is named %q", name)
}
