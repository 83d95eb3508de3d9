package client

import (
	"encoding/json"
	"iter"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// Before 2026-07-28 the client asks for a task, and every tool says whether its calls must,
// may or must not be tasks, by execution.taskSupport. The SDK's mcp.Tool does not have that
// member of the list of tools. The client cannot find out by trying: some servers run a tool that
// was called wrongly, and then have no result for it. (2025-11-25, "Tool-Level Negotiation")

// The values of execution.taskSupport that allow a task.
const (
	taskRequired = "required"
	taskOptional = "optional"
)

// takesTasks reports whether a result of initialize says that calls may be tasks
// (2025-11-25, "Capability Negotiation"), a capability that the SDK does not have.
func takesTasks(initialized []byte) bool {
	value := initialized
	for _, name := range []string{"capabilities", "tasks", "requests", "tools", "call"} {
		value = strictjson.Get(value, name)
	}
	return strictjson.TypeOf(value) == strictjson.TypeObject
}

// taskSupport returns what a tool says of tasks, or the empty string if it is not listed. List is read only if the tool
// is not known.
func (s *inlineState) taskSupport(tool string, list iter.Seq2[json.RawMessage, error]) (string, error) {
	known := s.tools.Load()
	if known != nil {
		if support, listed := (*known)[tool]; listed {
			return support, nil
		}
	}
	all, err := readToolTasks(list)
	if err != nil {
		return "", err
	}
	s.tools.CompareAndSwap(known, &all) // The list may have changed meanwhile: then nothing is kept.
	return all[tool], nil
}

// readToolTasks reads the whole list of tools.
func readToolTasks(list iter.Seq2[json.RawMessage, error]) (map[string]string, error) {
	all := make(map[string]string)
	for tool, err := range list {
		if err != nil {
			return nil, err
		}
		addToolTask(all, tool)
	}
	return all, nil
}

// addToolTask adds a tool of the list. Its JSON has been checked.
func addToolTask(all map[string]string, tool []byte) {
	if name, ok := strictjson.String(strictjson.Get(tool, "name")); ok {
		all[name], _ = strictjson.String(strictjson.Get(strictjson.Get(tool, "execution"), "taskSupport"))
	}
}
