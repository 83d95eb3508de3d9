package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A tool whose annotations break a rule is left out of a list over HTTP, and the log names it. Elsewhere annotations
// are ignored.
func TestAToolWithABadAnnotationIsLeftOut(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
	for name, property := range map[string]string{
		"bad":  `{"type":"array","items":{"type":"string","x-mcp-header":"Bad"}}`,
		"good": `{"type":"object","properties":{"b":{"type":"string","x-mcp-header":"Good"}}}`,
	} {
		schema := json.RawMessage(`{"type":"object","properties":{"a":` + property + `}}`)
		server.AddTool(&mcp.Tool{Name: name, InputSchema: schema},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("done"), nil })
	}
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	here, there := mcp.NewInMemoryTransports()
	expect.Must(server.Connect(t.Context(), there, nil))(t)
	for name, c := range map[string]struct {
		transport mcp.Transport
		want      []string
	}{
		"http":   {&mcp.StreamableClientTransport{Endpoint: web.URL}, []string{"good"}},
		"memory": {here, []string{"bad", "good"}},
	} {
		var log bytes.Buffer
		session := connect(t, client.Options{SDK: mcp.ClientOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))}},
			c.transport, "2025-11-25")
		var raw, typed []string
		for item := range expect.Each(t, session.List(t.Context(), "tools/list")) {
			tool, _ := strictjson.String(strictjson.Get(item, "name"))
			raw = append(raw, tool)
		}
		list := expect.Must(session.SDK().ListTools(t.Context(), nil))(t)
		for _, tool := range list.Tools {
			typed = append(typed, tool.Name)
		}
		slices.Sort(raw)
		slices.Sort(typed)
		if !slices.Equal(raw, c.want) || !slices.Equal(typed, c.want) {
			t.Errorf("%s: %v and %v, want %v", name, raw, typed, c.want)
		}
		if session.Close(); strings.Contains(log.String(), "tool=bad") != (name == "http") {
			t.Errorf("%s: the log has %s", name, &log)
		}
	}
}
