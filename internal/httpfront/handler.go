// Package httpfront serves the MCP endpoint over HTTP: requests of the 2026-07-28 revision for handlers and tasks
// itself, and everything else through the SDK's handlers. Drafts of the protocol are translated at its edge.
package httpfront

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/drafts"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/sdkfront"
	"github.com/askback-mcp/askback/internal/strictjson"
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
		hosts: hosts, limits: sdk.Calls.Limits, supported: opts.Supported,
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
	h.modern = modern{
		sdk: sdk, stateless: mcp.NewStreamableHTTPHandler(getServer, &streamable), supported: opts.Supported,
		limits: h.limits, log: sdk.Log, jsonLists: opts.Streamable.JSONResponse,
	}
	if opts.Drafts {
		h.drafts = &drafts.Edge{HasSession: h.sessions.has, Depth: h.limits.Depth}
		h.sessions.drafts = h.drafts
		echo := sdkfront.EchoFunc(drafts.Echo)
		sdk.Echo.Store(&echo)
	}
	return h, nil
}

type handler struct {
	hosts     *hosts
	drafts    *drafts.Edge // nil unless they are served
	modern    modern       // for the 2026-07-28 revision
	sessions  sessions     // for the revisions before it
	limits    bound.Limits
	supported []string // protocol versions, newest first

	readTimeout, writeTimeout time.Duration // none if they are not positive
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := newExchange(w, h.modern.sdk.Gate)
	x.pace.timeout = h.writeTimeout
	defer x.pace.begin() // for what net/http has buffered
	h.serve(x, r)
}

func (h *handler) serve(x *exchange, r *http.Request) {
	x.pace.limitReading(r, h.readTimeout)
	if fault := h.hosts.check(r); fault != nil {
		failAs(&x.reply, http.StatusForbidden, nil, fault)
		return
	}
	defer x.release()
	if err := x.admit(r); err != nil {
		x.turnAway(r, err)
		return
	}
	if r.Method != http.MethodPost {
		h.sessions.serve(x, r, sessionBody{})
		return
	}
	if !isJSON(r.Header.Get("Content-Type")) {
		failAs(&x.reply, http.StatusUnsupportedMediaType, nil,
			wire.Errorf(jsonrpc.CodeInvalidRequest, "the Content-Type must be application/json"))
		return
	}
	body, ok := h.read(x, r)
	if !ok {
		return
	}
	if fault := wire.CheckOnce(r.Header); fault != nil {
		id, _ := wire.Addressee(body)
		failAs(&x.reply, http.StatusBadRequest, id, fault)
		return
	}
	switch {
	case h.drafts != nil && h.drafts.Serve(&x.reply, r, body, h.sessions.owned(x, r), h.modern.translated(x)):
	case h.legacy(r, body):
		h.sessions.serveMessages(x, r, body)
	default:
		h.modern.serve(&x.reply, x, r, body, true)
	}
}

// read reads the body of a request. If it fails, it has answered the request.
func (h *handler) read(x *exchange, r *http.Request) (body []byte, ok bool) {
	body, err := readBody(&x.reply, r, h.limits.MessageBytes, &x.pace, &x.shares)
	if err == nil {
		if r.ContentLength != 0 && h.readTimeout > 0 { // the deadline would end the connection while the request is served
			_ = http.NewResponseController(&x.reply).SetReadDeadline(time.Time{})
		}
		return body, true
	}
	x.pace.end()
	x.reply.Header().Set("Connection", "close") // the rest of the body is not read
	if fault.Of(err).Busy() {
		x.turnAway(r, err)
	} else {
		failBody(&x.reply, err, h.readTimeout)
	}
	return nil, false
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
