package sdkfront_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// hello opens a session on a pipe, and returns the result of initialize.
func hello(c *harness.Conversation) any {
	res := c.Call(1, "initialize",
		`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`, "")
	c.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return res["result"]
}

// A client learns in the terms of its revision that there are tasks, which tools take part, and, where callers can be
// told apart, that it may list its own.
func TestHowClientsLearnOfTasks(t *testing.T) {
	t.Parallel()
	alice := func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil }
	for list, opts := range map[string]*askback.Options{
		"": {}, `"list":{},`: {Principal: alice},
	} {
		opts.Tasks = &askback.Tasks{Store: new(task.MemoryStore)}
		srv := harness.NewServer(t, opts, harness.AddEcho, harness.AddGreet, harness.AddText("only",
			&askback.TaskSupport{Required: true}, func(context.Context, *askback.Call) (string, error) { return "", nil }))
		c := harness.Pipe(t, srv)
		offered, err := json.Marshal(harness.At(hello(c), "capabilities", "tasks"))
		if want := `{"cancel":{},` + list + `"requests":{"tools":{"call":{}}}}`; err != nil || string(offered) != want {
			t.Errorf("the capability is %s, want %s", offered, want)
		}
		want := map[string]any{"echo": "optional", "only": "required", "greet": nil}
		support := func(tools any) map[string]any {
			got := make(map[string]any)
			for _, tool := range tools.([]any) {
				if harness.At(tool, "inputSchema", "type") != "object" {
					t.Errorf("the tool is %v", tool)
				}
				got[harness.At(tool, "name").(string)] = harness.At(tool, "execution", "taskSupport")
			}
			return got
		}
		listed := c.Call(2, "tools/list", "", "")
		if got := support(harness.At(listed, "result", "tools")); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the tools are %v", got)
		}
		modern := harness.Pipe(t, srv)
		found := modern.Call(1, "server/discover", "", harness.WithExtension)
		if harness.At(found, "result", "capabilities", "extensions", "io.modelcontextprotocol/tasks") == nil ||
			harness.At(found, "result", "capabilities", "tasks") != nil {
			t.Errorf("a modern client finds %v", found)
		}
		none := map[string]any{"echo": nil, "only": nil, "greet": nil}
		res := modern.Call(2, "tools/list", "", harness.WithExtension)
		if got := support(harness.At(res, "result", "tools")); fmt.Sprint(got) != fmt.Sprint(none) {
			t.Errorf("a modern client's tools are %v", got)
		}
	}
}

// A session goes on after a request that is wrong before it has a handler.
func TestWrongRequestsInASession(t *testing.T) {
	t.Parallel()
	c := harness.TaskPipe(t, harness.AddEcho)
	hello(c)
	for i, wrong := range []struct{ method, params, want string }{
		{"tasks/get", `{"taskId":1}`, "taskId"},
		{"tools/call", `{"name":"echo","_meta":{"progressToken":"` + strings.Repeat("x", 2000) + `"}}`,
			"progressToken exceeds the limit of 1024 bytes"},
	} {
		c.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}`, 10+i, wrong.method, wrong.params))
		res := c.Response(10 + i)
		if message := fmt.Sprint(harness.At(res, "error", "message")); harness.At(res, "error", "code") != -32602.0 ||
			!strings.Contains(message, wrong.want) {
			t.Errorf("%s with %.40s: %v", wrong.method, wrong.params, res)
		}
	}
	if res := c.Call(20, "tools/list", "", ""); res["error"] != nil {
		t.Errorf("afterwards: %v", res)
	}
}

// A header of a session's request that mirrors a parameter must agree with it, whether the tool is ours or the SDK's,
// and wherever in the list it is.
func TestMirroredParametersInASession(t *testing.T) {
	t.Parallel()
	schema := map[string]any{"type": "object", "properties": map[string]any{
		"region": map[string]any{"type": "string", "x-mcp-header": "Region"},
	}}
	m, srv := newListed(t, &mcp.ServerOptions{PageSize: 2}, nil)
	addListed(m, "a", "b", "c")
	m.AddTool(&mcp.Tool{Name: "foreign", InputSchema: schema}, func(context.Context, *mcp.CallToolRequest) (
		*mcp.CallToolResult, error,
	) {
		return harness.Text("ok"), nil
	})
	askback.AddTool(srv, &mcp.Tool{Name: "own", InputSchema: schema}, func(context.Context, *askback.Call,
		map[string]any) (string, error) {
		return "ok", nil
	})
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	opened := harness.Open(t, web.URL, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{`+
		`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	session := opened.Header.Get("Mcp-Session-Id")
	opened.Body.Close()
	call := func(tool, region string) any {
		_, res := harness.Post(t, web.URL, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+
			`","arguments":{"region":"eu"}}}`, "Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25",
			"Mcp-Param-Region", region)
		return harness.At(res, "error", "code")
	}
	for _, tool := range []string{"foreign", "own"} {
		if code := call(tool, "eu"); code != nil {
			t.Errorf("%s, with the header: %v", tool, code)
		}
		if code := call(tool, "us"); code != -32020.0 {
			t.Errorf("%s, with another header: %v", tool, code)
		}
	}
	if code := call("nonesuch", "us"); code == -32020.0 {
		t.Error("a tool that does not exist has headers")
	}
}
