package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/task"
)

// named gives the callers of the release before a name, and it a tool deploy that asks nobody.
var named = []string{
	"		BareFirstRound: o.bare,\n", `		BareFirstRound: o.bare,
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "carol", nil },
`,
	"	echo.Register(srv)\n", `	echo.Register(srv)
	askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, nil,
		func(context.Context, *askback.Call, struct{}) (string, error) { return "deployed by the release before", nil })
`,
}

// While a call waits for people the release before neither shows nor takes its question, whatever its caller sends, and
// spends no attempts on it, also when the call is due. This release continues it.
func TestTheReleaseBeforeCannotApprove(t *testing.T) {
	t.Parallel()
	_, now := programs(t)
	for name, open := range map[string]func(*run) store{"postgres": openPostgres, "sqlite": openSQLite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(t, open)
			r.user = "carol"
			r.start("now", now)
			id := r.create("deploy", map[string]any{"version": "4.2", "within": "1h"})
			late := r.create("deploy", map[string]any{"version": "4.3", "within": "2s"})
			s := openTasks(r)
			defer s.Close()
			d, err := desk.Open(s, nil)
			if err != nil {
				t.Fatal(err)
			}
			q := waiting(t, d, task.Name(id), "approve")
			waiting(t, d, task.Name(late), "escalate")
			r.stop("now")

			r.start("old", built().named)
			if done := r.until(r.create("deploy", nil), "completed"); !strings.Contains(done.Result.Text(), "before") {
				t.Fatalf("the release before does not run its own deploy: %+v", done.Result)
			}
			r.approveForItself(id, q.Key)
			wait := func(when string, want task.Status) {
				t.Helper()
				for range 3 { // it looks for what is due, and works
					r.until(r.create("echo", map[string]any{"input": "hello"}), "completed")
				}
				row, err := s.Get(t.Context(), id)
				if err != nil || row.Status != want || row.Attempts > 0 {
					t.Errorf("%s the task is %s after %d attempts, %v", when, row.Status, row.Attempts, err)
				}
			}
			wait("open,", task.InputRequired)
			if now := waiting(t, d, task.Name(id), "approve"); len(now.Count) > 0 {
				t.Errorf("the question has the votes %+v", now.Count)
			}
			for _, who := range []string{"ada", "bob"} {
				by := desk.Person{Name: who, Groups: []string{"release"}}
				if _, err := d.Answer(t.Context(), q.Name, q.Key, desk.Answer{By: by, Action: "accept"}); err != nil {
					t.Fatal(err)
				}
			}
			r.approveForItself(id, q.Key)
			wait("decided,", task.Working)

			r.start("now", now)
			r.stop("old")
			const approved = "Version 4.2 is deployed, approved by ada and bob."
			if done := r.until(id, "completed"); done.Result == nil || done.Result.Text() != approved {
				t.Errorf("the call ends with %+v", done.Result)
			}
			waiting(t, d, task.Name(late), "escalate")
		})
	}
}

// waiting waits until a task asks people under a key of its author.
func waiting(t *testing.T, d *desk.Desk, name, key string) *desk.Question {
	t.Helper()
	for deadline := time.Now().Add(taskPatience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		for q, err := range d.Waiting(t.Context(), desk.Waiting{}) {
			if err != nil {
				t.Fatal(err)
			}
			if q.Name == name && q.AuthorKey == key {
				return q
			}
		}
	}
	t.Fatalf("the task %s never asks %q", name, key)
	return nil
}

// approveForItself sends all that could show the question of a task to its caller, or answer it.
func (r *run) approveForItself(id, key string) {
	r.t.Helper()
	accept := map[string]any{key: rawclient.Accept(map[string]any{})}
	related := map[string]any{"io.modelcontextprotocol/related-task": map[string]any{"taskId": id}}
	for _, request := range []struct {
		capabilities, method string
		params               map[string]any
	}{
		{rawclient.AllTasks, "tasks/get", map[string]any{"taskId": id}},
		{rawclient.AllTasks, "tasks/update", map[string]any{"taskId": id, "inputResponses": accept}},
		{rawclient.AllTasks, "subscriptions/listen", map[string]any{
			"notifications": map[string]any{"taskIds": []string{id}},
		}},
		{`{"elicitation":{}}`, "tasks/get", map[string]any{"taskId": id}},
		{`{"elicitation":{}}`, "tasks/result", map[string]any{"taskId": id}},
		{`{"elicitation":{}}`, "tasks/input_response", map[string]any{"_meta": related, "inputResponses": accept}},
		{`{"elicitation":{}}`, "tasks/list", nil},
	} {
		ctx, cancel := context.WithTimeout(r.t.Context(), 500*time.Millisecond)
		c := rawclient.Client{URL: r.anyURL(), Capabilities: request.capabilities}
		var result json.RawMessage
		err := c.Call(ctx, request.method, request.params, &result)
		cancel()
		if seen := fmt.Sprintf("%s %v", result, err); strings.Contains(seen, "version 4.2") ||
			strings.Contains(seen, "inputRequests\":{\"") {
			r.t.Errorf("%s shows %s", request.method, seen)
		}
	}
}
