package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// Before 2026-07-28 it is the client that makes a call a task, and every tool says whether
// that must, may or must not be: by execution.taskSupport in the list of tools, which the
// SDK's mcp.Tool does not have. Trying is no way to find out: some servers run a tool that
// was called wrongly, and then have no result for it. (2025-11-25, "Tool-Level Negotiation")

const (
	methodListTools    = "tools/list"
	methodToolsChanged = "notifications/tools/list_changed"

	taskRequired = "required"
	taskOptional = "optional"
)

// toolTasks is what the tools of a session said of tasks.
type toolTasks struct {
	mu      sync.Mutex
	support map[string]string // by the names of the tools that were listed
	changes int               // that the server told of
}

// forget notes that the list has changed.
func (t *toolTasks) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.support = nil
	t.changes++
}

// of is what a tool said, if it was listed, and the state of the list.
func (t *toolTasks) of(tool string) (support string, listed bool, changes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	support, listed = t.support[tool]
	return support, listed, t.changes
}

// keep keeps a list, unless it has changed since it was asked for.
func (t *toolTasks) keep(support map[string]string, changes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changes == changes {
		t.support = support
	}
}

// negotiate decides whether a call asks for a task, where that is the tool's to say.
func (c *call) negotiate(ctx context.Context) error {
	if c.method != wire.CallTool || !c.legacy() {
		return nil
	}
	if d := c.client.opts.Tasks; !c.takes || d != TasksAuto && d != TasksSeeds {
		c.task = nil
		return nil
	}
	support, err := c.taskSupport(ctx, c.target)
	switch {
	case err != nil:
		return fmt.Errorf("looking whether %q is to be called as a task: %w", c.target, err)
	case support == taskRequired && c.task == nil:
		c.task = json.RawMessage(`{}`)
	case support != taskRequired && support != taskOptional:
		c.task = nil
	}
	return nil
}

// taskSupport is what a tool says of tasks: nothing, if it is in no list.
func (s *Session) taskSupport(ctx context.Context, tool string) (string, error) {
	known := &s.inline.tools
	support, listed, changes := known.of(tool)
	if listed {
		return support, nil
	}
	all, err := s.listTaskSupport(ctx)
	if err != nil {
		return "", err
	}
	known.keep(all, changes)
	return all[tool], nil
}

// listTaskSupport reads the whole list of tools.
func (s *Session) listTaskSupport(ctx context.Context) (map[string]string, error) {
	limits := s.client.opts.Limits
	all := make(map[string]string)
	cursor, size := "", 0
	for range limits.Rounds {
		page, err := s.about(ctx, TasksSeeds, methodListTools, "", &taskParams{Cursor: cursor})
		if err != nil {
			return nil, err
		}
		if size += len(page); size > limits.MessageBytes {
			return nil, limit("bytes of a list of tools", limits.MessageBytes, nil)
		}
		if err := readTaskSupport(all, page); err != nil {
			return nil, err
		}
		if cursor, err = nextCursor(page); err != nil || cursor == "" {
			return all, err
		}
	}
	return nil, limit("pages of a list of tools", limits.Rounds, nil)
}

// readTaskSupport adds what a page of the list says. Its JSON has been checked.
func readTaskSupport(all map[string]string, page []byte) error {
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
