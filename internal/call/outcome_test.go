package call_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

const info = `{"io.modelcontextprotocol/serverInfo":{"name":"s"}}`

// An outcome is encoded as its revision has it: a modern one says its type and who answers.
func TestOutcomesAreEncoded(t *testing.T) {
	where := question.Roots()
	where.Wire = "where"
	roots := []*question.Question{where}
	expires := time.Date(2026, 7, 28, 12, 0, 0, 5, time.FixedZone("", 3600))
	meta := text("a")
	meta.Meta = mcp.Meta{"own": 1, "io.modelcontextprotocol/serverInfo": "mine"}
	failed := text("no")
	failed.IsError = true
	for _, test := range []struct {
		says   string
		out    call.Outcome
		modern string
		legacy string // in a session; not encoded if empty
	}{
		{
			says: "text", out: call.Outcome{Result: text("a\n\u2028")},
			modern: `{"resultType":"complete","_meta":` + info +
				`,"isError":false,"content":[{"type":"text","text":"a\n\u2028"}]}`,
		},
		{
			says: "an error", out: call.Outcome{Result: failed},
			modern: `{"resultType":"complete","_meta":` + info + `,"content":[{"type":"text","text":"no"}],"isError":true}`,
		},
		{
			says: "the handler's _meta", out: call.Outcome{Result: meta},
			modern: `{"resultType":"complete","_meta":{"own":1,"io.modelcontextprotocol/serverInfo":"mine"},` +
				`"isError":false,"content":[{"type":"text","text":"a"}]}`,
		},
		{
			says:   "a prompt",
			out:    call.Outcome{Result: &mcp.GetPromptResult{Description: "d", Messages: []*mcp.PromptMessage{}}},
			modern: `{"resultType":"complete","_meta":` + info + `,"description":"d","messages":[]}`,
		},
		{
			says: "a question", out: call.Outcome{Questions: roots, State: "s", Expires: expires},
			modern: `{"resultType":"input_required","inputRequests":{"where":{"method":"roots/list","params":{}}},` +
				`"requestState":"s","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"},` +
				`"` + wire.MetaExpires + `":"2026-07-28T11:00:00Z"}}`,
		},
		{
			says: "a question in the manual style", out: call.Outcome{Questions: roots, Meta: mcp.Meta{"own": 1}},
			modern: `{"resultType":"input_required","inputRequests":{"where":{"method":"roots/list","params":{}}},` +
				`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s"},"own":1}}`,
			legacy: `{"resultType":"input_required","inputRequests":{"where":{"method":"roots/list","params":{}}},` +
				`"_meta":{"own":1}}`,
		},
		{says: "encoded", out: call.Outcome{Encoded: []byte(`{"x":1}`)}, modern: `{"x":1}`, legacy: `{"x":1}`},
	} {
		for want, info := range map[string][]byte{test.modern: []byte(info), test.legacy: nil} {
			if want == "" {
				continue
			}
			got, err := test.out.AppendResult([]byte("prefix"), info)
			if err != nil || !strings.HasPrefix(string(got), "prefix") {
				t.Errorf("%s: %s, %v", test.says, got, err)
			}
			expect.Diff(t, test.says, decoded(t, []byte(want)), decoded(t, got[len("prefix"):]))
			if most := test.out.Size(info); len(got) > 2*most {
				t.Errorf("%s: %d bytes, and an estimate of %d", test.says, len(got), most)
			}
		}
	}
	task := &call.Outcome{Task: &call.Task{Task: wire.Task{ID: "7", Status: "working"}, Extension: true}}
	if got, err := task.AppendResult(nil, []byte(info)); err != nil || decoded(t, got)["taskId"] != "7" {
		t.Errorf("a task: %s, %v", got, err)
	}
	if meta.Meta["own"] != 1 || len(meta.Meta) != 2 {
		t.Errorf("the handler's result was changed: %v", meta.Meta)
	}
}

func decoded(t *testing.T, data []byte) (object map[string]any) {
	t.Helper()
	if err := json.Unmarshal(data, &object); err != nil {
		t.Fatalf("%s: %v", data, err)
	}
	return object
}

// Results that are nothing but text are encoded without the SDK, to the same bytes.
func TestTextIsEncodedAsTheSDKDoes(t *testing.T) {
	failed := text("no")
	failed.IsError = true
	annotated := text("a")
	annotated.Content[0].(*mcp.TextContent).Annotations = &mcp.Annotations{Priority: 1}
	structured := text("a")
	structured.StructuredContent = map[string]int{"b": 1}
	named := text("a")
	named.Content[0].(*mcp.TextContent).Meta = mcp.Meta{"k": "v"}
	asks := text("a")
	asks.InputRequests = mcp.InputRequestMap{"r": &mcp.ListRootsParams{}}
	two := text(`<&> "quoted" \ ` + "\x00\u2028é😀")
	two.Content = append(two.Content, &mcp.TextContent{Text: ""})
	for _, result := range []*mcp.CallToolResult{
		text(""), failed, annotated, named, structured, asks, two, {}, {Content: []mcp.Content{}},
		{Content: []mcp.Content{&mcp.ImageContent{Data: []byte{1}, MIMEType: "image/png"}}},
	} {
		got, err := (&call.Outcome{Result: result}).AppendResult(nil, []byte(info))
		expect.Check(t, err)
		encoded, members, err := call.EncodeResult(result)
		expect.Check(t, err)
		want := wire.Complete(nil, encoded, []byte(info), members)
		if diff := cmp.Diff(decoded(t, want), decoded(t, got)); diff != "" {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// What is not JSON is an error, and not half a result.
func TestResultsThatAreNotJSON(t *testing.T) {
	bad := text("a")
	bad.StructuredContent = func() {}
	badMeta := text("a")
	badMeta.Meta = mcp.Meta{"f": func() {}}
	for _, out := range []call.Outcome{
		{Result: bad}, {Result: badMeta}, {Questions: []*question.Question{}, Meta: mcp.Meta{"f": func() {}}},
	} {
		if got, err := out.AppendResult(nil, []byte(info)); err == nil {
			t.Errorf("encoded as %s", got)
		}
	}
}

// A handler is found by its method and target, and a resource before the templates that match its URI.
func TestRegistry(t *testing.T) {
	g := new(call.Registry)
	if g.Lookup(wire.CallTool, "x") != nil || g.Lookup(wire.ReadResource, "x") != nil || g.Template("x*") != nil {
		t.Error("an empty registry has handlers")
	}
	add := func(method, target, prefix string) *call.Handler {
		h := &call.Handler{Method: method}
		if prefix != "" {
			h.Template = prefix + "*"
			h.Matches = func(uri string) bool { return strings.HasPrefix(uri, prefix) }
		}
		g.Add(h, target)
		return h
	}
	first, tool, prompt := add(wire.CallTool, "x", ""), add(wire.CallTool, "x", ""), add(wire.GetPrompt, "x", "")
	resource := add(wire.ReadResource, "a:1", "")
	template, replaced := add(wire.ReadResource, "", "a:"), add(wire.ReadResource, "", "a:")
	for _, test := range []struct {
		says      string
		got, want *call.Handler
	}{
		{"the tool that was added last", g.Lookup(wire.CallTool, "x"), tool},
		{"a prompt of the same name", g.Lookup(wire.GetPrompt, "x"), prompt},
		{"a resource", g.Lookup(wire.ReadResource, "a:1"), resource},
		{"a template", g.Lookup(wire.ReadResource, "a:2"), replaced},
		{"a template by its text", g.Template("a:*"), replaced},
		{"nothing", g.Lookup(wire.ReadResource, "b:2"), nil},
	} {
		if test.got != test.want || test.got != nil && (test.got == first || test.got == template) {
			t.Errorf("%s: %+v", test.says, test.got)
		}
	}
	g.Remove(wire.CallTool, "x", "unknown")
	g.Remove(wire.ReadResource, "a:1")
	if g.Lookup(wire.CallTool, "x") != nil || g.Lookup(wire.GetPrompt, "x") != prompt ||
		g.Lookup(wire.ReadResource, "a:1") != replaced {
		t.Error("removed wrongly")
	}
	if g.RemoveTemplates("a:*"); g.Lookup(wire.ReadResource, "a:1") != nil {
		t.Error("the template is still there")
	}
}
