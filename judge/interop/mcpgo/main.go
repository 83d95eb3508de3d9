// Mcp-go as a peer of the matrix.
package main

import (
	"context"
	"net/http"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"github.com/askback-mcp/askback/judge/interop/program"
)

func main() {
	program.Main(program.Peer{
		HTTP: func(bool) (http.Handler, error) {
			return server.NewStreamableHTTPServer(newServer(), server.WithStateful(true)), nil
		},
		Stdio: func(context.Context) error { return server.ServeStdio(newServer()) },
		Call:  call,
	})
}

func call(ctx context.Context, target program.Target, tool string) (string, any, error) {
	options := []client.ClientOption{
		client.WithElicitationHandler(answers{tool}),
		client.WithSamplingHandler(answers{tool}),
		client.WithRootsHandler(answers{tool}),
		client.WithDiscoverTimeout(time.Minute), // a busy machine starts Node.js slowly
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
		return "", nil, err
	}
	c := client.NewClient(t, options...)
	if err := c.Start(ctx); err != nil {
		return "", nil, err
	}
	defer c.Close()
	var initialize mcp.InitializeRequest
	initialize.Params.ClientInfo = mcp.Implementation{Name: "mcpgo", Version: "1.0.0"}
	initialized, err := c.Initialize(ctx, initialize)
	if err != nil {
		return "", nil, err
	}
	var request mcp.CallToolRequest
	request.Params.Name = tool
	res, err := c.CallTool(ctx, request)
	return initialized.ProtocolVersion, res, err
}

// answers are the fixed answers to all questions during a call of tool.
type answers struct{ tool string }

func (a answers) Elicit(context.Context, mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	res, answer := new(mcp.ElicitationResult), program.Elicit(a.tool)
	res.Action = mcp.ElicitationResponseAction(answer.Action)
	if answer.Content != nil {
		res.Content = answer.Content
	}
	return res, nil
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

// newServer has the tools in mcp-go's style, as in its examples/multi_round_trip.
func newServer() *server.MCPServer {
	s := server.NewMCPServer("mcpgo", "1.0.0",
		server.WithToolCapabilities(true), server.WithElicitation(), server.WithRoots())
	s.EnableSampling()
	for name, tool := range program.Tools {
		s.AddTool(mcp.NewTool(name), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			answers := make(map[string]string)
			for key := range r.Params.InputResponses {
				answers[key] = answer(r.Params.InputResponses, key)
			}
			return result(tool(r.Params.RequestState, answers)), nil
		})
	}
	return s
}

func result(round program.Round) *mcp.CallToolResult {
	if round.Text != "" {
		return mcp.NewToolResultText(round.Text)
	}
	requests := server.NewInputRequestBuilder(round.State)
	for _, q := range round.Ask {
		switch q.Kind {
		case program.Form:
			requests.Elicit(q.Key, mcp.ElicitationParams{
				Mode: mcp.ElicitationModeForm, Message: q.Message, RequestedSchema: program.NameSchema,
			})
		case program.Prompt:
			requests.Sample(q.Key, mcp.CreateMessageParams{
				MaxTokens: 100,
				Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(q.Message)}},
			})
		case program.Roots:
			requests.Roots(q.Key)
		}
	}
	return requests.ToolResult()
}

// answer returns the answer to a question. The library decodes any answer as an answer to any question.
func answer(responses mcp.InputResponses, key string) string {
	if r := server.ElicitationResponse(responses, key); r != nil && r.Action != "" {
		content, _ := r.Content.(map[string]any)
		if name, ok := content["name"].(string); ok {
			return name
		}
		return string(r.Action)
	}
	if r := server.SamplingResponse(responses, key); r != nil && r.Role != "" {
		content, _ := mcp.ParseSamplingContent(r.Content) // nil is no text
		if text, ok := mcp.AsTextContent(content); ok {
			return text.Text
		}
		return ""
	}
	return server.RootsResponse(responses, key).Roots[0].URI
}
