// The official Go SDK as a peer of the matrix.
package main

import (
	"context"
	"net/http"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/interop/program"
)

func main() {
	program.Main(program.Peer{
		// One handler serves either the 2026-07-28 revision, which needs Stateless, or
		// sessions (the SDK's docs/protocol.md, "Stateless Mode").
		HTTP: func() (http.Handler, http.Handler, error) {
			server := newServer()
			getServer := func(*http.Request) *mcp.Server { return server }
			return mcp.NewStreamableHTTPHandler(getServer, &mcp.StreamableHTTPOptions{Stateless: true}),
				mcp.NewStreamableHTTPHandler(getServer, nil), nil
		},
		Stdio: func(ctx context.Context) error { return newServer().Run(ctx, &mcp.StdioTransport{}) },
		Call:  call,
	})
}

func call(ctx context.Context, target program.Target, tool string) (any, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "gosdk", Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			if tool == "t_decline" {
				return &mcp.ElicitResult{Action: "decline"}, nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "octocat"}}, nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "fixed", Content: &mcp.TextContent{Text: "Paris"}}, nil
		},
	})
	c.AddRoots(&mcp.Root{URI: "file:///work", Name: "work"})
	var transport mcp.Transport = &mcp.StreamableClientTransport{Endpoint: target.URL}
	var opts mcp.ClientSessionOptions
	switch target.Transport {
	case "stdio":
		transport = &mcp.CommandTransport{Command: exec.Command(target.Command[0], target.Command[1:]...)}
	case "legacy":
		opts.ProtocolVersion = program.Legacy
	}
	session, err := c.Connect(ctx, transport, &opts)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	return session.CallTool(ctx, &mcp.CallToolParams{Name: tool})
}
