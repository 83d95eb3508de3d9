package bridge_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// What a server says of its prompts, resources and tools, and what they bring, reaches hosts with members that no type
// has, and with what is zero.
func TestWhatServersSayStaysAsTheyWroteIt(t *testing.T) {
	const head = `{"resultType":"complete","ttlMs":5,"cacheScope":"private",`
	evil := newHostile(t)
	says := map[string]struct {
		what, params string
		wrote        []string
	}{
		"tools/list": {"tools", `{}`, []string{
			`{"zeta":0,"name":"plain","inputSchema":{"type":"object","x-y":null},`,
			`"annotations":{"priority":0,"readOnlyHint":false}`,
			`"_meta":{"n":12345678901234567890,"com.example/a":{"b":0.10}}`}},
		"prompts/list": {"prompts", `{}`, []string{
			`{"title":"","name":"p","arguments":[{"name":"a","description":"","odd":1}],"odd":{"z":1,"a":2}}`}},
		"resources/list": {"resources", `{}`, []string{
			`{"uri":"evil://r","name":"r","size":0,"annotations":{"priority":0},"odd":[]}`}},
		"resources/templates/list": {"resourceTemplates", `{}`, []string{
			`{"uriTemplate":"evil://t/{x}","name":"t","odd":"<b>"}`}},
		"prompts/get": {"messages", `{"name":"p"}`, []string{
			`{"role":"user","content":{"type":"text","text":"","odd":0}}`}},
		"resources/read": {"contents", `{"uri":"evil://r"}`, []string{
			`{"uri":"evil://r","text":"","odd":0,"_meta":{"x":0}}`}},
	}
	for method, said := range says {
		body := strings.Join(said.wrote, "")
		if method == "tools/list" {
			body = strings.Join(said.wrote, "") + "}"
			body = strings.Replace(body, `false}"_meta"`, `false},"_meta"`, 1)
		}
		if method == "prompts/get" {
			evil.on("prompts/get p", func(json.RawMessage) string { return head + `"messages":[` + body + `],"odd":0}` })
			continue
		}
		evil.on(method, func(json.RawMessage) string { return head + `"` + said.what + `":[` + body + `],"odd":0}` })
	}
	front := newFront(t, evil.URL)
	modern := &rawclient.Client{URL: front.url}
	older := expect.Must(modern.Initialize(t.Context(), "2025-11-25"))(t)
	for version, c := range map[string]*rawclient.Client{"2026-07-28": modern, "2025-11-25": older} {
		for method, said := range says {
			var params map[string]any
			expect.Check(t, json.Unmarshal([]byte(said.params), &params))
			var got json.RawMessage
			if err := c.Call(t.Context(), method, params, &got); err != nil {
				t.Errorf("%s: %s: %v", version, method, err)
				continue
			}
			for _, want := range said.wrote {
				if !strings.Contains(string(got), want) {
					t.Errorf("%s: %s brings\n%s\nwant in it\n%s", version, method, got, want)
				}
			}
			if version == "2026-07-28" && !strings.Contains(string(got), `"resultType":"complete"`) {
				t.Errorf("%s: %s has no type", version, method)
			}
		}
	}
}

// What a server asks the model, and what the model says, pass with members that no type has, and with what is zero.
func TestSamplingPassesAsItCame(t *testing.T) {
	const (
		asks = `"messages":[{"role":"user","content":{"type":"text","text":"Hi","odd":0}}],"maxTokens":9,"temperature":0,` +
			`"odd":{"b":1,"a":0}`
		says = `{"role":"assistant","content":{"type":"text","text":"","odd":0},"model":"m","odd":0.10}`
	)
	evil, answered := newHostile(t), make(chan string, 1)
	evil.lists(`{"name":"think","inputSchema":{"type":"object"}}`)
	evil.on("tools/call think", func(params json.RawMessage) string {
		if strings.Contains(string(params), `"inputResponses"`) {
			answered <- string(params)
			return `{"resultType":"complete","content":[]}`
		}
		return `{"resultType":"input_required","requestState":"s","inputRequests":{"q":{"method":"sampling/createMessage",` +
			`"params":{` + asks + `,"_meta":{"progressToken":7}}}}}`
	})
	front := newFront(t, evil.URL)
	host := &rawclient.Client{URL: front.url, Capabilities: `{"sampling":{}}`}
	params := map[string]any{"name": "think", "arguments": map[string]any{}}
	var asked rawclient.Result
	expect.Check(t, host.Call(t.Context(), "tools/call", params, &asked))
	if got := string(asked.Requests["q"]); !strings.Contains(got, "{"+asks+"}") {
		t.Errorf("the host is asked\n%s, want\n{%s}", got, asks)
	}
	again := map[string]any{"name": "think", "arguments": map[string]any{}, "requestState": asked.State,
		"inputResponses": map[string]any{"q": json.RawMessage(says)}}
	expect.Check(t, host.Call(t.Context(), "tools/call", again, nil))
	expect.Contains(t, "the server gets", <-answered, says)
}

// What a program writes where servers of HTTP name headers is its own affair: its tool is offered as it wrote it.
func TestAnnotationsOfHeadersInAProgram(t *testing.T) {
	const schema = `{"type":"object","properties":{"a":{"type":"array",` +
		`"items":{"type":"string","x-mcp-header":"No Header"}}}}`
	m := mcp.NewServer(&mcp.Implementation{Name: "program", Version: "1"}, nil)
	m.AddTool(&mcp.Tool{Name: "odd", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return text("%s", req.Params.Arguments), nil
		})
	m.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, req)
			if list, ok := result.(*mcp.ListToolsResult); ok {
				list.Tools = []*mcp.Tool{{Name: "odd", InputSchema: json.RawMessage(schema)}}
			}
			return result, err
		}
	})
	front := newFront(t, "", func(o *bridge.Options) {
		o.Servers = []bridge.Server{{Identity: "program", Connect: func() (mcp.Transport, error) { return inMemory(m) }}}
	})
	c := &rawclient.Client{URL: front.url}
	var list json.RawMessage
	if err := c.Call(t.Context(), "tools/list", nil, &list); err != nil || !strings.Contains(string(list), schema) {
		t.Errorf("the tools are %s, %v", list, err)
	}
	var res rawclient.Result
	params := map[string]any{"name": "odd", "arguments": map[string]any{"a": []string{"x"}}}
	if err := c.Call(t.Context(), "tools/call", params, &res); err != nil || res.Text() != `{"a":["x"]}` {
		t.Errorf("got %+v, %v", res, err)
	}
}
