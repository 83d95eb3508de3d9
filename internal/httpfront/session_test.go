//go:build !race

package httpfront_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/test/harness"
)

// BenchmarkSession is a call that asks in a session of 2025-11-25, by Askback and by the Go SDK alone: compare the two
// of one run. The program judge/bench compares what they cost a server with a network.
func BenchmarkSession(b *testing.B) {
	for name, handler := range sessionHandlers(b) {
		b.Run(name, func(b *testing.B) {
			interact := openSession(b, handler)
			b.ReportAllocs()
			for b.Loop() {
				interact()
			}
		})
	}
}

// (The race detector allocates, too, and is left out.)
func TestASessionAllocatesLessThanTheSDKs(t *testing.T) {
	allocations := make(map[string]float64)
	for name, handler := range sessionHandlers(t) {
		allocations[name] = testing.AllocsPerRun(200, openSession(t, handler))
	}
	t.Log(allocations)
	if own, sdk := allocations["Askback"], allocations["Go SDK"]; own > 0.7*sdk {
		t.Errorf("%v allocations, the SDK's own are %v", own, sdk)
	}
}

// sessionHandlers are servers with the same tool.
func sessionHandlers(tb testing.TB) map[string]http.Handler {
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	form := json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)
	mcp.AddTool(m, &mcp.Tool{Name: "greet"}, func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (
		*mcp.CallToolResult, any, error,
	) {
		answer, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Who are you?", RequestedSchema: form})
		if err != nil {
			return nil, nil, err
		}
		return harness.Text(fmt.Sprint("Hello ", answer.Content["name"], " in ", in.Place)), nil, nil
	})
	return map[string]http.Handler{
		"Askback": harness.NewServer(tb, nil, harness.AddGreet).HTTPHandler(nil),
		"Go SDK":  mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, nil),
	}
}

// openSession opens a session, and returns a function that makes a call in it and answers its question.
func openSession(tb testing.TB, h http.Handler) (interact func()) {
	post := func(session, body string) *events {
		r := harness.Request{Body: body}.HTTP(tb).WithContext(tb.Context())
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Protocol-Version": {"2025-11-25"}}
		if session != "" {
			r.Header["Mcp-Session-Id"] = []string{session}
		}
		w := &events{header: make(http.Header), sent: make(chan []byte, 8)}
		go func() { // ends with the response, which is read
			h.ServeHTTP(w, r)
			close(w.sent)
		}()
		return w
	}
	opened := post("", harness.Message(1, "initialize", harness.Initialize, ""))
	opened.rest()
	session := opened.header.Get("Mcp-Session-Id")
	post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`).rest()
	call := harness.Message(2, "tools/call", `"name":"greet","arguments":{"place":"New York"}`, "")
	return func() {
		calling := post(session, call)
		question := calling.until(tb, `"elicitation/create"`)
		_, after, _ := strings.Cut(question, `"id":`)
		id, _, _ := strings.Cut(after, `,`)
		post(session, `{"jsonrpc":"2.0","id":`+id+`,"result":{"action":"accept","content":{"name":"octocat"}}}`).rest()
		calling.until(tb, "Hello octocat in New York")
		calling.rest()
	}
}

// events is a response that is read while it is written. It implements [http.ResponseWriter].
type events struct {
	header http.Header
	sent   chan []byte
}

func (e *events) Header() http.Header              { return e.header }
func (e *events) WriteHeader(int)                  {}
func (e *events) Flush()                           {}
func (e *events) SetReadDeadline(time.Time) error  { return nil }
func (e *events) SetWriteDeadline(time.Time) error { return nil }
func (e *events) Write(p []byte) (int, error) {
	e.sent <- bytes.Clone(p)
	return len(p), nil
}

// until returns the first part of the response that has a text.
func (e *events) until(tb testing.TB, text string) string {
	for part := range e.sent {
		if bytes.Contains(part, []byte(text)) {
			return string(part)
		}
	}
	tb.Fatalf("no %s", text)
	return ""
}

func (e *events) rest() {
	for range e.sent {
	}
}
