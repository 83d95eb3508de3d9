package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// Operation is a request that a [Session] sends, for [Options.Observe]: each round of a call, and each request about
// tasks. Lists, discovery and notifications are not operations. It never holds an answer, an argument, a result, a
// requestState or a task's ID. It is the client's side of askback.Operation. It must not be used after the function
// that Observe returned has been called.
type Operation struct {
	// Known when Observe is called:

	Began  time.Time
	Method string // such as "tools/call"
	Target string // the tool's or prompt's name, or the resource's URI; "" for a request about tasks
	Round  int    // from 1, as in [Round]; 0 for a request about a task
	// the ID of a session before 2026-07-28 over an OAuthHandler; else "", because the ID protects a session by itself
	Session   string
	Protocol  string // the protocol version
	Transport string // how the request goes: TransportHTTP or TransportPipe
	Server    string // over HTTP, the host and port of the endpoint, such as "localhost:8080"

	// SetMeta sets a member of the request's _meta, such as "traceparent" (SEP-414). It replaces a member of this name
	// that the caller gave. It is for the function Observe alone.
	SetMeta func(name, value string)

	// Trace travels with the call: what Observe sets where it is empty is in every later operation of the call, and of the
	// task that the call becomes. A [Pending] holds it, so that it also survives [Session.Resume].
	Trace string

	// Known at the end:

	Request string // the ID of the JSON-RPC request, cut to 64 bytes; "" if none was sent

	// Outcome says how the request ended: completed, input_required, task (the call became one), failed (with Code, or, if
	// that is 0, with a tool's own error), cancelled, timeout, or unanswered (the server is out of reach, or its response
	// cannot be read).
	Outcome string
	Code    int64 // The code of the JSON-RPC error.
}

// How a request goes: see [Operation].
const (
	TransportHTTP = "http"
	TransportPipe = "pipe" // standard input and output, or any other connection of whole messages
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

// operate tells the host that a request is about to be sent. The function that it returns takes the request's outcome.
func (s *Session) operate(
	ctx context.Context, x *tap.Exchange, o Operation, trace *callTrace,
) (context.Context, func(result []byte, err error)) {
	observe := s.opts.Observe
	if observe == nil {
		return ctx, func([]byte, error) {}
	}
	op := new(o) // only an operation that is observed is allocated
	op.Began, op.Session, op.Transport, op.Server = time.Now(), s.observed.session, s.observed.transport, s.observed.server
	if res := s.sdk.InitializeResult(); res != nil {
		op.Protocol = res.ProtocolVersion
	}
	meta := make(map[string]string)
	op.SetMeta = func(name, value string) { meta[name] = value }
	op.Trace = trace.String()
	observed, end := observe(ctx, op)
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

// observedSession holds the members of an [Operation] that describe its session.
type observedSession struct{ session, transport, server string }

// observedOf returns what operations over a transport tell. The ID of the session is not known yet.
func observedOf(t mcp.Transport) (told observedSession, authorized bool) {
	endpoint := ""
	switch t := t.(type) {
	case *mcp.LoggingTransport:
		return observedOf(t.Transport)
	case *mcp.StreamableClientTransport:
		endpoint, authorized = t.Endpoint, t.OAuthHandler != nil
	case *mcp.SSEClientTransport:
		endpoint = t.Endpoint
	default:
		return observedSession{transport: TransportPipe}, false
	}
	u, err := url.Parse(endpoint)
	if err != nil { // there is no session then
		return told, false
	}
	_, server, _ := strings.Cut(origin(u), "://")
	return observedSession{transport: TransportHTTP, server: server}, authorized
}

// observeTask is [Session.exchange] with an operation around it.
func (s *Session) observeTask(
	ctx context.Context, x *tap.Exchange, send func(ctx context.Context) (json.RawMessage, error),
) (json.RawMessage, error) {
	if s.opts.Observe == nil || strings.HasSuffix(x.Method, "/list") && x.Method != "tasks/list" {
		return send(ctx)
	}
	trace, _ := ctx.Value(traceKey{}).(*callTrace)
	ctx, end := s.operate(ctx, x, Operation{Method: x.Method}, cmp.Or(trace, new(callTrace)))
	raw, err := send(ctx)
	end(raw, err)
	return raw, err
}
