package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/internal/foreign"
)

// end is how a scene ended, and the addresses in it.
type end struct {
	elsewhere string // the endpoint at the other origin
	canary    string // a page that no client may fetch by itself

	timedOut bool
	flooded  bool
	crash    string // the signal that ended the program
	code     int
	output   tail
}

// last is the last line of what the client said, without secrets, to add to a reason.
func (e *end) last(secrets []string) string {
	lines := strings.Split(strings.TrimSpace(e.output.String()), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	for _, secret := range secrets {
		line = strings.ReplaceAll(line, secret, "…")
	}
	if line == "" {
		return fmt.Sprintf("; it ended with status %d and said nothing", e.code)
	}
	return "; its last line was: " + foreign.Line(line, 200)
}

// runProgram starts the client and waits for its end. It stops a client that takes too long or sends too much.
func (s *scene) runProgram(ctx context.Context, name, url string, limit time.Duration) error {
	args := slices.Clone(s.opts.command)
	placed := false
	for i := range args {
		placed = placed || strings.Contains(args[i], "{url}")
		args[i] = strings.ReplaceAll(args[i], "{url}", url)
	}
	if !placed {
		args = append(args, url)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "MCP_SERVER_URL="+url, "MCP_SERVER_TOKEN="+strings.TrimPrefix(s.token, "Bearer "),
		"MCP_CONFORMANCE_SCENARIO=sep-2322-client-request-state", "MCP_CONFORMANCE_PROTOCOL_VERSION="+modern,
		"ASKBACK_CHECK_SCENARIO="+name)
	cmd.Stdout, cmd.Stderr = &s.end.output, &s.end.output
	cmd.WaitDelay = time.Second // for children that hold the output open
	child.Group(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the client: %w", err)
	}
	defer child.KillGroup(cmd)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var err error
	select {
	case err = <-ended:
	case <-timer.C:
		s.end.timedOut = true
	case <-s.flooded:
		s.end.flooded = true
	case <-ctx.Done():
	}
	if s.end.timedOut || s.end.flooded || ctx.Err() != nil {
		child.KillGroup(cmd)
		<-ended
		return nil
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		s.end.code, s.end.crash = exit.ExitCode(), crashOf(exit)
	}
	return nil
}

// tail keeps the last bytes that were written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

var _ io.Writer = (*tail)(nil)

const mostOutput = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(0, len(p)-mostOutput):]...)
	t.text = t.text[max(0, len(t.text)-mostOutput):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.ToValidUTF8(string(t.text), "")
}
