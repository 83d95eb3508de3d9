package call_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

// seen is what a handler in the SDK's manual style finds in its request.
type seen struct {
	State, Target string
	Responses     []string // their keys
}

func look(view mcp.Request) (s seen) {
	var responses mcp.InputResponseMap
	switch r := view.(type) {
	case *mcp.CallToolRequest:
		s.State, s.Target, responses = r.Params.RequestState, r.Params.Name, r.Params.InputResponses
	case *mcp.GetPromptRequest:
		s.State, s.Target, responses = r.Params.RequestState, r.Params.Name, r.Params.InputResponses
	case *mcp.ReadResourceRequest:
		s.State, s.Target, responses = r.Params.RequestState, r.Params.URI, r.Params.InputResponses
	}
	s.Responses = slices.Sorted(maps.Keys(responses))
	return s
}

// asking returns a result in the manual style, of the type that the method has.
func asking(method, state string, keys ...string) mcp.Result {
	requests := make(mcp.InputRequestMap)
	for _, key := range keys {
		requests[key] = &mcp.ElicitParams{Mode: "form", Message: "Who?"}
	}
	switch method {
	case wire.CallTool:
		return &mcp.CallToolResult{InputRequests: requests, RequestState: state}
	case wire.GetPrompt:
		return &mcp.GetPromptResult{InputRequests: requests, RequestState: state}
	default:
		return &mcp.ReadResourceResult{InputRequests: requests, RequestState: state}
	}
}

// A handler in the SDK's manual style gets back its state and the answers to what it asked in the round before,
// whatever else the client sends.
func TestTheManualStyle(t *testing.T) {
	for method, raw := range map[string]string{
		wire.CallTool:     `{"name":"x","arguments":{"Name":1},"Name":"y"}`,
		wire.GetPrompt:    `{"name":"x","arguments":{"a":"b"}}`,
		wire.ReadResource: `{"uri":"x"}`,
	} {
		s, m := newServer(), newMemory()
		var saw []seen
		serve := func(result mcp.Result, answers call.Answers) string {
			r := tool(func(_ context.Context, c *call.Call) (mcp.Result, error) {
				saw = append(saw, look(c.View()))
				return result, nil
			})
			r.Handler.Method, r.Raw = method, []byte(raw)
			m.Answers = answers
			return ended(s.Serve(t.Context(), r, m))
		}
		answers := call.Answers{Responses: map[string][]byte{
			"a": []byte(accept("x")), "other": []byte(accept("y")), "b": []byte(`{"unknown":1}`)}}
		expect.Equal(t, method, serve(asking(method, "first", "b", "a"), answers), "asks a b")
		if !m.Journal.IsManual() || m.Journal.Round != 1 || m.Journal.Manual != "first" {
			t.Errorf("%s: the journal is %+v", method, m.Journal)
		}
		expect.Equal(t, method, serve(asking(method, "second"), answers), "asks")
		expect.Equal(t, method, serve(text("done"), answers), "done")
		want := []seen{{"", "x", nil}, {"first", "x", []string{"a"}}, {"second", "x", nil}}
		expect.Diff(t, method, want, saw)
		s.told(t, "1 asked a", "1 asked b", "2 answered aaccept", "3 ended completed")

		// Answers without a state are given to the handler whatever their keys are.
		m, saw = newMemory(), nil
		answers.Bare = true
		serve(text("done"), answers)
		expect.Diff(t, method, []seen{{"", "x", []string{"a", "other"}}}, saw)
	}
}

// What a handler in the manual style asks is bounded, and checked as far as its client cannot do it.
func TestTheManualStyleIsBounded(t *testing.T) {
	roots := &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"r": &mcp.ListRootsParams{}}}
	for _, test := range []struct {
		says   string
		result mcp.Result
		round  int
		want   string
		told   string
	}{
		{"questions", asking(wire.CallTool, "", "a", "b", "c", "d"), 0,
			"-32603 the limit of 3 questions per round is reached", "1 ended limit"},
		{"as many questions as there may be", asking(wire.CallTool, "", "a", "b", "c"), 0, "asks a b c", ""},
		{"rounds", asking(wire.CallTool, "s"), 5, "-32603 the limit of 5 rounds per call is reached", "6 ended limit"},
		{"a capability", roots, 0, "-32021 ", "1 ended capability"},
		{"nothing", &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"r": nil}}, 0,
			`-32603 input request "r": `, "1 ended failed"},
	} {
		s, m := newServer(), newMemory()
		m.Journal.Round = test.round
		r := tool(func(context.Context, *call.Call) (mcp.Result, error) { return test.result, nil })
		if got := ended(s.Serve(t.Context(), r, m)); !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %q, want %q", test.says, got, test.want)
		}
		if test.says == "as many questions as there may be" {
			s.told(t, "1 asked a", "1 asked b", "1 asked c")
		} else {
			s.told(t, test.told)
		}
	}
}

// The view of a request is by exact names, and leaves out what does not decode.
func TestViews(t *testing.T) {
	raw := []byte(`{"name":"n","uri":"u","Name":"N","arguments":{"a":"b"},"_meta":{"k":"v"}}`)
	m := call.Manual{State: "s", Responses: map[string][]byte{"a": []byte(accept("x")), "b": []byte(`[]`), "c": nil}}
	for method, want := range map[string]string{
		wire.CallTool:     `{"_meta":{"k":"v"},"name":"n","arguments":{"a":"b"},"inputResponses":["a"],"requestState":"s"}`,
		wire.GetPrompt:    `{"_meta":{"k":"v"},"name":"n","arguments":{"a":"b"},"inputResponses":["a"],"requestState":"s"}`,
		wire.ReadResource: `{"_meta":{"k":"v"},"uri":"u","inputResponses":["a"],"requestState":"s"}`,
	} {
		view := call.View(method, raw, nil, nil, m)
		data := expect.Must(json.Marshal(view.GetParams()))(t)
		var got, wanted map[string]any
		expect.Check(t, json.Unmarshal(data, &got))
		expect.Check(t, json.Unmarshal([]byte(want), &wanted))
		if responses, ok := got["inputResponses"].(map[string]any); ok {
			got["inputResponses"] = []any{}
			for key := range responses {
				got["inputResponses"] = append(got["inputResponses"].([]any), key)
			}
		}
		expect.Diff(t, method, wanted, got)
	}
	if (call.Manual{}).Typed() != nil {
		t.Error("no responses are some")
	}
	// A front may make the view itself.
	r := tool(func(_ context.Context, c *call.Call) (mcp.Result, error) { return text(look(c.View()).State), nil })
	r.As = func(m call.Manual) mcp.Request {
		return &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{RequestState: m.State + "!"}}
	}
	m2 := newMemory()
	m2.Journal = &journal.Journal{ID: "secret", Manual: "s"}
	if got := ended(newServer().Serve(t.Context(), r, m2)); got != "s!" {
		t.Errorf("got %q", got)
	}
	r.Handler.Invoke = func(_ context.Context, c *call.Call, _ *wire.Params) (mcp.Result, error) {
		c.SetView(&mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{RequestState: "set"}})
		return text(look(c.View()).State), nil
	}
	if got := ended(newServer().Serve(t.Context(), r, newMemory())); got != "set" {
		t.Errorf("got %q", got)
	}
}
