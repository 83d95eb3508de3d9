package sdkfront

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// Handlers that are registered on the SDK's server may be in the manual style.

// manualRequest is the part of a request that the manual style uses.
type manualRequest struct {
	arguments []byte
	state     string
	responses mcp.InputResponseMap
	// with makes the request with other state and responses.
	with func(state string, responses mcp.InputResponseMap) mcp.Request
}

func newManualRequest(req mcp.Request) *manualRequest {
	switch r := req.(type) {
	case *mcp.CallToolRequest:
		return &manualRequest{r.Params.Arguments, r.Params.RequestState, r.Params.InputResponses,
			func(state string, responses mcp.InputResponseMap) mcp.Request {
				params := *r.Params
				params.RequestState, params.InputResponses = state, responses
				return &mcp.CallToolRequest{Session: r.Session, Params: &params, Extra: r.Extra}
			}}
	case *mcp.GetPromptRequest:
		var arguments []byte
		if r.Params.Arguments != nil {
			arguments, _ = json.Marshal(r.Params.Arguments) // strings
		}
		return &manualRequest{arguments, r.Params.RequestState, r.Params.InputResponses,
			func(state string, responses mcp.InputResponseMap) mcp.Request {
				params := *r.Params
				params.RequestState, params.InputResponses = state, responses
				return &mcp.GetPromptRequest{Session: r.Session, Params: &params, Extra: r.Extra}
			}}
	case *mcp.ReadResourceRequest:
		return &manualRequest{nil, r.Params.RequestState, r.Params.InputResponses,
			func(state string, responses mcp.InputResponseMap) mcp.Request {
				params := *r.Params
				params.RequestState, params.InputResponses = state, responses
				return &mcp.ReadResourceRequest{Session: r.Session, Params: &params, Extra: r.Extra}
			}}
	}
	return nil
}

// foreignRequest reads a request for a handler that is registered on the SDK's server.
func (in incoming) foreignRequest(p gate.Passage, m *manualRequest) (*call.Request, error) {
	r := &call.Request{
		Params:    &wire.Params{Target: target(in.req), Arguments: m.arguments, State: m.state, HasState: m.state != ""},
		Principal: p.Principal,
		InSession: p.InSession,
		Watch:     p.Watch,
	}
	if p.InSession {
		r.Can = sessionCapabilities(sessionOf(in.req))
		r.Params.State, r.Params.HasState = "", false // which no session has
		return r, nil
	}
	if m.arguments != nil {
		if err := strictjson.Check(m.arguments, in.Calls.Limits.Depth); err != nil {
			return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: %v", err)
		}
	}
	if meta, err := json.Marshal(in.req.GetParams().GetMeta()); err == nil {
		parsed, fault := wire.ParseMeta(meta)
		if fault != nil {
			return nil, fault
		}
		r.Can = parsed.Capabilities
	}
	r.Params.Responses = make(map[string][]byte)
	for key := range m.responses {
		r.Params.Responses[key] = nil // the SDK has decoded them
	}
	return r, nil
}

// typed are the responses that go back to a handler: those that the client of a modern
// request sent, as the SDK has decoded them, or those that were asked for in a session.
func (m *manualRequest) typed(back call.Manual) mcp.InputResponseMap {
	if back.Responses == nil {
		return nil
	}
	responses := make(mcp.InputResponseMap, len(back.Responses))
	for key, raw := range back.Responses {
		if raw != nil {
			return back.Typed()
		}
		if r, ok := m.responses[key]; ok {
			responses[key] = r
		}
	}
	return responses
}

// isUnknown reports whether an error is the SDK's own for a request whose target is not registered. Only its text tells
// it from an error of a handler.
func isUnknown(err error, method, target string) bool {
	e, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || e == nil || e.Code != jsonrpc.CodeInvalidParams {
		return false
	}
	switch method {
	case wire.CallTool:
		return e.Message == fmt.Sprintf("unknown tool %q", target)
	case wire.GetPrompt:
		return e.Message == fmt.Sprintf("unknown prompt %q", target)
	}
	return e.Message == "Resource not found"
}

// foreignError is the error of a handler of the SDK's, which is the SDK's to send, or ours.
func foreignError(err error) error {
	if refused, ok := errors.AsType[*fault.NotRunError](err); ok {
		return refused.Err
	}
	switch fault.Of(err) {
	case fault.Capability, fault.Limit:
		return fault.Wire(err)
	}
	return err
}
