package tasks_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// The result of a completed task is exactly what the request would have returned, by the server that the response
// names. (SEP-2663)
func TestTheResultOfATaskIsThatOfItsCall(t *testing.T) {
	t.Parallel()
	tool := func(name string, handler func() (*mcp.CallToolResult, error)) func(*askback.Server) {
		return harness.AddTask(name, nil,
			func(context.Context, *askback.Call, struct{}) (*mcp.CallToolResult, error) { return handler() })
	}
	tools := map[string]func() (*mcp.CallToolResult, error){
		"text":       func() (*mcp.CallToolResult, error) { return harness.Text("x"), nil },
		"structured": func() (*mcp.CallToolResult, error) { return structured(map[string]any{"n": 1}, nil), nil },
		"meta": func() (*mcp.CallToolResult, error) {
			return structured(nil, mcp.Meta{"own": []string{"é"}}), nil
		},
		"error": func() (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no"}}}, nil
		},
		"nothing": func() (*mcp.CallToolResult, error) { return new(mcp.CallToolResult), nil },
	}
	var register []func(*askback.Server)
	for name, handler := range tools {
		register = append(register, tool(name, handler))
	}
	s := harness.NewTaskServerOn(t, new(task.MemoryStore), nil, register...)
	for name := range tools {
		t.Run(name, func(t *testing.T) {
			want := s.Result(harness.ProposalOnly, "tools/call", name, `"name":"`+name+`"`)
			meta, _ := want["_meta"].(map[string]any)
			if want["resultType"] != "complete" || meta[mcp.MetaKeyServerInfo] == nil {
				t.Fatalf("the call itself: %v", want)
			}
			if delete(meta, mcp.MetaKeyServerInfo); len(meta) == 0 { // the response about the task has it
				delete(want, "_meta")
			}
			id := s.Start(harness.WithExtension, `"name":"`+name+`"`)
			got := s.Get(harness.WithExtension, id, "completed")
			expect.Diff(t, "tasks/get (-call +task)", want, got["result"])
		})
	}
}

func structured(content any, meta mcp.Meta) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{}, StructuredContent: content, Meta: meta}
}

// A notification has the same result as tasks/get.
func TestNotificationsOfTasksHaveTheWholeResult(t *testing.T) {
	t.Parallel()
	c := harness.TaskPipe(t, harness.AddEcho)
	id, _ := harness.At(c.Call(1, "tools/call", `"name":"echo"`, harness.WithExtension), "result", "taskId").(string)
	c.Request(50, "subscriptions/listen", `"notifications":{"taskIds":["`+id+`"]}`, harness.WithExtension)
	c.Until(harness.Notification("notifications/tasks", "input_required"))
	c.Call(2, "tasks/update", harness.Answered(id, `"echo_input":{"action":"accept","content":{"input":"x"}}`),
		harness.WithExtension)
	done := harness.At(c.Until(harness.Notification("notifications/tasks", "completed")), "params", "result")
	got := harness.At(c.Call(3, "tasks/get", `"taskId":"`+id+`"`, harness.WithExtension), "result", "result")
	if diff := cmp.Diff(got, done); diff != "" || harness.At(done, "resultType") != "complete" {
		t.Errorf("(-tasks/get +notification):\n%s\n%v", diff, done)
	}
}

// A failed task has an error, also if its store holds none: a task whose time ran out may have none.
func TestAFailedTaskHasAnError(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServerOn(t, withoutOutcome{new(task.MemoryStore)}, nil,
		harness.AddText("t", nil, func(context.Context, *askback.Call) (string, error) {
			return "", &jsonrpc.Error{Code: -32001, Message: "the reason"}
		}))
	id := s.Start(harness.WithExtension, `"name":"t"`)
	failed := s.Get(harness.WithExtension, id, "failed")
	if harness.At(failed, "error", "code") != -32603.0 ||
		!strings.Contains(harness.At(failed, "error", "message").(string), "the reason") {
		t.Errorf("failed %v", failed)
	}
}

// withoutOutcome is a store that holds no outcome of a task.
type withoutOutcome struct{ *task.MemoryStore }

func (w withoutOutcome) Get(ctx context.Context, id string) (*task.Task, error) {
	t, err := w.MemoryStore.Get(ctx, id)
	if err == nil {
		t.Outcome = nil
	}
	return t, err
}
