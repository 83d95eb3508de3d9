package main

import (
	"context"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// addTaskTools adds the tools of the scenarios about the tasks extension.
func addTaskTools(s *askback.Server) {
	atOnce := &askback.TaskSupport{PollInterval: 100 * time.Millisecond}
	required := &askback.TaskSupport{Required: true}

	type greeted struct {
		Name string `json:"name"`
	}
	askback.AddTool(s, &mcp.Tool{Name: "greet", Description: "Greets; never a task"},
		func(_ context.Context, _ *askback.Call, in greeted) (*mcp.CallToolResult, any, error) {
			return text("Hello, %s!", in.Name), nil, nil
		})

	type computation struct {
		Seconds float64 `json:"seconds"`
		Label   string  `json:"label,omitempty"`
	}
	askback.AddTaskTool(s, &mcp.Tool{Name: "slow_compute", Description: "Waits, and says so"}, atOnce,
		func(ctx context.Context, call *askback.Call, in computation) (*mcp.CallToolResult, any, error) {
			end := time.After(time.Duration(in.Seconds * float64(time.Second)))
			for i := 1; ; i++ {
				select {
				case <-end:
					return text("Computed %s in %g s", in.Label, in.Seconds), nil, nil
				case <-time.After(500 * time.Millisecond):
					if err := call.Progress(ctx, float64(i)/2, in.Seconds, "computing"); err != nil {
						return nil, nil, err
					}
				case <-ctx.Done():
					return nil, nil, ctx.Err()
				}
			}
		})

	askback.AddTaskTool(s, &mcp.Tool{Name: "failing_job", Description: "Fails after a second; a task only"}, required,
		func(ctx context.Context, _ *askback.Call, _ struct{}) (*mcp.CallToolResult, any, error) {
			select {
			case <-time.After(time.Second):
				return nil, nil, errors.New("this job intentionally fails")
			case <-ctx.Done():
				return nil, nil, ctx.Err()
			}
		})

	askback.AddTaskTool(s, &mcp.Tool{Name: "protocol_error_job", Description: "Ends with an error of the protocol"}, atOnce,
		func(context.Context, *askback.Call, struct{}) (*mcp.CallToolResult, any, error) {
			return nil, nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "this job intentionally breaks"}
		})

	type deletion struct {
		Filename string `json:"filename"`
	}
	type confirmation struct {
		Confirm bool `json:"confirm"`
	}
	askback.AddTaskTool(s, &mcp.Tool{Name: "confirm_delete", Description: "Asks before it pretends to delete"}, atOnce,
		func(ctx context.Context, call *askback.Call, in deletion) (*mcp.CallToolResult, any, error) {
			sure, err := askback.Elicit[confirmation](ctx, call, "confirm", "Delete "+in.Filename+"?")
			if err != nil {
				return nil, nil, err
			}
			return text("Deleted %s: %v", in.Filename, sure.Confirm), nil, nil
		})

	type named struct {
		Name string `json:"name,omitempty"`
	}
	askback.AddTaskTool(s, &mcp.Tool{Name: "multi_input", Description: "Asks two things at once"}, atOnce,
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, any, error) {
			var first, second named
			err := call.Ask(ctx, askback.AskForm("first", "The first name?", &first), askback.AskForm("second", "The second name?", &second))
			if err != nil {
				return nil, nil, err
			}
			return text("%s and %s", first.Name, second.Name), nil, nil
		})

	type user struct {
		Name string `json:"name"`
	}
	askback.AddTaskTool(s, &mcp.Tool{Name: "test_tool_with_task", Description: "Asks in a round, then goes on as a task"},
		&askback.TaskSupport{Required: true, AtDetach: true},
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, any, error) {
			who, err := askback.Elicit[user](ctx, call, "user_name", "What is your name?")
			if err != nil {
				return nil, nil, err
			}
			if err := call.Detach(ctx); err != nil {
				return nil, nil, err
			}
			return text("Hello, %s", who.Name), nil, nil
		})
}
