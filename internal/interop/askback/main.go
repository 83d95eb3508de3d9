// Askback as a peer of the matrix: its server, and its client.
package main

import (
	"context"
	"net/http"
	"os/exec"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/interop/program"
)

func main() {
	program.Main(program.Peer{
		HTTP: func() (http.Handler, http.Handler, error) {
			srv, err := newServer()
			if err != nil {
				return nil, nil, err
			}
			return srv.HTTPHandler(nil), nil, nil
		},
		Stdio: func(ctx context.Context) error {
			srv, err := newServer()
			if err != nil {
				return err
			}
			return srv.Run(ctx, &mcp.StdioTransport{})
		},
		Call: call,
	})
}

func call(ctx context.Context, target program.Target, tool string) (any, error) {
	c := client.New(&client.Options{
		Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			if tool == "t_decline" {
				return &mcp.ElicitResult{Action: "decline"}, nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "octocat"}}, nil
		},
		Sample: func(context.Context, *client.Question, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			return &mcp.CreateMessageWithToolsResult{
				Role: "assistant", Model: "fixed", Content: []mcp.Content{&mcp.TextContent{Text: "Paris"}},
			}, nil
		},
		Roots: func(context.Context) ([]*mcp.Root, error) {
			return []*mcp.Root{{URI: "file:///work", Name: "work"}}, nil
		},
	})
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
