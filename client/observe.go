package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// callTrace is [Operation.Trace] of one call.
type callTrace struct {
	mu   sync.Mutex // the status of a task may be requested while its result is
	text string
}

func (t *callTrace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text
}

// set sets the trace, unless there is one.
func (t *callTrace) set(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = cmp.Or(t.text, text)
}

// traceKey is the key of a task's *callTrace in the context of the requests about the task.
type traceKey struct{}

// observer tells the host of a session's requests.
type observer struct {
	observe  func(context.Context, *Operation) (context.Context, func()) // [Options.Observe]
	sdk      *mcp.ClientSession
	observed observedSession
}

// begin tells the host that a request is about to be sent. The function that it returns takes the request's outcome.
func (b *observer) begin(
	ctx context.Context, x *tap.Exchange, o Operation, trace *callTrace,
) (context.Context, func(result []byte, err error)) {
	if b.observe == nil {
		return ctx, func([]byte, error) {}
	}
	op := new(o) // only an operation that is observed is allocated
	op.Began, op.Session, op.Transport, op.Server = time.Now(), b.observed.session, b.observed.transport, b.observed.server
	if res := b.sdk.InitializeResult(); res != nil {
		op.Protocol = res.ProtocolVersion
	}
	meta := make(map[string]string)
	op.SetMeta = func(name, value string) { meta[name] = value }
	op.Trace = trace.String()
	observed, end := b.observe(ctx, op)
	trace.set(op.Trace)
	x.Meta = meta
	if observed == nil {
		observed = ctx
	}
	return observed, func(result []byte, err error) {
		if end != nil {
			op.Request = x.SentID()
			op.Outcome, op.Code = outcomeOf(ctx, result, err)
			end()
		}
	}
}

// outcomeOf returns the outcome of a request, and the code of its JSON-RPC error.
func outcomeOf(ctx context.Context, result []byte, err error) (outcome string, code int64) {
	fault, isFault := errors.AsType[*jsonrpc.Error](err)
	_, late := errors.AsType[*tap.AwayError](context.Cause(ctx))
	switch {
	case isFault:
		return "failed", fault.Code
	case err != nil && (late || errors.Is(ctx.Err(), context.DeadlineExceeded)):
		return "timeout", 0
	case err != nil && ctx.Err() != nil:
		return "cancelled", 0
	case err != nil:
		return "unanswered", 0
	}
	kind, _ := resultType(result)
	drafts := strictjson.Get(result, "content") == nil // results of drafts have no type
	switch {
	case kind == "input_required", drafts && strictjson.Get(result, "inputRequests") != nil && kind == "complete":
		return "input_required", 0
	case kind == "task", drafts && strictjson.Get(result, "task") != nil:
		return "task", 0
	case string(strictjson.Get(result, "isError")) == "true":
		return "failed", 0
	}
	return "completed", 0
}

// observeTask sends a request about tasks, or one for a list, with an operation around it.
func (b *observer) observeTask(
	ctx context.Context, x *tap.Exchange, send func(ctx context.Context) (json.RawMessage, error),
) (json.RawMessage, error) {
	if b.observe == nil || strings.HasSuffix(x.Method, "/list") && x.Method != "tasks/list" {
		return send(ctx)
	}
	trace, _ := ctx.Value(traceKey{}).(*callTrace)
	ctx, end := b.begin(ctx, x, Operation{Method: x.Method}, cmp.Or(trace, new(callTrace)))
	raw, err := send(ctx)
	end(raw, err)
	return raw, err
}
