// Package echo is the smallest example of a tool whose calls are tasks: echo answers with what it is given, and asks
// for it if it is given nothing. Its other tool, echo_later, asks first and becomes a task then.
package echo

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

type args struct {
	Input string `json:"input,omitempty" jsonschema:"the text to echo; asked for if it is missing"`
}

type answer struct {
	Input string `json:"input"`
}

// Register adds the tool echo to s. For a client that can take a task every call is one, which costs nothing while it
// waits for its answer; any other client is asked in rounds, by the same function.
func Register(s *askback.Server) {
	tool := &mcp.Tool{Name: "echo", Description: "Echoes its input back"}
	support := &askback.TaskSupport{PollInterval: 100 * time.Millisecond}

	askback.AddTaskTool(s, tool, support, func(ctx context.Context, call *askback.Call, in args) (string, error) {
		if err := input(call, &in); err != nil {
			return "", err
		}
		return "Echo: " + in.Input, nil
	})
}

// RegisterLater adds the tool echo_later to s. Its calls become tasks in the middle: the tool asks in rounds for a
// missing input, while the server keeps nothing, and detaches once it has the input.
func RegisterLater(s *askback.Server) {
	tool := &mcp.Tool{Name: "echo_later", Description: "Echoes its input back, " +
		"in a task that begins once the input is there"}
	support := &askback.TaskSupport{AtDetach: true, PollInterval: 100 * time.Millisecond}

	askback.AddTaskTool(s, tool, support, func(ctx context.Context, call *askback.Call, in args) (string, error) {
		if err := input(call, &in); err != nil {
			return "", err
		}
		if err := call.Detach(); err != nil {
			return "", err // from here on it is a task, if the client can take one
		}
		return askback.Do(ctx, call, "echo", func(context.Context) (string, error) {
			return "Echo: " + in.Input, nil
		})
	})
}

// input asks for the input if it is missing. The error says that it is not answered yet, or declined.
func input(call *askback.Call, in *args) error {
	if in.Input != "" {
		return nil
	}
	answer, err := askback.Elicit[answer](call, "echo_input", "Please provide the input string to echo back")
	in.Input = answer.Input
	return err
}
