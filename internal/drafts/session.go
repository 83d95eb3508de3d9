package drafts

import (
	"bytes"
	"crypto/rand"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// In a session before 2026-07-28 whose client says that it knows the state proposal, a
// request of the server carries a state beside its params, which the client echoes beside its
// result. While the session is held here the call goes on from memory, and an echo only has
// to be right; without an echo it goes on all the same. An echo for a session that is not held
// here (it was held by another process, or by one that is gone) goes on from the state, and
// the response to it is what the server has to say next: a request with a new state, or the
// call's result.

// MetaState is where a request of the server carries its state to the edge, in the _meta of
// its params.
const MetaState = "io.github.askback-mcp/state"

// Stateful reports whether the client of a request in a session knows the state proposal.
func Stateful(r *http.Request) bool { return formOf(r) == State }

// Encode makes the state of a question in a session: its key, and its round's requestState.
func (c *Call) Encode(requestState, key string) (string, error) {
	e := envelope{State: requestState, Keys: []string{key}, Call: c}
	return e.encode()
}

// openStates are the states of requests that wait for their response here.
type openStates struct {
	mu     sync.Mutex
	states map[string]openState // by session and request
}

// openState is a state and the keys of all that its stream has open: the stream of a
// session's GET lasts as long as the session.
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

// InSession serves a request in a session: the requests of the server in its response get
// their state where the proposal has it.
func (e *Edge) InSession(w http.ResponseWriter, r *http.Request, next http.Handler) {
	sent := make(map[string]bool) // what waits here while this response is written
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

// withState moves the state of a server's request out of its _meta.
func withState(request []byte) (moved, id []byte, state string) {
	m := parse(request)
	meta := strictjson.Get(m.params, "_meta")
	raw := strictjson.Get(meta, MetaState)
	state, _ = strictjson.String(raw)
	if m.method == nil || state == "" {
		return request, nil, ""
	}
	var left, params, all object
	_ = strictjson.Members(meta, func(name, value []byte) error {
		if string(name) != MetaState {
			left.add(string(name), value)
		}
		return nil
	})
	_ = strictjson.Members(m.params, func(name, value []byte) error {
		switch {
		case string(name) != "_meta":
			params.add(string(name), value)
		case !left.empty():
			params.add("_meta", left.bytes())
		}
		return nil
	})
	all.add("jsonrpc", m.version)
	all.add("id", m.id)
	all.add("method", m.method)
	all.add("state", raw)
	all.add("params", params.bytes())
	return all.bytes(), m.id, state
}

// serveEcho serves a response that carries a state. It reports false if the session is held
// here, and the response is to go on to it.
func (e *Edge) serveEcho(w http.ResponseWriter, r *http.Request, m message) bool {
	if sent := e.open.get(openKey(r, m.id)); sent != "" {
		if echoed, _ := strictjson.String(m.state); echoed != sent {
			refuse(w, m.id, wire.InvalidState())
			return true
		}
		e.open.drop(openKey(r, m.id))
		return false
	}
	env, fault := decodeEnvelope(m.state, e.Depth+4) // around the call's own params
	if fault == nil && (env.Call == nil || len(env.Keys) != 1 || !wire.MayAsk(env.Call.Method) || !wire.ValidID(env.Call.ID)) {
		fault = wire.InvalidState()
	}
	if fault != nil {
		refuse(w, m.id, fault)
		return true
	}
	if session := env.Call.Session; session != "" && session == r.Header.Get(headerSession) && e.HasSession(session) {
		return false // it came late, or twice
	}
	status, message := e.goOn(r, env, m)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(message) // a client that is gone gets nothing
	return true
}

// goOn serves the next round of the call in an envelope, and returns what the server has to
// say then.
func (e *Edge) goOn(r *http.Request, env *envelope, answer message) (status int, message []byte) {
	if answer.result == nil {
		fault := wire.Errorf(jsonrpc.CodeInternalError, "asking the client %q: it answered with an error", env.Keys[0])
		return http.StatusOK, wire.AppendError(nil, env.Call.ID, fault)
	}
	var responses object
	responses.add(env.Keys[0], answer.result)
	params, encoded := ratifiedParams(env.Call), responses.bytes()
	inner := ratifiedRequest(r, env.Call.Method, env.Call.Params)
	for {
		var round object
		_ = strictjson.Members(params, func(name, value []byte) error {
			round.add(string(name), value)
			return nil
		})
		round.add("inputResponses", encoded)
		if env.State != "" {
			round.add("requestState", quote(env.State))
		}
		out := capture{header: make(http.Header), status: http.StatusOK}
		var last []byte // what the SDK serves may come as a stream
		to := &writer{ResponseWriter: &out, translate: func(m []byte) []byte {
			last = bytes.Clone(m)
			return m
		}}
		e.Ratified(to, inner, request(quote("2.0"), env.Call.ID, env.Call.Method, round.bytes()))
		to.finish()
		raw := parse(last).result
		if raw == nil {
			return out.status, last
		}
		res := parseResult(raw)
		if res.kind != "input_required" {
			return out.status, response(env.Call.ID, MRTR2.complete(env.Call.Method, res))
		}
		env.State, _ = strictjson.String(res.state)
		if len(res.requests) > 0 {
			return out.status, nextQuestion(env, res)
		}
		encoded = nil // a checkpoint: the call goes on at once, as it does in a session
	}
}

// nextQuestion is the first of the open questions as a request of the server. The others
// are asked when it is answered: each answer goes on from a state of its own.
func nextQuestion(env *envelope, r *result) []byte {
	q := r.requests[0]
	state, _ := env.Call.Encode(env.State, q.Key) // of checked JSON
	var m object
	m.add("jsonrpc", quote("2.0"))
	m.add("id", quote("askback-"+rand.Text()))
	m.add("method", quote(q.Method))
	m.add("state", quote(state))
	m.add("params", q.Params)
	return m.bytes()
}

// ratifiedParams are the parameters of a call in a session as a ratified request has them.
func ratifiedParams(c *Call) []byte {
	var params object
	_ = strictjson.Members(c.Params, func(name, value []byte) error {
		switch string(name) {
		case "name", "uri", "arguments":
			params.add(string(name), value)
		}
		return nil
	})
	params.add("_meta", ratifiedMeta(nil, c.Capabilities))
	return params.bytes()
}
