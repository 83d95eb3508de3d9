package tasks

import (
	"context"
	"errors"
	"time"

	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// Observe has the engine with these options tell the operator of the calls of its store and of its notices.
func Observe(opts *taskrun.Options, o *report.Observer) {
	if o == nil {
		return
	}
	opts.Called = func(ctx context.Context, method string, began time.Time, err error) {
		outcome := "completed"
		switch {
		case errors.Is(err, context.Canceled):
			outcome = "cancelled"
		case err != nil:
			outcome = "failed"
		}
		o.Tell(ctx, &report.Operation{Kind: report.OperationStore, Began: began, Step: method, Outcome: outcome})
	}
	opts.Delivered = func(ctx context.Context, n *task.Notice, began time.Time, outcome string) {
		op := report.Operation{
			Kind: report.OperationNotice, Began: began, Method: "tools/call", Target: n.Question.Target,
			Task: task.Name(n.Question.Task), Step: string(n.Kind), Outcome: outcome,
		}
		if told, err := stored.DecodeAnnouncement(n.Question.Notice); err == nil {
			op.Call = told.Call
		}
		o.Tell(ctx, &op)
	}
}

// dueFor returns how long a claimed task was due, if that can be known: the last write made it so, unless a worker has
// claimed it since. The clocks of the store and of this process may differ.
func dueFor(ctx context.Context, t *task.Task, recovered bool) time.Duration {
	if recovered || t.Updated.IsZero() { // or it runs before it is stored
		return 0
	}
	return max(clock.Now(ctx).Sub(t.Updated), 0)
}
