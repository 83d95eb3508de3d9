package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// newServer has the tools in the SDK's style for Multi Round-Trip Requests: a handler
// returns InputRequests and a RequestState, and is called again with the answers. A
// real server would also sign the state.
func newServer() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "gosdk", Version: "1.0.0"}, nil)
	tool := func(name string, run func(p *mcp.CallToolParamsRaw) *mcp.CallToolResult) {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(_ context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			return run(req.Params), nil, nil
		})
	}
	tool("t_elicit", func(p *mcp.CallToolParamsRaw) *mcp.CallToolResult {
		if len(p.InputResponses) == 0 {
			return ask("", mcp.InputRequestMap{"person": form("What is your name?")})
		}
		return done("Hello, %s.", name(p, "person"))
	})
	tool("t_sample", func(p *mcp.CallToolParamsRaw) *mcp.CallToolResult {
		if len(p.InputResponses) == 0 {
			return ask("", mcp.InputRequestMap{"capital": prompt("What is the capital of France?")})
		}
		return done("The model says: %s", said(p, "capital"))
	})
	tool("t_roots", func(p *mcp.CallToolParamsRaw) *mcp.CallToolResult {
		if len(p.InputResponses) == 0 {
			return ask("", mcp.InputRequestMap{"roots": &mcp.ListRootsParams{}})
		}
		return done("Roots: %s", root(p, "roots"))
	})
	tool("t_three", func(p *mcp.CallToolParamsRaw) *mcp.CallToolResult {
		if len(p.InputResponses) == 0 {
			return ask("", mcp.InputRequestMap{
				"person":  form("What is your name?"),
				"capital": prompt("What is the capital of France?"),
				"roots":   &mcp.ListRootsParams{},
			})
		}
		return done("%s, %s, %s", name(p, "person"), said(p, "capital"), root(p, "roots"))
	})
	tool("t_rounds", func(p *mcp.CallToolParamsRaw) *mcp.CallToolResult {
		var state struct{ Name, City string }
		if p.RequestState != "" {
			if err := json.Unmarshal([]byte(p.RequestState), &state); err != nil {
				return failed(err)
			}
		}
		next := func(requests mcp.InputRequestMap) *mcp.CallToolResult {
			data, err := json.Marshal(state)
			if err != nil {
				return failed(err)
			}
			return ask(string(data), requests)
		}
		if answer := name(p, "signer"); answer != "" {
			return done("%s of %s, signed %s", state.Name, state.City, answer)
		}
		if state.City = said(p, "city"); state.City != "" {
			return next(mcp.InputRequestMap{"signer": form(fmt.Sprintf("%s of %s: who signs?", state.Name, state.City))})
		}
		if state.Name = name(p, "person"); state.Name != "" {
			return next(mcp.InputRequestMap{"city": prompt("Where does " + state.Name + " live?")})
		}
		return next(mcp.InputRequestMap{"person": form("What is your name?")})
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

func failed(err error) *mcp.CallToolResult {
	var res mcp.CallToolResult
	res.SetError(err)
	return &res
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
