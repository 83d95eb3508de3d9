package askback_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// The type that a handler returns decides what the client gets and which schema the tool has.
func TestWhatAHandlerReturns(t *testing.T) {
	type point struct {
		X int `json:"x"`
	}
	schema := json.RawMessage(`{"type":"object","properties":{"x":{"type":"integer","maximum":9},` +
		`"y":{"type":"integer","default":2}},"required":["x"]}`)
	words := []mcp.Content{&mcp.TextContent{Text: "in words"}}
	const (
		object = `{"type":"object","required":["x"],"properties":{"x":{"type":"integer"}},"additionalProperties":false}`
		text   = `"content":[{"type":"text","text":%q}]`
	)
	returns := map[string]struct {
		add    func(srv *askback.Server, t *mcp.Tool)
		schema string // the tool's output schema; empty means none
		own    any    // the author's output schema
		want   string // members of the result
	}{
		"a struct": {add: returning(point{1}), schema: object,
			want: fmt.Sprintf(text, `{"x":1}`) + `,"structuredContent":{"x":1}`},
		"a pointer": {add: returning(&point{1}), schema: object,
			want: fmt.Sprintf(text, `{"x":1}`) + `,"structuredContent":{"x":1}`},
		"a nil pointer": {add: returning[*point](nil), schema: object,
			want: fmt.Sprintf(text, `{"x":0}`) + `,"structuredContent":{"x":0}`},
		"a map": {add: returning(map[string]bool{"a": true}),
			schema: `{"type":"object","additionalProperties":{"type":"boolean"}}`, want: fmt.Sprintf(text, `{"a":true}`) +
				`,"structuredContent":{"a":true}`},
		"a slice": {add: returning([]int{1, 2}), schema: `{"type":["null","array"],"items":{"type":"integer"}}`,
			want: fmt.Sprintf(text, `[1,2]`) + `,"structuredContent":[1,2]`},
		"a string":        {add: returning("hello"), want: fmt.Sprintf(text, "hello")},
		"an empty string": {add: returning(""), want: fmt.Sprintf(text, "")},
		"a whole result": {add: returning(&mcp.CallToolResult{Content: words, IsError: true}),
			want: fmt.Sprintf(text, "in words") + `,"isError":true`},
		"no whole result": {add: returning[*mcp.CallToolResult](nil), want: `"content":[]`},
		"any string":      {add: returning[any]("hello"), want: fmt.Sprintf(text, "hello")},
		"any struct": {add: returning[any](point{1}),
			want: fmt.Sprintf(text, `{"x":1}`) + `,"structuredContent":{"x":1}`},
		"any number": {add: returning[any](7), want: fmt.Sprintf(text, `7`) + `,"structuredContent":7`},
		"any whole result": {add: returning[any](&mcp.CallToolResult{Content: words}),
			want: fmt.Sprintf(text, "in words")},
		"any nil":        {add: returning[any](nil), want: `"content":[]`},
		"any nil result": {add: returning[any]((*mcp.CallToolResult)(nil)), want: `"content":[]`},
		"any, with a schema": {add: returning[any](point{1}), own: schema, schema: string(schema),
			want: fmt.Sprintf(text, `{"x":1,"y":2}`) + `,"structuredContent":{"x":1,"y":2}`},
		"unlike the schema":   {add: returning[any](point{10}), own: schema, schema: string(schema)},
		"a struct, unlike it": {add: returning(point{10}), own: schema, schema: string(schema)},
		"whole, with structured content": {
			add:  returning(&mcp.CallToolResult{Content: words, StructuredContent: []int{1}}),
			want: fmt.Sprintf(text, "in words") + `,"structuredContent":[1]`,
		},
		"whole, with structured content alone": {
			add:  returning(&mcp.CallToolResult{StructuredContent: point{1}}),
			want: fmt.Sprintf(text, `{"x":1}`) + `,"structuredContent":{"x":1}`,
		},
		"whole, like the schema": {
			add: returning(&mcp.CallToolResult{Content: words,
				StructuredContent: point{1}}), own: schema, schema: string(schema),
			want: fmt.Sprintf(text, "in words") + `,"structuredContent":{"x":1,"y":2}`,
		},
		"whole, unlike the schema": {
			add: returning(&mcp.CallToolResult{Content: words,
				StructuredContent: point{10}}), own: schema, schema: string(schema),
		},
		"a whole error, unlike the schema": {
			add: returning(&mcp.CallToolResult{Content: words, StructuredContent: point{10},
				IsError: true}), own: schema, schema: string(schema),
			want: fmt.Sprintf(text, "in words") + `,"isError":true,"structuredContent":{"x":10}`,
		},
	}
	h := harness.NewServer(t, nil, func(srv *askback.Server) {
		for name, test := range returns {
			test.add(srv, &mcp.Tool{Name: name, OutputSchema: test.own})
		}
	}).HTTPHandler(nil)

	body := `{"jsonrpc":"2.0","id":1,"method":"tools/list",` +
		`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{}}}}`
	var listed struct {
		Result struct {
			Tools []struct {
				Name         string `json:"name"`
				OutputSchema any    `json:"outputSchema"`
			} `json:"tools"`
		} `json:"result"`
	}
	list := harness.Request{Method: "tools/list", Body: body}.Send(t, h)
	_, data, _ := strings.Cut(list.Raw, "data: ") // the SDK answers with an event
	if err := json.Unmarshal([]byte(data), &listed); err != nil || len(listed.Result.Tools) != len(returns) {
		t.Fatalf("tools/list: %v, %s", err, list.Raw)
	}
	for _, tool := range listed.Result.Tools {
		wanted := returns[tool.Name].schema
		if wanted == "" {
			wanted = "null"
		}
		if diff := cmp.Diff(decoded(t, wanted), tool.OutputSchema); diff != "" {
			t.Errorf("output schema of %s (-want +got):\n%s", tool.Name, diff)
		}
	}

	for name, test := range returns {
		res := harness.Request{Target: name}.Send(t, h)
		if test.want == "" {
			expect.Contains(t, name, res.Refused(t, 200, -32603), "does not fit its schema")
			continue
		}
		got, _ := decoded(t, res.Raw).(map[string]any)["result"].(map[string]any)
		delete(got, "_meta")
		want, _ := decoded(t, `{"resultType":"complete","isError":false,`+test.want+`}`).(map[string]any)
		expect.Diff(t, name, want, got)
	}
}

// returning adds a tool that returns this value.
func returning[Out any](out Out) func(*askback.Server, *mcp.Tool) {
	return func(srv *askback.Server, tool *mcp.Tool) {
		askback.AddTool(srv, tool, func(context.Context, *askback.Call, struct{}) (Out, error) { return out, nil })
	}
}

func decoded(t *testing.T, doc string) (value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(doc), &value); err != nil {
		t.Fatalf("%v in %s", err, doc)
	}
	return value
}

// A result that all calls share is not modified.
func TestAWholeResultIsNotModified(t *testing.T) {
	shared := &mcp.CallToolResult{StructuredContent: map[string]int{"n": 1}}
	h := harness.NewServer(t, nil, func(srv *askback.Server) {
		returning(shared)(srv,
			&mcp.Tool{Name: "t"})
	}).HTTPHandler(nil)
	for range 2 {
		expect.Equal(t, "the result", (harness.Request{Target: "t"}).Send(t, h).Text(t), `{"n":1}`)
	}
	if !reflect.DeepEqual(shared, &mcp.CallToolResult{StructuredContent: map[string]int{"n": 1}}) {
		t.Errorf("the shared result is now %+v", shared)
	}
}

// A text cannot match an output schema, so adding such a tool panics.
func TestAStringHasNoOutputSchema(t *testing.T) {
	defer func() {
		expect.Contains(t, "panic", fmt.Sprint(recover()), `AddTool "t": output schema: a handler that returns a string`)
	}()
	harness.NewServer(t, nil, func(srv *askback.Server) {
		returning("hello")(srv, &mcp.Tool{Name: "t", OutputSchema: map[string]any{"type": "object"}})
	})
}

// The three results of a handler that was written for the SDK have the same meaning here.
func TestWhatAnInlineHandlerReturns(t *testing.T) {
	type point struct {
		X int `json:"x"`
	}
	words := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "in words"}}}
	own := &mcp.CallToolResult{Content: words.Content, StructuredContent: point{10}}
	register := func(srv *askback.Server) {
		askback.AddInlineTool(srv, &mcp.Tool{Name: "a string"},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, string, error) {
				return nil, "hello", nil
			})
		askback.AddInlineTool(srv, &mcp.Tool{Name: "both"},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, point, error) {
				return words, point{1}, nil
			})
		schema := json.RawMessage(`{"type":"object","properties":{"x":{"type":"integer","maximum":9}}}`)
		askback.AddInlineTool(srv, &mcp.Tool{Name: "whole", OutputSchema: schema},
			func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
				return own, nil, nil
			})
	}
	h := harness.NewServer(t, nil, register).HTTPHandler(nil)
	for tool, want := range map[string]string{
		"a string": `"content":[{"type":"text","text":"\"hello\""}],"structuredContent":"hello"`,
		"both":     `"content":[{"type":"text","text":"in words"}],"structuredContent":{"x":1}`,
		"whole":    `"content":[{"type":"text","text":"in words"}],"structuredContent":{"x":10}`, // the SDK leaves it alone
	} {
		got, _ := decoded(t, harness.Request{Target: tool}.Send(t, h).Raw).(map[string]any)["result"].(map[string]any)
		delete(got, "_meta")
		wanted, _ := decoded(t, `{"resultType":"complete","isError":false,`+want+`}`).(map[string]any)
		expect.Diff(t, tool, wanted, got)
	}
}

func TestStructuredOutput(t *testing.T) {
	type out struct {
		N int `json:"n"`
	}
	h := harness.NewServer(t, nil, harness.AddTool("s",
		func(ctx context.Context, call *askback.Call, _ struct{}) (out, error) {
			_, err := askback.Elicit[harness.Login](call, "login", "?")
			return out{7}, err
		})).HTTPHandler(nil)
	r := harness.Request{Target: "s"}
	r.State = r.Send(t, h).Asked(t, "login")
	r.Responses = harness.Octocat
	if res := r.Send(t, h); !strings.Contains(res.Raw, `"structuredContent":{"n":7}`) || res.Text(t) != `{"n":7}` {
		t.Errorf("got %s", res.Raw)
	}
}

func TestArgumentDefaultsAndExactNumbers(t *testing.T) {
	type in struct {
		Big  int64  `json:"big"`
		Mode string `json:"mode,omitempty"`
	}
	h := harness.NewServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "d",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"big":{"type":"integer"},"mode":{"type":"string",` +
				`"default":"fast"}}}`)},
			func(ctx context.Context, call *askback.Call, in in) (string, error) {
				return fmt.Sprint(in.Big, in.Mode), nil
			})
	}).HTTPHandler(nil)
	expect.Equal(t, "the result",
		(harness.Request{Target: "d", Arguments: `{"big":9007199254740993}`}).Send(t, h).Text(t), "9007199254740993fast")
	// A name in another case is another member, so it cannot bypass the schema.
	expect.Equal(t, "the result",
		(harness.Request{Target: "d", Arguments: `{"BIG":1,"MODE":"slow"}`}).Send(t, h).Text(t), "0fast")
}

func TestAnyFieldsAreSchemas(t *testing.T) {
	type in struct {
		V any            `json:"v"`
		M map[string]any `json:"m"`
	}
	h := harness.NewServer(t, nil, harness.AddTool("any",
		func(ctx context.Context, call *askback.Call, in in) (string, error) {
			return fmt.Sprint(in.V), nil
		})).HTTPHandler(nil)
	expect.Equal(t, "the result", (harness.Request{Target: "any", Arguments: `{"v":"x","m":{}}`}).Send(t, h).Text(t),
		"x")
}

func TestBadArgumentsAreAToolError(t *testing.T) {
	h := harness.NewServer(t, nil, harness.AddGreet).HTTPHandler(nil)
	for _, arguments := range []string{`{}`, `{"place":1}`, `{"place":"x","more":1}`, ``} {
		res := harness.Request{Target: "greet", Arguments: arguments}.Send(t, h)
		if res.Result == nil || !res.Result.IsError || res.Status != 200 {
			t.Errorf("%s: %s", arguments, res.Raw)
		}
	}
}

// A result has the _meta of its handler beside the server's name. Where both have a member, the handler's counts. What
// the handler returned is not modified.
func TestMetaOfAResult(t *testing.T) {
	own := func() mcp.Meta {
		return mcp.Meta{"example.com/own": 1, "io.modelcontextprotocol/serverInfo": map[string]any{"name": "other"}}
	}
	tool, prompt, resource := &mcp.CallToolResult{Meta: own()}, &mcp.GetPromptResult{Meta: own()},
		&mcp.ReadResourceResult{Meta: own()}
	h := harness.NewServer(t, nil, func(srv *askback.Server) {
		returning(tool)(srv, &mcp.Tool{Name: "t"})
		returning(&mcp.CallToolResult{Meta: mcp.Meta{"example.com/own": 1}})(srv, &mcp.Tool{Name: "unnamed"})
		srv.AddPrompt(&mcp.Prompt{Name: "p"},
			func(context.Context, *askback.Call, map[string]string) (*mcp.GetPromptResult, error) {
				return prompt, nil
			})
		srv.AddResource(&mcp.Resource{Name: "r", URI: "test:r"},
			func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) {
				return resource, nil
			})
	}).HTTPHandler(nil)
	for _, test := range []struct{ method, target, name string }{
		{"tools/call", "t", "other"}, {"tools/call", "unnamed", "test"}, {"prompts/get", "p", "other"}, {"resources/read",
			"test:r", "other"},
	} {
		for range 2 {
			res := harness.Request{Method: test.method, Target: test.target}.Send(t, h)
			if res.Result == nil || string(res.Result.Meta["example.com/own"]) != "1" ||
				!strings.Contains(string(res.Result.Meta["io.modelcontextprotocol/serverInfo"]), `"`+test.name+`"`) {
				t.Errorf("%s: %s", test.method, res.Raw)
			}
		}
	}
	for _, meta := range []mcp.Meta{tool.Meta, prompt.Meta, resource.Meta} {
		if !reflect.DeepEqual(meta, own()) {
			t.Errorf("the handler's _meta is now %v", meta)
		}
	}
}

// Structured content that does not fit the tool's schema is the server's fault, and is not sent.
func TestOutputThatDoesNotFitItsSchema(t *testing.T) {
	tool := func(name string) *mcp.Tool {
		return &mcp.Tool{Name: name, OutputSchema: json.RawMessage(`{"type":"object",` +
			`"properties":{"n":{"type":"integer"}},"required":["n"]}`)}
	}
	h := harness.NewServer(t, nil, func(srv *askback.Server) {
		returning(map[string]any{"n": "secret"})(srv, tool("map"))
		returning(map[string]any{})(srv, tool("empty"))
		returning(map[string]any{"n": func() {}})(srv, tool("function"))
		returning(map[string]any{"n": 1})(srv, tool("fit"))
	}).HTTPHandler(nil)
	for name, want := range map[string]string{"map": "does not fit its schema", "empty": "does not fit its schema",
		"function": "cannot be encoded"} {
		res := harness.Request{Target: name}.Send(t, h)
		if message := res.Refused(t, 200, -32603); !strings.Contains(message, want) {
			t.Errorf("%s: %s", name, res.Raw)
		}
	}
	expect.Equal(t, "the result", (harness.Request{Target: "fit"}).Send(t, h).Text(t), `{"n":1}`)
}

// A mistake in the tags of arguments or of a form is told when the program starts, with the way out.
func TestMistakesInTags(t *testing.T) {
	type arguments struct {
		Name string `json:"name" maxLength:"3"`
	}
	type answer struct {
		Name string `json:"name" maxLenght:"3"`
	}
	srv := harness.NewServer(t, nil)
	for want, add := range map[string]func(){
		`AddTool "t": input schema: field askback_test.arguments.Name: no tag is called maxLength; there are json, ` +
			`jsonschema, for its description; set the tool's InputSchema for more`: func() {
			askback.AddTool(srv, &mcp.Tool{Name: "t"},
				func(context.Context, *askback.Call, arguments) (string, error) { return "", nil })
		},
		`MustForm: form: field askback_test.answer.Name: ` +
			`no tag is called maxLenght; did you mean maxLength?`: askback.MustForm[answer],
		"": askback.MustForm[harness.Login],
	} {
		func() {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, want) || want == "" && got != "<nil>" {
					t.Errorf("%q, want %q", got, want)
				}
			}()
			add()
		}()
	}
}
