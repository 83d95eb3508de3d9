package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// A request about a task over HTTP has three ways: past everything, through middleware of AddReceivingMiddleware, and
// through the SDK's server if that has middleware. The client must not see which one it was.
func TestEveryPathAnswersInTheSameBytes(t *testing.T) {
	t.Parallel()
	store := new(task.MemoryStore)
	ring := harness.NewRing(t)
	serve := func(watch func(m *mcp.Server, srv *askback.Server)) *askback.Server {
		m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
		srv := expect.Must(askback.New(m,
			&askback.Options{Keys: ring, Tasks: &askback.Tasks{Store: store}, Logger: slog.New(slog.DiscardHandler)}))(t)
		addStatuses(srv)
		watch(m, srv)
		return srv
	}
	past := serve(func(*mcp.Server, *askback.Server) {})
	own := serve(func(_ *mcp.Server, srv *askback.Server) { srv.AddReceivingMiddleware(harness.PassOn) })
	sdk := serve(func(m *mcp.Server, _ *askback.Server) { m.AddReceivingMiddleware(harness.PassOn) })
	paths := map[string]http.Handler{
		"past everything":    past.HTTPHandler(nil),
		"through middleware": own.HTTPHandler(nil),
		"through the SDK":    sdk.HTTPHandler(nil),
	}
	ctx, cancel := context.WithCancel(t.Context())
	running := make(chan error, 1)
	go func() { running <- past.RunTasks(ctx) }()
	defer func() {
		cancel()
		if err := <-running; err != nil {
			t.Error(err)
		}
	}()

	send := func(h http.Handler, body, method, name string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, harness.Request{Method: method, Target: name, Body: body}.HTTP(t))
		return w
	}
	ids := make(map[string]string) // of a task with that status, by dialect and status
	dialects := map[string]string{"extension": harness.WithExtension, "proposal": harness.ProposalOnly}
	for dialect, capabilities := range dialects {
		for _, tool := range tools {
			body := harness.Message(1, "tools/call", `"name":"`+tool+`","task":{"ttl":60000}`, capabilities)
			var created struct {
				Result struct {
					TaskID string `json:"taskId"`
					Task   struct {
						TaskID string `json:"taskId"`
					} `json:"task"`
				} `json:"result"`
			}
			w := send(paths["past everything"], body, "tools/call", tool)
			expect.Check(t, json.Unmarshal(w.Body.Bytes(), &created))
			id := created.Result.TaskID + created.Result.Task.TaskID
			ids[dialect+" "+tool] = id
			status := tool
			if tool == "meta" || tool == "error" {
				status = "completed"
			}
			if tool == "cancelled" {
				send(paths["past everything"], harness.Message(1, "tasks/cancel", `"taskId":"`+id+`"`, capabilities),
					"tasks/cancel", id)
			}
			harness.Eventually(t, status+" task", func() bool {
				now, err := store.Get(t.Context(), id)
				return err == nil && string(now.Status) == status
			})
		}
	}
	compared := 0
	compare := func(what, method, name, body string) {
		t.Helper()
		want := send(paths["past everything"], body, method, name)
		for path, h := range paths {
			got := send(h, body, method, name)
			if got.Code != want.Code || got.Body.String() != want.Body.String() ||
				got.Header().Get("Content-Type") != want.Header().Get("Content-Type") {
				t.Errorf("%s, %s: %d %v %s\nwant %d %v %s", what, path, got.Code, got.Header(), got.Body, want.Code, want.Header(),
					want.Body)
			}
			compared++
		}
	}
	for dialect, capabilities := range dialects {
		for of, id := range ids {
			for _, method := range []string{"tasks/get", "tasks/result", "tasks/update", "tasks/input_response",
				"tasks/cancel"} {
				working, asking := strings.HasSuffix(of, " working"), strings.HasSuffix(of, " input_required")
				if (working || asking) && method == "tasks/cancel" || working && method == "tasks/result" {
					continue // it would end the task, or wait for its end
				}
				what := fmt.Sprintf("%s of %s by a client of the %s", method, of, dialect)
				members := `"taskId":"` + id + `"`
				compare(what, method, id, harness.Message(1, method, members, capabilities))
				compare(what+", with answers", method, id,
					harness.Message(1, method, members+`,"inputResponses":{"nobody_asked":{}}`, capabilities))
				compare(what+", with bad answers", method, id,
					harness.Message(1, method, members+`,"inputResponses":[1]`, capabilities))
				compare(what+", with a wrong name", method, "another", harness.Message(1, method, members, capabilities))
				compare(what+", without a name", method, "", harness.Message(1, method, members, capabilities))
			}
		}
		for _, method := range []string{"tasks/get", "tasks/result", "tasks/update", "tasks/input_response", "tasks/cancel",
			"tasks/list", "tasks/none"} {
			what := fmt.Sprintf("%s by a client of the %s", method, dialect)
			compare(what+" for an unknown task", method, "unknown",
				harness.Message(1, method, `"taskId":"unknown"`, capabilities))
			compare(what+" without a task", method, "", harness.Message(1, method, ``, capabilities))
			compare(what+" for a number", method, "", harness.Message(1, method, `"taskId":1`, capabilities))
			compare(what+" with a bad cursor", method, "", harness.Message(1, method, `"cursor":"x"`, capabilities))
			compare(what+" with a long token", method, "unknown",
				harness.Message(1, method, `"taskId":"unknown"`, capabilities+`,"progressToken":"`+strings.Repeat("x", 2000)+`"`))
			compare(what+" without params", method, "", `{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`)
			compare(what+" with a duplicate", method, "", harness.Message(1, method, `"taskId":"a","taskId":"b"`, capabilities))
		}
	}
	if compared < 1000 {
		t.Errorf("%d responses were compared", compared)
	}
}

// tools are those of addStatuses. The task of each comes to have the status of its name.
// The last two are completed.
var tools = []string{"working", "input_required", "completed", "failed", "cancelled", "meta", "error"}

func addStatuses(srv *askback.Server) {
	support := &askback.TaskSupport{PollInterval: 100 * time.Millisecond}
	wait := func(ctx context.Context, _ *askback.Call) (string, error) { <-ctx.Done(); return "", ctx.Err() }
	for name, run := range map[string]func(context.Context, *askback.Call) (string, error){
		"working":   wait,
		"cancelled": wait,
		"input_required": func(_ context.Context, call *askback.Call) (string, error) {
			color, err := askback.Elicit[harness.Color](call, "colour \"<ü>\"", "Which <color>?")
			return color.Color, err
		},
		"completed": func(context.Context, *askback.Call) (string, error) { return "<done> ü", nil },
		"failed":    func(context.Context, *askback.Call) (string, error) { panic("of the handler") },
	} {
		harness.AddText(name, support, run)(srv)
	}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "meta"}, support,
		func(context.Context, *askback.Call, struct{}) (*mcp.CallToolResult, error) {
			result := harness.Text("with a _meta")
			result.Meta = mcp.Meta{"b": "<b>", "a": []int{1, 2}}
			result.StructuredContent = map[string]any{"z": 1, "a": nil}
			return result, nil
		})
	askback.AddTaskTool(srv, &mcp.Tool{Name: "error"}, support,
		func(context.Context, *askback.Call, struct{}) (*mcp.CallToolResult, error) {
			result := harness.Text("an error of the tool")
			result.IsError = true
			return result, nil
		})
}
