package tasks_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// A call with a step that must not run twice is a task by then: the client's, or one that its request waits for. Where
// it cannot be one, nothing runs.
func TestAtMostOnceNeedsATask(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		says  string
		desk  *askback.DeskOptions
		plain bool // the tool is one of AddTool
		can   string
		want  string
	}{
		{says: "the client takes tasks", can: harness.WithExtension, want: "paid"},
		{says: "the client waits", desk: new(askback.DeskOptions), can: harness.ProposalOnly, want: "paid"},
		{says: "an ordinary tool", desk: new(askback.DeskOptions), plain: true, can: harness.ProposalOnly, want: "paid"},
		{says: "there is no desk", can: harness.ProposalOnly, want: "set Options.Tasks and Options.Desk"},
		{says: "an ordinary tool without a desk", plain: true, can: harness.WithExtension,
			want: "set Options.Tasks and Options.Desk"},
	} {
		var ran atomic.Int32
		pay := func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			return askback.AtMostOnce(ctx, call, "pay", func(context.Context) (string, error) {
				ran.Add(1)
				return "paid", nil
			})
		}
		s := harness.NewTaskServer(t, &askback.Options{Desk: test.desk}, func(s *askback.Server) {
			if test.plain {
				askback.AddTool(s, &mcp.Tool{Name: "pay"}, pay)
			} else {
				askback.AddTaskTool(s, &mcp.Tool{Name: "pay"}, &askback.TaskSupport{AtDetach: true}, pay)
			}
		})
		res := s.Result(test.can, "tools/call", "pay", `"name":"pay"`)
		for id, isTask := res["taskId"].(string); isTask && res["result"] == nil; {
			res = s.Result(test.can, "tasks/get", id, `"taskId":`+harness.Quote(id))
		}
		if res["result"] != nil {
			res = res["result"].(map[string]any)
		}
		text, runs := fmt.Sprint(harness.Content(res)), int32(0)
		if test.want == "paid" {
			runs = 1
		}
		if !strings.Contains(text, test.want) || ran.Load() != runs {
			t.Errorf("%s: %q after %d runs, want %q", test.says, text, ran.Load(), test.want)
		}
	}
}
