package tasks

import (
	"testing"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// A task that runs again after a decision still has the message of its waiting. Nobody is told that it waits.
func TestWordsOfATaskThatRunsAgain(t *testing.T) {
	e := expect.Must(taskrun.NewEngine(new(task.MemoryStore), nil))(t)
	s := &Service{Engine: e}
	for message, want := range map[string]string{
		"Waiting for group:release.": "The call is running.",
		"copying (2 of 3)":           "The call is running: copying (2 of 3).",
		"copying …":                  "The call is running: copying …",
		"":                           "The call is running.",
	} {
		if got, _ := s.awaited(t.Context(), &task.Task{ID: "t", Status: task.Working, Message: message}); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}
