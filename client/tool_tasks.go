package client

import (
	"bytes"
	"encoding/json"
	"sync"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// The values of execution.taskSupport that allow a task.
const (
	taskRequired = "required"
	taskOptional = "optional"
)

// toolTasks is what the tools of a session support, by their execution.taskSupport in the
// list of tools. (2025-11-25, "Tool-Level Negotiation")
type toolTasks struct {
	mu      sync.Mutex
	support map[string]string // by tool; nil if the list is not known
	changes int               // of the list, as the server reported them
}

// forget notes that the list has changed.
func (t *toolTasks) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.support = nil
	t.changes++
}

// of returns the support of a tool, whether the tool was listed, and how often the list has
// changed.
func (t *toolTasks) of(tool string) (support string, listed bool, changes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	support, listed = t.support[tool]
	return support, listed, t.changes
}

// store stores a list, unless the list has changed since it was asked for.
func (t *toolTasks) store(support map[string]string, changes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changes == changes {
		t.support = support
	}
}

// readToolTasks adds a page of the list of tools. Its JSON has been checked.
func readToolTasks(all map[string]string, page []byte) error {
	tools := json.NewDecoder(bytes.NewReader(strictjson.Get(page, "tools")))
	if open, _ := tools.Token(); open != json.Delim('[') {
		return &ProtocolError{"the list of tools is not an array"}
	}
	for tools.More() { // one by one: there may be many, and small
		var tool json.RawMessage
		if err := tools.Decode(&tool); err != nil {
			return err
		}
		if name, ok := strictjson.String(strictjson.Get(tool, "name")); ok {
			support, _ := strictjson.String(strictjson.Get(strictjson.Get(tool, "execution"), "taskSupport"))
			all[name] = support
		}
	}
	return nil
}
