package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// A person at a terminal sees what the call was made with, and fills in the form. Who leaves it ends nothing.
func TestAPersonAnswersAtTheInbox(t *testing.T) {
	t.Parallel()
	const row = `{"id": "a", "principal": "carol", "target": "deploy", "arguments": {"version": "4.2"},
		"questions": [{"key": "window", "for": ["group:release"], "votes": 1, "message": "When?",
			"properties": {"hour": {"type": "integer"}}, "required": ["hour"]}]}`
	var a asked
	expect.Check(t, json.Unmarshal([]byte(row), &a))
	path := filepath.Join(t.TempDir(), "tasks.db")
	expect.Check(t, a.add(t.Context(), path))
	list := onTerminal(t, "inbox", "list", "sqlite:"+path) // of 80 columns
	if code := list.end(); code != 0 || !strings.Contains(list.text(), "\n"+task.Name("a")+"  window  0 of 1  ") ||
		!strings.HasSuffix(list.text(), "\n  carol, deploy: When?\n") {
		t.Errorf("the list: exit code %d:\n%s", code, list.text())
	}
	answer := func(args ...string) *screen {
		args = append([]string{"inbox", "answer", "sqlite:" + path, task.Name("a")[:8], "window"}, args...)
		return onTerminal(t, args...)
	}
	s := answer("--as", "mallory")
	if code := s.end(); code != 1 || strings.Contains(s.text(), "When?") ||
		!strings.Contains(s.text(), "not for \"mallory\"") {
		t.Errorf("mallory: exit code %d:\n%s", code, s.text())
	}
	s = answer("--as", "alice", "--groups", "release")
	s.enter(t, "When?", "/cancel")
	if code := s.end(); code != cli.ExitWaits || !strings.Contains(s.text(), "nothing was answered: the question waits") {
		t.Errorf("left: exit code %d:\n%s", code, s.text())
	}
	s = answer("--as", "alice", "--groups", "release", "--reason", "it is quiet then")
	s.waitFor(t, `"version": "4.2"`)
	s.enter(t, "When?", "9")
	if code := s.end(); code != 0 || !strings.HasSuffix(s.text(), "window: accepted by alice\n") {
		t.Errorf("exit code %d:\n%s", code, s.text())
	}
	_, stdout, stderr := command(t, "inbox", "show", "sqlite:"+path, task.Name("a"), "--json")
	if !strings.Contains(stdout, `"decision":{"action":"accept","content":{"hour":9},"by":[{"who":"alice"`) ||
		!strings.Contains(stdout, `"why":"it is quiet then"`) {
		t.Errorf("%s%s", stdout, stderr)
	}
	s = answer("--as", "bob", "--groups", "release")
	if code := s.end(); code != 1 || !strings.Contains(s.text(), "is accepted by alice") {
		t.Errorf("bob: exit code %d:\n%s", code, s.text())
	}
}
