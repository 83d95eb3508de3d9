package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// addTaskTools adds the tools of the scenarios about the tasks extension.
func addTaskTools(s *askback.Server) {
	atOnce := &askback.TaskSupport{PollInterval: 100 * time.Millisecond}
	required := &askback.TaskSupport{Required: true}
	askback.AddTool(s, tool("greet", "Greets; never a task"),
		func(_ context.Context, _ *askback.Call, in nameForm) (string, error) {
			return fmt.Sprintf("Hello, %s!", in.Name), nil
		})
	type computation struct {
		Seconds float64 `json:"seconds"`
		Label   string  `json:"label,omitempty"`
	}
	askback.AddTaskTool(s, tool("slow_compute", "Waits, and says so"), atOnce,
		func(ctx context.Context, call *askback.Call, in computation) (string, error) {
			end := time.After(time.Duration(in.Seconds * float64(time.Second)))
			for i := 1; ; i++ {
				select {
				case <-end:
					return fmt.Sprintf("Computed %s in %g s", in.Label, in.Seconds), nil
				case <-time.After(500 * time.Millisecond):
					if err := call.Progress(ctx, float64(i)/2, in.Seconds, "computing"); err != nil {
						return "", err
					}
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}
		})
	askback.AddTaskTool(s, tool("failing_job", "Fails after a second; a task only"), required,
		func(ctx context.Context, _ *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			if err := sleep(ctx, time.Second); err != nil {
				return nil, err
			}
			return nil, errors.New("this job intentionally fails")
		})
	askback.AddTaskTool(s, tool("protocol_error_job", "Ends with an error of the protocol"), atOnce,
		func(context.Context, *askback.Call, struct{}) (*mcp.CallToolResult, error) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "this job intentionally breaks"}
		})
	type deletion struct {
		Filename string `json:"filename"`
	}
	type confirmation struct {
		Confirm bool `json:"confirm"`
	}
	askback.AddTaskTool(s, tool("confirm_delete", "Asks before it pretends to delete"), atOnce,
		func(ctx context.Context, call *askback.Call, in deletion) (string, error) {
			sure, err := askback.Elicit[confirmation](call, "confirm", "Delete "+in.Filename+"?")
			return fmt.Sprintf("Deleted %s: %v", in.Filename, sure.Confirm), err
		})
	type named struct {
		Name string `json:"name,omitempty"`
	}
	askback.AddTaskTool(s, tool("multi_input", "Asks two things at once"), atOnce,
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			first, err1 := askback.Elicit[named](call, "first", "The first name?")
			second, err2 := askback.Elicit[named](call, "second", "The second name?")
			return fmt.Sprintf("%s and %s", first.Name, second.Name), errors.Join(err1, err2)
		})
	askback.AddTaskTool(s, tool("test_tool_with_task", "Asks in a round, then goes on as a task"),
		&askback.TaskSupport{Required: true, AtDetach: true},
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			who, err := askback.Elicit[nameForm](call, "user_name", "What is your name?")
			if err != nil {
				return "", err
			}
			if err := call.Detach(); err != nil {
				return "", err
			}
			return fmt.Sprintf("Hello, %s", who.Name), nil
		})
}
