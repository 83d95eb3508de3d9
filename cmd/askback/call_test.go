package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// A tool of the Go SDK that asks inside its session fails on 2026-07-28, which has no sessions. The hint that the
// command prints works.
func TestAToolThatAsksInlineGetsAHint(t *testing.T) {
	t.Parallel()
	m := mcp.NewServer(&mcp.Implementation{Name: "inline", Version: "1"}, nil)
	ask := func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		res, err := r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Who?", RequestedSchema: json.RawMessage(
			`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)})
		if err != nil {
			return nil, nil, err
		}
		name, _ := res.Content["name"].(string)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "Hello " + name}}}, nil, nil
	}
	mcp.AddTool(m, &mcp.Tool{Name: "ask"}, ask)
	server := func(*http.Request) *mcp.Server { return m }
	modern := mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{Stateless: true})
	sessions := mcp.NewStreamableHTTPHandler(server, nil)
	mux := http.NewServeMux()
	mux.Handle("/modern", modern)
	mux.Handle("/sessions", sessions)
	web := httptest.NewServer(mux)
	defer web.Close()
	const hint = "--protocol-version 2025-11-25"
	code, stdout, stderr := command(t, "call", web.URL+"/modern", "ask")
	if code == 0 || !strings.Contains(stderr, hint) {
		t.Errorf("exit code %d, %q, %s", code, stdout, stderr)
	}
	if strings.Count(stderr, hint) != 1 {
		t.Errorf("the hint is given more than once: %s", stderr)
	}
	code, stdout, stderr = command(t, "call", web.URL+"/sessions", "ask", "--protocol-version", "2025-11-25",
		"--answer", `elicitation/create={"name":"Ann"}`)
	if code != 0 || stdout != "Hello Ann\n" || strings.Contains(stderr, hint) {
		t.Errorf("exit code %d, %q, %s", code, stdout, stderr)
	}
}

// `id=$(askback call … --detach); askback task result URL $id` must not give the server a word in the command line.
func TestOnlyIDsForScriptsArePrinted(t *testing.T) {
	t.Parallel()
	for id, printed := range map[string]bool{
		"4YNRJCHJ-TWL.E_X/=": true, "--sampler=sh": false, "x --sampler=sh": false, "x\t--sampler=sh": false,
		"x\n--sampler=sh": false, "x\r--park": false, "x\x1b[2J": false, "x\u202ey": false, "x\u00a0y": false,
	} {
		encoded, _ := json.Marshal(id)
		url := scripted(t, func(string) string {
			return `"resultType":"task","taskId":` + string(encoded) + `,"status":"working"`
		})
		code, stdout, stderr := command(t, "call", url, "t", "--detach")
		if printed && (code != 0 || stdout != id+"\n") || !printed && (code != cli.ExitFailure || stdout != "" ||
			!strings.Contains(stderr, "--json prints it")) {
			t.Errorf("%q: exit code %d, %q, %s", id, code, stdout, stderr)
		}
		code, stdout, _ = command(t, "call", url, "t", "--detach", "--json")
		var task struct{ TaskID string }
		if err := json.Unmarshal([]byte(stdout), &task); code != 0 || err != nil || task.TaskID != id {
			t.Errorf("%q as JSON: exit code %d, %s", id, code, stdout)
		}
	}
}
