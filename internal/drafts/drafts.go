// Package drafts translates, at the edge of an HTTP endpoint, between the messages of the proposals that led to Multi
// Round-Trip Requests and the messages of the 2026-07-28 revision:
//
//	edge := &drafts.Edge{Depth: 64, HasSession: held}
//	if edge.Serve(w, r, body, owner, ratified) {
//		return // it was a draft's request, and is answered
//	}
//
// The edge turns a draft's request into the ratified request that means the same, has it served like any other, and
// puts the response into the draft's form. Nothing behind the edge knows of drafts. A request that claims the
// ratified version passes unchanged, unless its URL names a form.
package drafts

import (
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// Edge serves the requests of drafts. It is safe for concurrent use; its fields must not be changed while it is used.
type Edge struct {
	// HasSession reports whether this process holds the session with that ID.
	HasSession func(id string) bool
	// Depth is the limit of nested objects and arrays in a body.
	Depth int

	open openStates
}

// Ratified serves a request of the 2026-07-28 revision, which means the same as a draft's.
type Ratified func(w http.ResponseWriter, r *http.Request, body []byte)

// Serve answers a POST whose body is a draft's message, with what next answers to it. For any other message it reports
// false and writes nothing. Owner says that the caller may send messages in the session that the request names.
func (e *Edge) Serve(w http.ResponseWriter, r *http.Request, body []byte, owner bool, next Ratified) bool {
	form := formOf(r)
	if form != "" && !slices.Contains(forms, form) {
		refuse(w, nil, wire.Errorf(jsonrpc.CodeInvalidRequest, "unknown draft in the URL's query: want one of %v", forms))
		return true
	}
	if form == State {
		form = "" // it concerns only what the server sends in a session
	}
	if strictjson.Check(body, e.Depth) != nil || strictjson.TypeOf(body) != strictjson.TypeObject {
		return false // the server behind the edge refuses it
	}
	m := parse(body)
	if m["id"] != nil && !wire.ValidID(m["id"]) {
		return false
	}
	if form == "" && claimsRatified(r, m) {
		return false
	}
	// A URL that names a form decides, even for a client that has a session.
	inSession := form == "" && r.Header.Get(headerSession) != ""
	if m["method"] == nil {
		switch {
		case m["state"] != nil:
			return e.serveEcho(w, r, m, owner, next)
		case !inSession && wire.RelatedTask(m["result"]) != "":
			serveTaskAnswer(w, r, m, next)
			return true
		}
		if owner {
			e.open.drop(openKey(r, m["id"])) // this client does not echo states
		}
		return false
	}
	if inSession {
		return false
	}
	method, _ := strictjson.String(m["method"])
	if m["id"] == nil || !wire.MayAsk(method) && !wire.IsTask(method) {
		return false
	}
	if form == "" {
		form = MRTR2
		if m["dependent_responses"] != nil {
			form = dependentForm(m["dependent_responses"])
		}
	}
	request, fault := translate(method, m)
	if fault == nil {
		fault = checkHeaders(r.Header, method, m["params"])
	}
	if fault != nil {
		refuse(w, m["id"], fault)
		return true
	}
	out := &writer{ResponseWriter: w, translate: func(response []byte) []byte { return form.response(method, response) }}
	next(out, ratifiedRequest(r, method, m["params"]), request)
	out.finish()
	return true
}

// claimsRatified reports whether a message claims the ratified version, or names any version in its _meta, as only
// the ratified revision does.
func claimsRatified(r *http.Request, m message) bool {
	return r.Header.Get(wire.HeaderVersion) == wire.Version ||
		strictjson.Get(strictjson.Get(m["params"], "_meta"), mcp.MetaKeyProtocolVersion) != nil
}

// translate returns the ratified request that means the same as a draft's request.
func translate(method string, m message) ([]byte, *jsonrpc.Error) {
	if m["params"] != nil && strictjson.TypeOf(m["params"]) != strictjson.TypeObject {
		return nil, wire.Errorf(jsonrpc.CodeInvalidRequest, `invalid request: "params" must be an object`)
	}
	for _, name := range []string{"inputResponses", "requestState"} {
		inside := strictjson.Get(m["params"], name)
		if inside != nil && m[name] != nil {
			return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: %q is both inside and beside params; send it "+
				"once", name)
		}
		if inside != nil {
			m[name] = inside
		}
	}
	responses, state := m["inputResponses"], m["requestState"]
	if m["dependent_responses"] != nil {
		if responses != nil || state != nil {
			return nil, wire.Errorf(jsonrpc.CodeInvalidParams, `invalid params: "dependent_responses" comes without `+
				`"inputResponses" and "requestState"`)
		}
		var fault *jsonrpc.Error
		if responses, state, fault = dependentResponses(m["dependent_responses"]); fault != nil {
			return nil, fault
		}
	}
	var params object
	params.addAll(m["params"], "inputResponses", "requestState", "_meta")
	params.add("inputResponses", unwrapAll(responses))
	params.add("requestState", state)
	params.add("_meta", ratifiedMeta(strictjson.Get(m["params"], "_meta"), nil))
	return request(m["jsonrpc"], m["id"], method, params.bytes()), nil
}

// unwrapAll unwraps each answer in inputResponses.
func unwrapAll(responses []byte) []byte {
	if strictjson.TypeOf(responses) != strictjson.TypeObject {
		return responses // the server behind the edge refuses it
	}
	var all object
	for key, value := range strictjson.Members(responses) {
		all.add(string(key), unwrap(value))
	}
	return all.bytes()
}

// unwrap returns the answer in the first draft's {"result": …}, and any other answer as it is. A bare answer may
// itself have a member result, but then it has the members that its kind requires as well.
func unwrap(answer []byte) []byte {
	if members := parse(answer); len(members) == 1 && members["result"] != nil {
		return members["result"]
	}
	return answer
}
