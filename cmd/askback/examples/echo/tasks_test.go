package echo_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/examples/echo"
	"github.com/askback-mcp/askback/task/sqlite"
)

// question is what the proposal's step 6 asks.
const question = `{
	"echo_input": {
		"method": "elicitation/create",
		"params": {
			"mode": "form",
			"message": "Please provide the input string to echo back",
			"requestedSchema": {
				"type": "object",
				"properties": {"input": {"type": "string"}},
				"required": ["input"]
			}
		}
	}
}`

const answer = `"inputResponses": {"echo_input": {"action": "accept", "content": {"input": "Hello World!"}}}`

type task struct {
	TaskID        string
	Status        string
	TTL           int
	PollInterval  int
	InputRequests any
	Result        json.RawMessage
}

type result struct {
	ResultType    string
	InputRequests any
	RequestState  string
	Content       []struct{ Text string }
	Meta          map[string]any `json:"_meta"`
}

// The proposal's "Persistent Workflow: Echo Tool with Elicitation", step by step.
func TestTheFlowOfTheProposal(t *testing.T) {
	h := serve(t)
	const capabilities = `"elicitation": {}`

	var created struct{ Task task }
	post(t, h, capabilities, "tools/call", "echo", `"name": "echo", "task": {"ttl": 60000}`, "", &created)
	got := created.Task
	if got.TaskID == "" || got.Status != "working" || got.TTL != 60000 || got.PollInterval != 100 {
		t.Fatalf("created %+v", got)
	}
	id := `"taskId": "` + got.TaskID + `"`
	related := `"io.modelcontextprotocol/related-task": {` + id + `}`
	status := func() (now task) {
		post(t, h, capabilities, "tasks/get", got.TaskID, id, "", &now)
		return now
	}

	until(t, status, "input_required")
	var asked result
	post(t, h, capabilities, "tasks/result", got.TaskID, id, "", &asked)
	if diff := cmp.Diff(fromJSON(t, question), asked.InputRequests); diff != "" {
		t.Errorf("inputRequests (-want +got):\n%s", diff)
	}

	var acknowledged result
	post(t, h, capabilities, "tasks/input_response", got.TaskID, answer, related, &acknowledged)
	wantRelated := map[string]any{"taskId": got.TaskID}
	if diff := cmp.Diff(any(wantRelated), acknowledged.Meta["io.modelcontextprotocol/related-task"]); diff != "" {
		t.Errorf("related task (-want +got):\n%s", diff)
	}

	until(t, status, "completed")
	var final result
	post(t, h, capabilities, "tasks/result", got.TaskID, id, "", &final)
	if len(final.Content) != 1 || final.Content[0].Text != "Echo: Hello World!" {
		t.Errorf("got %+v", final)
	}
}

// The same in the dialect of the extension, where everything is in tasks/get.
func TestTheFlowOfTheExtension(t *testing.T) {
	h := serve(t)
	const capabilities = `"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}`

	var created struct {
		task
		ResultType string
	}
	post(t, h, capabilities, "tools/call", "echo", `"name": "echo"`, "", &created)
	if created.ResultType != "task" || created.TaskID == "" {
		t.Fatalf("created %+v", created)
	}
	id := `"taskId": "` + created.TaskID + `"`
	status := func() (now task) {
		post(t, h, capabilities, "tasks/get", created.TaskID, id, "", &now)
		return now
	}

	asked := until(t, status, "input_required")
	if diff := cmp.Diff(fromJSON(t, question), asked.InputRequests); diff != "" {
		t.Errorf("inputRequests (-want +got):\n%s", diff)
	}
	post(t, h, capabilities, "tasks/update", created.TaskID, id+", "+answer, "", new(any))
	var final result
	if err := json.Unmarshal(until(t, status, "completed").Result, &final); err != nil {
		t.Fatal(err)
	}
	if len(final.Content) != 1 || final.Content[0].Text != "Echo: Hello World!" {
		t.Errorf("got %+v", final)
	}
}

// The proposal's "Interactions Between Ephemeral and Persistent Workflows", in both dialects.
func TestTheInputIsAskedForBeforeThereIsATask(t *testing.T) {
	for _, tt := range []struct{ dialect, capabilities, params string }{
		{"proposal", `"elicitation": {}`, `"name": "echo_later", "task": {"ttl": 60000}`},
		{"extension", `"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}`, `"name": "echo_later"`},
	} {
		t.Run(tt.dialect, func(t *testing.T) {
			h := serve(t)
			var asked result
			post(t, h, tt.capabilities, "tools/call", "echo_later", tt.params, "", &asked)
			if diff := cmp.Diff(fromJSON(t, question), asked.InputRequests); diff != "" || asked.ResultType != "input_required" {
				t.Errorf("%s, inputRequests (-want +got):\n%s", asked.ResultType, diff)
			}
			var stored struct{ Tasks []any }
			post(t, h, `"elicitation": {}`, "tasks/list", "", "", "", &stored)
			if len(stored.Tasks) > 0 {
				t.Errorf("stored while the input was missing: %v", stored.Tasks)
			}

			var created struct {
				task
				Task task
			}
			post(t, h, tt.capabilities, "tools/call", "echo_later",
				tt.params+`, `+answer+`, "requestState": "`+asked.RequestState+`"`, "", &created)
			id := created.TaskID + created.Task.TaskID
			if id == "" {
				t.Fatalf("created %+v, want a task", created)
			}
			done := until(t, func() (now task) {
				post(t, h, tt.capabilities, "tasks/get", id, `"taskId": "`+id+`"`, "", &now)
				return now
			}, "completed")
			if done.Result == nil { // only the extension has it there
				post(t, h, tt.capabilities, "tasks/result", id, `"taskId": "`+id+`"`, "", &done.Result)
			}
			var final result
			if err := json.Unmarshal(done.Result, &final); err != nil {
				t.Fatal(err)
			}
			if len(final.Content) != 1 || final.Content[0].Text != "Echo: Hello World!" {
				t.Errorf("got %+v", final)
			}
		})
	}
}

func serve(t *testing.T) http.Handler {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "tasks.db"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "echo", Version: "1.0.0"}, nil), &askback.Options{
		Tasks:  &askback.Tasks{Store: store, ListAnonymous: true},
		Logger: slog.New(slog.DiscardHandler), // it warns that no keys are configured
	})
	if err != nil {
		t.Fatal(err)
	}
	echo.Register(s)
	echo.RegisterLater(s)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.RunTasks(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.HTTPHandler(nil)
}

// until polls, as clients do, until the task has the status.
func until(t *testing.T, poll func() task, status string) task {
	t.Helper()
	for range 500 {
		if now := poll(); now.Status == status {
			return now
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the task never was %s", status)
	return task{}
}

// post sends one request with the given members of params and of _meta. The name is that of its header.
func post(t *testing.T, h http.Handler, capabilities, method, name, params, meta string, into any) {
	t.Helper()
	if meta != "" {
		meta += ","
	}
	if params != "" {
		params += ","
	}
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{
		"jsonrpc": "2.0", "id": 1, "method": "`+method+`",
		"params": {`+params+` "_meta": {`+meta+`
			"io.modelcontextprotocol/protocolVersion": "2026-07-28",
			"io.modelcontextprotocol/clientCapabilities": {`+capabilities+`}
		}}
	}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", method)
	r.Header.Set("Mcp-Name", name)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)

	var response struct{ Result json.RawMessage }
	err := json.Unmarshal(w.Body.Bytes(), &response)
	if err == nil {
		err = json.Unmarshal(response.Result, into)
	}
	if err != nil {
		t.Fatalf("%s: %d %s (%v)", method, w.Code, w.Body, err)
	}
}

func fromJSON(t *testing.T, s string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
