package sdkfront

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// legacySession is the session that a request belongs to, or nil: modern requests say their
// version themselves (basic/versioning, "Backward Compatibility").
func legacySession(req mcp.Request) *mcp.ServerSession {
	if _, modern := req.GetParams().GetMeta()[mcp.MetaKeyProtocolVersion]; modern {
		return nil
	}
	return sessionOf(req)
}

// sessionOf is the SDK's session of a request, or nil if the request came past the SDK.
func sessionOf(req mcp.Request) *mcp.ServerSession {
	session, _ := req.GetSession().(*mcp.ServerSession)
	return session
}

// transportOf tells requests over HTTP, which have headers, from those over a connection of whole messages.
func transportOf(extra *mcp.RequestExtra) string {
	if extra != nil && extra.Header != nil {
		return report.TransportHTTP
	}
	return report.TransportPipe
}

// target is the name or URI that a request which may ask is for.
func target(req mcp.Request) string {
	switch r := req.(type) {
	case *mcp.CallToolRequest:
		return r.Params.Name
	case *mcp.GetPromptRequest:
		return r.Params.Name
	case *mcp.ReadResourceRequest:
		return r.Params.URI
	}
	return ""
}

// metaExact is where what the SDK's types do not keep of a request's parameters travels through the SDK, as the text
// of a JSON object: inputResponses, in which they read numbers as float64 and refuse forms that the protocol says to
// ignore, whether there is a requestState, the member task, and the request's id where Echo needs it. A client gains
// nothing by sending it: it is the client's own to choose.
const metaExact = "io.github.askback-mcp/exact"

// exactMembers are the members of params that travel there.
var exactMembers = []string{"inputResponses", "requestState", "task"}

// Carry moves what the SDK's types do not keep of a request's parameters into their _meta,
// and the request's id, unless it is nil. Params is a checked object.
func Carry(params, id []byte) []byte {
	exact, rest := make(map[string]json.RawMessage), make(map[string]json.RawMessage)
	_ = json.Unmarshal(params, &rest) // checked JSON
	for _, name := range exactMembers {
		if value := rest[name]; value != nil {
			exact[name] = value
			delete(rest, name)
		}
	}
	if id != nil {
		exact["id"] = id
	}
	if len(exact) == 0 {
		return params
	}
	meta := make(map[string]json.RawMessage)
	if strictjson.TypeOf(rest["_meta"]) == strictjson.TypeObject {
		_ = json.Unmarshal(rest["_meta"], &meta) // checked JSON
	} else if rest["_meta"] != nil {
		return params // which the SDK refuses
	}
	text, _ := json.Marshal(exact) // checked JSON
	meta[metaExact], _ = json.Marshal(string(text))
	rest["_meta"], _ = json.Marshal(meta)
	carried, _ := json.Marshal(rest)
	return carried
}

// exactParams returns a request's parameters as they came, as far as a handler can tell, and
// the id that travelled with them, or nil.
func exactParams(req mcp.Request, depth int) (params, id []byte, err error) {
	params, err = json.Marshal(req.GetParams())
	text, carried := req.GetParams().GetMeta()[metaExact].(string)
	if err != nil || !carried {
		return params, nil, err
	}
	if err := strictjson.Check([]byte(text), depth); err != nil ||
		strictjson.TypeOf([]byte(text)) != strictjson.TypeObject {
		return nil, nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: _meta %q is no object", metaExact)
	}
	all := make(map[string]json.RawMessage)
	if err := json.Unmarshal(params, &all); err != nil {
		return nil, nil, err
	}
	meta := make(map[string]json.RawMessage)
	if err := json.Unmarshal(all["_meta"], &meta); err != nil {
		return nil, nil, err
	}
	delete(meta, metaExact)
	if all["_meta"], err = json.Marshal(meta); err != nil {
		return nil, nil, err
	}
	for _, name := range exactMembers {
		delete(all, name)
		if value := strictjson.Get([]byte(text), name); value != nil {
			all[name] = value
		}
	}
	params, err = json.Marshal(all)
	if raw := strictjson.Get([]byte(text), "id"); wire.ValidID(raw) {
		id = bytes.Clone(raw)
	}
	return params, id, err
}

// metaOutcome is where an outcome that the SDK's types do not express travels past the
// middleware that was added before ours, in the _meta of a result that they do.
const metaOutcome = "io.github.askback-mcp/outcome"

// carried is such an outcome. It is never encoded.
type carried struct{ *call.Outcome }

func (carried) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

func carryOutcome(method string, out *call.Outcome) mcp.Result {
	meta := maps.Clone(out.Meta)
	if meta == nil {
		meta = make(mcp.Meta)
	}
	meta[metaOutcome] = carried{out}
	var requests mcp.InputRequestMap
	if out.Task == nil && out.Result == nil {
		requests = out.Typed()
	}
	switch method {
	case wire.CallTool:
		return &mcp.CallToolResult{Meta: meta, InputRequests: requests, RequestState: out.State}
	case wire.GetPrompt:
		return &mcp.GetPromptResult{Meta: meta, InputRequests: requests, RequestState: out.State}
	default:
		return &mcp.ReadResourceResult{Meta: meta, InputRequests: requests, RequestState: out.State,
			Contents: []*mcp.ResourceContents{}} // which the SDK demands
	}
}

// takeOutcome is the outcome that a result carries, or nil.
func takeOutcome(result mcp.Result) *call.Outcome {
	c, _ := result.GetMeta()[metaOutcome].(carried)
	return c.Outcome
}

// rawParams are the parameters of a method that the SDK does not know, as they came.
type rawParams struct {
	mcp.ParamsBase
	raw json.RawMessage
	// serve answers the request, which has passed the gate.
	serve func(ctx context.Context) (*rawResult, error)
}

// GetMeta is for requests without parameters, too, for which the SDK has a nil *rawParams.
func (p *rawParams) GetMeta() map[string]any {
	if p == nil {
		return nil
	}
	return p.Meta
}

func (p *rawParams) UnmarshalJSON(data []byte) error {
	p.raw = bytes.Clone(data)
	var known struct {
		Meta mcp.Meta `json:"_meta"`
	}
	err := json.Unmarshal(data, &known)
	p.Meta = known.Meta
	return err
}

// rawResult is an encoded result.
type rawResult struct {
	mcp.ResultBase
	encoded []byte
}

func (r *rawResult) MarshalJSON() ([]byte, error) { return r.encoded, nil }

func sessionCapabilities(session *mcp.ServerSession) wire.Capability {
	var can wire.Capability
	init := session.InitializeParams()
	if init == nil || init.Capabilities == nil {
		return 0
	}
	if e := init.Capabilities.Elicitation; e != nil {
		if e.Form != nil || e.URL == nil {
			can |= wire.Form
		}
		if e.URL != nil {
			can |= wire.URL
		}
	}
	if sampling := init.Capabilities.Sampling; sampling != nil {
		can |= wire.Sampling
		if sampling.Tools != nil {
			can |= wire.SamplingTools
		}
	}
	if init.Capabilities.RootsV2 != nil {
		can |= wire.Roots
	}
	return can
}
