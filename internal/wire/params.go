package wire

import (
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
)

// InvalidState is the same error for every requestState that is refused.
func InvalidState() *jsonrpc.Error {
	return Errorf(jsonrpc.CodeInvalidParams, "Invalid or expired requestState")
}

// Params are the parameters of a request that may be answered with input required.
// The byte slices alias the request's body.
type Params struct {
	Target    string            // params.name or params.uri
	Arguments []byte            // raw object; nil when absent
	Responses map[string][]byte // inputResponses: raw objects by key; nil when absent
	State     string
	HasState  bool
	Task      []byte // the raw member task; nil when absent
	Meta      Meta
}

// Meta holds the protocol fields in a request's _meta (basic, "Per-request protocol fields").
type Meta struct {
	Version         string
	HasCapabilities bool
	Capabilities    Capability
	ProgressToken   []byte // raw string or integer; nil when absent
}

// ParseParams reads the parameters of tools/call, prompts/get or resources/read.
// params has passed strictjson.Check.
func ParseParams(method string, params []byte) (*Params, *jsonrpc.Error) {
	if params == nil {
		return nil, Errorf(jsonrpc.CodeInvalidParams, `invalid params: %q needs "params"`, method)
	}
	targetName := TargetMember(method)
	p := new(Params)
	var fault *jsonrpc.Error
	var target []byte
	_ = strictjson.Members(params, func(name, value []byte) error {
		switch string(name) {
		case targetName:
			target = value
		case "arguments":
			switch strictjson.TypeOf(value) {
			case strictjson.TypeObject:
				p.Arguments = value
			case strictjson.TypeNull:
			default:
				fault = Errorf(jsonrpc.CodeInvalidParams, `invalid params: "arguments" must be an object`)
			}
		case "inputResponses":
			p.Responses, fault = parseResponses(value, fault)
		case "requestState":
			p.HasState = true
			var ok bool
			if p.State, ok = strictjson.String(value); !ok {
				fault = InvalidState()
			}
		case "task":
			p.Task = value
		case "_meta":
			if strictjson.TypeOf(value) != strictjson.TypeObject {
				fault = Errorf(jsonrpc.CodeInvalidParams, `invalid params: "_meta" must be an object`)
				break
			}
			var err *jsonrpc.Error
			if p.Meta, err = ParseMeta(value); err != nil {
				fault = err
			}
		}
		return nil
	})
	if fault != nil {
		return nil, fault
	}
	var ok bool
	if p.Target, ok = strictjson.String(target); !ok || p.Target == "" {
		return nil, Errorf(jsonrpc.CodeInvalidParams, "invalid params: %q must be a string", targetName)
	}
	return p, nil
}

// ParseResponses reads the member inputResponses of tasks/update or tasks/input_response.
func ParseResponses(value []byte) (map[string][]byte, *jsonrpc.Error) {
	if value == nil {
		return nil, Errorf(jsonrpc.CodeInvalidParams, `invalid params: "inputResponses" is missing`)
	}
	return parseResponses(value, nil)
}

func parseResponses(value []byte, fault *jsonrpc.Error) (map[string][]byte, *jsonrpc.Error) {
	bad := Errorf(jsonrpc.CodeInvalidParams, `invalid params: "inputResponses" must be an object of objects`)
	if strictjson.TypeOf(value) != strictjson.TypeObject {
		return nil, bad
	}
	responses := make(map[string][]byte)
	_ = strictjson.Members(value, func(name, response []byte) error {
		if strictjson.TypeOf(response) != strictjson.TypeObject {
			fault = bad
		}
		responses[string(name)] = response
		return nil
	})
	return responses, fault
}

// ParseMeta reads a request's _meta object.
func ParseMeta(meta []byte) (Meta, *jsonrpc.Error) {
	var m Meta
	var fault *jsonrpc.Error
	_ = strictjson.Members(meta, func(name, value []byte) error {
		switch string(name) {
		case mcp.MetaKeyProtocolVersion:
			var ok bool
			if m.Version, ok = strictjson.String(value); !ok {
				fault = Errorf(jsonrpc.CodeInvalidParams, "invalid params: _meta %q must be a string", mcp.MetaKeyProtocolVersion)
			}
		case mcp.MetaKeyClientCapabilities:
			if strictjson.TypeOf(value) != strictjson.TypeObject {
				fault = Errorf(jsonrpc.CodeInvalidParams, "invalid params: _meta %q must be an object", mcp.MetaKeyClientCapabilities)
				break
			}
			m.HasCapabilities, m.Capabilities = true, parseCapabilities(value)
		case mcp.MetaKeyClientInfo:
			if strictjson.TypeOf(value) != strictjson.TypeObject {
				fault = Errorf(jsonrpc.CodeInvalidParams, "invalid params: _meta %q must be an object", mcp.MetaKeyClientInfo)
			}
		case "progressToken":
			if !ValidID(value) {
				fault = Errorf(jsonrpc.CodeInvalidParams, "invalid params: _meta progressToken must be a string or an integer")
			}
			m.ProgressToken = value
		}
		return nil
	})
	return m, fault
}
