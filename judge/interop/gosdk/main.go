// The official Go SDK as a peer of the matrix.
package main

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/judge/interop/program"
)

func main() {
	program.Main(program.Peer{
		// One handler serves either the 2026-07-28 revision, which needs Stateless, or
		// sessions (the SDK's docs/protocol.md, "Stateless Mode").
		HTTP: func(legacy bool) (http.Handler, error) {
			server := newServer()
			return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
				&mcp.StreamableHTTPOptions{Stateless: !legacy}), nil
		},
		Stdio: func(ctx context.Context) error { return newServer().Run(ctx, &mcp.StdioTransport{}) },
		Call:  call,
	})
}

func call(ctx context.Context, target program.Target, tool string) (string, any, error) {
	c := mcp.NewClient(&mcp.Implementation{Name: "gosdk", Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return program.Elicit(tool), nil
		},
		CreateMessageHandler: func(context.Context, *mcp.CreateMessageRequest) (*mcp.CreateMessageResult, error) {
			return &mcp.CreateMessageResult{Role: "assistant", Model: "fixed", Content: &mcp.TextContent{Text: "Paris"}}, nil
		},
	})
	c.AddRoots(&mcp.Root{URI: "file:///work", Name: "work"})
	transport, opts := target.Dial()
	session, err := c.Connect(ctx, transport, opts)
	if err != nil {
		return "", nil, err
	}
	defer session.Close()
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool})
	return session.InitializeResult().ProtocolVersion, res, err
}

// newServer has the tools as the SDK has them written: a handler returns InputRequests and a RequestState.
func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "gosdk", Version: "1.0.0"}, nil)
	for name, tool := range program.Tools {
		mcp.AddTool(s, &mcp.Tool{Name: name},
			func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				answers := make(map[string]string)
				for key, response := range r.Params.InputResponses {
					answers[key] = answer(response)
				}
				return result(tool(r.Params.RequestState, answers)), nil, nil
			})
	}
	return s
}

func result(round program.Round) *mcp.CallToolResult {
	if round.Text != "" {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: round.Text}}}
	}
	// Only a map makes the SDK say input_required, even if it is empty: without it the result goes out as complete, with a
	// requestState.
	requests := make(mcp.InputRequestMap)
	for _, q := range round.Ask {
		switch q.Kind {
		case program.Form:
			requests[q.Key] = &mcp.ElicitParams{Message: q.Message, RequestedSchema: program.NameSchema}
		case program.Prompt:
			requests[q.Key] = &mcp.CreateMessageParams{
				MaxTokens: 100,
				Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: q.Message}}},
			}
		case program.Roots:
			requests[q.Key] = new(mcp.ListRootsParams)
		}
	}
	return &mcp.CallToolResult{InputRequests: requests, RequestState: round.State}
}

func answer(response mcp.InputResponse) string {
	switch r := response.(type) {
	case *mcp.ElicitResult:
		if name, ok := r.Content["name"].(string); ok {
			return name
		}
		return r.Action
	case *mcp.CreateMessageWithToolsResult:
		return r.Content[0].(*mcp.TextContent).Text
	case *mcp.ListRootsResult:
		return r.Roots[0].URI
	}
	return ""
}
