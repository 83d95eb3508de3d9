package call

import (
	"context"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/report"
)

// tell tells the operator of an event of a call, whose secret id is given.
func (r *Request) tell(ctx context.Context, audit *report.Audit, id string, round int, event report.AuditEvent) {
	if audit == nil {
		return
	}
	event.Principal, event.Method, event.Target = r.Principal, r.Handler.Method, r.Params.Target
	event.Call, event.Task, event.Round = journal.Derived("call", id), r.Task, round
	audit.Tell(ctx, event)
}

// endReason is the outcome of a call that has ended.
func endReason(ctx context.Context, out *Outcome, err error) string {
	switch fault.During(ctx, err) {
	case fault.None:
	case fault.Limit:
		return "limit"
	case fault.Capability:
		return "capability"
	case fault.Cancelled:
		return "cancelled"
	default:
		return "failed"
	}
	if out.Task != nil {
		return "task"
	}
	if result, ok := out.Result.(*mcp.CallToolResult); ok && result.IsError {
		return "failed"
	}
	return "completed"
}

// Answered is the event of a client's answer to a question.
func Answered(key string, d journal.Digest, answer []byte) report.AuditEvent {
	action, _ := question.Action(answer) // only the answer to an elicitation has one
	return report.AuditEvent{Kind: report.AuditAnswered, Key: key, Digest: d.String(), Action: action}
}

// WatchRun follows a run of a task, if there is an observer. Recovered says that the run before it did not end, and
// waited how long the task was due.
func (r *Request) WatchRun(o *report.Observer, recovered bool, waited time.Duration) {
	if o == nil {
		return
	}
	r.Watch = report.Follow(o, report.Operation{
		Kind: report.OperationRun, Method: r.Handler.Method, Target: r.Params.Target, Task: r.Task, Recovered: recovered,
		Waited:   waited,
		Protocol: r.Params.Meta.Version, Meta: report.MetaOf(&r.Params.Meta),
	})
}

// watch tells the operator that the request's call continues from j. It returns the context of what happens from then
// on.
func (r *Request) watch(ctx context.Context, j *journal.Journal) context.Context {
	if r.Watch != nil {
		ctx, j.Trace = r.Watch.Begin(ctx, journal.Derived("call", j.ID), j.Round+1, j.Trace)
	}
	return ctx
}

// noteEnded notes the end of a round that began at a time, for the log and the operator.
func (r *Request) noteEnded(
	ctx context.Context, log *slog.Logger, id string, round int, began time.Time, outcome string, out *Outcome,
) {
	debug := log.Enabled(ctx, slog.LevelDebug)
	if r.Watch == nil && !debug {
		return
	}
	var asked []string
	if out != nil {
		for _, q := range out.Questions {
			asked = append(asked, q.Wire)
		}
	}
	r.Watch.Round(round, outcome, asked)
	if debug {
		attrs := []slog.Attr{slog.String("call", journal.Derived("call", id)),
			slog.String("method", r.Handler.Method), slog.String("target", r.Params.Target), slog.Int("round", round),
			slog.Any("asked", asked), slog.String("outcome", outcome), slog.Duration("duration", time.Since(began))}
		if r.Task != "" {
			attrs = append(attrs, slog.String("task", r.Task))
		}
		log.LogAttrs(ctx, slog.LevelDebug, "askback: a round", attrs...)
	}
}
