package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/askback-mcp/askback/judge/interop/typescript"
)

// peer is a published server, or one that is written with a published library.
type peer struct {
	name    string
	build   func(ctx context.Context, work string) (starter, error)
	tokens  []string // of two identities, for a server that knows identities
	correct bool     // a check must find nothing
	forged  bool     // a check must find that its state can be forged
}

const (
	mcpgo = "github.com/mark3labs/mcp-go"
	gosdk = "github.com/modelcontextprotocol/go-sdk"
)

var peers = []peer{
	{name: "mcp-go-multi-round-trip", forged: true,
		build: goExample(mcpgo, "examples/multi_round_trip/main.go", "/mcp", "mcpgo.go", withoutMain)},
	{name: "mcp-go-conformance", build: goPackage(mcpgo+"/examples/conformance", "/mcp",
		func(cmd *exec.Cmd, address string) { cmd.Env = append(cmd.Environ(), "CONFORMANCE_ADDR="+address) })},
	{name: "go-sdk-mrtr", build: goExample(gosdk, "mcp/server_example_test.go", "/", "gosdk.go", exampleServer)},
	{name: "go-sdk-everything", build: goPackage(gosdk+"/examples/server/everything", "/", httpFlag)},
	{name: "go-sdk-conformance", build: goPackage(gosdk+"/conformance/everything-server", "/", httpFlag)},
	{name: "typescript-codec", build: script("codec.ts"), tokens: []string{"octocat", "hubot"}, correct: true},
	{name: "typescript-1-form", build: script(sdkExamples + "elicitationFormExample.js")},
	{name: "typescript-1-streamable", build: script(sdkExamples + "simpleStreamableHttp.js")},
	{name: "typescript-1-task", build: script(sdkExamples + "simpleTaskInteractive.js")},
	{name: "server-everything",
		build: script("node_modules/@modelcontextprotocol/server-everything/dist/index.js", "streamableHttp")},
}

const sdkExamples = "node_modules/@modelcontextprotocol/sdk/dist/esm/examples/server/"

func httpFlag(cmd *exec.Cmd, address string) { cmd.Args = append(cmd.Args, "-http", address) }

// script serves a file of the directory typescript. Some of these files take their port as an argument, others from
// one of two variables.
func script(file string, args ...string) func(context.Context, string) (starter, error) {
	return func(context.Context, string) (starter, error) {
		dir, err := filepath.Abs(filepath.Join("check", "field", "typescript"))
		if err != nil {
			return nil, err
		}
		node, err := typescript.Install(dir)
		if err != nil {
			return nil, err
		}
		return serve("/mcp", func(address string, port int) *exec.Cmd {
			text := strconv.Itoa(port)
			cmd := exec.Command(node, append(append([]string{filepath.Join(dir, file)}, args...), text)...)
			cmd.Env = append(cmd.Environ(), "PORT="+text, "MCP_PORT="+text)
			return cmd
		}), nil
	}
}
