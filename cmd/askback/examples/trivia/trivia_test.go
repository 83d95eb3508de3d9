package trivia_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/examples/trivia"
)

func TestBothQuestionsReadAsInTheProposal(t *testing.T) {
	s, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "trivia", Version: "1.0.0"}, nil), &askback.Options{
		Logger: slog.New(slog.DiscardHandler), // it warns that no keys are configured
	})
	if err != nil {
		t.Fatal(err)
	}
	trivia.Register(s)
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": {"name": "github_trivia", "_meta": {
			"io.modelcontextprotocol/protocolVersion": "2026-07-28",
			"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "sampling": {}}
		}}
	}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", "tools/call")
	r.Header.Set("Mcp-Name", "github_trivia")
	w := httptest.NewRecorder()
	s.HTTPHandler(nil).ServeHTTP(w, r)

	var got struct{ Result struct{ InputRequests any } }
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%d %s (%v)", w.Code, w.Body, err)
	}
	var want any
	err = json.Unmarshal([]byte(`{
		"github_login": {
			"method": "elicitation/create",
			"params": {
				"mode": "form",
				"message": "Please provide your GitHub username",
				"requestedSchema": {
					"type": "object",
					"properties": {"name": {"type": "string"}},
					"required": ["name"]
				}
			}
		},
		"capital_of_france": {
			"method": "sampling/createMessage",
			"params": {
				"messages": [
					{"role": "user", "content": {"type": "text", "text": "What is the capital of France?"}}
				],
				"modelPreferences": {
					"hints": [{"name": "claude-3-sonnet"}],
					"intelligencePriority": 0.8,
					"speedPriority": 0.5
				},
				"systemPrompt": "You are a helpful assistant.",
				"maxTokens": 100
			}
		}
	}`), &want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Result.InputRequests); diff != "" {
		t.Errorf("inputRequests (-want +got):\n%s\n%s", diff, w.Body)
	}
}
