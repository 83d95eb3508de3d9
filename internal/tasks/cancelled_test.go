package tasks_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// Who cancelled a task with a desk, and why, is told by the instance that cleans up, which may be another process. What
// its client cancelled is told as that.
func TestACancelByAnOperatorIsAudited(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var told []askback.AuditEvent // the cancellations, and the ends that follow
	store := new(task.MemoryStore)
	asks := harness.AddText("asks", nil, asksColors("color"))
	front := harness.ServeTasks(t, harness.NewServer(t, &askback.Options{Tasks: &askback.Tasks{Store: store}}, asks))
	harness.NewTaskServerOn(t, store, &askback.Options{Audit: func(_ context.Context, e askback.AuditEvent) {
		if e.Kind == askback.AuditCancelled || e.Kind == askback.AuditEnded {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e)
		}
	}}, asks)
	d := expect.Must(desk.Open(store, nil))(t)
	for _, byClient := range []bool{false, true} {
		id := front.Start(harness.WithExtension, `"name":"asks"`)
		front.Get(harness.WithExtension, id, "input_required")
		shown := expect.Must(d.Show(t.Context(), id))(t)
		event := askback.AuditEvent{
			Method: "tools/call", Target: "asks", Call: shown.Call, Task: task.Name(id), Round: 2,
		}
		cancelled, ended := event, event
		cancelled.Kind, cancelled.By, cancelled.Why = askback.AuditCancelled, "alice", "maintenance"
		ended.Kind, ended.Reason = askback.AuditEnded, "cancelled"
		want := []askback.AuditEvent{cancelled, ended}
		if byClient {
			want = want[1:]
			front.Result(harness.WithExtension, "tasks/cancel", id, `"taskId":"`+id+`"`)
		} else if _, err := d.Cancel(t.Context(), shown.Name, desk.Cancellation{By: "alice",
			Reason: "maintenance"}); err != nil {
			t.Fatal(err)
		}
		var got []askback.AuditEvent
		harness.Eventually(t, "the end of the call", func() bool {
			mu.Lock()
			defer mu.Unlock()
			got = told
			return len(got) > 0 && got[len(got)-1].Kind == askback.AuditEnded
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("by the client: %v\n%s", byClient, diff)
		}
		mu.Lock()
		told = nil
		mu.Unlock()
	}
}
