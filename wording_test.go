package askback_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// The SDK's connection replaces the message of an error -32601: a client would not learn which tool, and what it needs.
func TestATaskOnlyToolSaysSoInASession(t *testing.T) {
	const want = `the tool "required" runs as a task only: call it with the member "task" in params`
	c := harness.TaskPipe(t, harness.AddRequired)
	c.Call(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`, "")
	c.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	fault := harness.At(c.Call(2, "tools/call", `"name":"required"`, ""), "error")
	if harness.At(fault, "code") != -32601.0 || harness.At(fault, "message") != want {
		t.Errorf("over stdio: %v", fault)
	}

	srv := harness.NewServer(t, &askback.Options{Tasks: &askback.Tasks{Store: new(task.MemoryStore)}}, harness.AddRequired)
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: web.URL}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	expect.Check(t, err)
	defer session.Close()
	_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "required"})
	expect.Fails(t, "over HTTP", err, want)
}

func TestAStateThatIsNull(t *testing.T) {
	h := harness.NewServer(t, nil, harness.AddGreet).HTTPHandler(nil)
	for _, more := range []string{"", `,"inputResponses":` + harness.Octocat} {
		body := harness.Message(1, "tools/call", `"name":"greet","arguments":{"place":"x"},"requestState":null`+more,
			harness.AllCapabilities)
		message := harness.Request{Target: "greet", Body: body}.Send(t, h).Refused(t, http.StatusBadRequest, -32602)
		expect.Contains(t, more, message, `"requestState" is null: leave it out of a first request`)
	}
}

// The error names what is missing, and not what the client has declared.
func TestOnlyMissingCapabilitiesAreNamed(t *testing.T) {
	params := harness.Sampling("Hi")
	params.Tools = []*mcp.Tool{{Name: "hammer", InputSchema: map[string]any{"type": "object"}}}
	h := harness.NewServer(t, nil, harness.AddText("t", nil, func(_ context.Context, call *askback.Call) (string, error) {
		_, err := askback.Sample(call, "q", params)
		return "", err
	})).HTTPHandler(nil)
	for capabilities, want := range map[string]string{
		`{"sampling":{}}`: ": sampling.tools", `{}`: ": sampling.tools, sampling",
	} {
		message := harness.Request{Target: "t", Capabilities: capabilities}.Send(t, h).
			Refused(t, http.StatusBadRequest, -32021)
		if !strings.HasSuffix(message, want) {
			t.Errorf("%s: %q, want %q", capabilities, message, want)
		}
	}
}

// An ID is an integer also if it is written as 1.0, as JSON Schema has it. Fractions are refused.
func TestIntegersMayBeWrittenWithAPoint(t *testing.T) {
	h := harness.NewServer(t, nil, harness.AddGreet).HTTPHandler(nil)
	c := harness.Pipe(t, harness.NewServer(t, nil, harness.AddGreet))
	for id, ok := range map[string]bool{"1.0": true, "-3.00": true, "1.5": false, "1.0e1": false, "2e1": false} {
		message := func(more string) string {
			m := harness.Message(1, "tools/call", `"name":"greet","arguments":{"place":"x"}`, harness.AllCapabilities+more)
			return strings.Replace(m, `"id":1`, `"id":`+id, 1)
		}
		res := harness.Request{Target: "greet", Body: message("")}.Send(t, h)
		if got := strings.Contains(res.Raw, "input_required"); got != ok || ok && !strings.Contains(res.Raw, `"id":`+id) {
			t.Errorf("over HTTP, %s: %s", id, res.Raw)
		}
		c.Write(message(""))
		over := c.Until("response", func(m map[string]any) bool { return m["method"] == nil })
		if got := harness.At(over, "result", "resultType") == "input_required"; got != ok ||
			ok && fmt.Sprint(over["id"]) != fmt.Sprint(map[string]float64{"1.0": 1, "-3.00": -3}[id]) {
			t.Errorf("over stdio, %s: %v", id, over)
		}
	}
}
