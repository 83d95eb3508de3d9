package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/terminal"
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

// `id=$(askback call … --detach); askback task result URL $id` must not give the server a word in the command line.
func TestOnlyIDsForScriptsArePrinted(t *testing.T) {
	for id, printed := range map[string]bool{
		"4YNRJCHJ-TWL.E_X/=": true, "--sampler=sh": false, "x --sampler=sh": false, "x\t--sampler=sh": false,
		"x\n--sampler=sh": false, "x\r--park": false, "x\x1b[2J": false, "x\u202ey": false, "x\u00a0y": false,
	} {
		encoded, _ := json.Marshal(id)
		url := scripted(t, func(string) string {
			return `"resultType":"task","taskId":` + string(encoded) + `,"status":"working"`
		})
		code, stdout, stderr := command(t, "call", url, "t", "--detach")
		if printed && (code != 0 || stdout != id+"\n") || !printed && (code != exitFailure || stdout != "" || !strings.Contains(stderr, "--output json has it")) {
			t.Errorf("%q: exit code %d, %q, %s", id, code, stdout, stderr)
		}
		code, stdout, _ = command(t, "call", url, "t", "--detach", "--output", "json")
		var task struct{ TaskID string }
		if err := json.Unmarshal([]byte(stdout), &task); code != 0 || err != nil || task.TaskID != id {
			t.Errorf("%q as JSON: exit code %d, %s", id, code, stdout)
		}
	}
}

func TestHowToGoOnWithATask(t *testing.T) {
	for id, want := range map[string]string{
		"abc":      "askback task result 'http://bob:xxxxx@host/?a=1&b' abc",
		"-abc":     "askback task result 'http://bob:xxxxx@host/?a=1&b' -- -abc",
		"it's":     `askback task result 'http://bob:xxxxx@host/?a=1&b' 'it'\''s'`,
		"a\x1b\r'": `askback task result 'http://bob:xxxxx@host/?a=1&b' $'a\033\015\''`,
	} {
		at, err := parseTarget("http://bob:S3cret@host/?a=1&b")
		if err != nil {
			t.Fatal(err)
		}
		if got := (&watch{target: at, id: id}).again("result"); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestWhatTheServerDidIsNoFailure(t *testing.T) {
	done := false
	url := scripted(t, func(method string) string {
		switch {
		case method == "tasks/get" && !done:
			return `"taskId":"abc","status":"input_required","inputRequests":{"A":{"method":"elicitation/create","params":{"message":"a?","requestedSchema":{"type":"object","properties":{}}}}}`
		case method == "tasks/update" || method == "tasks/cancel":
			done = true
			return `"resultType":"complete"`
		}
		return ""
	})
	for _, args := range [][]string{{"task", "cancel", url, "abc"}, {"task", "answer", url, "abc", "--answer", "A={}"}} {
		done = false
		if code, stdout, stderr := command(t, args...); !done || code != 0 || stdout != "" || !strings.Contains(stderr, "warning: ") || !strings.Contains(stderr, "Task not found") {
			t.Errorf("%v: exit code %d, %q, %s", args, code, stdout, stderr)
		}
	}
}

func TestWhyATaskFailedIsShown(t *testing.T) {
	url := scripted(t, func(string) string {
		return `"taskId":"abc","status":"failed","error":{"code":-32603,"message":"disk \u001b[31mfull","data":{"free":0}}`
	})
	if _, stdout, _ := command(t, "task", "get", url, "abc"); !strings.Contains(stdout, `disk \x1b[31mfull (-32603)`+"\n") {
		t.Errorf("text: %s", stdout)
	}
	if _, stdout, _ := command(t, "task", "get", url, "abc", "--output", "json"); !strings.Contains(stdout, `"free": 0`) {
		t.Errorf("JSON: %s", stdout)
	}
}

// The width of a long id must not be that of every line, nor a list be as long as its server likes.
func TestListsOfTasksAreBounded(t *testing.T) {
	page := `"nextCursor":"on","tasks":[{"taskId":"` + strings.Repeat("x", 4000) + `","status":"working"}` + strings.Repeat(`,{"taskId":"t","status":"working"}`, 5999) + `]`
	pages := 0
	url := scripted(t, func(string) string { pages++; return page })
	code, stdout, stderr := command(t, "task", "list", "--tasks", "seeds", url)
	if lines := strings.Count(stdout, "\n"); code != 0 || lines != 1+maxTasks || len(stdout) > 1<<20 || pages != 2 || !strings.Contains(stderr, "the first 10000") {
		t.Errorf("exit code %d, %d lines, %d bytes, %d pages: %s", code, lines, len(stdout), pages, stderr)
	}
}

// silent is a person who answers everything.
type silent struct {
	mu    sync.Mutex
	asked string // the messages
}

func (p *silent) wasAsked() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func (p *silent) Form(_ context.Context, _, message string, _ json.RawMessage) (*mcp.ElicitResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked += message
	if message == "stop" {
		return nil, terminal.ErrInterrupted
	}
	return &mcp.ElicitResult{Action: "accept"}, nil
}

func (p *silent) URL(context.Context, string, string, string, func(string) error) (*mcp.ElicitResult, error) {
	return nil, nil
}

func (p *silent) Sample(context.Context, string, *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
	return nil, nil
}

// A question that never comes to the person holds up none that do.
func TestNoQuestionWaitsForOneThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, fail := context.WithCancelCause(t.Context())
		p := new(silent)
		a := &asker{person: p, console: newConsole(io.Discard), fail: fail, given: new(answers), target: target{program: []string{"x"}}, ready: make(chan struct{})}
		a.connected("2026-07-28")
		var round []*client.Question
		for _, key := range []string{"A", "B", "C", "D"} {
			round = append(round, &client.Question{Key: key, Method: elicitation, Message: key})
		}
		if err := a.begin(round); err != nil {
			t.Fatal(err)
		}
		for _, i := range []int{3, 1} { // and neither A nor C
			go func() {
				if _, err := a.form(ctx, round[i]); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		if got := p.wasAsked(); got != "" {
			t.Errorf("asked at once: %s", got)
		}
		time.Sleep(2 * patience)
		synctest.Wait()
		if got := p.wasAsked(); got != "BD" {
			t.Errorf("asked %s, want BD", got)
		}

		if _, err := a.form(ctx, &client.Question{Key: "E", Method: elicitation, Message: "stop"}); err == nil || context.Cause(ctx) != terminal.ErrInterrupted {
			t.Errorf("interrupted: %v, the call's end: %v", err, context.Cause(ctx))
		}
	})
}
