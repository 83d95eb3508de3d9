package taskrun

import (
	"bytes"

	"github.com/askback-mcp/askback/task"
)

// Stop makes t a task that was ended from outside, and returns the update that writes it. A parked task becomes due, so
// that its handler cleans up; any other has a worker, or soon will have one.
func Stop(t *task.Task, s task.Status, message string, outcome []byte) *task.Update {
	u := &task.Update{Keep: t.Status != task.InputRequired}
	t.Status, t.Message, t.Pending, t.Outcome = s, message, nil, outcome
	t.Stopped, t.Attempts = true, 0
	return u
}

// cloneTask returns a task that shares no bytes with t.
func cloneTask(t *task.Task) *task.Task {
	c := *t
	c.Pending, c.Outcome = bytes.Clone(t.Pending), bytes.Clone(t.Outcome)
	return &c
}

func cloneAll(entries [][]byte) (clones [][]byte) {
	for _, entry := range entries {
		clones = append(clones, bytes.Clone(entry))
	}
	return clones
}

func sizeOf(entries [][]byte) (n int64) {
	for _, entry := range entries {
		n += int64(len(entry))
	}
	return n
}
