package tasks

import (
	"context"
	"errors"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// mayContinue asks the operator, once in a run, whether the call goes on with what other people have decided. An error
// makes the run void.
func (r *running) mayContinue(ctx context.Context) error {
	if r.asked {
		return nil
	}
	t := r.work.Task
	err := fault.Safely(func() error { return r.Continues(ctx, t.Principal, t.Method, t.Target) })
	switch {
	case err == nil:
		r.asked = true
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, fault.ErrUndecided):
		r.Log.WarnContext(ctx, "askback: whether a call may go on cannot be told now; it is asked again", "call", r.callID,
			"target", t.Target, "task", task.Name(t.ID), "error", err)
		return taskrun.Held("it waits until its server can tell whether it may go on")
	}
	r.Log.WarnContext(ctx, "askback: a call may not go on", "call", r.callID, "target", t.Target, "task", task.Name(t.ID),
		"error", err)
	r.Calls.Audit.Tell(ctx, report.AuditEvent{
		Kind: report.AuditRefused, Principal: t.Principal, Method: t.Method, Target: t.Target, Call: r.callID,
		Task: task.Name(t.ID), Round: t.Round + 1, Reason: "authorize",
	})
	return taskrun.ErrRefused
}
