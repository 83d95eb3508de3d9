package tasks_test

import (
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// A receiver takes each decision once, also one that was taken anew after a failover of the store has lost the first.
func TestAnIDOfANotice(t *testing.T) {
	told := expect.Must(stored.Encode(&stored.Announcement{Message: "Deploy?"}))(t)
	id := func(attempt int, written time.Time) string {
		n := expect.Must(tasks.Notice(&task.Notice{Kind: task.NoticeDecided, Written: written, Attempts: attempt,
			Question: &task.Question{Task: "a.task", Key: "a.key", Notice: told}}))(t)
		return n.ID
	}
	decided := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	first := id(1, decided)
	expect.Equal(t, "sent again the ID is", id(2, decided.Local()), first)
	if anew := id(1, decided.Add(time.Millisecond)); anew == first {
		t.Errorf("decided anew the ID is still %s", anew)
	}
	if strings.Contains(first, ".") {
		t.Errorf("%s has the full stop with which Standard Webhooks ends an ID", first)
	}
}
