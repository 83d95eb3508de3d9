package echo

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// RegisterLater adds the tool echo_later to s. Its calls become tasks in the middle: the tool asks in rounds for a missing
// input, while the server keeps nothing, and detaches once it has the input.
func RegisterLater(s *askback.Server) {
	tool := &mcp.Tool{Name: "echo_later", Description: "Echoes its input back, in a task that begins once the input is there"}
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
