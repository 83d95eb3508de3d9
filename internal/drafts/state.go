package drafts

import (
	"encoding/base64"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// The state proposal has no keys for questions. So a state of ours is an envelope: the sealed requestState and,
// around it, the questions that the state belongs to. The envelope itself is not sealed, so it counts only together
// with a requestState that opens. The requestState is bound to its call, and accepts answers only to its own questions.

// envelope is the content of a state.
type envelope struct {
	State string   `json:"s"`
	Keys  []string `json:"k,omitempty"` // The keys of the questions, in their order.
	// Call is the call that a question in a session belongs to, and nil outside of sessions.
	Call *Call `json:"c,omitempty"`
}

// Call is a call in a session whose questions carry a state.
type Call struct {
	Session      string          `json:"n"` // the session's ID
	ID           json.RawMessage `json:"i"`
	Method       string          `json:"m"`
	Params       json.RawMessage `json:"p"`
	Capabilities json.RawMessage `json:"o"` // The capabilities of the session's client.
}

// valid reports whether a decoded call is a request that can be sent again. It may be nil.
func (c *Call) valid() bool { return c != nil && wire.MayAsk(c.Method) && wire.ValidID(c.ID) }

func (e *envelope) encode() (string, error) {
	data, err := json.Marshal(e)
	return base64.RawURLEncoding.EncodeToString(data), err
}

func decodeEnvelope(state []byte, depth int) (*envelope, *jsonrpc.Error) {
	text, ok := strictjson.String(state)
	if !ok {
		return nil, wire.InvalidState()
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	e := new(envelope)
	if err != nil || strictjson.Check(data, depth) != nil || json.Unmarshal(data, e) != nil {
		return nil, wire.InvalidState()
	}
	return e, nil
}

// dependentDepth is the nesting of an envelope without a call, and some more.
const dependentDepth = 4

// dependentRequests returns the response that asks, with one state for all questions (State1) or a state in each
// (State2).
func (f Form) dependentRequests(id []byte, r *result) []byte {
	inner, _ := strictjson.String(r.state)
	shared := envelope{State: inner}
	requests := []byte{'['}
	for i, q := range r.requests {
		var request object
		if f == State2 {
			request.add("state", seal(envelope{State: inner, Keys: []string{q.Key}}))
		}
		shared.Keys = append(shared.Keys, q.Key)
		request.add("method", quote(q.Method))
		request.add("params", q.Params)
		if i > 0 {
			requests = append(requests, ',')
		}
		requests = append(requests, request.bytes()...)
	}
	var dependent object
	if f == State1 || len(r.requests) == 0 {
		dependent.add("state", seal(shared))
	}
	dependent.add("requests", append(requests, ']'))
	var m object
	m.add("jsonrpc", quote("2.0"))
	m.add("id", id)
	m.add("dependent_requests", dependent.bytes())
	m.add("_meta", r.meta)
	return m.bytes()
}

func seal(e envelope) []byte {
	text, _ := e.encode() // strings always marshal
	return quote(text)
}

// dependentForm returns the form in which a client sent dependent_responses.
func dependentForm(dependent []byte) Form {
	if strictjson.Get(dependent, "state") == nil {
		return State2
	}
	return State1
}

// dependentResponses returns the inputResponses and the requestState in dependent_responses, which have one state for
// all answers or a state in each.
func dependentResponses(dependent []byte) (responses, state []byte, fault *jsonrpc.Error) {
	bad := wire.Errorf(jsonrpc.CodeInvalidParams, `invalid params: "dependent_responses" must be an object with an `+
		`array "responses" of objects`)
	list := strictjson.Get(dependent, "responses")
	if strictjson.TypeOf(dependent) != strictjson.TypeObject || list != nil &&
		strictjson.TypeOf(list) != strictjson.TypeArray {
		return nil, nil, bad
	}
	var shared, first *envelope
	if s := strictjson.Get(dependent, "state"); s != nil {
		if shared, fault = decodeEnvelope(s, dependentDepth); fault != nil {
			return nil, nil, fault
		}
		first = shared
	}
	var answers object
	seen := make(map[string]bool)
	for i, response := range elements(list) {
		if strictjson.TypeOf(response) != strictjson.TypeObject {
			return nil, nil, bad
		}
		own, at := shared, i
		if s := strictjson.Get(response, "state"); s != nil {
			if own, fault = decodeEnvelope(s, dependentDepth); fault != nil {
				return nil, nil, fault
			}
			at = 0
		}
		if own == nil || first != nil && own.State != first.State {
			return nil, nil, wire.InvalidState() // it has no state, or the state of another round
		}
		first = own
		result := strictjson.Get(response, "result")
		if at >= len(own.Keys) || result == nil || seen[own.Keys[at]] {
			continue // it has no result, or answers no open question
		}
		seen[own.Keys[at]] = true
		answers.add(own.Keys[at], result)
	}
	if first == nil {
		return nil, nil, wire.InvalidState()
	}
	if first.State != "" {
		state = quote(first.State)
	}
	return answers.bytes(), state, nil
}
