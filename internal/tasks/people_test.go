package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// A client that takes tasks sees one that works while it waits for people, who is awaited until when, and no question
// but its own.

var statusOfRelease = regexp.MustCompile(`^Waiting for 2 of group:release until 20[^ ]+ [^ ]+ UTC\.$`)

// addTasks adds tools of [addDeploy] as task tools.
func addTasks(srv *askback.Server) {
	approve := func(call *askback.Call) error {
		return askback.Approve(call, "release", askback.Question{
			Message: "It is secret why.", For: []string{askback.Group("release")}, Votes: 2, Within: 24 * time.Hour,
		})
	}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "task"}, nil,
		func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			if err := approve(call); err != nil {
				return "", err
			}
			l, err := askback.Elicit[harness.Login](call, "login", "Who are you?")
			return "done for " + l.Name, err
		})
}

// mustWait fails the test unless a task works, says who is awaited, and shows nothing of what they are asked.
func mustWait(t *testing.T, where string, shown any) {
	t.Helper()
	encoded := expect.Must(json.Marshal(shown))(t)
	message, _ := harness.At(shown, "statusMessage").(string)
	if harness.At(shown, "status") != "working" || !statusOfRelease.MatchString(message) ||
		strings.Contains(string(encoded), "secret") || strings.Contains(string(encoded), "inputRequests") {
		t.Errorf("%s shows %s", where, encoded)
	}
}

func TestTheExtensionWhilePeopleAreAwaited(t *testing.T) {
	t.Parallel()
	for _, f := range allFronts() {
		if f.Session { // which knows no extension
			continue
		}
		t.Run(f.Name, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				srv, d := deskServer(t, nil, addTasks)
				ask := f.Dial(t, srv, &auth.TokenInfo{UserID: "alice"})
				for _, tool := range []string{"then", "task"} {
					id, _ := harness.At(ask("tools/call", `"name":"`+tool+`"`), "result", "taskId").(string)
					synctest.Wait()
					get := func() any { return ask("tasks/get", `"taskId":"`+id+`"`)["result"] }
					mustWait(t, "tasks/get", get())
					forged := ask("tasks/update", harness.Answered(id, `"release":{"action":"accept","content":{}}`))
					synctest.Wait()
					if forged["error"] != nil {
						t.Errorf("an answer to a question of others: %v", forged)
					}
					mustWait(t, "tasks/get after an answer of the client", get())
					approve(t, d, task.Name(id))
					synctest.Wait()
					asked := get()
					if requests, _ := harness.At(asked, "inputRequests").(map[string]any); len(requests) != 1 ||
						requests["login"] == nil || harness.At(asked, "status") != "input_required" {
						t.Errorf("then it asks %v", asked)
					}
					ask("tasks/update", harness.Answered(id, `"login":`+accepts))
					synctest.Wait()
					harness.Want(t, "at the end it", get(), "completed", "status")
				}
			})
		})
	}
}

// request serves a request over HTTP, and returns its response.
func (b *bubble) request(ctx context.Context, method, target, members, capabilities string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp",
		strings.NewReader(harness.Message(1, method, members, capabilities)))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method,
	} {
		r.Header.Set(name, value)
	}
	if target != "" {
		r.Header.Set("Mcp-Name", target)
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w
}

// result is [bubble.request] for a request that must have a result.
func (b *bubble) result(method, target, members, capabilities string) map[string]any {
	b.t.Helper()
	w := b.request(b.t.Context(), method, target, members, capabilities)
	result, ok := harness.At(recorded{w}.body(b.t), "result").(map[string]any)
	if !ok {
		b.t.Errorf("%s: %s", method, w.Body)
	}
	return result
}

func TestASubscriptionWhilePeopleAreAwaited(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := newBubble(t, nil)
		id, _ := b.result("tools/call", "deploy", `"name":"deploy"`, harness.WithExtension)["taskId"].(string)
		synctest.Wait()
		events := make(chan string, 1)
		go func() {
			events <- b.request(t.Context(), "subscriptions/listen", "", `"notifications":{"taskIds":["`+id+`"]}`,
				harness.WithExtension).Body.String()
		}()
		time.Sleep(time.Minute)
		approve(t, b.desk, task.Name(id))
		var statuses []string
		all := <-events
		for line := range strings.Lines(all) {
			data, _ := strings.CutPrefix(line, "data: ")
			var m map[string]any
			if json.Unmarshal([]byte(data), &m) == nil && m["method"] == "notifications/tasks" {
				if len(statuses) == 0 {
					mustWait(t, "the subscription", m["params"])
				}
				statuses = append(statuses, fmt.Sprint(harness.At(m, "params", "status")))
			}
		}
		last := len(statuses) - 1
		if last < 1 || statuses[last] != "completed" || strings.Contains(all, "input_required") {
			t.Errorf("the events are %s", all)
		}
	})
}

func TestTheProposalsWhilePeopleAreAwaited(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := newBubble(t, nil, addTasks)
		created := b.result("tools/call", "task", `"name":"task","task":{}`, harness.ProposalOnly)
		id, _ := harness.At(created, "task", "taskId").(string)
		synctest.Wait()
		about := `"taskId":"` + id + `"`
		mustWait(t, "tasks/get", b.result("tasks/get", "", about, harness.ProposalOnly))
		listed, _ := b.result("tasks/list", "", "", harness.ProposalOnly)["tasks"].([]any)
		if len(listed) != 1 {
			t.Fatalf("listed are %v", listed)
		}
		mustWait(t, "tasks/list", listed[0])
		awaited := make(chan map[string]any, 1)
		wait := func() { awaited <- b.result("tasks/result", "", about, harness.ProposalOnly) }
		go wait()
		time.Sleep(10 * time.Hour)
		if len(awaited) > 0 {
			t.Errorf("tasks/result did not wait: %v", <-awaited)
		}
		approve(t, b.desk, task.Name(id))
		asked := <-awaited
		requests, _ := asked["inputRequests"].(map[string]any)
		if len(requests) != 1 || requests["login"] == nil || asked["resultType"] != "input_required" {
			t.Errorf("tasks/result asks %v", asked)
		}
		go wait()
		if asked := <-awaited; asked["resultType"] != "input_required" { // once more, at once
			t.Errorf("the second tasks/result has %v", asked)
		}
		b.result("tasks/input_response", "", harness.Answered(id, `"login":`+accepts), harness.ProposalOnly)
		go wait()
		expect.Equal(t, "the outcome", harness.Content(<-awaited), "done for octocat")
	})
}

func TestASessionWhilePeopleAreAwaited(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		srv, d := deskServer(t, nil, addTasks)
		c := harness.Pipe(t, srv)
		c.Open(harness.Initialize)
		created := c.Call(2, "tools/call", `"name":"task","task":{}`, "")
		id, _ := harness.At(created, "result", "task", "taskId").(string)
		about := `"taskId":"` + id + `"`
		c.Request(3, "tasks/result", about, "")
		time.Sleep(time.Hour)
		mustWait(t, "tasks/get", c.Call(4, "tasks/get", about, "")["result"])
		listed, _ := harness.At(c.Call(5, "tasks/list", "", ""), "result", "tasks").([]any)
		mustWait(t, "tasks/list", listed[0])
		waits := func(m map[string]any) bool {
			message, _ := harness.At(m, "params", "statusMessage").(string)
			return m["method"] == "notifications/tasks/status" && message != "" && statusOfRelease.MatchString(message)
		}
		mustWait(t, "the notification", c.Until("notification", waits)["params"])
		for _, m := range c.Kept {
			if m["method"] == "elicitation/create" || harness.At(m, "params", "status") == "input_required" ||
				m["id"] == float64(3) {
				t.Errorf("the client got %v", m)
			}
		}
		approve(t, d, task.Name(id))
		question := c.Asked()
		harness.Want(t, "asked", question, "Who are you?", "params", "message")
		c.Answer(question, accepts)
		expect.Equal(t, "the outcome", harness.Content(c.Response(3)["result"].(map[string]any)), "done for octocat")
	})
}

// A task tool keeps working as before for a client that cannot take tasks: it becomes a task only when it waits for
// people.
func TestATaskToolWithoutTasks(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := newBubble(t, nil, (*askback.Server).AddResultTool, harness.AddEcho, addTasks)
		asked := b.result("tools/call", "echo", `"name":"echo"`, harness.ProposalOnly)
		expect.Equal(t, "without people it has", asked["resultType"], "input_required")
		waits := make(chan map[string]any, 1)
		go func() { waits <- b.result("tools/call", "task", `"name":"task"`, harness.ProposalOnly) }()
		time.Sleep(time.Second)
		for q, err := range b.desk.Waiting(t.Context(), desk.Waiting{}) {
			expect.Check(t, err)
			approve(t, b.desk, q.Name)
		}
		question := <-waits // the task asks its client, which is asked in its own request
		if requests, _ := question["inputRequests"].(map[string]any); requests["login"] == nil {
			t.Errorf("the call asks %v", question)
		}
	})
}
