package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/judge/process"
)

// addTaskTools adds the tools of the scenarios about the tasks extension.
func addTaskTools(s *askback.Server) {
	atOnce := &askback.TaskSupport{PollInterval: 100 * time.Millisecond}
	type handler = func(context.Context, *askback.Call) (string, error)
	add := func(name, about string, support *askback.TaskSupport, run handler) {
		askback.AddTaskTool(s, tool(name, about), support, withoutArguments(run))
	}
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
			for i := 0.0; i < in.Seconds; i += 0.5 {
				err := errors.Join(call.Progress(ctx, i, in.Seconds, "computing"), process.Sleep(ctx, 500*time.Millisecond))
				if err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("Computed %s in %g s", in.Label, in.Seconds), nil
		})
	add("failing_job", "Fails after a second; a task only", &askback.TaskSupport{Required: true},
		func(ctx context.Context, _ *askback.Call) (string, error) {
			return "", cmp.Or(process.Sleep(ctx, time.Second), errors.New("this job intentionally fails"))
		})
	add("protocol_error_job", "Ends with an error of the protocol", atOnce,
		func(context.Context, *askback.Call) (string, error) {
			return "", &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "this job intentionally breaks"}
		})
	type deletion struct {
		Filename string `json:"filename"`
	}
	type confirmation struct {
		Confirm bool `json:"confirm"`
	}
	askback.AddTaskTool(s, tool("confirm_delete", "Asks before it pretends to delete"), atOnce,
		func(_ context.Context, call *askback.Call, in deletion) (string, error) {
			sure, err := askback.Elicit[confirmation](call, "confirm", "Delete "+in.Filename+"?")
			return fmt.Sprintf("Deleted %s: %v", in.Filename, sure.Confirm), err
		})
	type named struct {
		Name string `json:"name,omitempty"`
	}
	add("multi_input", "Asks two things at once", atOnce, func(_ context.Context, call *askback.Call) (string, error) {
		first, err1 := askback.Elicit[named](call, "first", "The first name?")
		second, err2 := askback.Elicit[named](call, "second", "The second name?")
		return fmt.Sprintf("%s and %s", first.Name, second.Name), errors.Join(err1, err2)
	})
	add("test_tool_with_task", "Asks in a round, then goes on as a task",
		&askback.TaskSupport{Required: true, AtDetach: true},
		func(_ context.Context, call *askback.Call) (string, error) {
			text, err := askName(call)
			if err != nil {
				return "", err
			}
			return text, call.Detach()
		})
}
