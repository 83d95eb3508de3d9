package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// A bridge is killed while an older server waits in its open call for an answer. A second bridge on the store leaves
// the call alone while the first one lives, and ends it in words afterwards, without calling the tool again. A
// read-only tool is called again, and asks nobody again.
func TestAnOlderServersCallOverAKill(t *testing.T) {
	t.Parallel()
	for tool, want := range map[string]string{
		"pay": `was lost while it waited for the answer to "Really?"`, "balance": "balance done",
	} {
		t.Run(tool, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			m := mcp.NewServer(&mcp.Implementation{Name: "bank", Version: "1"},
				&mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}})
			mcp.AddTool(m, &mcp.Tool{Name: tool, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: tool == "balance"}},
				func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
					calls.Add(1)
					for _, message := range []string{"Sure?", "Really?"} {
						_, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: message, RequestedSchema: map[string]any{
							"type": "object", "properties": map[string]any{}}})
						if err != nil {
							return nil, nil, err
						}
					}
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: tool + " done"}}}, nil, nil
				})
			web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, nil))
			t.Cleanup(func() { web.CloseClientConnections(); web.Close() })

			dir := t.TempDir()
			first, kill := startBridge(t, dir, web.URL, "--wait", "100ms")
			second, _ := startBridge(t, dir, web.URL, "--wait", "100ms")
			result := func(url string, arguments map[string]any, tool string) string {
				s, err := client.New(&client.Options{Tasks: client.TasksOff}).Connect(t.Context(),
					&mcp.StreamableClientTransport{Endpoint: url}, nil)
				expect.Check(t, err)
				defer s.Close()
				res, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
				expect.Check(t, err)
				return res.Content[0].(*mcp.TextContent).Text
			}
			result(first, nil, tool)
			decide(t, dir, "Sure?", "accept")
			waits(t, dir, "Really?")
			expect.Equal(t, "the tool was called", calls.Load(), 1)
			kill()
			decide(t, dir, "Really?", "accept")
			name, text := theCall(t, dir), ""
			harness.Eventually(t, "the call ends", func() bool {
				text = result(second, map[string]any{"name": name}, "askback_result")
				return !strings.Contains(text, name)
			})
			expect.Contains(t, "the result", text, want)
			if n := fmt.Sprint(calls.Load()); n != map[string]string{"pay": "1", "balance": "2"}[tool] {
				t.Errorf("the tool was called %s times", n)
			}
		})
	}
}

// waits waits until somebody is asked this.
func waits(t *testing.T, dir, message string) {
	t.Helper()
	d, done := openDesk(t, dir)
	defer done()
	harness.Eventually(t, "somebody is asked: "+message, func() bool {
		for q, err := range d.Waiting(t.Context(), desk.Waiting{}) {
			return err == nil && q.Message == message
		}
		return false
	})
}
