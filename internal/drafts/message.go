package drafts

import (
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// assumedCapabilities are the capabilities of a client that declares none, because the drafts have no place for it: the
// requests that the drafts embed, without refinements.
const assumedCapabilities = `{"elicitation":{"form":{}},"sampling":{},"roots":{}}`

const (
	headerSession    = "Mcp-Session-Id"
	headerRetryAfter = "Retry-After"
)

// message holds the members of a JSON-RPC message as raw JSON. The drafts put some members beside params that the
// ratified version has inside.
type message map[string][]byte

func parse(body []byte) message {
	m := make(message)
	for name, value := range strictjson.Members(body) {
		m[string(name)] = value
	}
	return m
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, id []byte, fault *jsonrpc.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = w.Write(wire.AppendError(nil, id, fault)) // a client that is gone gets nothing
}

// checkHeaders refuses a message whose headers name another method or target than its body. The drafts do not have
// these headers, so they may be absent.
func checkHeaders(h http.Header, method string, params []byte) *jsonrpc.Error {
	return wire.CheckRouting(h, method, wire.Name(method, params), false)
}

// ratifiedRequest returns a copy of r with the headers that the ratified version requires.
func ratifiedRequest(r *http.Request, method string, params []byte) *http.Request {
	inner := r.Clone(r.Context())
	inner.Header.Del(headerSession)
	inner.Header.Set(wire.HeaderVersion, wire.Version)
	inner.Header.Set(wire.HeaderMethod, method)
	inner.Header.Del(wire.HeaderName)
	if target, ok := strictjson.String(strictjson.Get(params, wire.TargetMember(method))); ok && wire.MayAsk(method) {
		inner.Header.Set(wire.HeaderName, wire.EncodeHeader(target))
	}
	return inner
}

func request(version, id []byte, method string, params []byte) []byte {
	var req object
	req.add("jsonrpc", version)
	req.add("id", id)
	req.add("method", quote(method))
	req.add("params", params)
	return req.bytes()
}

// ratifiedMeta adds the members that the ratified version requires to the _meta of a draft's request. With nil
// capabilities it takes those that the request declares, or else the assumed ones.
func ratifiedMeta(meta, capabilities []byte) []byte {
	if meta != nil && strictjson.TypeOf(meta) != strictjson.TypeObject {
		return meta // the server behind the edge refuses it
	}
	if capabilities == nil {
		capabilities = strictjson.Get(meta, mcp.MetaKeyClientCapabilities)
	}
	if capabilities == nil {
		capabilities = []byte(assumedCapabilities)
	}
	var all object
	all.addAll(meta, mcp.MetaKeyProtocolVersion, mcp.MetaKeyClientCapabilities)
	all.add(mcp.MetaKeyProtocolVersion, quote(wire.Version))
	all.add(mcp.MetaKeyClientCapabilities, capabilities)
	return all.bytes()
}

// result holds the parts of a ratified result.
type result struct {
	kind     string // resultType
	requests []wire.InputRequest
	encoded  []byte // inputRequests, raw
	state    []byte // raw, or nil
	meta     []byte // _meta without the members of ratified results; nil if that leaves none
	members  object // all other members
}

func parseResult(raw []byte) *result {
	r := new(result)
	for name, value := range strictjson.Members(raw) {
		switch string(name) {
		case "resultType":
			r.kind, _ = strictjson.String(value)
		case "inputRequests":
			if string(value) != "{}" { // the drafts have no member without requests
				r.encoded = value
			}
			for key, request := range strictjson.Members(value) {
				method, _ := strictjson.String(strictjson.Get(request, "method"))
				r.requests = append(r.requests,
					wire.InputRequest{Key: string(key), Method: method, Params: strictjson.Get(request, "params")})
			}
		case "requestState":
			r.state = value
		case "_meta":
			r.meta = draftMeta(value)
		default:
			r.members.add(string(name), value)
		}
	}
	return r
}

func draftMeta(meta []byte) []byte {
	var left object
	left.addAll(meta, mcp.MetaKeyServerInfo, wire.MetaExpires)
	if left.empty() {
		return nil
	}
	return left.bytes()
}
