// Package httpfront serves the MCP endpoint over HTTP: requests of the 2026-07-28 revision for handlers and tasks
// itself, and everything else through the SDK's handlers. Drafts of the protocol are translated at its edge.
package httpfront

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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
	hosts, err := newHosts(opts)
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
	h.sessions = mcp.NewStreamableHTTPHandler(getServer, &streamable)
	streamable.Stateless, streamable.PropagateRequestCancellation = true, true
	h.stateless = mcp.NewStreamableHTTPHandler(getServer, &streamable)
	if opts.Drafts {
		h.drafts = &drafts.Edge{Ratified: h.serveTranslated, HasSession: h.hasSession, Owns: h.owns, Depth: h.limits.Depth}
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
	sessions  http.Handler // the SDK's, for those before
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
	h.limitReading(v, r)
	if fault := h.hosts.check(r); fault != nil {
		failAs(v, http.StatusForbidden, nil, fault)
		return
	}
	defer v.release()
	if err := h.admit(v, r); err != nil {
		h.turnAway(v, r, err)
		return
	}
	if r.Method != http.MethodPost {
		h.serveSession(v, r, 0)
		return
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		failAs(v, http.StatusUnsupportedMediaType, nil,
			wire.Errorf(jsonrpc.CodeInvalidRequest, "the Content-Type must be application/json"))
		return
	}
	body, ok := h.readBody(v, r)
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
		h.serveLegacy(v, r, body)
	default:
		h.serveModern(v, v, r, body, true)
	}
}

// withBody returns a copy of a request with this body, which was read from it.
func withBody(r *http.Request, body []byte) *http.Request {
	r = r.WithContext(r.Context())
	r.Body, r.ContentLength = io.NopCloser(&bodyReader{*bytes.NewReader(body)}), int64(len(body))
	return r
}

// bodyReader reads a body once, and then lets go of it, although the request may last longer.
type bodyReader struct{ bytes.Reader }

func (r *bodyReader) Read(p []byte) (n int, err error) {
	if n, err = r.Reader.Read(p); err == io.EOF {
		r.Reset(nil)
	}
	return n, err
}

// WriteTo implements [io.WriterTo].
func (r *bodyReader) WriteTo(w io.Writer) (n int64, err error) {
	defer r.Reset(nil)
	return r.Reader.WriteTo(w)
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

func (h *handler) serveLegacy(v *visit, r *http.Request, body []byte) {
	depth, kind := h.limits.Depth, strictjson.TypeOf(body)
	if kind == strictjson.TypeArray {
		depth++ // around the messages of a batch
	}
	if err := strictjson.Check(body, depth); err != nil {
		fault := wire.Errorf(jsonrpc.CodeParseError, "parse error: %v", err)
		id, response := wire.Addressee(body)
		if !response {
			failAs(v, http.StatusBadRequest, id, fault)
			return
		}
		body = wire.AppendError(nil, id, fault) // to a question of the server, which fails with this error
		kind = strictjson.TypeObject
	}
	if kind == strictjson.TypeArray {
		if fault := sdkfront.CheckBatch(body, h.limits.Batch); fault != nil {
			failAs(v, http.StatusBadRequest, nil, fault)
			return
		}
	}
	if kind != strictjson.TypeObject && kind != strictjson.TypeArray {
		failAs(v, http.StatusBadRequest, nil,
			wire.Errorf(jsonrpc.CodeInvalidRequest, "invalid request: the body must be a JSON object"))
		return
	}
	if fault := h.checkSession(r, body); fault != nil {
		id, _ := wire.Addressee(body)
		failAs(v, http.StatusBadRequest, id, fault)
		return
	}
	if len(body) > bound.Small {
		body = trim(body)
	}
	calls := countCalls(body)
	h.serveSession(v, withBody(r, h.carry(r, body)), calls)
}

// carry lets what the SDK's types do not keep of a call in a session reach its handler: the
// member task and, for questions that carry a state, the call's id.
func (h *handler) carry(r *http.Request, body []byte) []byte {
	if h.SDK.Tasks == nil && h.drafts == nil {
		return body
	}
	req, fault := wire.ParseRequest(body, h.limits.Depth, new(strictjson.Outline), false)
	if fault != nil || req.ID == nil || !wire.MayAsk(req.Method) || !h.SDK.Serves(r.Context(), req.Method, req.Params) {
		return body
	}
	var id []byte
	if h.drafts != nil && drafts.Stateful(r) {
		id = req.ID
	}
	req.Params = sdkfront.Carry(req.Params, id)
	return wire.AppendRequest(nil, req)
}

// trim removes what no handler needs from a checked message or batch: spaces, and members of a _meta beyond
// [bound.Small] bytes. A session keeps the message while its calls are open.
func trim(body []byte) []byte {
	var batch []json.RawMessage
	if json.Unmarshal(body, &batch) == nil {
		for i := range batch {
			batch[i] = trimMessage(batch[i])
		}
		body, _ = json.Marshal(batch) // checked JSON
		return body
	}
	return trimMessage(body)
}

func trimMessage(message []byte) []byte {
	var all, params map[string]json.RawMessage
	if json.Unmarshal(message, &all) != nil {
		return message
	}
	if raw := all["params"]; strictjson.TypeOf(raw) == strictjson.TypeObject {
		_ = json.Unmarshal(raw, &params) // checked JSON
		if raw := params["_meta"]; len(raw) > bound.Small && strictjson.TypeOf(raw) == strictjson.TypeObject {
			meta, size := make(map[string]json.RawMessage), 0
			for name, value := range strictjson.Members(raw) {
				// A long progress token stays, so that the request is refused because of it.
				if more := len(name) + len(value); size+more <= bound.Small || string(name) == "progressToken" {
					meta[string(name)] = value
					size += more
				}
			}
			params["_meta"], _ = json.Marshal(meta) // checked JSON
		}
		all["params"], _ = json.Marshal(params)
	}
	message, _ = json.Marshal(all)
	return message
}

// countCalls returns how many requests a checked message or batch has that wait for a response.
func countCalls(body []byte) (n int) {
	for message := range messages(body) {
		if strictjson.Get(message, "method") != nil && strictjson.Get(message, "id") != nil {
			n++
		}
	}
	return n
}

// serveSession serves what belongs to a session, with that many calls, if it comes from the caller who opened it.
func (h *handler) serveSession(v *visit, r *http.Request, calls int) {
	id := r.Header.Get("Mcp-Session-Id")
	if id == "" { // the context of what may open a session is that of all of its requests
		r = r.WithContext(gate.Named(r.Context(), v.principal))
	} else if err := h.SDK.Gate.CheckOwner(r.Context(), id, gate.Access{Principal: v.principal,
		Extra: &v.extra}); err != nil {
		h.turnAway(v, r, err)
		return
	}
	if r.Method == http.MethodDelete && id != "" {
		h.endSession(v, r, id)
		return
	}
	if r.Method == http.MethodGet && id != "" || calls > 1 || calls > 0 && id != "" {
		var err error
		if r, err = h.stayOpen(v, r); err != nil {
			h.turnAway(v, r, err)
			return
		}
		if calls == 0 {
			v.wait()
		} else {
			// They hold shares of their own, even once this request is gone.
			v.body.Release()
			release, err := h.SDK.Gate.Sessions.Announce(id, calls, r.Header, &v.request, v)
			if err != nil {
				h.turnAway(v, r, err)
				return
			}
			defer release()
		}
	}
	if h.drafts != nil {
		h.drafts.InSession(v, r, h.sessions)
		return
	}
	h.sessions.ServeHTTP(v, r)
}

// endSession ends a session and its open calls. The SDK waits until the handlers of these calls return; the client
// waits for a moment only.
func (h *handler) endSession(v *visit, r *http.Request, id string) {
	h.SDK.Gate.Sessions.End(id)
	answer := make(chan *answer, 1)
	go func() { // ends when the session's handlers have returned
		a := newAnswer()
		h.sessions.ServeHTTP(a, r.WithContext(context.WithoutCancel(r.Context())))
		answer <- a
	}()
	const moment = 500 * time.Millisecond
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case a := <-answer:
		maps.Copy(v.Header(), a.header)
		v.WriteHeader(a.status)
		_, _ = v.Write(a.body) // a client that is gone gets nothing
	case <-timer.C:
		v.WriteHeader(http.StatusNoContent)
	case <-r.Context().Done():
	}
}

// answer is a response that is sent later. It implements [http.ResponseWriter].
type answer struct {
	header http.Header
	status int
	body   []byte
}

func newAnswer() *answer { return &answer{header: make(http.Header), status: http.StatusOK} }

func (a *answer) Header() http.Header    { return a.header }
func (a *answer) WriteHeader(status int) { a.status = status }
func (a *answer) Write(p []byte) (int, error) {
	a.body = append(a.body, p...)
	return len(p), nil
}

// hasSession reports whether this process holds a session.
func (h *handler) hasSession(id string) bool {
	for session := range h.SDK.Server.Sessions() {
		if session.ID() == id {
			return true
		}
	}
	return false
}

// owns reports whether the caller of a request may send messages in the session that it names.
func (h *handler) owns(r *http.Request) bool {
	return h.SDK.Gate.Sessions.Owns(visitOf(r).principal, r.Header.Get("Mcp-Session-Id"))
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
		opened, err := h.stayOpen(v, r)
		if err != nil {
			fail(w, req.ID, err)
			return
		}
		r, body = opened, h.keep(v, &req, body)
	}
	switch {
	case req.ID != nil && h.SDK.Tasks != nil && wire.IsTask(req.Method):
		h.serveTask(w, v, r, req)
	case req.ID != nil && h.SDK.Tasks != nil && req.Method == tasks.MethodListen && tasks.NamesTasks(req.Params):
		v.stream.w, v.stream.events = w, true
		follow := h.throughSDK
		if tasks.OnlyTasks(req.Params) && !h.SDK.Watched() {
			follow = h.follow
		}
		out, err := follow(v.named(r.Context()), &v.stream, req, &v.extra)
		h.respond(r.Context(), &v.stream, req, out, err)
	case asks:
		h.serveCall(w, v, r, req, body, mirrored)
	case req.ID != nil && h.serveList(w, v, r, req):
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
	h.stateless.ServeHTTP(w, withBody(r.WithContext(sdkfront.Admitted(v.named(r.Context()))), body))
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
		out, err = h.throughSDK(v.named(r.Context()), &v.stream, req, &v.extra)
	case h.SDK.Chained():
		out, err = h.SDK.Receive(v.named(r.Context()), req.ID, req.Method, req.Params, &v.extra, progress)
	default:
		out, err = h.pass(r.Context(), v, handler, req, progress)
	}
	h.respond(r.Context(), &v.stream, req, out, err)
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
		out, err = h.throughSDK(v.named(r.Context()), &v.stream, req, &v.extra)
	case h.SDK.Chained():
		out, err = h.SDK.Receive(v.named(r.Context()), req.ID, req.Method, req.Params, &v.extra, nil)
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
