// Mcp-go as a peer of the matrix.
package main

import (
	"context"
	"encoding/json"
	"fmt"
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
	once := func(name string, requests *server.InputRequestBuilder, text func(p mcp.CallToolParams) string) {
		tool(name, func(p mcp.CallToolParams) (*mcp.CallToolResult, error) {
			if len(p.InputResponses) == 0 {
				return requests.ToolResult(), nil
			}
			return done("%s", text(p))
		})
	}
	once("t_elicit", ask("").Elicit("person", form("What is your name?")), func(p mcp.CallToolParams) string {
		return fmt.Sprintf("Hello, %s.", name(p, "person"))
	})
	once("t_sample", ask("").Sample("capital", prompt("What is the capital of France?")),
		func(p mcp.CallToolParams) string { return "The model says: " + said(p, "capital") })
	once("t_roots", ask("").Roots("roots"), func(p mcp.CallToolParams) string { return "Roots: " + first(p, "roots") })
	once("t_three", ask("").
		Elicit("person", form("What is your name?")).
		Sample("capital", prompt("What is the capital of France?")).
		Roots("roots"),
		func(p mcp.CallToolParams) string {
			return fmt.Sprintf("%s, %s, %s", name(p, "person"), said(p, "capital"), first(p, "roots"))
		})
	tool("t_rounds", func(p mcp.CallToolParams) (*mcp.CallToolResult, error) {
		var state struct{ Name, City string }
		if p.RequestState != "" {
			if err := json.Unmarshal([]byte(p.RequestState), &state); err != nil {
				return nil, err
			}
		}
		next := ask("")
		if signer := name(p, "signer"); signer != "" {
			return done("%s of %s, signed %s", state.Name, state.City, signer)
		} else if state.City = said(p, "city"); state.City != "" {
			next.Elicit("signer", form(fmt.Sprintf("%s of %s: who signs?", state.Name, state.City)))
		} else if state.Name = name(p, "person"); state.Name != "" {
			next.Sample("city", prompt("Where does "+state.Name+" live?"))
		} else {
			next.Elicit("person", form("What is your name?"))
		}
		data, _ := json.Marshal(state) // of strings, which cannot fail
		return next.RequestState(string(data)).ToolResult(), nil
	})
	tool("t_state", func(p mcp.CallToolParams) (*mcp.CallToolResult, error) {
		if p.RequestState == "" {
			return ask("busy").ToolResult(), nil
		}
		return done("served the second time")
	})
	tool("t_decline", func(p mcp.CallToolParams) (*mcp.CallToolResult, error) {
		answer := server.ElicitationResponse(p.InputResponses, "person")
		if answer == nil {
			return ask("").Elicit("person", form("Delete everything? Sign with your name.")).ToolResult(), nil
		}
		if answer.Action == mcp.ElicitationResponseActionDecline {
			return done("Nothing was deleted.")
		}
		return done("Deleted for %s", name(p, "person"))
	})
	return s
}

func ask(state string) *server.InputRequestBuilder { return server.NewInputRequestBuilder(state) }

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

// name is the name in the answer to a form, or empty.
func name(p mcp.CallToolParams, key string) string {
	if answer := server.ElicitationResponse(p.InputResponses, key); answer != nil {
		content, _ := answer.Content.(map[string]any)
		name, _ := content["name"].(string)
		return name
	}
	return ""
}

// said is the text in the answer of a model, or empty.
func said(p mcp.CallToolParams, key string) string {
	if answer := server.SamplingResponse(p.InputResponses, key); answer != nil {
		if content, err := mcp.ParseSamplingContent(answer.Content); err == nil {
			if text, ok := mcp.AsTextContent(content); ok {
				return text.Text
			}
		}
	}
	return ""
}

// first is the first root in an answer, or empty.
func first(p mcp.CallToolParams, key string) string {
	if answer := server.RootsResponse(p.InputResponses, key); answer != nil && len(answer.Roots) > 0 {
		return answer.Roots[0].URI
	}
	return ""
}
