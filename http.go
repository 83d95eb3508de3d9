package askback

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/drafts"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// HTTPOptions configure [Server.HTTPHandler]. The zero value is ready to use.
type HTTPOptions struct {
	// TrustedOrigins are web origins, such as "https://app.example.com", whose pages
	// may send requests besides those of the server's own origin.
	TrustedOrigins []string

	// Drafts also serves requests in the forms of the proposals that led to the
	// 2026-07-28 revision, to peers that were built on them: see docs/drafts.md. Leave it
	// off where there are none.
	Drafts bool

	// Streamable configures what the SDK serves behind the same endpoint: lists,
	// discovery, subscriptions, and the sessions of legacy clients. Stateless,
	// MaxRequestBodyBytes and PropagateRequestCancellation are set by Askback.
	// A SessionTimeout of zero means 30 minutes.
	Streamable mcp.StreamableHTTPOptions
}

// HTTPHandler serves the MCP endpoint: Askback's own handlers to clients of the
// 2026-07-28 revision on a path of its own, all else through the SDK's handlers, and
// legacy sessions beside them. Bearer tokens are checked by a handler around it, such
// as the SDK's auth.RequireBearerToken. It panics on a trusted origin that is none.
// (basic/transports/streamable-http)
func (s *Server) HTTPHandler(opts *HTTPOptions) http.Handler {
	if opts == nil {
		opts = &HTTPOptions{}
	}
	h := &httpHandler{Server: s, checkHost: !opts.Streamable.DisableLocalhostProtection}
	for _, origin := range opts.TrustedOrigins {
		if err := h.origins.AddTrustedOrigin(origin); err != nil {
			panic(fmt.Sprintf("askback: trusted origin: %v", err))
		}
	}
	sdk := opts.Streamable
	sdk.MaxRequestBodyBytes = s.opts.Limits.BodyBytes
	setDefault(&sdk.SessionTimeout, 30*time.Minute)
	getServer := func(*http.Request) *mcp.Server { return s.mcp }
	sdk.Stateless = false
	h.sessions = mcp.NewStreamableHTTPHandler(getServer, &sdk)
	sdk.Stateless, sdk.PropagateRequestCancellation = true, true
	h.stateless = mcp.NewStreamableHTTPHandler(getServer, &sdk)
	if opts.Drafts {
		h.drafts = &drafts.Edge{Ratified: h.serveTranslated, HasSession: h.hasSession, Depth: s.opts.Limits.Depth}
	}
	return h
}

type httpHandler struct {
	*Server
	checkHost bool
	origins   http.CrossOriginProtection
	stateless http.Handler // the SDK's, for the 2026-07-28 revision
	sessions  http.Handler // the SDK's, for those before
	drafts    *drafts.Edge // nil unless they are served
}

func (h *httpHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.checkHost && rebound(r) {
		writeError(w, http.StatusForbidden, nil, wire.Errorf(jsonrpc.CodeInvalidRequest, "forbidden: the Host header is not one of this local server"))
		return
	}
	probe := *r
	probe.Method = http.MethodPost // Check lets GET pass unseen
	if err := h.origins.Check(&probe); err != nil {
		writeError(w, http.StatusForbidden, nil, wire.Errorf(jsonrpc.CodeInvalidRequest, "forbidden: the request comes from another origin, which is not trusted"))
		return
	}
	if r.Method != http.MethodPost {
		h.serveSession(w, r)
		return
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		writeError(w, http.StatusUnsupportedMediaType, nil, wire.Errorf(jsonrpc.CodeInvalidRequest, "the Content-Type must be application/json"))
		return
	}
	body, err := readBody(w, r, h.opts.Limits.BodyBytes)
	if err != nil {
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			writeError(w, http.StatusRequestEntityTooLarge, nil, wire.Errorf(jsonrpc.CodeInvalidRequest, "the body exceeds the limit of %d bytes", tooLarge.Limit))
			return
		}
		// The client went away or broke the transfer: nobody reads an answer.
		writeError(w, http.StatusBadRequest, nil, wire.Errorf(jsonrpc.CodeInvalidRequest, "the body could not be read"))
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if h.drafts != nil && h.drafts.Serve(w, r, body) {
		return
	}
	if h.legacy(r, body) {
		h.serveLegacy(w, r, body)
		return
	}
	h.serveModern(w, r, body, true)
}

func isJSON(contentType string) bool {
	if contentType == "application/json" {
		return true
	}
	mediaType, _, err := mime.ParseMediaType(contentType)
	return err == nil && mediaType == "application/json"
}

// rebound reports whether a request reached a loopback address under a foreign name,
// as a page does whose name was rebound to it.
func rebound(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !loopback(local.String()) {
		return false
	}
	return !loopback(r.Host)
}

func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	// No more than this comes. What is large is given memory only as it comes: announcing
	// it costs a client nothing.
	if r.ContentLength >= 0 && r.ContentLength <= 64<<10 {
		body := make([]byte, r.ContentLength)
		_, err := io.ReadFull(r.Body, body)
		return body, err
	}
	return io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
}

// legacy reports whether a request belongs to a revision with sessions: by its version
// header or, where it has none (initialize, and all before 2025-06-18), because its
// body does not claim to be modern.
func (h *httpHandler) legacy(r *http.Request, body []byte) bool {
	version := r.Header.Get(wire.HeaderVersion)
	if version == wire.Version || version != "" && !slices.Contains(h.supported, version) {
		return false
	}
	if !bytes.Contains(body, []byte(mcp.MetaKeyProtocolVersion)) {
		return true
	}
	req, err := wire.ParseRequest(body, h.opts.Limits.Depth)
	if err != nil {
		return false
	}
	return strictjson.Get(strictjson.Get(req.Params, "_meta"), mcp.MetaKeyProtocolVersion) == nil
}

func (h *httpHandler) serveLegacy(w http.ResponseWriter, r *http.Request, body []byte) {
	depth, kind := h.opts.Limits.Depth, strictjson.TypeOf(body)
	if kind == strictjson.TypeArray {
		depth++ // around the messages of a batch
	}
	if err := strictjson.Check(body, depth); err != nil {
		fault := wire.Errorf(jsonrpc.CodeParseError, "parse error: %v", err)
		id, response := wire.Addressee(body)
		if !response {
			writeError(w, http.StatusBadRequest, id, fault)
			return
		}
		body = wire.AppendError(nil, id, fault) // to a question of the server, which fails with this error
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		kind = strictjson.TypeObject
	}
	if kind != strictjson.TypeObject && kind != strictjson.TypeArray {
		writeError(w, http.StatusBadRequest, nil, wire.Errorf(jsonrpc.CodeInvalidRequest, "invalid request: the body must be a JSON object"))
		return
	}
	if h.tasks != nil || h.drafts != nil {
		r = h.withExactParams(r, body)
	}
	h.serveSession(w, r)
}

func (h *httpHandler) serveSession(w http.ResponseWriter, r *http.Request) {
	if h.drafts != nil {
		h.drafts.InSession(w, r, h.sessions)
		return
	}
	h.sessions.ServeHTTP(w, r)
}

// hasSession reports whether this process holds a session.
func (h *httpHandler) hasSession(id string) bool {
	for session := range h.mcp.Sessions() {
		if session.ID() == id {
			return true
		}
	}
	return false
}

// withExactParams lets the parameters of a call in a session reach its handler as they came:
// the SDK's types have no member task. With drafts its id may go along, for the state of
// its questions.
func (h *httpHandler) withExactParams(r *http.Request, body []byte) *http.Request {
	req, fault := wire.ParseRequest(body, h.opts.Limits.Depth)
	if fault != nil || !wire.MayAsk(req.Method) {
		return r
	}
	if !h.serves(req.Method, req.Params) {
		return r
	}
	exact := *r
	exact.Header = maps.Clone(r.Header)
	exact.Header[exactParams] = []string{string(req.Params)}
	if h.drafts != nil && drafts.Stateful(r) {
		exact.Header[echoedState] = []string{string(req.ID)}
	}
	return &exact
}

// serveTranslated serves a request that the edge has translated from a draft. The drafts
// have no headers that mirror a tool's parameters.
func (h *httpHandler) serveTranslated(w http.ResponseWriter, r *http.Request, body []byte) {
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body))
	h.serveModern(w, r, body, false)
}

// serveModern serves a request of the 2026-07-28 revision. If mirrored, it has the headers
// that a tool's parameters are to be mirrored in.
func (h *httpHandler) serveModern(w http.ResponseWriter, r *http.Request, body []byte, mirrored bool) {
	req, fault := wire.ParseRequest(body, h.opts.Limits.Depth)
	if fault == nil && req.ID != nil {
		fault = h.checkMetadata(r, req)
	}
	if fault != nil {
		writeError(w, status(fault), req.ID, fault)
		return
	}
	if req.ID != nil && h.tasks != nil && wire.IsTask(req.Method) {
		h.serveTasks(w, r, req)
		return
	}
	if req.ID != nil && req.Method == methodListen {
		var refused error
		l, err := h.newListening(r.Context(), req.ID, req.Params, func() (principal string, err error) {
			principal, refused = h.principal(r.Context(), requestExtra(r))
			return principal, refused
		})
		if refused != nil {
			writeError(w, http.StatusForbidden, req.ID, protocolError(refused))
			return
		}
		if err != nil {
			fault := protocolError(err)
			writeError(w, status(fault), req.ID, fault)
			return
		}
		if l != nil {
			h.serveListen(w, r, req, l)
			return
		}
	}
	if req.ID == nil || !wire.MayAsk(req.Method) {
		h.stateless.ServeHTTP(w, r)
		return
	}
	params, fault := wire.ParseParams(req.Method, req.Params)
	if fault == nil {
		fault = wire.CheckHeader(r.Header, wire.HeaderName, params.Target, true)
	}
	if fault != nil {
		writeError(w, status(fault), req.ID, fault)
		return
	}
	handler := h.lookup(req.Method, params.Target)
	if handler == nil {
		if params.HasState && params.State == "" { // which the SDK's types take for none
			fault := wire.InvalidState()
			writeError(w, status(fault), req.ID, fault)
			return
		}
		// The SDK compares the header as it stands.
		r.Header = maps.Clone(r.Header)
		r.Header[wire.HeaderName] = []string{params.Target}
		h.stateless.ServeHTTP(w, r)
		return
	}
	if mirrored {
		for _, header := range handler.headers {
			if fault := header.Check(r.Header, params.Arguments); fault != nil {
				writeError(w, status(fault), req.ID, fault)
				return
			}
		}
	}
	h.serveOwn(w, r, req, params, handler)
}

// checkMetadata verifies what every modern request must say of itself, in headers and
// body alike.
func (h *httpHandler) checkMetadata(r *http.Request, req wire.Request) *jsonrpc.Error {
	version, fault := wire.Header(r.Header, wire.HeaderVersion)
	if fault != nil {
		return fault
	}
	var meta wire.Meta
	if raw := strictjson.Get(req.Params, "_meta"); raw != nil && strictjson.TypeOf(raw) == strictjson.TypeObject {
		if meta, fault = wire.ParseMeta(raw); fault != nil {
			return fault
		}
	}
	if meta.Version != "" && meta.Version != version {
		return wire.Mismatch("the %s header does not match the value in the body", wire.HeaderVersion)
	}
	if version != wire.Version {
		return wire.UnsupportedVersion(version, h.supported)
	}
	if meta.Version == "" {
		return wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: _meta needs %q", mcp.MetaKeyProtocolVersion)
	}
	if fault := wire.CheckHeader(r.Header, wire.HeaderMethod, req.Method, false); fault != nil {
		return fault
	}
	if !meta.HasCapabilities {
		return wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: _meta needs %q", mcp.MetaKeyClientCapabilities)
	}
	return nil
}

// requestExtra is what the transport says of a request's caller.
func requestExtra(r *http.Request) *mcp.RequestExtra {
	return &mcp.RequestExtra{TokenInfo: auth.TokenInfoFromContext(r.Context()), Header: r.Header}
}

func (h *httpHandler) serveOwn(w http.ResponseWriter, r *http.Request, req wire.Request, params *wire.Params, handler *handler) {
	ctx := r.Context()
	extra := requestExtra(r)
	principal, err := h.principal(ctx, extra)
	if err != nil {
		fault := protocolError(err)
		writeError(w, http.StatusForbidden, req.ID, fault)
		return
	}
	stream := &eventStream{w: w, token: params.Meta.ProgressToken}
	x := &exchange{
		handler:   handler,
		params:    params,
		raw:       req.Params,
		can:       Kind(params.Meta.Capabilities),
		principal: principal,
		request: func(mine manualState) mcp.Request {
			return sdkRequest(req.Method, req.Params, nil, extra, mine)
		},
	}
	if params.Meta.ProgressToken != nil && acceptsEvents(r) {
		x.progress = stream.progress
	}
	reply, err := (*reply)(nil), h.wish(x, false)
	if err == nil {
		reply, err = h.serve(ctx, x)
	}
	if ctx.Err() != nil {
		return // the client went away, which cancels the request: nothing more is sent for it
	}
	if err != nil {
		fault := protocolError(err)
		stream.finish(status(fault), wire.AppendError(nil, req.ID, fault))
		return
	}
	response, err := h.encode(req.ID, reply)
	if err != nil {
		h.log.ErrorContext(ctx, "askback: a result cannot be encoded", "method", handler.method, "error", err)
		response = wire.AppendError(nil, req.ID, wire.Errorf(jsonrpc.CodeInternalError, "internal error"))
	}
	stream.finish(http.StatusOK, response)
}

// encode makes the response with a reply.
func (s *Server) encode(id []byte, r *reply) ([]byte, error) {
	if r.task != nil {
		return wire.AppendResult(nil, id, func(dst []byte) []byte {
			return append(dst, s.encodeCreated(r, true)...)
		}), nil
	}
	if r.inputRequired() {
		meta := s.meta
		if r.state != "" {
			meta = append(make([]byte, 0, len(s.meta)+64), s.meta[:len(s.meta)-1]...)
			meta = append(meta, `,"`+wire.MetaExpires+`":"`...)
			meta = append(r.expires.UTC().AppendFormat(meta, time.RFC3339), `"}`...)
		}
		size := 256 + len(r.state) + len(meta)
		for _, q := range r.questions {
			size += len(q.key) + len(q.params) + 64
		}
		return wire.AppendResult(make([]byte, 0, size), id, func(dst []byte) []byte {
			return wire.InputRequired(dst, r.encoded(), r.state, meta)
		}), nil
	}
	result, meta, err := s.withServerInfo(r.result)
	if err != nil {
		return nil, err
	}
	encoded, members, err := encodeResult(result)
	if err != nil {
		return nil, err
	}
	return wire.AppendResult(make([]byte, 0, 128+len(encoded)+len(meta)), id, func(dst []byte) []byte {
		return wire.Complete(dst, encoded, meta, members)
	}), nil
}

// encodeResult encodes a handler's result. The further members, each ending in a comma, are
// what its type leaves out, though the specification's examples have it.
func encodeResult(result any) (encoded []byte, members string, err error) {
	if res, ok := result.(*mcp.CallToolResult); ok && !res.IsError {
		members = `"isError":false,`
	}
	// The SDK's results encode themselves; json.Marshal would scan what they made once more.
	encoded, err = result.(json.Marshaler).MarshalJSON()
	return encoded, members, err
}

// withServerInfo returns the _meta to encode beside result, or a copy of result that
// has it besides what the handler set.
func (s *Server) withServerInfo(result any) (any, []byte, error) {
	merge := func(own mcp.Meta) (mcp.Meta, error) {
		var all mcp.Meta
		err := json.Unmarshal(s.meta, &all)
		maps.Copy(all, own)
		return all, err
	}
	var err error
	switch r := result.(type) {
	case *mcp.CallToolResult:
		if len(r.Meta) > 0 {
			all := *r
			all.Meta, err = merge(r.Meta)
			return &all, nil, err
		}
	case *mcp.GetPromptResult:
		if len(r.Meta) > 0 {
			all := *r
			all.Meta, err = merge(r.Meta)
			return &all, nil, err
		}
	case *mcp.ReadResourceResult:
		if len(r.Meta) > 0 {
			all := *r
			all.Meta, err = merge(r.Meta)
			return &all, nil, err
		}
	}
	return result, s.meta, nil
}

// eventStream answers one request: with a single JSON object, unless a notification
// made it a stream of events before.
type eventStream struct {
	w     http.ResponseWriter
	token []byte

	mu       sync.Mutex
	started  bool
	finished bool
}

func (e *eventStream) progress(ctx context.Context, progress, total float64, message string) error {
	params := struct {
		Token    json.RawMessage `json:"progressToken"`
		Progress float64         `json:"progress"`
		Total    float64         `json:"total,omitempty"`
		Message  string          `json:"message,omitempty"`
	}{e.token, progress, total, message}
	data, err := json.Marshal(params)
	if err != nil {
		return fmt.Errorf("progress: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return e.notify("notifications/progress", data)
}

// notify sends a notification, which makes the response a stream.
func (e *eventStream) notify(method string, params []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.finished {
		return fmt.Errorf("%s: the request is already answered", method)
	}
	if !e.started {
		e.started = true
		header := e.w.Header()
		header.Set("Content-Type", "text/event-stream")
		header.Set("Cache-Control", "no-cache")
		header.Set("X-Accel-Buffering", "no")
	}
	return e.event(wire.AppendNotification(nil, method, params))
}

func (e *eventStream) event(data []byte) error {
	if _, err := fmt.Fprintf(e.w, "event: message\ndata: %s\n\n", data); err != nil {
		return err
	}
	return http.NewResponseController(e.w).Flush()
}

func (e *eventStream) finish(status int, response []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.finished = true
	if e.started {
		_ = e.event(response) // a client that is gone gets nothing
		return
	}
	writeJSON(e.w, status, response)
}

func acceptsEvents(r *http.Request) bool {
	for _, value := range r.Header["Accept"] {
		for part := range strings.SplitSeq(value, ",") {
			switch mediaType, _, _ := mime.ParseMediaType(part); mediaType {
			case "text/event-stream", "text/*", "*/*":
				return true
			}
		}
	}
	return false
}

// status is the HTTP status that the transport prescribes for an error.
func status(fault *jsonrpc.Error) int {
	switch fault.Code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeInvalidParams, mcp.CodeHeaderMismatch,
		mcp.CodeMissingRequiredClientCapabilities, mcp.CodeUnsupportedProtocolVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

func writeError(w http.ResponseWriter, status int, id []byte, fault *jsonrpc.Error) {
	writeJSON(w, status, wire.AppendError(nil, id, fault))
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone gets nothing
}
