package client_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
)

func TestQuestionsKeepTheServersOrder(t *testing.T) {
	opts := answers()
	opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		if zip, name := strings.Index(string(q.Schema), `"zip"`), strings.Index(string(q.Schema), `"name"`); zip < 0 || zip > name {
			t.Errorf("the form's fields are out of order: %s", q.Schema)
		}
		if q.Server == nil || q.Server.Name != "the server" {
			t.Errorf("it is not clear who asks: %v", q.Server)
		}
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	for _, transport := range []mcp.Transport{web(t, newServer(t, askback.Options{})), memory(t, newServer(t, askback.Options{}))} {
		session := connect(t, opts, transport, "")
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
		if err != nil || !res.IsError {
			t.Errorf("declined: %v, %v", res, err)
		}
	}
}

// Only web pages reach a handler, because it may hand the URL to the system to open.
func TestOnlyPagesAreOpened(t *testing.T) {
	for _, address := range []string{
		"javascript:alert(1)", "file:///etc/passwd", "data:text/html,<script>", "vscode://x/y", "//evil.example/", "/etc/passwd",
		"http:evil.example", "https://", "java\nscript:alert(1)", "%", "http://",
	} {
		question, err := json.Marshal(map[string]any{"method": "elicitation/create", "params": map[string]any{
			"mode": "url", "message": "Sign in", "url": address, "elicitationId": "1",
		}})
		if err != nil {
			t.Fatal(err)
		}
		opts := client.Options{URL: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			t.Errorf("the handler got %q", q.URL)
			return &mcp.ElicitResult{Action: "accept"}, nil
		}}
		session := connect(t, opts, wireServer(t, func(w http.ResponseWriter, _ *http.Request, m message) {
			respond(w, m, `{"resultType":"input_required","inputRequests":{"page":`+string(question)+`},"requestState":"s"}`)
		}), "")
		_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
		if !isProtocol(err) {
			t.Errorf("%q: got %v, want a ProtocolError", address, err)
		}
		parked := `{"method":"tools/call","params":{"name":"ask"},"round":1,"requestState":"s","questions":[{"key":"page",` + string(question[1:]) + `]}`
		if err := json.Unmarshal([]byte(parked), new(client.Pending)); !isProtocol(err) {
			t.Errorf("%q in a parked call: got %v, want a ProtocolError", address, err)
		}

		// Inside a session the question is a request of the server.
		handler := opts.URL
		server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
		refused := make(chan error, 1)
		server.AddTool(&mcp.Tool{Name: "ask", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			_, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Mode: "url", Message: "Sign in", URL: address, ElicitationID: "1"})
			refused <- err
			return text("done"), nil
		})
		here, there := mcp.NewInMemoryTransports()
		if _, err := server.Connect(t.Context(), there, nil); err != nil {
			t.Fatal(err)
		}
		inside := connect(t, client.Options{URL: handler}, here, "2025-11-25")
		if _, err := inside.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"}); err != nil {
			t.Errorf("%q: %v", address, err)
		}
		if err := <-refused; err == nil {
			t.Errorf("%q: the question of a session was answered", address)
		}
	}
}
