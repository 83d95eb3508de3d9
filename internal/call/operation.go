package call

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/wire"
)

// Operation has the meaning of askback.Operation.
type Operation struct {
	Kind                                  string
	Began                                 time.Time
	Method, Target                        string
	Call                                  string
	Round                                 int
	Step                                  string
	Recovered                             bool
	Request, Session, Protocol, Transport string
	Meta                                  func(name string) string
	Trace                                 string

	Outcome, Reason string
	Code            int64
	Rounds          int
	Asked           []string
	StateBytes      int
}

// The kinds of operations: see askback.OperationRequest and the others.
const (
	OperationRequest = "request"
	OperationRun     = "run"
	OperationStep    = "step"
)

// Observer lets the operator follow operations. A nil Observer lets nobody.
type Observer struct {
	Hook func(ctx context.Context, op *Operation) (context.Context, func())
	Log  *slog.Logger
}

// begin calls the hook. A panic there does not affect the operation.
func (o *Observer) begin(ctx context.Context, op *Operation) (observed context.Context, end func()) {
	if o == nil {
		return ctx, nil
	}
	if err := fault.Safely(func() error { observed, end = o.Hook(ctx, op); return nil }); err != nil {
		o.panicked(ctx, err)
	}
	if observed == nil {
		observed = ctx
	}
	return observed, end
}

// end calls what the hook returned.
func (o *Observer) end(ctx context.Context, end func()) {
	if end == nil {
		return
	}
	if err := fault.Safely(func() error { end(); return nil }); err != nil {
		o.panicked(ctx, err)
	}
}

func (o *Observer) panicked(ctx context.Context, err error) {
	o.Log.ErrorContext(ctx, "askback: an observer panicked", "observer", "Options.Observe", "error", err)
}

// Origin is what a front knows of a request beside its [Access].
type Origin struct {
	ID        []byte // of JSON-RPC, raw; nil if the front does not know it
	Version   string // of the protocol
	Transport string
	Meta      Texts
}

// How a request came: see askback.Operation.
const (
	TransportHTTP = "http"
	TransportPipe = "pipe"
)

// Texts are the members of an object that are strings.
type Texts interface{ Text(name string) string }

// Watch follows one request, or one run of a task, for the log and the operator. A nil Watch follows nothing.
type Watch struct {
	observer *Observer
	op       Operation
	begun    bool
	end      func()
	reason   string // why the request's state was refused
}

// newWatch returns a Watch of an operation that begins now.
func newWatch(o *Observer, op Operation) *Watch {
	op.Began = time.Now()
	return &Watch{observer: o, op: op}
}

// WatchRun follows a run of a task, whose request is given.
func (e *Engine) WatchRun(r *Request, recovered bool) {
	if e.Observer == nil {
		return
	}
	r.Watch = newWatch(e.Observer, Operation{
		Kind: OperationRun, Method: r.Handler.Method, Target: r.Params.Target, Recovered: recovered,
		Protocol: r.Params.Meta.Version, Meta: metaOf(&r.Params.Meta),
	})
}

// begin tells the operator that the operation has begun, and that its call has come as far as j.
func (w *Watch) begin(ctx context.Context, j *journal.Journal) context.Context {
	if w == nil {
		return ctx
	}
	w.op.Call, w.op.Round, w.op.Trace = journal.Derived("call", j.ID), j.Round+1, j.Trace
	ctx = w.tell(ctx)
	j.Trace = w.op.Trace
	return ctx
}

func (w *Watch) tell(ctx context.Context) context.Context {
	w.begun = true
	ctx, w.end = w.observer.begin(ctx, &w.op)
	return ctx
}

// Refused notes why the request's state was refused.
func (w *Watch) Refused(reason string) {
	if w != nil {
		w.reason = reason
	}
}

// round notes the outcome of a round.
func (w *Watch) round(round int, outcome string, out *Outcome) {
	if w == nil {
		return
	}
	w.op.Round, w.op.Outcome = round, outcome
	w.op.Rounds++
	w.op.Asked = askedKeys(out)
}

// SetOutcome notes the outcome of the operation.
func (w *Watch) SetOutcome(outcome string) {
	if w != nil {
		w.op.Outcome = outcome
	}
}

func (w *Watch) sealed(out *Outcome) {
	if w != nil {
		w.op.StateBytes = len(out.State)
	}
}

// Finish tells the operator how the operation ended: with err, which is one for the client, or with the outcome that was
// noted.
func (w *Watch) Finish(ctx context.Context, err error) {
	if w == nil {
		return
	}
	if err != nil {
		w.op.Code = fault.Wire(err).Code
	}
	if err != nil && (w.op.Outcome == "completed" || w.op.Outcome == "input_required") {
		w.op.Outcome = "" // something failed behind the handler
	}
	refused, _ := errors.AsType[*fault.RefusedError](err)
	switch class := fault.Of(err); {
	case refused != nil:
		w.op.Outcome, w.op.Reason = "refused", refused.Reason
	case class == fault.Unavailable || class == fault.Crowded:
		w.op.Outcome = "unavailable"
	case w.op.Outcome != "":
	case err != nil && w.reason != "":
		w.op.Outcome, w.op.Reason = "refused", w.reason
	case err != nil:
		w.op.Outcome = "failed"
	default:
		w.op.Outcome = "completed"
	}
	if !w.begun {
		w.tell(ctx)
	}
	w.observer.end(ctx, w.end)
}

// ended notes the end of a round that began at a time, for the log and the operator.
func (e *Engine) ended(ctx context.Context, r *Request, j *journal.Journal, round int, began time.Time, outcome string, out *Outcome) {
	r.Watch.round(round, outcome, out)
	if !e.Log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	e.Log.LogAttrs(ctx, slog.LevelDebug, "askback: a round", slog.String("call", journal.Derived("call", j.ID)),
		slog.String("method", r.Handler.Method), slog.String("target", r.Params.Target), slog.Int("round", round),
		slog.Any("asked", askedKeys(out)), slog.String("outcome", outcome), slog.Duration("duration", time.Since(began)))
}

func askedKeys(out *Outcome) []string {
	if out == nil || len(out.Questions) == 0 {
		return nil
	}
	keys := make([]string, len(out.Questions))
	for i, q := range out.Questions {
		keys[i] = q.Key
	}
	return keys
}

// metaOf returns [Operation.Meta] of a request.
func metaOf(texts Texts) func(string) string {
	if texts == nil {
		return func(string) string { return "" }
	}
	return func(name string) string {
		const most = 8 << 10 // of what a trace may carry
		if text := texts.Text(name); len(text) <= most {
			return text
		}
		return ""
	}
}

// MetaTexts are the members of a request's _meta in the SDK's form.
type MetaTexts mcp.Meta

// Text implements [Texts].
func (m MetaTexts) Text(name string) string {
	text, _ := m[name].(string)
	return text
}

// operationOf returns the operation of a request.
func operationOf(a Access, from Origin) Operation {
	op := Operation{
		Kind: OperationRequest, Method: a.Method, Protocol: from.Version, Transport: from.Transport,
		Request: wire.Cut(wire.IDText(from.ID), 1<<10), Meta: metaOf(from.Meta),
	}
	if wire.MayAsk(a.Method) { // the id of a task is a secret
		op.Target = a.Target
	}
	return op
}
