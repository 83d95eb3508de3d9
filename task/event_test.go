package task_test

import (
	"testing"
	"time"

	"github.com/askback-mcp/askback/task"
)

// A reader knows an event again whatever its place in the log, and takes no other one for it.
func TestAnEventKeepsItsID(t *testing.T) {
	e := task.Event{Position: 7, Kind: task.EventAsked, Task: "task", Target: "deploy", Key: "key", Written: time.Now()}
	again := e
	again.Position, again.Written = 9, e.Written.Add(time.Second)
	if e.ID() != again.ID() || len(e.ID()) != len(task.Name("")) {
		t.Errorf("it is %q, and then %q", e.ID(), again.ID())
	}
	seen := map[string]bool{e.ID(): true}
	for _, other := range []task.Event{
		{Kind: task.EventDecided, Task: "task", Key: "key"}, {Kind: task.EventAsked, Task: "other", Key: "key"},
		{Kind: task.EventAsked, Task: "task", Key: "other"}, {Kind: task.EventAsked, Task: "task\x00asked", Key: "key"},
		{Kind: task.EventAsked, Task: "task"}, {Kind: task.EventEnded, Task: "task", Status: task.Failed},
		{Kind: task.EventEnded, Task: "task", Status: task.Cancelled},
	} {
		if seen[other.ID()] {
			t.Errorf("%+v has the ID of another one", other)
		}
		seen[other.ID()] = true
	}
}
