package httpfront

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/drafts"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/sdkfront"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
)

// modern serves requests of the 2026-07-28 revision.
type modern struct {
	sdk       *sdkfront.Front
	stateless http.Handler // the SDK's
	supported []string     // protocol versions, newest first
	limits    bound.Limits
	log       *slog.Logger
	jsonLists bool // the operator wants JSON and not events
}

// translated serves requests that the edge has translated from a draft. The drafts have no headers that mirror a tool's
// parameters; those that are there must match all the same.
func (m *modern) translated(x *exchange) drafts.Ratified {
	return func(w http.ResponseWriter, r *http.Request, body []byte) {
		x.request.Extra.Header = r.Header
		m.serve(w, x, r, body, false)
	}
}

// serve serves a request. If mirrored, it must have the headers that a tool's parameters are to be mirrored in.
func (m *modern) serve(w http.ResponseWriter, x *exchange, r *http.Request, body []byte, mirrored bool) {
	req := &x.request
	if fault := m.parse(x, r, body); fault != nil {
		fail(w, req.ID, fault)
		return
	}
	if req.Method == tasks.MethodListen || req.Method == wire.TaskResult || req.Method == wire.StreamEvents {
		ctx, err := x.shares.stayOpen(r.Context())
		if err != nil {
			fail(w, req.ID, err)
			return
		}
		r, body = r.WithContext(ctx), x.retainBody(body, m.limits.Depth)
	}
	x.stream.w, x.stream.accept = w, r.Header["Accept"]
	switch {
	case req.ID != nil && m.sdk.Tasks != nil && wire.IsTask(req.Method):
		m.serveTask(w, x, r)
	case req.ID != nil && m.sdk.ServesEvents(req.Method):
		m.serveOwn(w, x, r)
	case req.ID != nil && m.sdk.Tasks != nil && req.Method == tasks.MethodListen && tasks.ListensHere(req.Params):
		x.stream.subscribe = true
		out, err := m.sdk.Serve(r.Context(), req)
		m.respond(r.Context(), x, out, err)
	case mayAsk(req):
		m.serveCall(w, x, r, body, mirrored)
	case req.ID != nil && serveList(w, m.sdk, r, req, m.jsonLists):
	default:
		m.serveStateless(w, x, r, body)
	}
}

// parse reads and verifies a message and what its headers say of it.
func (m *modern) parse(x *exchange, r *http.Request, body []byte) (fault *jsonrpc.Error) {
	req := &x.request
	req.Handler = nil // of an earlier round of a draft's request
	req.Request, fault = wire.ParseRequest(body, m.limits.Depth, &x.outline, m.digests(r, body))
	var badParams *jsonrpc.Error
	if fault == nil && req.ID != nil {
		var meta []byte
		if mayAsk(req) {
			meta, badParams = req.Args.Parse(&req.Request)
		} else {
			meta = strictjson.Get(req.Params, "_meta")
		}
		req.Args.Meta, fault = m.parseMeta(r, meta)
	}
	if fault = cmp.Or(fault, badParams); fault != nil {
		return fault
	}
	if !mayAsk(req) { // otherwise it has been read
		req.Args.Target = wire.Name(req.Method, req.Params)
	}
	return wire.CheckRouting(r.Header, req.Method, req.Args.Target, req.ID != nil)
}

func mayAsk(req *sdkfront.Request) bool { return req.ID != nil && wire.MayAsk(req.Method) }

// digests reports whether the digest of the arguments is made while the message is checked, which saves time where they
// are large and will be sealed: by its headers the message is a call of a tool whose calls have asked.
func (m *modern) digests(r *http.Request, body []byte) bool {
	const large = 16 << 10
	if len(body) < large {
		return false
	}
	tool := m.sdk.Handlers.Lookup(r.Header.Get(wire.HeaderMethod), r.Header.Get(wire.HeaderName))
	return tool != nil && tool.Sealed.Load()
}

// parseMeta reads and verifies what every modern request must say of itself, in headers and in _meta, which is raw,
// alike.
func (m *modern) parseMeta(r *http.Request, raw []byte) (meta wire.Meta, fault *jsonrpc.Error) {
	version, fault := wire.Header(r.Header, wire.HeaderVersion)
	if fault != nil {
		return meta, fault
	}
	if strictjson.TypeOf(raw) == strictjson.TypeObject {
		if meta, fault = wire.ParseMeta(raw); fault != nil {
			return meta, fault
		}
	}
	if meta.Version != "" && meta.Version != version {
		return meta, wire.Mismatch("the %s header does not match the value in the body", wire.HeaderVersion)
	}
	if version != wire.Version {
		return meta, wire.UnsupportedVersion(version, m.supported)
	}
	if meta.Version == "" {
		return meta, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: _meta needs %q", mcp.MetaKeyProtocolVersion)
	}
	if !meta.HasCapabilities {
		return meta, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: _meta needs %q", mcp.MetaKeyClientCapabilities)
	}
	return meta, nil
}

// serveTask serves a request about tasks.
func (m *modern) serveTask(w http.ResponseWriter, x *exchange, r *http.Request) {
	req := &x.request
	req.Task = tasks.Request{Method: req.Method, TaskID: req.Args.Target, Params: req.Params,
		Can: req.Args.Meta.Capabilities}
	fault := req.Task.Check()
	if fault == nil && req.Task.Extension() { // the proposals' dialect does not require it
		_, fault = wire.Header(r.Header, wire.HeaderName)
	}
	if fault != nil {
		failTask(w, req.ID, fault)
		return
	}
	m.serveOwn(w, x, r)
}

// serveOwn serves a request about tasks or events.
func (m *modern) serveOwn(w http.ResponseWriter, x *exchange, r *http.Request) {
	ctx := r.Context()
	out, err := m.sdk.Serve(ctx, &x.request)
	if x.request.Method == wire.StreamEvents && ctx.Err() != nil { // the result is its last event
		ctx = context.WithoutCancel(ctx)
		out, err = &call.Outcome{Encoded: m.sdk.Tasks.EndOf(x.request.ID)}, nil
	}
	if err != nil && !x.stream.gone(ctx) {
		failTask(w, x.request.ID, err)
		return
	}
	m.respond(ctx, x, out, err)
}

func failTask(w http.ResponseWriter, id []byte, err error) {
	code := fault.Status(err)
	if fault.Wire(err).Code == jsonrpc.CodeMethodNotFound {
		code = http.StatusNotFound
	}
	failAs(w, code, id, err)
}

// serveCall serves a request that may ask.
func (m *modern) serveCall(w http.ResponseWriter, x *exchange, r *http.Request, body []byte, mirrored bool) {
	req := &x.request
	req.Handler = m.sdk.Lookup(r.Context(), req.Method, req.Args.Target)
	if req.Handler == nil {
		if req.Args.HasState && req.Args.State == "" { // which the SDK's types take for none
			fail(w, req.ID, wire.InvalidState())
			return
		}
		// The SDK compares the header as it stands.
		r = r.WithContext(r.Context())
		r.Header = maps.Clone(r.Header)
		r.Header[wire.HeaderName] = []string{req.Args.Target}
		m.serveStateless(w, x, r, body)
		return
	}
	if fault := checkMirrored(r.Header, req.Handler.Headers, req.Args.Arguments, mirrored); fault != nil {
		fail(w, req.ID, fault)
		return
	}
	ctx := r.Context()
	if req.Method == wire.CallTool && m.sdk.Calls.Desk != nil {
		ctx = x.shares.waits.With(ctx, x.gate.Shares, &x.shares, &x.shares)
	}
	out, err := m.sdk.Serve(ctx, req)
	m.respond(ctx, x, out, err)
}

// serveStateless has the SDK serve a request that none of our handlers serves.
func (m *modern) serveStateless(w http.ResponseWriter, x *exchange, r *http.Request, body []byte) {
	m.stateless.ServeHTTP(w, withBody(r.WithContext(m.sdk.Context(r.Context(), &x.request)), body))
}

// respond sends the outcome of a request.
func (m *modern) respond(ctx context.Context, x *exchange, out *call.Outcome, err error) {
	stream, req := &x.stream, &x.request
	if stream.gone(ctx) {
		return
	}
	if err != nil {
		setRetryAfter(stream.w.Header(), err)
		stream.finish(fault.Status(err), wire.AppendError(nil, req.ID, fault.Wire(err)))
		return
	}
	buffer := takeBuffer()
	defer buffer.giveBack()
	buffer.data = wire.AppendResult(buffer.data, req.ID, func(dst []byte) []byte {
		dst, err = out.AppendResult(dst, m.sdk.Info)
		return dst
	})
	response := buffer.data
	if err != nil {
		m.log.ErrorContext(ctx, "askback: a result cannot be encoded", "method", req.Method, "error", err)
		response = wire.AppendError(nil, req.ID, fault.Internal())
	}
	stream.finish(http.StatusOK, response)
}
