package client_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A task is started, and its status requested and its questions answered by its ID, maybe in another
// process.
func TestTaskByItsID(t *testing.T) {
	for _, dialect := range []client.TaskDialect{client.TasksExtension, client.TasksProposal} {
		t.Run(string(dialect), func(t *testing.T) {
			answered, ended := false, false
			look := func(int, message) string {
				switch {
				case ended && dialect == client.TasksProposal:
					return draft("completed")
				case ended:
					return flat("completed", `,"result":`+done)
				case answered && dialect == client.TasksProposal:
					return draft("working")
				case answered:
					return flat("working", "")
				case dialect == client.TasksProposal:
					return draft("input_required")
				}
				return flat("input_required", ","+askWho)
			}
			take := func(int, message) string { answered = true; return `{}` }
			srv := serveTasks(t, map[string]func(int, message) string{
				"tools/call": func(_ int, m message) string {
					if m.Params["task"] == nil {
						return created("working", "")
					}
					return `{"task":` + draft("working") + `}`
				},
				"tasks/get": look, "tasks/update": take, "tasks/input_response": take,
				"tasks/result": func(int, message) string {
					if ended {
						return done
					}
					return `{` + askWho + `,"requestState":"s"}`
				},
				"tasks/cancel": func(int, message) string { return `{}` },
			})
			opts := patient()
			opts.Tasks = dialect
			session := connect(t, opts, srv.transport(), "")
			started, res, err := session.StartTask(t.Context(), &mcp.CallToolParams{Name: "t"}, 90*time.Second)
			if err != nil || res != nil || started.ID != oddID || started.Status != "working" {
				t.Fatalf("started %v, %v, %v", started, res, err)
			}
			if sent, _ := srv.sent("tools/call"); dialect == client.TasksProposal &&
				sent[0] != `{"arguments":{},"name":"t","task":{"ttl":90000}}` {
				t.Errorf("sent %s", sent)
			}
			now, err := session.GetTask(t.Context(), oddID)
			if err != nil || now.Status != "input_required" || len(now.Questions) != 1 || now.Questions[0].Message != "Who?" {
				t.Fatalf("now %v, %v", now, err)
			}
			if now.TTL != time.Minute || now.PollInterval != time.Millisecond || now.Created.IsZero() ||
				now.Updated.IsZero() != (dialect == client.TasksProposal) {
				t.Errorf("now %+v", now)
			}
			for name, answer := range map[string]map[string]any{
				`does not ask "else"`: {"else": &mcp.ElicitResult{Action: "decline"}},
				"does not fit":        {"who": &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": 1}}},
				"must return":         {"who": &mcp.ElicitResult{Action: "yes"}},
				"not an object":       {"who": "octocat"},
			} {
				if err := session.AnswerTask(t.Context(), oddID, answer); err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if answered {
				t.Error("an answer that does not fit was sent")
			}
			if err := session.AnswerTask(t.Context(), oddID,
				map[string]any{"who": json.RawMessage(`{"action":"decline"}`)}); err != nil || !answered {
				t.Fatal(err)
			}
			if sent, _ := srv.sent("tasks/input_response"); dialect == client.TasksProposal &&
				sent[0] != `{"inputResponses":{"who":{"action":"decline"}},"requestState":"s"}` {
				t.Errorf("sent %s", sent)
			}
			if err := session.CancelTask(t.Context(), oddID); err != nil {
				t.Error(err)
			}
			ended = true
			expect.Equal(t, "the result", textOf(expect.Must(session.WaitTask(t.Context(), oddID))(t)), "done")
			if _, _, err := session.ListTasks(t.Context(), ""); dialect == client.TasksExtension &&
				(err == nil || !strings.Contains(err.Error(), "the tasks extension has no list")) {
				t.Errorf("list: %v", err)
			}
			if err := session.CancelTask(t.Context(), strings.Repeat("x", 5000)); err == nil {
				t.Error("an id that no header can carry was sent")
			}
		})
	}
}

// A task that does not exist cannot be continued.
func TestNoSuchTask(t *testing.T) {
	const unknown = `error {"code":-32602,"message":"Task not found"}`
	for name, on := range map[string]map[string]func(int, message) string{
		"to look at": {"tasks/get": always(unknown)},
		"to take an answer": {"tasks/get": inTurn(draft("input_required"), unknown),
			"tasks/result": always(`{` + askWho + `}`), "tasks/input_response": always(unknown)},
		"to wait for any more": {"tasks/get": inTurn(draft("input_required"), unknown), "tasks/result": always(unknown)},
	} {
		t.Run(name, func(t *testing.T) {
			opts := patient()
			opts.Tasks = client.TasksProposal
			session := connect(t, opts, serveTasks(t, on).transport(), "")
			_, err := session.WaitTask(t.Context(), oddID)
			if !errors.Is(err, client.ErrTaskUnknown) || !strings.Contains(err.Error(), `no such task: "tâche/1"`) ||
				strings.Contains(err.Error(), "may still go on") {
				t.Errorf("got %v", err)
			}
			if fault, ok := errors.AsType[*jsonrpc.Error](err); !ok || fault.Code != jsonrpc.CodeInvalidParams {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("of Askback's", func(t *testing.T) {
		for _, version := range []string{"2026-07-28", "2025-11-25"} {
			session := connect(t, patient(), web(t, newTaskServer(t)), version)
			expect.Is(t, version+": waited", expect.Err(session.WaitTask(t.Context(), "nope")), client.ErrTaskUnknown)
			_, err := session.GetTask(t.Context(), "nope")
			if !errors.Is(err, client.ErrTaskUnknown) ||
				strings.Contains(err.Error(), "of another revision") != (version == "2025-11-25") {
				t.Errorf("%s: looked: %v", version, err)
			}
		}
	})
}

// A client that waits for a task that asks fetches the questions, if the dialect has a request for it.
// Then it answers or, if the host gives the task up, cancels.
func TestWhoWillNotAnswerMayCancel(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call":   always(`{"task":` + draft("working") + `}`),
		"tasks/get":    always(draft("input_required")),
		"tasks/result": always(`{` + askWho + `,"requestState":"s"}`),
		"tasks/cancel": always(draft("cancelled")),
	})
	opts := patient()
	opts.Tasks = client.TasksProposal
	opts.Form = park
	session := connect(t, opts, srv.transport(), "")
	pending := parkedBy(t, expect.Err(called(t, session, "t")))
	expect.Check(t, session.CancelTask(t.Context(), pending.TaskID))
	// any number of times
	sent := slices.DeleteFunc(srv.methods(), func(method string) bool { return method == "tasks/get" })
	expect.Diff(t, "sent", []string{"tools/call", "tasks/result", "tasks/cancel"}, sent)
}
