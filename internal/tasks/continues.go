package tasks

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// mayContinue asks the operator before a run takes what other people have decided, unless it has been taken before. An
// error keeps the handler from running.
func (r *running) mayContinue(ctx context.Context) error {
	if r.Continues == nil {
		return nil
	}
	decided, err := r.decidedByOthers(ctx)
	if !decided || err != nil {
		return err
	}
	t := r.work.Task
	err = fault.Safely(func() error { return r.Continues(ctx, t.Principal, t.Method, t.Target) })
	switch {
	case err == nil:
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

// decidedByOthers reports whether somebody else than the caller has decided a question, which the journal does not have
// yet.
func (r *running) decidedByOthers(ctx context.Context) (bool, error) {
	j, err := stored.DecodeJournal("", 0, r.work.Entries)
	if err != nil {
		return false, home.LeaveToNewer(err)
	}
	open := make(map[string]bool) // by the keys of their rows
	for _, e := range j.Entries {
		if e.Kind == journal.Put || e.Kind == journal.Timed {
			open[string(e.Value)] = !j.Settled(&journal.Question{Key: e.Key, Digest: e.Digest})
		}
	}
	if !slices.Contains(slices.Collect(maps.Values(open)), true) {
		return false, nil
	}
	rows, err := r.Engine.Questions(ctx, task.Name(r.work.Task.ID))
	if err != nil {
		return false, err
	}
	for _, row := range rows {
		if !open[row.Key] || row.Status != task.QuestionDecided {
			continue
		}
		d, err := stored.DecodeDecision(row.Decision)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(d.By, func(by input.Provenance) bool { return by.Who != r.work.Task.Principal }) {
			return true, nil
		}
	}
	return false, nil
}
