package report

import (
	"context"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/fault"
)

// Operation has the meaning of askback.Operation.
type Operation struct {
	Kind                                  string
	Began                                 time.Time
	Method, Target                        string
	Call, Task                            string
	Round                                 int
	Step                                  string
	Recovered                             bool
	Request, Session, Protocol, Transport string
	Meta                                  func(name string) string
	Trace                                 string
	Deadline                              time.Time
	Waited                                time.Duration

	Outcome, Reason string
	Code            int64
	Rounds          int
	Asked           []string
	StateBytes      int
}

// The kinds of operations: see askback.OperationRequest and the others.
const (
	OperationRequest  = "request"
	OperationRun      = "run"
	OperationStep     = "step"
	OperationQuestion = "question"
	OperationStore    = "store"
	OperationNotice   = "notice"
)

// How a request came: see askback.Operation.
const (
	TransportHTTP = "http"
	TransportPipe = "pipe"
)

// Texts are the members of an object that are strings.
type Texts interface{ Text(name string) string }

// MetaTexts are the members of a request's _meta in the SDK's form.
type MetaTexts mcp.Meta

// Text implements [Texts].
func (m MetaTexts) Text(name string) string {
	text, _ := m[name].(string)
	return text
}

// MetaOf returns [Operation].Meta of a request. It leaves out a text that is too long for a trace, because an observer
// may send it on.
func MetaOf(meta Texts) func(name string) string {
	if meta == nil {
		return func(string) string { return "" }
	}
	return func(name string) string {
		if text := meta.Text(name); len(text) <= 8<<10 {
			return text
		}
		return ""
	}
}

// Observer calls the operator's hook for operations. A nil Observer does nothing.
type Observer struct {
	Hook func(ctx context.Context, op *Operation) (observed context.Context, end func())
	Log  *slog.Logger
}

// Tell passes an operation that has ended to the hook.
func (o *Observer) Tell(ctx context.Context, op *Operation) {
	if op.Meta == nil {
		op.Meta = MetaOf(nil)
	}
	_, end := o.Begin(ctx, op)
	end()
}

// Begin calls the hook. The operation happens in the context that it returns, and end must be called when it has ended.
// A panic in either does not affect the operation.
func (o *Observer) Begin(ctx context.Context, op *Operation) (observed context.Context, end func()) {
	end = func() {}
	if o == nil {
		return ctx, end
	}
	var ended func()
	if err := fault.Safely(func() error { observed, ended = o.Hook(ctx, op); return nil }); err != nil {
		logPanic(ctx, o.Log, "Options.Observe", err)
	}
	if observed == nil {
		observed = ctx
	}
	if ended != nil {
		end = func() {
			if err := fault.Safely(func() error { ended(); return nil }); err != nil {
				logPanic(ctx, o.Log, "Options.Observe", err)
			}
		}
	}
	return observed, end
}
