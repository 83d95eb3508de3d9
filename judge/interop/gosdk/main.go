// The official Go SDK as a peer of the matrix.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"

	"github.com/google/jsonschema-go/jsonschema"
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

// newServer has the tools in the SDK's style for Multi Round-Trip Requests: a handler returns InputRequests and a
// RequestState, and is called again with the answers. A real server would also sign the state.
func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "gosdk", Version: "1.0.0"}, nil)
	tool := func(name string, run func(p *mcp.CallToolParamsRaw) *mcp.CallToolResult) {
		handler := func(_ context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			return run(r.Params), nil, nil
		}
		mcp.AddTool(s, &mcp.Tool{Name: name}, handler)
	}
	once := func(name string, requests func() mcp.InputRequestMap, text func(p *mcp.CallToolParamsRaw) string) {
		tool(name, func(p *mcp.CallToolParamsRaw) *mcp.CallToolResult {
			if len(p.InputResponses) == 0 {
				return ask("", requests())
			}
			return done("%s", text(p))
		})
	}
	person := func() mcp.InputRequestMap { return mcp.InputRequestMap{"person": form("What is your name?")} }
	capital := func() mcp.InputRequestMap {
		return mcp.InputRequestMap{"capital": prompt("What is the capital of France?")}
	}
	roots := func() mcp.InputRequestMap { return mcp.InputRequestMap{"roots": &mcp.ListRootsParams{}} }
	once("t_elicit", person, func(p *mcp.CallToolParamsRaw) string { return fmt.Sprintf("Hello, %s.", name(p, "person")) })
	once("t_sample", capital, func(p *mcp.CallToolParamsRaw) string { return "The model says: " + said(p, "capital") })
	once("t_roots", roots, func(p *mcp.CallToolParamsRaw) string { return "Roots: " + root(p, "roots") })
	once("t_three", func() mcp.InputRequestMap {
		all := person()
		maps.Copy(all, capital())
		maps.Copy(all, roots())
		return all
	}, func(p *mcp.CallToolParamsRaw) string {
		return fmt.Sprintf("%s, %s, %s", name(p, "person"), said(p, "capital"), root(p, "roots"))
	})
	tool("t_rounds", func(p *mcp.CallToolParamsRaw) *mcp.CallToolResult {
		var state struct{ Name, City string }
		if p.RequestState != "" {
			if err := json.Unmarshal([]byte(p.RequestState), &state); err != nil {
				res := new(mcp.CallToolResult)
				res.SetError(err)
				return res
			}
		}
		var requests mcp.InputRequestMap
		if signer := name(p, "signer"); signer != "" {
			return done("%s of %s, signed %s", state.Name, state.City, signer)
		} else if state.City = said(p, "city"); state.City != "" {
			requests = mcp.InputRequestMap{"signer": form(fmt.Sprintf("%s of %s: who signs?", state.Name, state.City))}
		} else if state.Name = name(p, "person"); state.Name != "" {
			requests = mcp.InputRequestMap{"city": prompt("Where does " + state.Name + " live?")}
		} else {
			requests = mcp.InputRequestMap{"person": form("What is your name?")}
		}
		data, _ := json.Marshal(state) // of strings, which cannot fail
		return ask(string(data), requests)
	})
	tool("t_state", func(p *mcp.CallToolParamsRaw) *mcp.CallToolResult {
		if p.RequestState == "" {
			// Only an empty map makes the SDK say input_required: without it the result
			// goes out as complete, with a requestState.
			return ask("busy", mcp.InputRequestMap{})
		}
		return done("served the second time")
	})
	tool("t_decline", func(p *mcp.CallToolParamsRaw) *mcp.CallToolResult {
		if len(p.InputResponses) == 0 {
			return ask("", mcp.InputRequestMap{"person": form("Delete everything? Sign with your name.")})
		}
		if res, ok := p.InputResponses["person"].(*mcp.ElicitResult); ok && res.Action == "decline" {
			return done("Nothing was deleted.")
		}
		return done("Deleted for %s", name(p, "person"))
	})
	return s
}

func ask(state string, requests mcp.InputRequestMap) *mcp.CallToolResult {
	return &mcp.CallToolResult{InputRequests: requests, RequestState: state}
}

func done(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

func form(message string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: &jsonschema.Schema{
		Type:       "object",
		Properties: map[string]*jsonschema.Schema{"name": {Type: "string"}},
		Required:   []string{"name"},
	}}
}

func prompt(text string) *mcp.CreateMessageParams {
	return &mcp.CreateMessageParams{
		MaxTokens: 100,
		Messages:  []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}},
	}
}

// name is the name in the answer to a form, or empty.
func name(p *mcp.CallToolParamsRaw, key string) string {
	if res, ok := p.InputResponses[key].(*mcp.ElicitResult); ok {
		name, _ := res.Content["name"].(string)
		return name
	}
	return ""
}

// said is the text in the answer of a model, or empty.
func said(p *mcp.CallToolParamsRaw, key string) string {
	if res, ok := p.InputResponses[key].(*mcp.CreateMessageWithToolsResult); ok && len(res.Content) > 0 {
		if text, ok := res.Content[0].(*mcp.TextContent); ok {
			return text.Text
		}
	}
	return ""
}

// root is the first root in an answer, or empty.
func root(p *mcp.CallToolParamsRaw, key string) string {
	if res, ok := p.InputResponses[key].(*mcp.ListRootsResult); ok && len(res.Roots) > 0 {
		return res.Roots[0].URI
	}
	return ""
}
