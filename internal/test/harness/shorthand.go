package harness

import (
	"encoding/json"
	"strings"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// Start calls a tool with these members of params, and returns the ID of the task that the call becomes. The task may
// be one of the extension or one of the proposals.
func (s *TaskServer) Start(capabilities, members string) (id string) {
	s.t.Helper()
	var call struct{ Name string }
	expect.Check(s.t, json.Unmarshal([]byte("{"+members+"}"), &call))
	created := s.Result(capabilities, "tools/call", call.Name, members)
	if id, _ = created["taskId"].(string); id == "" {
		id, _ = At(created, "task", "taskId").(string)
	}
	if id == "" {
		s.t.Fatalf("the call of %s is no task: %v", call.Name, created)
	}
	return id
}

// Answer sends answers to a task's questions, in the extension's dialect.
func (s *TaskServer) Answer(id, answers string) {
	s.t.Helper()
	s.Result(WithExtension, "tasks/update", id, Answered(id, answers))
}

// Text waits for the end of a task, and returns the text of its result.
func (s *TaskServer) Text(capabilities, id string) any {
	s.t.Helper()
	result, _ := s.Get(capabilities, id, "completed")["result"].(map[string]any)
	return Content(result)
}

// Refuses requires an error with this code, which says this.
func (s *TaskServer) Refuses(
	what string, code int, says, capabilities, method, name, members string, header ...string,
) {
	s.t.Helper()
	got, message := s.Fault(capabilities, method, name, members, header...)
	if got != code || !strings.Contains(message, says) {
		s.t.Errorf("%s: %d %s, want %d with %q", what, got, message, code, says)
	}
}

// Open opens a session of 2025-11-25 whose client has these members of params.
func (c *Conversation) Open(members string) (hello map[string]any) {
	c.t.Helper()
	hello = c.Call(1, "initialize", members, "")
	c.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return hello
}

// Asked returns the next question of a session.
func (c *Conversation) Asked() map[string]any {
	c.t.Helper()
	return c.Until("question", func(m map[string]any) bool { return m["method"] == "elicitation/create" })
}
