// Mcp-go as a peer of the matrix.
package main

import (
	"context"
	"net/http"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/askback-mcp/askback/internal/interop/program"
)

func main() {
	program.Main(program.Peer{
		HTTP: func() (http.Handler, http.Handler, error) {
			return server.NewStreamableHTTPServer(newServer(), server.WithStateful(true)), nil, nil
		},
		Stdio: func(context.Context) error { return server.ServeStdio(newServer()) },
		Call:  call,
	})
}

func call(ctx context.Context, target program.Target, tool string) (any, error) {
	options := []client.ClientOption{
		client.WithElicitationHandler(answers{tool}),
		client.WithSamplingHandler(answers{tool}),
		client.WithRootsHandler(answers{tool}),
	}
	var (
		t   transport.Interface
		err error
	)
	switch target.Transport {
	case "http":
		t, err = transport.NewStreamableHTTP(target.URL)
	case "legacy":
		// Requests of the server need the standing stream, as in mcp-go's examples.
		t, err = transport.NewStreamableHTTP(target.URL, transport.WithContinuousListening())
		options = append(options, client.WithProtocolVersion(program.Legacy))
	case "stdio":
		t = transport.NewStdio(target.Command[0], nil, target.Command[1:]...)
	}
	if err != nil {
		return nil, err
	}
	c := client.NewClient(t, options...)
	if err := c.Start(ctx); err != nil {
		return nil, err
	}
	defer c.Close()
	var initialize mcp.InitializeRequest
	initialize.Params.ClientInfo = mcp.Implementation{Name: "mcpgo", Version: "1.0.0"}
	if _, err := c.Initialize(ctx, initialize); err != nil {
		return nil, err
	}
	var request mcp.CallToolRequest
	request.Params.Name = tool
	return c.CallTool(ctx, request)
}

// answers are the fixed answers to all questions during a call of tool.
type answers struct{ tool string }

func (a answers) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	var res mcp.ElicitationResult
	if a.tool == "t_decline" {
		res.Action = mcp.ElicitationResponseActionDecline
	} else {
		res.Action = mcp.ElicitationResponseActionAccept
		res.Content = map[string]any{"name": "octocat"}
	}
	return &res, nil
}

func (answers) CreateMessage(context.Context, mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
	return &mcp.CreateMessageResult{
		Model:           "fixed",
		SamplingMessage: mcp.SamplingMessage{Role: mcp.RoleAssistant, Content: mcp.NewTextContent("Paris")},
	}, nil
}

func (answers) ListRoots(context.Context, mcp.ListRootsRequest) (*mcp.ListRootsResult, error) {
	return &mcp.ListRootsResult{Roots: []mcp.Root{{URI: "file:///work", Name: "work"}}}, nil
}
