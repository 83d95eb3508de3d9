package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// nastyTasks serves tasks in whose every word is harm, in both dialects.
func nastyTasks(t *testing.T) string {
	t.Helper()
	harm := expect.Must(json.Marshal(nasty))(t)
	word := string(harm)
	asks := fmt.Sprintf(`"inputRequests":{%s:{"method":"elicitation/create","params":{"message":%[1]s,`+
		`"requestedSchema":{"type":"object","properties":{%[1]s:{"type":"string","title":%[1]s}}}}}}`, word)
	task := fmt.Sprintf(`"taskId":%s,"status":"input_required","statusMessage":%[1]s,`+
		`"createdAt":"2026-11-20T10:30:00Z","lastUpdatedAt":"2026-11-20T10:30:00Z","ttl":60000`, word)
	results := map[string]string{
		"server/discover": `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},` +
			`"ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"nasty","version":"1"}}}`,
		"tools/list": `{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"t",` +
			`"inputSchema":{"type":"object"}}]}`,
		"tools/call":   `{"resultType":"task",` + task + `}`,
		"tasks/get":    `{"resultType":"complete",` + task + `,` + asks + `}`,
		"tasks/update": `{"resultType":"complete"}`,
		"tasks/cancel": `{"resultType":"complete"}`,
		"tasks/result": `{` + asks + `}`,
		"tasks/list":   `{"tasks":[{` + task + `}]}`,
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage
			Method string
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		if result, ok := results[m.Method]; ok {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":%s}}`, m.ID, word)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

func TestATasksTextDoesNotActOnATerminal(t *testing.T) {
	t.Parallel()
	url := nastyTasks(t)
	for _, args := range [][]string{
		{"call", url, "t", "--trace", "--park", t.TempDir() + "/parked"},
		{"call", url, "t", "--detach"},
		{"call", url, "t", "--detach", "--json"},
		{"call", url, "t", "--timeout", "2s"}, // enough for a busy machine to say what it waits for
		{"task", "get", url, nasty},
		{"task", "get", url, nasty, "--json"},
		{"task", "get", "--tasks", "proposal", url, nasty},
		{"task", "cancel", url, nasty},
		{"task", "list", "--tasks", "proposal", url},
		{"task", "list", "--tasks", "proposal", url, "--json"},
		{"task", "answer", url, nasty, "--answer", "other=1"},
		{"task", "answer", url, nasty, "--answer", nasty + "={}"},
		{"task", "result", url, nasty, "--park", t.TempDir() + "/parked", "--trace"},
	} {
		s := onTerminal(t, args...)
		s.end()
		text := strings.ReplaceAll(s.text(), "\r\x1b[K", "") // the line of progress
		if !strings.Contains(text, "gone") || strings.ContainsAny(text, "\x1b\a\r\u009b\u202e") {
			t.Errorf("%.30q: %q", args, text)
		}
	}
}

// An interruption is no answer: cancel would have the tool remove what it has made.
func TestAnInterruptionDoesNotAnswerATask(t *testing.T) {
	t.Parallel()
	answered := make(chan string, 10)
	url := scripted(t, func(method string) string {
		switch method {
		case "tools/call":
			return `"resultType":"task","taskId":"abc","status":"working","pollIntervalMs":10`
		case "tasks/get":
			return `"taskId":"abc","status":"input_required","inputRequests":{"A":{"method":"elicitation/create",` +
				`"params":{"message":"Which?","requestedSchema":{"type":"object","properties":{"a":{"type":"string"}}}}}}`
		case "tasks/update", "tasks/cancel":
			answered <- method
			return `"resultType":"complete"`
		}
		return ""
	})
	for _, args := range [][]string{{"call", url, "t"}, {"task", "result", url, "abc"}} {
		s := onTerminal(t, args...)
		s.waitFor(t, "\n> ")
		expect.Check(t, s.cmd.Process.Signal(os.Interrupt))
		code := s.end()
		if text := s.text(); code != cli.ExitInterrupted ||
			!strings.Contains(text, "the task may still go on: 'askback task result "+url+" abc' waits for it") ||
			!strings.HasSuffix(text, "askback: interrupted\n") {
			t.Errorf("%v: exit code %d:\n%s", args, code, text)
		}
	}
	if len(answered) > 0 {
		t.Errorf("sent %s", <-answered)
	}
}
