// Package httpfront serves the MCP endpoint over HTTP: requests of the 2026-07-28 revision for handlers and tasks
// itself, and everything else through the SDK's handlers. Drafts of the protocol are translated at its edge.
package httpfront

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/drafts"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/sdkfront"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
)

// Options configure a handler.
type Options struct {
	TrustedOrigins []string
	AllowedHosts   []string
	ReadTimeout    time.Duration // of a body
	WriteTimeout   time.Duration // of each part of a response
	Drafts         bool
	Streamable     mcp.StreamableHTTPOptions
	Supported      []string // protocol versions, newest first
}

// New returns a handler of the MCP endpoint. What it does not serve itself goes through sdk.
func New(sdk *sdkfront.Front, opts *Options) (http.Handler, error) {
	hosts, err := newHosts(opts.TrustedOrigins, opts.AllowedHosts, !opts.Streamable.DisableLocalhostProtection)
	if err != nil {
		return nil, err
	}
	h := &handler{
		SDK: sdk, supported: opts.Supported, limits: sdk.Calls.Limits, log: sdk.Log, hosts: hosts,
		jsonLists:   opts.Streamable.JSONResponse,
		readTimeout: cmp.Or(opts.ReadTimeout, 30*time.Second), writeTimeout: cmp.Or(opts.WriteTimeout, 30*time.Second),
	}
	streamable := opts.Streamable
	streamable.DisableLocalhostProtection = true // it is ours, which knows of allowed hosts
	streamable.MaxRequestBodyBytes = h.limits.MessageBytes
	if streamable.SessionTimeout == 0 {
		streamable.SessionTimeout = 30 * time.Minute
	}
	getServer := func(*http.Request) *mcp.Server { return sdk.Server }
	streamable.Stateless = false
	h.sessions = sessions{sdk: sdk, http: mcp.NewStreamableHTTPHandler(getServer, &streamable), limits: h.limits}
	streamable.Stateless, streamable.PropagateRequestCancellation = true, true
	h.stateless = mcp.NewStreamableHTTPHandler(getServer, &streamable)
	if opts.Drafts {
		h.drafts = &drafts.Edge{Ratified: h.serveTranslated, HasSession: h.sessions.has, Owns: owns, Depth: h.limits.Depth}
		h.sessions.drafts = h.drafts
		echo := sdkfront.EchoFunc(drafts.Echo)
		sdk.Echo.Store(&echo)
	}
	return h, nil
}

type handler struct {
	SDK       *sdkfront.Front
	supported []string
	limits    bound.Limits
	log       *slog.Logger
	hosts     *hosts
	stateless http.Handler // the SDK's, for the 2026-07-28 revision
	sessions  sessions     // for those before
	drafts    *drafts.Edge // nil unless they are served
	jsonLists bool         // the operator wants JSON and not events

	readTimeout, writeTimeout time.Duration // none if they are not positive
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := &visit{pacedWriter: pacedWriter{ResponseWriter: w, timeout: h.writeTimeout}, gate: h.SDK.Gate}
	defer v.begin()
	h.serveHTTP(v, r)
}

func (h *handler) serveHTTP(v *visit, r *http.Request) {
	v.limitReading(r, h.readTimeout)
	if fault := h.hosts.check(r); fault != nil {
		failAs(v, http.StatusForbidden, nil, fault)
		return
	}
	defer v.release()
	if err := v.admit(r); err != nil {
		v.turnAway(r, err)
		return
	}
	if r.Method != http.MethodPost {
		h.sessions.serve(v, r, 0)
		return
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		failAs(v, http.StatusUnsupportedMediaType, nil,
			wire.Errorf(jsonrpc.CodeInvalidRequest, "the Content-Type must be application/json"))
		return
	}
	body, ok := v.readBody(r, h.limits.MessageBytes, h.readTimeout)
	if !ok {
		return
	}
	if fault := wire.CheckOnce(r.Header); fault != nil {
		id, _ := wire.Addressee(body)
		failAs(v, http.StatusBadRequest, id, fault)
		return
	}
	if h.drafts != nil {
		v.reader = bytes.NewReader(body)
		drafted := withBody(v.in(r), nil)
		drafted.Body, drafted.ContentLength = io.NopCloser(v.reader), int64(len(body))
		if h.drafts.Serve(v, drafted, body) {
			return
		}
	}
	switch {
	case h.legacy(r, body):
		h.sessions.serveMessages(v, r, body)
	default:
		h.serveModern(v, v, r, body, true)
	}
}

// legacy reports whether a request belongs to a revision with sessions: by its version header or, where it has none
// (initialize, and all before 2025-06-18), because its body does not claim to be modern.
func (h *handler) legacy(r *http.Request, body []byte) bool {
	version := r.Header.Get(wire.HeaderVersion)
	if version == wire.Version || version != "" && !slices.Contains(h.supported, version) {
		return false
	}
	if !bytes.Contains(body, []byte(mcp.MetaKeyProtocolVersion)) {
		return true
	}
	req, err := wire.ParseRequest(body, h.limits.Depth, new(strictjson.Outline), false)
	if err != nil {
		return false
	}
	return strictjson.Get(strictjson.Get(req.Params, "_meta"), mcp.MetaKeyProtocolVersion) == nil
}

// serveTranslated serves a request that the edge has translated from a draft. The drafts
// have no headers that mirror a tool's parameters; those that are there must match all the same.
func (h *handler) serveTranslated(w http.ResponseWriter, r *http.Request, body []byte) {
	v := visitOf(r)
	v.extra.Header = r.Header
	h.serveModern(w, v, r, body, false)
}

// serveModern serves a request of the 2026-07-28 revision. If mirrored, it must have the headers
// that a tool's parameters are to be mirrored in.
func (h *handler) serveModern(w http.ResponseWriter, v *visit, r *http.Request, body []byte, mirrored bool) {
	req, fault := wire.ParseRequest(body, h.limits.Depth, &v.outline, h.digests(r, body))
	asks := req.ID != nil && wire.MayAsk(req.Method)
	var badParams *jsonrpc.Error
	if fault == nil && req.ID != nil {
		var meta []byte
		if asks {
			meta, badParams = v.params.Parse(&req)
		} else {
			meta = strictjson.Get(req.Params, "_meta")
		}
		v.params.Meta, fault = h.readMeta(r, meta)
	}
	if fault = cmp.Or(fault, badParams); fault == nil {
		fault = checkRouting(r.Header, &req, &v.params)
	}
	if fault != nil {
		fail(w, req.ID, fault)
		return
	}
	if req.Method == tasks.MethodListen || req.Method == wire.TaskResult {
		opened, err := v.stayOpen(r)
		if err != nil {
			fail(w, req.ID, err)
			return
		}
		r, body = opened, v.keep(&req, body, h.limits.Depth)
	}
	switch {
	case req.ID != nil && h.SDK.Tasks != nil && wire.IsTask(req.Method):
		h.serveTask(w, v, r, req)
	case req.ID != nil && h.SDK.Tasks != nil && req.Method == tasks.MethodListen && tasks.NamesTasks(req.Params):
		v.stream.w, v.stream.events, v.stream.endless = w, true, true
		var out *call.Outcome
		var err error
		if ctx := v.beside(r.Context(), h.SDK); tasks.OnlyTasks(req.Params) && !h.SDK.Watched() {
			out, err = h.follow(ctx, &v.stream, req, &v.extra)
		} else {
			out, err = throughSDK(ctx, h.SDK, v, req)
		}
		h.respond(r.Context(), &v.stream, req, out, err)
	case asks:
		h.serveCall(w, v, r, req, body, mirrored)
	case req.ID != nil && serveList(w, h.SDK, r, req, &v.extra, h.jsonLists):
	default:
		h.serveStateless(w, v, r, body)
	}
}

// digests reports whether the digest of the arguments is made while the message is checked, which saves time where they
// are large and will be sealed: by its headers the message is a call of a tool whose calls have asked.
func (h *handler) digests(r *http.Request, body []byte) bool {
	const large = 16 << 10
	if len(body) < large {
		return false
	}
	tool := h.SDK.Handlers.Lookup(r.Header.Get(wire.HeaderMethod), r.Header.Get(wire.HeaderName))
	return tool != nil && tool.Sealed.Load()
}

// serveStateless has the SDK serve a request of the 2026-07-28 revision.
func (h *handler) serveStateless(w http.ResponseWriter, v *visit, r *http.Request, body []byte) {
	h.stateless.ServeHTTP(w, withBody(r.WithContext(sdkfront.Admitted(v.beside(r.Context(), h.SDK))), body))
}

// readMeta reads and verifies what every modern request must say of itself, in headers and in _meta, which is raw,
// alike.
func (h *handler) readMeta(r *http.Request, raw []byte) (meta wire.Meta, fault *jsonrpc.Error) {
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
		return meta, wire.UnsupportedVersion(version, h.supported)
	}
	if meta.Version == "" {
		return meta, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: _meta needs %q", mcp.MetaKeyProtocolVersion)
	}
	if !meta.HasCapabilities {
		return meta, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: _meta needs %q", mcp.MetaKeyClientCapabilities)
	}
	return meta, nil
}

// serveCall serves a request that may ask, whose parameters the visit has.
func (h *handler) serveCall(w http.ResponseWriter, v *visit, r *http.Request, req wire.Request, body []byte,
	mirrored bool) {
	handler := h.SDK.Lookup(r.Context(), req.Method, v.params.Target)
	if handler == nil {
		if v.params.HasState && v.params.State == "" { // which the SDK's types take for none
			fail(w, req.ID, wire.InvalidState())
			return
		}
		// The SDK compares the header as it stands.
		r = r.WithContext(r.Context())
		r.Header = maps.Clone(r.Header)
		r.Header[wire.HeaderName] = []string{v.params.Target}
		h.serveStateless(w, v, r, body)
		return
	}
	if fault := checkMirrored(r.Header, handler.Headers, v.params.Arguments, mirrored); fault != nil {
		fail(w, req.ID, fault)
		return
	}
	ctx := r.Context()
	if req.Method == wire.CallTool && h.SDK.Calls.Desk != nil {
		ctx = v.waits.With(ctx, v.gate.Shares, v, v)
	}
	v.stream.w, v.stream.token = w, v.params.Meta.ProgressToken
	var progress call.ProgressFunc
	if v.params.Meta.ProgressToken != nil && acceptsEvents(r) {
		progress = v.stream.progress
	}
	var out *call.Outcome
	var err error
	switch {
	case !h.SDK.Direct():
		v.stream.events = acceptsEvents(r)
		out, err = throughSDK(v.beside(ctx, h.SDK), h.SDK, v, req)
	case h.SDK.Chained():
		out, err = h.SDK.Receive(v.beside(ctx, h.SDK), req.ID, req.Method, req.Params, &v.extra, progress)
	default:
		out, err = h.pass(ctx, v, handler, req, progress)
	}
	h.respond(ctx, &v.stream, req, out, err)
}

// pass brings a request through the gate to a handler of ours or, if it is nil, to the tasks.
func (h *handler) pass(ctx context.Context, v *visit, handler *call.Handler, req wire.Request,
	progress call.ProgressFunc) (out *call.Outcome, err error) {
	a := gate.Access{Principal: v.principal, Method: req.Method, Target: v.params.Target, Extra: &v.extra}
	from := gate.Origin{ID: req.ID, Version: v.params.Meta.Version, Transport: report.TransportHTTP, Meta: &v.params.Meta}
	err = h.SDK.Gate.PassNamed(ctx, a, from, func(ctx context.Context, p gate.Passage) (err error) {
		if handler == nil {
			encoded, err := h.SDK.Tasks.Serve(ctx, p.Principal, &v.task)
			out = &call.Outcome{Encoded: encoded}
			return err
		}
		v.call = call.Request{
			Handler:   handler,
			Params:    &v.params,
			Raw:       req.Params,
			Can:       v.params.Meta.Capabilities &^ wire.Tasks, // the home says whether this call can become one
			Principal: p.Principal,
			Crowded:   p.Crowded,
			Watch:     p.Watch,
			Progress:  progress,
			Extra:     &v.extra,
			Ran:       &v.ran,
		}
		v.home = *h.SDK.Carrier.Home(&v.call)
		out, err = h.SDK.Calls.Serve(ctx, &v.call, &v.home)
		return err
	})
	return out, err
}

// respond sends the outcome of a request.
func (h *handler) respond(ctx context.Context, stream *eventStream, req wire.Request, out *call.Outcome, err error) {
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
		dst, err = out.AppendResult(dst, h.SDK.Info)
		return dst
	})
	response := buffer.data
	if err != nil {
		h.log.ErrorContext(ctx, "askback: a result cannot be encoded", "method", req.Method, "error", err)
		response = wire.AppendError(nil, req.ID, fault.Internal())
	}
	stream.finish(http.StatusOK, response)
}

// follow serves a subscription to tasks alone past the SDK, whose session would be half of what the subscription costs.
func (h *handler) follow(ctx context.Context, stream *eventStream, req wire.Request,
	extra *mcp.RequestExtra) (*call.Outcome, error) {
	ctx, cancel := gate.WhileTokenLasts(ctx, extra)
	defer cancel()
	l, err := h.SDK.Listen(ctx, req.ID, req.Params, extra)
	if err != nil {
		return nil, err
	}
	if err = stream.notify(tasks.MethodAcknowledged, l.Acknowledge(nil)); err == nil {
		err = h.SDK.Tasks.Follow(ctx, l, func(params []byte) error { return stream.notify(tasks.MethodTasks, params) })
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return &call.Outcome{Encoded: h.SDK.Tasks.Result(l)}, err
}

// serveTask serves a request about tasks.
func (h *handler) serveTask(w http.ResponseWriter, v *visit, r *http.Request, req wire.Request) {
	v.task = tasks.Request{Method: req.Method, TaskID: v.params.Target, Params: req.Params,
		Can: v.params.Meta.Capabilities}
	fault := v.task.Check()
	if fault == nil && v.task.Extension() { // the proposals' dialect does not require it
		_, fault = wire.Header(r.Header, wire.HeaderName)
	}
	if fault != nil {
		failTask(w, req.ID, fault)
		return
	}
	var out *call.Outcome
	var err error
	v.stream.w = w
	switch {
	case !h.SDK.Direct():
		out, err = throughSDK(v.beside(r.Context(), h.SDK), h.SDK, v, req)
	case h.SDK.Chained():
		out, err = h.SDK.Receive(v.beside(r.Context(), h.SDK), req.ID, req.Method, req.Params, &v.extra, nil)
	default:
		out, err = h.pass(r.Context(), v, nil, req, nil)
	}
	if err != nil && !v.stream.gone(r.Context()) {
		failTask(w, req.ID, err)
		return
	}
	h.respond(r.Context(), &v.stream, req, out, err)
}

func failTask(w http.ResponseWriter, id []byte, err error) {
	code := fault.Status(err)
	if fault.Wire(err).Code == jsonrpc.CodeMethodNotFound {
		code = http.StatusNotFound
	}
	failAs(w, code, id, err)
}
