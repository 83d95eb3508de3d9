// Mcp-go as a peer of the matrix.
package main

import (
	"context"
	"encoding/json"
	"fmt"
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

// newServer has the tools in mcp-go's style for Multi Round-Trip Requests, as in its
// examples/multi_round_trip. A real server would also sign the state.
func newServer() *server.MCPServer {
	s := server.NewMCPServer("mcpgo", "1.0.0",
		server.WithToolCapabilities(true), server.WithElicitation(), server.WithRoots())
	s.EnableSampling()
	tool := func(name string, run func(p mcp.CallToolParams) (*mcp.CallToolResult, error)) {
		s.AddTool(mcp.NewTool(name), func(_ context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return run(req.Params)
		})
	}
	tool("t_elicit", func(p mcp.CallToolParams) (*mcp.CallToolResult, error) {
		if answer := server.ElicitationResponse(p.InputResponses, "person"); answer != nil {
			return done("Hello, %s.", name(answer))
		}
		return server.NewInputRequestBuilder("").Elicit("person", form("What is your name?")).ToolResult(), nil
	})
	tool("t_sample", func(p mcp.CallToolParams) (*mcp.CallToolResult, error) {
		if answer := server.SamplingResponse(p.InputResponses, "capital"); answer != nil {
			return done("The model says: %s", said(answer))
		}
		return server.NewInputRequestBuilder("").Sample("capital", prompt("What is the capital of France?")).ToolResult(), nil
	})
	tool("t_roots", func(p mcp.CallToolParams) (*mcp.CallToolResult, error) {
		if answer := server.RootsResponse(p.InputResponses, "roots"); answer != nil {
			return done("Roots: %s", first(answer))
		}
		return server.NewInputRequestBuilder("").Roots("roots").ToolResult(), nil
	})
	tool("t_three", func(p mcp.CallToolParams) (*mcp.CallToolResult, error) {
		if len(p.InputResponses) > 0 {
			return done("%s, %s, %s",
				name(server.ElicitationResponse(p.InputResponses, "person")),
				said(server.SamplingResponse(p.InputResponses, "capital")),
				first(server.RootsResponse(p.InputResponses, "roots")))
		}
		return server.NewInputRequestBuilder("").
			Elicit("person", form("What is your name?")).
			Sample("capital", prompt("What is the capital of France?")).
			Roots("roots").
			ToolResult(), nil
	})
	tool("t_rounds", func(p mcp.CallToolParams) (*mcp.CallToolResult, error) {
		var state struct{ Name, City string }
		if p.RequestState != "" {
			if err := json.Unmarshal([]byte(p.RequestState), &state); err != nil {
				return nil, err
			}
		}
		next := server.NewInputRequestBuilder("")
		if answer := server.ElicitationResponse(p.InputResponses, "signer"); answer != nil {
			return done("%s of %s, signed %s", state.Name, state.City, name(answer))
		} else if answer := server.SamplingResponse(p.InputResponses, "city"); answer != nil {
			state.City = said(answer)
			next.Elicit("signer", form(fmt.Sprintf("%s of %s: who signs?", state.Name, state.City)))
		} else if answer := server.ElicitationResponse(p.InputResponses, "person"); answer != nil {
			state.Name = name(answer)
			next.Sample("city", prompt("Where does "+state.Name+" live?"))
		} else {
			next.Elicit("person", form("What is your name?"))
		}
		data, err := json.Marshal(state)
		if err != nil {
			return nil, err
		}
		return next.RequestState(string(data)).ToolResult(), nil
	})
	tool("t_state", func(p mcp.CallToolParams) (*mcp.CallToolResult, error) {
		if p.RequestState == "" {
			return server.NewInputRequestBuilder("busy").ToolResult(), nil
		}
		return done("served the second time")
	})
	tool("t_decline", func(p mcp.CallToolParams) (*mcp.CallToolResult, error) {
		answer := server.ElicitationResponse(p.InputResponses, "person")
		if answer == nil {
			return server.NewInputRequestBuilder("").Elicit("person", form("Delete everything? Sign with your name.")).ToolResult(), nil
		}
		if answer.Action == mcp.ElicitationResponseActionDecline {
			return done("Nothing was deleted.")
		}
		return done("Deleted for %s", name(answer))
	})
	return s
}

func done(format string, args ...any) (*mcp.CallToolResult, error) {
	return mcp.NewToolResultText(fmt.Sprintf(format, args...)), nil
}

func form(message string) mcp.ElicitationParams {
	return mcp.ElicitationParams{Mode: mcp.ElicitationModeForm, Message: message, RequestedSchema: map[string]any{
		"type":       "object",
		"properties": map[string]any{"name": map[string]any{"type": "string"}},
		"required":   []string{"name"},
	}}
}

func prompt(text string) mcp.CreateMessageParams {
	return mcp.CreateMessageParams{
		MaxTokens: 100,
		Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: mcp.NewTextContent(text)}},
	}
}

func name(answer *mcp.ElicitationResult) string {
	if answer == nil {
		return ""
	}
	content, _ := answer.Content.(map[string]any)
	name, _ := content["name"].(string)
	return name
}

func said(answer *mcp.CreateMessageResult) string {
	if answer == nil {
		return ""
	}
	content, err := mcp.ParseSamplingContent(answer.Content)
	if err != nil {
		return ""
	}
	text, _ := mcp.AsTextContent(content)
	if text == nil {
		return ""
	}
	return text.Text
}

func first(answer *mcp.ListRootsResult) string {
	if answer == nil || len(answer.Roots) == 0 {
		return ""
	}
	return answer.Roots[0].URI
}
