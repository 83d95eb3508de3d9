package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// scripted serves the results of methods, as the members of an object each. A method without one is unknown.
func scripted(t *testing.T, result func(method string) string) string {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		body, err := io.ReadAll(r.Body)
		if err != nil || json.Unmarshal(body, &m) != nil {
			return
		}
		members := map[string]string{
			"server/discover": `"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public"`,
			"tools/list":      `"ttlMs":0,"cacheScope":"private","tools":[{"name":"t","inputSchema":{"type":"object"}}]`,
		}[m.Method]
		if members == "" {
			members = result(m.Method)
		}
		w.Header().Set("Content-Type", "application/json")
		if members == "" {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Task not found"}}`, m.ID)
			return
		}
		if !strings.Contains(members, "resultType") {
			members = `"resultType":"complete",` + members
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{%s}}`, m.ID, members)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

func TestWhatTheServerDidIsNoFailure(t *testing.T) {
	t.Parallel()
	done := false
	url := scripted(t, func(method string) string {
		switch {
		case method == "tasks/get" && !done:
			return `"taskId":"abc","status":"input_required","inputRequests":{"A":{"method":"elicitation/create",` +
				`"params":{"message":"a?","requestedSchema":{"type":"object","properties":{}}}}}`
		case method == "tasks/update" || method == "tasks/cancel":
			done = true
			return `"resultType":"complete"`
		}
		return ""
	})
	for _, args := range [][]string{{"task", "cancel", url, "abc"}, {"task", "answer", url, "abc", "--answer", "A={}"}} {
		done = false
		if code, stdout, stderr := command(t, args...); !done || code != 0 || stdout != "" ||
			!strings.Contains(stderr, "warning: ") || !strings.Contains(stderr, "Task not found") {
			t.Errorf("%v: exit code %d, %q, %s", args, code, stdout, stderr)
		}
	}
}

func TestWhyATaskFailedIsShown(t *testing.T) {
	t.Parallel()
	url := scripted(t, func(string) string {
		return `"taskId":"abc","status":"failed","error":{"code":-32603,"message":"disk \u001b[31mfull","data":{"free":0}}`
	})
	if _, stdout, _ := command(t, "task", "get", url, "abc"); !strings.Contains(stdout,
		`disk \x1b[31mfull (-32603)`+"\n") {
		t.Errorf("text: %s", stdout)
	}
	if _, stdout, _ := command(t, "task", "get", url, "abc", "--json"); !strings.Contains(stdout, `"free": 0`) {
		t.Errorf("JSON: %s", stdout)
	}
}

// The width of a long id must not be that of every line, nor a list be as long as its server likes.
func TestListsOfTasksAreBounded(t *testing.T) {
	t.Parallel()
	page := `"nextCursor":"on","tasks":[{"taskId":"` + strings.Repeat("x", 4000) + `","status":"working"}` +
		strings.Repeat(`,{"taskId":"t","status":"working"}`, 5999) + `]`
	pages := 0
	url := scripted(t, func(string) string { pages++; return page })
	code, stdout, stderr := command(t, "task", "list", "--tasks", "proposal", url)
	if lines := strings.Count(stdout, "\n"); code != 0 || lines != 1+cli.MaxListed || len(stdout) > 1<<20 || pages != 2 ||
		!strings.Contains(stderr, "the first 10000") {
		t.Errorf("exit code %d, %d lines, %d bytes, %d pages: %s", code, lines, len(stdout), pages, stderr)
	}
}
