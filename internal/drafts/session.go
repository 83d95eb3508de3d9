package drafts

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// The state proposal inside sessions before 2026-07-28, for a client whose URL names it:
//
//  1. A request of the server carries a state beside its params. The client echoes it beside
//     its result.
//  2. While this process holds the session, the call goes on from memory. The echo must equal
//     the state; a response without an echo is accepted as well.
//  3. Where this process does not hold the session, because another one does or did, the call
//     goes on from the state. The response to the echo is the server's next message: a request
//     with a new state, or the call's result.

// MetaState is the member of a server's request that carries its state to the edge, in the _meta of its params.
const MetaState = "io.github.askback-mcp/state"

// Stateful reports whether the client of a request in a session knows the state proposal.
func Stateful(r *http.Request) bool { return formOf(r) == State }

// Encode returns the state of a question in a session. The state holds the question's key, the requestState of its
// round, and the call.
func (c *Call) Encode(requestState, key string) (string, error) {
	e := envelope{State: requestState, Keys: []string{key}, Call: c}
	return e.encode()
}

// openStates holds the states of the server's requests that await their response here.
type openStates struct {
	mu     sync.Mutex
	states map[string]openState // The states, by openKey.
}

// openState is the state of one request. sent holds the keys of all open requests that went out on the same stream:
// when the stream ends, they are dropped together.
type openState struct {
	state string
	sent  map[string]bool
}

func (o *openStates) put(key, state string, sent map[string]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.states == nil {
		o.states = make(map[string]openState)
	}
	o.states[key] = openState{state, sent}
	sent[key] = true
}

func (o *openStates) get(key string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.states[key].state
}

func (o *openStates) drop(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.states[key].sent, key)
	delete(o.states, key)
}

func (o *openStates) dropAll(sent map[string]bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for key := range sent {
		delete(o.states, key)
	}
}

func openKey(r *http.Request, id []byte) string {
	return r.Header.Get(headerSession) + "\x00" + string(id)
}

// InSession serves a request in a session, and moves the state of each of the server's requests in the response from
// its _meta to where the proposal has it.
func (e *Edge) InSession(w http.ResponseWriter, r *http.Request, next http.Handler) {
	sent := make(map[string]bool) // the keys of the requests that this response leaves open
	defer e.open.dropAll(sent)
	out := &writer{ResponseWriter: w}
	out.translate = func(m []byte) []byte {
		if !bytes.Contains(m, []byte(MetaState)) {
			return m
		}
		moved, id, state := withState(m)
		if state != "" {
			e.open.put(openKey(r, id), state, sent)
		}
		return moved
	}
	next.ServeHTTP(out, r)
	out.finish()
}

// withState returns a server's request with its state moved from its _meta to the top, the request's ID and the
// state. A message without a state is returned as it is.
func withState(request []byte) (moved, id []byte, state string) {
	m := parse(request)
	meta := strictjson.Get(m["params"], "_meta")
	raw := strictjson.Get(meta, MetaState)
	state, _ = strictjson.String(raw)
	if m["method"] == nil || state == "" {
		return request, nil, ""
	}
	var left, params, all object
	params.addAll(m["params"], "_meta")
	if left.addAll(meta, MetaState); !left.empty() {
		params.add("_meta", left.bytes())
	}
	all.add("jsonrpc", m["jsonrpc"])
	all.add("id", m["id"])
	all.add("method", m["method"])
	all.add("state", raw)
	all.add("params", params.bytes())
	return all.bytes(), m["id"], state
}

// serveEcho serves a response that carries a state. It reports false if this process holds the session, which then
// takes the response, or refuses it.
func (e *Edge) serveEcho(w http.ResponseWriter, r *http.Request, m message, owner bool, next Ratified) bool {
	if sent := e.open.get(openKey(r, m["id"])); sent != "" {
		if !owner {
			return false
		}
		if echoed, _ := strictjson.String(m["state"]); echoed != sent {
			refuse(w, m["id"], wire.InvalidState())
			return true
		}
		e.open.drop(openKey(r, m["id"]))
		return false
	}
	env, fault := decodeEnvelope(m["state"], e.Depth+4) // the envelope nests the call's params deeper than the body did
	// Only a requestState that opens proves that the call exists and who began it.
	if fault == nil && (env.State == "" || len(env.Keys) != 1 || !env.Call.valid()) {
		fault = wire.InvalidState()
	}
	if fault != nil {
		refuse(w, m["id"], fault)
		return true
	}
	if session := env.Call.Session; session != "" && session == r.Header.Get(headerSession) && e.HasSession(session) {
		return false // a late echo, or a second one
	}
	if fault := checkHeaders(r.Header, "", nil); fault != nil { // a response has no method and no name
		refuse(w, m["id"], fault)
		return true
	}
	status, retryAfter, message := continueCall(r, env, m, next)
	w.Header().Set("Content-Type", "application/json")
	if retryAfter != "" {
		w.Header().Set(headerRetryAfter, retryAfter)
	}
	w.WriteHeader(status)
	_, _ = w.Write(message) // a client that is gone gets nothing
	return true
}

// continueCall serves the next round of the call in an envelope, and returns the server's next message. At a limit the
// call is refused: its client sends the echo again, because it cannot come back without a question.
func continueCall(r *http.Request, env *envelope, answer message,
	next Ratified) (status int, retryAfter string, m []byte) {
	if answer["result"] == nil {
		fault := wire.Errorf(jsonrpc.CodeInternalError, "asking the client %q: it answered with an error", env.Keys[0])
		return http.StatusOK, "", wire.AppendError(nil, env.Call.ID, fault)
	}
	var responses object
	responses.add(env.Keys[0], answer["result"])
	params, encoded := ratifiedParams(env.Call), responses.bytes()
	inner := ratifiedRequest(r, env.Call.Method, env.Call.Params)
	ctx, release := gate.Undivided(inner.Context())
	defer release()
	inner = inner.WithContext(ctx)
	for {
		var round object
		round.addAll(params)
		round.add("inputResponses", encoded)
		round.add("requestState", quote(env.State))
		out := capture{header: make(http.Header), status: http.StatusOK}
		var last []byte // The last message of a stream: the SDK may answer with one.
		to := &writer{ResponseWriter: &out, translate: func(m []byte) []byte {
			last = bytes.Clone(m)
			return m
		}}
		next(to, inner, request(quote("2.0"), env.Call.ID, env.Call.Method, round.bytes()))
		to.finish()
		raw := parse(last)["result"]
		if raw == nil {
			return out.status, out.header.Get(headerRetryAfter), last
		}
		res := parseResult(raw)
		if res.kind != "input_required" {
			return out.status, "", response(env.Call.ID, MRTR2.complete(env.Call.Method, res))
		}
		env.State, _ = strictjson.String(res.state)
		if len(res.requests) > 0 {
			return out.status, "", nextQuestion(env, res)
		}
		encoded = nil // a checkpoint: the call goes on at once, as it does in a session
	}
}

// nextQuestion returns the first open question as a request of the server. The others follow one by one, because each
// answer goes on from a state of its own.
func nextQuestion(env *envelope, r *result) []byte {
	q := r.requests[0]
	state, _ := env.Call.Encode(env.State, q.Key) // checked JSON always encodes
	var m object
	m.add("jsonrpc", quote("2.0"))
	m.add("id", quote("askback-"+rand.Text()))
	m.add("method", quote(q.Method))
	m.add("state", quote(state))
	m.add("params", q.Params)
	return m.bytes()
}

// ratifiedParams returns the parameters of a call in a session in the form of a ratified request.
func ratifiedParams(c *Call) []byte {
	var params object
	for _, name := range []string{"name", "uri", "arguments"} {
		params.add(name, strictjson.Get(c.Params, name))
	}
	params.add("_meta", ratifiedMeta(nil, c.Capabilities))
	return params.bytes()
}
