package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/judge/process"
)

// runProgram starts the client and waits for its end, or until ctx is done: the client takes too long, or sends too
// much. The client's children end with it.
func (s *scene) runProgram(ctx context.Context, name, url string) error {
	args := slices.Clone(s.opts.command)
	if !strings.Contains(strings.Join(args, " "), "{url}") {
		args = append(args, "{url}")
	}
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "{url}", url)
	}
	output, err := os.CreateTemp("", "client")
	if err != nil {
		return err
	}
	defer os.Remove(output.Name())
	defer output.Close()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "MCP_SERVER_URL="+url, "MCP_SERVER_TOKEN="+strings.TrimPrefix(s.token, "Bearer "),
		"MCP_CONFORMANCE_SCENARIO=sep-2322-client-request-state", "MCP_CONFORMANCE_PROTOCOL_VERSION="+modern,
		"ASKBACK_CHECK_SCENARIO="+name)
	cmd.Stdout, cmd.Stderr = output, output
	child.Group(cmd)
	cmd.Cancel = func() error { child.KillGroup(cmd); return nil }
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the client: %w", err)
	}
	defer child.KillGroup(cmd)
	err = cmd.Wait()
	s.output, s.stopped = process.Tail(output.Name()), context.Cause(ctx)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && s.stopped == nil {
		if s.code = exit.ExitCode(); s.code < 0 {
			s.crash = exit.Error() // the text names the signal
		}
	}
	return nil
}

// last is the last line of what the client said, without secrets, to add to a reason.
func (s *scene) last() string {
	lines := strings.Split(strings.TrimSpace(s.output), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	for _, secret := range s.secrets() {
		line = strings.ReplaceAll(line, secret, "…")
	}
	if line == "" {
		return fmt.Sprintf("; it ended with status %d and said nothing", s.code)
	}
	return "; its last line was: " + foreign.Line(line, 200)
}
