package httpfront

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/drafts"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/sdkfront"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// sessions serves the sessions of clients before 2026-07-28, through the SDK's handler.
type sessions struct {
	sdk    *sdkfront.Front
	http   http.Handler // the SDK's
	drafts *drafts.Edge // nil unless they are served
	limits bound.Limits
}

// serveMessages serves a message, or a batch, of a revision with sessions.
func (s *sessions) serveMessages(x *exchange, r *http.Request, body []byte) {
	depth, kind := s.limits.Depth, strictjson.TypeOf(body)
	if kind == strictjson.TypeArray {
		depth++ // around the messages of a batch
	}
	if err := strictjson.Check(body, depth); err != nil {
		fault := wire.Errorf(jsonrpc.CodeParseError, "parse error: %v", err)
		id, response := wire.Addressee(body)
		if !response {
			failAs(&x.reply, http.StatusBadRequest, id, fault)
			return
		}
		body = wire.AppendError(nil, id, fault) // to a question of the server, which fails with this error
		kind = strictjson.TypeObject
	}
	if kind == strictjson.TypeArray {
		if fault := sdkfront.CheckBatch(body, s.limits.Batch); fault != nil {
			failAs(&x.reply, http.StatusBadRequest, nil, fault)
			return
		}
	}
	if kind != strictjson.TypeObject && kind != strictjson.TypeArray {
		failAs(&x.reply, http.StatusBadRequest, nil,
			wire.Errorf(jsonrpc.CodeInvalidRequest, "invalid request: the body must be a JSON object"))
		return
	}
	if fault := checkSession(s.sdk, r, body); fault != nil {
		id, _ := wire.Addressee(body)
		failAs(&x.reply, http.StatusBadRequest, id, fault)
		return
	}
	var sent sessionBody
	if id := strictjson.Get(body, "id"); strictjson.TypeOf(id) == strictjson.TypeString ||
		strictjson.TypeOf(id) == strictjson.TypeNumber {
		sent.id = id
	}
	if len(body) > bound.Small {
		body = trim(body)
	}
	sent.calls = countCalls(body)
	s.serve(x, withBody(r, s.carry(r, body)), sent)
}

// sessionBody tells of the body of a request in a session. The zero value is that of no body.
type sessionBody struct {
	calls int    // the requests in it that wait for a response
	id    []byte // of the only request
}

// carry lets what the SDK's types do not keep of a call in a session reach its handler: the
// member task and, for questions that carry a state, the call's id.
func (s *sessions) carry(r *http.Request, body []byte) []byte {
	if s.sdk.Tasks == nil && s.drafts == nil {
		return body
	}
	req, fault := wire.ParseRequest(body, s.limits.Depth, new(strictjson.Outline), false)
	if fault != nil || req.ID == nil || !wire.MayAsk(req.Method) || !s.sdk.Serves(r.Context(), req.Method, req.Params) {
		return body
	}
	var id []byte
	if s.drafts != nil && drafts.Stateful(r) {
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

// serve serves what belongs to a session, if it comes from the caller who opened it.
func (s *sessions) serve(x *exchange, r *http.Request, sent sessionBody) {
	calls, id := sent.calls, r.Header.Get("Mcp-Session-Id")
	if id == "" { // the context of a request that may open a session is the context of all requests of the session
		r = r.WithContext(s.sdk.Gate.Named(r.Context(), x.request.Principal))
	} else if err := s.sdk.Gate.CheckOwner(r.Context(), id, gate.Access{Principal: x.request.Principal,
		Extra: &x.request.Extra}); err != nil {
		x.turnAway(r, err)
		return
	}
	if r.Method == http.MethodDelete && id != "" {
		s.end(&x.reply, r, id)
		return
	}
	if r.Method == http.MethodGet && id != "" || calls > 1 || calls > 0 && id != "" {
		ctx, err := x.shares.stayOpen(r.Context())
		if err != nil {
			x.turnAway(r, err)
			return
		}
		r = r.WithContext(ctx)
		if calls == 0 {
			x.shares.waitForClient()
		} else {
			// They hold shares of their own, even once this request is gone.
			x.shares.body.Release()
			release, err := s.sdk.Gate.Sessions.Announce(id, calls, r.Header, &x.shares.request, &x.shares)
			if err != nil {
				x.turnAway(r, err)
				return
			}
			defer release()
		}
	}
	w := &notHandled{reply: &x.reply, id: sent.id}
	if s.drafts != nil {
		s.drafts.InSession(w, r, s.http)
		return
	}
	s.http.ServeHTTP(w, r)
}

// notHandled gives a request whose method the SDK does not know the error of the protocol. The SDK refuses the request
// of HTTP instead, with a text and without the id.
type notHandled struct {
	*reply
	id      []byte // of the request; nil if it is not the only one
	refused bool
}

func (w *notHandled) WriteHeader(status int) {
	w.refused = status == http.StatusBadRequest && w.id != nil
	if !w.refused {
		w.reply.WriteHeader(status)
	}
}

func (w *notHandled) Write(p []byte) (int, error) {
	if !w.refused {
		return w.reply.Write(p)
	}
	w.refused = false
	if method, ok := bytes.CutPrefix(bytes.TrimSpace(p), []byte("JSON RPC not handled: ")); ok {
		method = bytes.TrimSuffix(method, []byte(" unsupported"))
		failAs(w.reply, http.StatusOK, w.id, wire.Errorf(jsonrpc.CodeMethodNotFound, "method not found: %.80s", method))
		return len(p), nil
	}
	w.reply.WriteHeader(http.StatusBadRequest)
	return w.reply.Write(p)
}

// end ends a session and its open calls. The SDK waits until the handlers of these calls return; the client
// waits for a moment only.
func (s *sessions) end(w http.ResponseWriter, r *http.Request, id string) {
	s.sdk.Gate.Sessions.End(id)
	answer := make(chan *answer, 1)
	go func() { // ends when the session's handlers have returned
		a := newAnswer()
		s.http.ServeHTTP(a, r.WithContext(context.WithoutCancel(r.Context())))
		answer <- a
	}()
	const moment = 500 * time.Millisecond
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case a := <-answer:
		maps.Copy(w.Header(), a.header)
		w.WriteHeader(a.status)
		_, _ = w.Write(a.body) // a client that is gone gets nothing
	case <-timer.C:
		w.WriteHeader(http.StatusNoContent)
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

// has reports whether this process holds a session.
func (s *sessions) has(id string) bool {
	for session := range s.sdk.Server.Sessions() {
		if session.ID() == id {
			return true
		}
	}
	return false
}

// owned reports whether the caller of a request may send messages in the session that it names.
func (s *sessions) owned(x *exchange, r *http.Request) bool {
	return s.sdk.Gate.Sessions.Owns(x.request.Principal, r.Header.Get("Mcp-Session-Id"))
}
