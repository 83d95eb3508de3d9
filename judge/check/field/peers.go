package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/askback-mcp/askback/judge/interop/typescript"
	"github.com/askback-mcp/askback/judge/process"
)

// peer is a published server, or one that is written with a published library.
type peer struct {
	name    string
	path    string // of its URL
	build   builder
	tokens  []string // of two identities, for a server that knows identities
	correct bool     // a check must find nothing
	forged  bool     // a check must find that its state can be forged
}

// builder builds a server in a directory, and returns what makes the command that serves an address.
type builder func(ctx context.Context, work string) (func(address string) *exec.Cmd, error)

const (
	mcpgo = "github.com/mark3labs/mcp-go"
	gosdk = "github.com/modelcontextprotocol/go-sdk"
)

var peers = []peer{
	{name: "mcp-go-multi-round-trip", path: "/mcp", forged: true,
		build: goExample(mcpgo, "examples/multi_round_trip/main.go", "mcpgo.go", withoutMain)},
	{name: "mcp-go-conformance", path: "/mcp", build: goPackage(mcpgo+"/examples/conformance",
		func(cmd *exec.Cmd, address string) { cmd.Env = append(cmd.Environ(), "CONFORMANCE_ADDR="+address) })},
	{name: "go-sdk-mrtr", path: "/", build: goExample(gosdk, "mcp/server_example_test.go", "gosdk.go", exampleServer)},
	{name: "go-sdk-everything", path: "/", build: goPackage(gosdk+"/examples/server/everything", httpFlag)},
	{name: "go-sdk-conformance", path: "/", build: goPackage(gosdk+"/conformance/everything-server", httpFlag)},
	{name: "typescript-codec", path: "/mcp", build: script("codec.ts"), tokens: []string{"octocat", "hubot"},
		correct: true},
	{name: "typescript-1-form", path: "/mcp", build: script(sdkExamples + "elicitationFormExample.js")},
	{name: "typescript-1-streamable", path: "/mcp", build: script(sdkExamples + "simpleStreamableHttp.js")},
	{name: "typescript-1-task", path: "/mcp", build: script(sdkExamples + "simpleTaskInteractive.js")},
	{name: "server-everything", path: "/mcp",
		build: script("node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp")},
}

const sdkExamples = "node_modules/@modelcontextprotocol/sdk/dist/esm/examples/server/"

func httpFlag(cmd *exec.Cmd, address string) { cmd.Args = append(cmd.Args, "-http", address) }

// start starts the server of a peer.
func (p *peer) start(ctx context.Context, work, log string) (*process.Server, error) {
	command, err := p.build(ctx, work)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	return process.StartAt(ctx, p.path, log, command)
}

// script serves a file of the directory typescript. Some of these files take their port as an argument, others from
// one of two variables.
func script(file string, args ...string) builder {
	return func(context.Context, string) (func(string) *exec.Cmd, error) {
		dir, err := filepath.Abs(filepath.Join("check", "field", "typescript"))
		if err != nil {
			return nil, err
		}
		node, err := typescript.Install(dir)
		return func(address string) *exec.Cmd {
			_, port, _ := strings.Cut(address, ":")
			cmd := exec.Command(node, append(append([]string{filepath.Join(dir, file)}, args...), port)...)
			cmd.Env = append(cmd.Environ(), "PORT="+port, "MCP_PORT="+port)
			return cmd
		}, err
	}
}
