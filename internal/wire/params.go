package wire

import (
	"cmp"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// InvalidState is the error for every requestState that is refused. It is always the same: a reason would help somebody
// who tries forged states. The reason goes to the log and the audit.
func InvalidState() *jsonrpc.Error {
	return Errorf(jsonrpc.CodeInvalidParams, "Invalid or expired requestState")
}

// Params are the parameters of a request that may be answered with input required. The byte slices alias the
// request's body.
type Params struct {
	Target    string    // params.name or params.uri
	Arguments []byte    // raw object; nil when absent
	Digest    *[32]byte // [strictjson.Digest] of Arguments; nil when it was not made yet
	Floats    bool      // each number is certainly a float64
	HasState  bool
	State     string
	Responses map[string][]byte // inputResponses: raw objects by key; nil when absent
	Task      []byte            // the raw member task; nil when absent
	Meta      Meta
}

// Meta holds the protocol fields in a request's _meta (basic, "Per-request protocol fields").
type Meta struct {
	Version         string
	HasCapabilities bool
	Capabilities    Capability
	ProgressToken   []byte // raw string or integer; nil when absent
	raw             []byte
}

// Text returns a member of the _meta that is a string, or "".
func (m *Meta) Text(name string) string {
	text, _ := strictjson.String(strictjson.Get(m.raw, name))
	return text
}

// Raw returns the _meta as it came, or nil.
func (m *Meta) Raw() []byte { return m.raw }

// Client returns the implementation that the client names, or nil.
func (m *Meta) Client() *mcp.Implementation {
	info := strictjson.Get(m.raw, mcp.MetaKeyClientInfo)
	if info == nil {
		return nil
	}
	client := new(mcp.Implementation)
	if json.Unmarshal(info, client) != nil {
		return nil
	}
	return client
}

// ParseParams reads the parameters of tools/call, prompts/get or resources/read. params has passed strictjson.Check.
func ParseParams(method string, params []byte) (*Params, *jsonrpc.Error) {
	p := new(Params)
	meta, fault := p.Parse(&Request{Method: method, Params: params})
	if meta != nil {
		if strictjson.TypeOf(meta) != strictjson.TypeObject {
			return nil, Errorf(jsonrpc.CodeInvalidParams, `invalid params: "_meta" must be an object`)
		}
		var metaFault *jsonrpc.Error
		p.Meta, metaFault = ParseMeta(meta)
		fault = cmp.Or(metaFault, fault)
	}
	if fault != nil {
		return nil, fault
	}
	return p, nil
}

// Parse reads all of a request's parameters but _meta, which it returns as it is, or nil where there is none.
func (p *Params) Parse(req *Request) (meta []byte, fault *jsonrpc.Error) {
	if req.Params == nil {
		return nil, Errorf(jsonrpc.CodeInvalidParams, `invalid params: %q needs "params"`, req.Method)
	}
	p.Floats = req.outline.Floats()
	targetName := TargetMember(req.Method)
	var target []byte
	for name, value := range req.outline.Inner(req.Params) {
		var err *jsonrpc.Error
		switch string(name) {
		case targetName:
			target = value
		case "_meta":
			meta = value
		case "arguments":
			switch strictjson.TypeOf(value) {
			case strictjson.TypeObject:
				p.Arguments, p.Digest = value, req.outline.Digest()
			case strictjson.TypeNull:
			default:
				err = Errorf(jsonrpc.CodeInvalidParams, `invalid params: "arguments" must be an object`)
			}
		case "inputResponses":
			p.Responses, err = ParseResponses(value)
		case "requestState":
			p.HasState = true
			var ok bool
			switch p.State, ok = strictjson.String(value); {
			case ok:
			case strictjson.TypeOf(value) == strictjson.TypeNull: // some clients write null for an absent member
				err = Errorf(jsonrpc.CodeInvalidParams, `invalid params: "requestState" is null: leave it out of a first request, `+
					"and repeat the string of the last response in a retry")
			default:
				err = InvalidState()
			}
		case "task":
			p.Task = value
		}
		fault = cmp.Or(err, fault)
	}
	if fault != nil {
		return meta, fault
	}
	var ok bool
	if p.Target, ok = strictjson.String(target); !ok || p.Target == "" {
		fault = Errorf(jsonrpc.CodeInvalidParams, "invalid params: %q must be a string", targetName)
	}
	return meta, fault
}

// ParseResponses reads the member inputResponses.
func ParseResponses(value []byte) (map[string][]byte, *jsonrpc.Error) {
	if value == nil {
		return nil, Errorf(jsonrpc.CodeInvalidParams, `invalid params: "inputResponses" is missing`)
	}
	responses := make(map[string][]byte)
	ok := strictjson.TypeOf(value) == strictjson.TypeObject
	for name, response := range strictjson.Members(value) {
		ok = ok && strictjson.TypeOf(response) == strictjson.TypeObject
		responses[string(name)] = response
	}
	if !ok {
		return nil, Errorf(jsonrpc.CodeInvalidParams, `invalid params: "inputResponses" must be an object of objects`)
	}
	return responses, nil
}

// MaxProgressToken is the limit of a progress token in bytes: each notification of progress repeats the token.
const MaxProgressToken = 1 << 10

// LongProgressToken returns the error for a progress token beyond MaxProgressToken.
func LongProgressToken() *jsonrpc.Error {
	return Errorf(jsonrpc.CodeInvalidParams, "invalid params: _meta progressToken exceeds the limit of %d bytes",
		MaxProgressToken)
}

// ParseMeta reads a request's _meta object.
func ParseMeta(meta []byte) (Meta, *jsonrpc.Error) {
	m := Meta{raw: meta}
	var fault *jsonrpc.Error
	for name, value := range strictjson.Members(meta) {
		switch string(name) {
		case mcp.MetaKeyProtocolVersion:
			version, ok := strictjson.Text(value)
			if m.Version = constant(version, Version); !ok {
				fault = Errorf(jsonrpc.CodeInvalidParams, "invalid params: _meta %q must be a string", name)
			}
		case mcp.MetaKeyClientCapabilities, mcp.MetaKeyClientInfo:
			switch {
			case strictjson.TypeOf(value) != strictjson.TypeObject:
				fault = Errorf(jsonrpc.CodeInvalidParams, "invalid params: _meta %q must be an object", name)
			case string(name) == mcp.MetaKeyClientCapabilities:
				m.HasCapabilities, m.Capabilities = true, parseCapabilities(value)
			}
		case "progressToken":
			if !ValidID(value) {
				fault = Errorf(jsonrpc.CodeInvalidParams, "invalid params: _meta progressToken must be a string or an integer")
			}
			if fault == nil && len(value) > MaxProgressToken {
				fault = LongProgressToken()
			}
			m.ProgressToken = value
		}
	}
	return m, fault
}
