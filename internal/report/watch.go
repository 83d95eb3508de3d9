package report

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/askback-mcp/askback/internal/fault"
)

// Watch follows one request, or one run of a task, for the log and the operator. A nil Watch follows nothing. Its
// methods must not be called at the same time.
type Watch struct {
	observer *Observer
	op       Operation
	end      func() // nil until the operator knows of the operation
	refused  string // why the request's state was refused
}

// Follow returns a Watch of an operation that begins now. The observer may be nil: then only the log is told.
func Follow(o *Observer, op Operation) *Watch {
	op.Began = time.Now()
	return &Watch{observer: o, op: op}
}

// InSession notes the session in which the request came.
func (w *Watch) InSession(id string) {
	if w != nil {
		w.op.Session = id
	}
}

// Begin tells the operator that a round of a call begins, whose trace may have begun elsewhere. The round happens in
// the context that it returns, and its call travels on with the returned trace.
func (w *Watch) Begin(ctx context.Context, call string, round int, trace string) (context.Context, string) {
	if w == nil {
		return ctx, trace
	}
	w.op.Call, w.op.Round, w.op.Trace = call, round, trace
	ctx = w.begin(ctx)
	return ctx, w.op.Trace
}

func (w *Watch) begin(ctx context.Context) context.Context {
	ctx, w.end = w.observer.Begin(ctx, &w.op)
	return ctx
}

// SetTask notes the name of the task that the call has become.
func (w *Watch) SetTask(name string) {
	if w != nil {
		w.op.Task = name
	}
}

// RefusedState notes why the request's state was refused.
func (w *Watch) RefusedState(reason string) {
	if w != nil {
		w.refused = reason
	}
}

// Round notes the outcome of a round, and the keys of the questions that it asked.
func (w *Watch) Round(round int, outcome string, asked []string) {
	if w != nil {
		w.op.Round, w.op.Outcome, w.op.Asked = round, outcome, asked
		w.op.Rounds++
	}
}

// SetOutcome notes the outcome of the operation.
func (w *Watch) SetOutcome(outcome string) {
	if w != nil {
		w.op.Outcome = outcome
	}
}

// SetStateBytes notes the size of the state that the client gets.
func (w *Watch) SetStateBytes(n int) {
	if w != nil {
		w.op.StateBytes = n
	}
}

// Question tells the operator that a question of the call has ended with an outcome. A zero deadline means no deadline.
func (w *Watch) Question(ctx context.Context, key, outcome string, asked, ended, deadline time.Time) {
	if w == nil {
		return
	}
	op := w.op
	op.Kind, op.Began, op.Recovered = OperationQuestion, asked, false
	op.Deadline, op.Waited = deadline, max(ended.Sub(asked), 0)
	op.Asked, op.Outcome = []string{key}, outcome
	w.observer.Tell(ctx, &op)
}

// Finish tells the operator how the operation ended: with err, which is one for the client, or with the outcome that
// was noted.
func (w *Watch) Finish(ctx context.Context, err error) {
	if w == nil {
		return
	}
	w.conclude(err)
	if w.end == nil {
		w.begin(ctx)
	}
	w.end()
}

// conclude sets the members that are known at the end.
func (w *Watch) conclude(err error) {
	op := &w.op
	if err != nil {
		op.Code = fault.Wire(err).Code
	}
	switch fault.Of(err) {
	case fault.None:
		if op.Outcome == "" {
			op.Outcome = "completed"
		}
		return
	case fault.Refused:
		gate, _ := errors.AsType[*fault.RefusedError](err)
		op.Outcome, op.Reason = "refused", gate.Reason
		return
	case fault.Unavailable, fault.Crowded:
		op.Outcome = "unavailable"
		return
	}
	switch op.Outcome {
	case "", "completed", "input_required": // something failed outside of the handler
		op.Outcome = "failed"
		if w.refused != "" {
			op.Outcome, op.Reason = "refused", w.refused
		}
	}
}

// Log writes the log's line of a request whose handler did not run. Otherwise there is a line for each round.
func (w *Watch) Log(ctx context.Context, log *slog.Logger) {
	if w.op.Rounds > 0 || !log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	attrs := []slog.Attr{slog.String("method", w.op.Method), slog.String("outcome", w.op.Outcome),
		slog.Duration("duration", time.Since(w.op.Began))}
	for _, a := range []slog.Attr{slog.String("target", w.op.Target), slog.String("call", w.op.Call),
		slog.String("task", w.op.Task),
		slog.String("reason", w.op.Reason)} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	if w.op.Code != 0 {
		attrs = append(attrs, slog.Int64("code", w.op.Code))
	}
	log.LogAttrs(ctx, slog.LevelDebug, "askback: a request", attrs...)
}
