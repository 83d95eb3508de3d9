// Package program is what the Go peers have in common: a command line.
//
//	PEER server http|legacy                prints its URL and serves, until standard input ends
//	PEER server stdio                      serves standard input and output
//	PEER client TRANSPORT TARGET TOOL      calls a tool, and prints the revision and the result as JSON
//
// TRANSPORT is http or stdio, or legacy for a session of 2025-11-25 over HTTP. TARGET is a URL, or for stdio a command
// as a JSON array.
package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/judge/process"
)

// Legacy is the revision of the legacy transport.
const Legacy = "2025-11-25"

// Peer is what differs between the Go peers.
type Peer struct {
	// HTTP returns the handler for requests of 2026-07-28, or for sessions.
	HTTP func(legacy bool) (http.Handler, error)

	// Stdio serves standard input and output until its end.
	Stdio func(ctx context.Context) error

	// Call connects, calls a tool without arguments, and returns the revision of the connection and the result.
	Call func(ctx context.Context, target Target, tool string) (revision string, result any, err error)
}

// Target is a server as a client reaches it.
type Target struct {
	Transport string   // "http", "stdio" or "legacy"
	URL       string   // of http and legacy
	Command   []string // of stdio
}

// Dial returns the SDK's transport to the target, and the options for a session over it.
func (t Target) Dial() (mcp.Transport, *mcp.ClientSessionOptions) {
	opts := new(mcp.ClientSessionOptions)
	switch t.Transport {
	case "stdio":
		return &mcp.CommandTransport{Command: exec.Command(t.Command[0], t.Command[1:]...)}, opts
	case "legacy":
		opts.ProtocolVersion = Legacy
	}
	return &mcp.StreamableClientTransport{Endpoint: t.URL}, opts
}

// Elicit returns the answer to every form during a call of a tool.
func Elicit(tool string) *mcp.ElicitResult {
	if tool == "t_decline" {
		return &mcp.ElicitResult{Action: "decline"}
	}
	member := "input"
	if strings.HasPrefix(tool, "t_") {
		member = "name"
	}
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{member: "octocat"}}
}

// Main runs the program of a peer.
func Main(p Peer) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, p, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, p Peer, args []string) error {
	switch {
	case len(args) == 2 && args[0] == "server" && args[1] == "stdio":
		return p.Stdio(ctx)
	case len(args) == 2 && args[0] == "server":
		handler, err := p.HTTP(args[1] == "legacy")
		if err != nil {
			return err
		}
		return process.Serve(ctx, new(http.Server), handler)
	case len(args) == 4 && args[0] == "client":
		target := Target{Transport: args[1], URL: args[2]}
		if target.Transport == "stdio" {
			if err := json.Unmarshal([]byte(args[2]), &target.Command); err != nil {
				return fmt.Errorf("the command: %w", err)
			}
		}
		revision, result, err := p.Call(ctx, target, args[3])
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(map[string]any{"revision": revision, "result": result})
	}
	return errors.New("usage: server http|legacy|stdio | client http|stdio|legacy TARGET TOOL")
}
