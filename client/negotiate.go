package client

import (
	"context"
	"encoding/json"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// Before 2026-07-28 the client asks for a task, and every tool says whether its calls must,
// may or must not be tasks. The SDK's mcp.Tool does not have that member of the list of
// tools. To try is no way to find out: some servers run a tool that was called wrongly, and
// then have no result for it. (2025-11-25, "Tool-Level Negotiation")

const methodListTools = "tools/list"

// takesTasks reports whether a result of initialize says that calls may be tasks
// (2025-11-25, "Capability Negotiation"), a capability that the SDK does not have.
func takesTasks(initialized []byte) bool {
	value := initialized
	for _, name := range []string{"capabilities", "tasks", "requests", "tools", "call"} {
		value = strictjson.Get(value, name)
	}
	return strictjson.TypeOf(value) == strictjson.TypeObject
}

// negotiateTask returns the task that a call of a tool asks for in a session before
// 2026-07-28, or nil: the one that the caller wants, as far as the tool allows it.
func (s *Session) negotiateTask(ctx context.Context, tool string, task json.RawMessage) (json.RawMessage, error) {
	if d := s.opts.Tasks; !s.takes || d != TasksAuto && d != TasksProposal {
		return nil, nil
	}
	support, err := s.taskSupport(ctx, tool)
	switch {
	case err != nil:
		return nil, err
	case support == taskRequired && task == nil:
		return json.RawMessage(`{}`), nil
	case support == taskRequired, support == taskOptional:
		return task, nil
	}
	return nil, nil
}

// taskSupport returns what a tool says of tasks, or the empty string if it is not listed.
func (s *Session) taskSupport(ctx context.Context, tool string) (string, error) {
	known := &s.inline.tools
	support, listed, changes := known.of(tool)
	if listed {
		return support, nil
	}
	all, err := s.listToolTasks(ctx)
	if err != nil {
		return "", err
	}
	known.store(all, changes)
	return all[tool], nil
}

// listToolTasks reads the whole list of tools.
func (s *Session) listToolTasks(ctx context.Context) (map[string]string, error) {
	limits := &s.opts.Limits
	all := make(map[string]string)
	cursor, size := "", int64(0)
	for range limits.Rounds {
		page, err := s.request(ctx, TasksProposal, methodListTools, "", &taskParams{Cursor: cursor})
		if err != nil {
			return nil, err
		}
		if size += int64(len(page)); size > limits.MessageBytes {
			return nil, &LimitError{"bytes of a list of tools", limits.MessageBytes}
		}
		if err := readToolTasks(all, page); err != nil {
			return nil, err
		}
		if cursor, err = nextCursor(page); err != nil || cursor == "" {
			return all, err
		}
	}
	return nil, &LimitError{"pages of a list of tools", int64(limits.Rounds)}
}
