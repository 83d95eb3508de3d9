package sdkfront

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
)

// aboutTask serves a request about tasks.
func (in incoming) aboutTask(ctx context.Context) (mcp.Result, error) {
	params, err := in.rawParams()
	if err != nil {
		return nil, err
	}
	q := &tasks.Request{
		Method: in.method, TaskID: wire.Name(in.method, params.raw), Params: params.raw, Session: legacySession(in.req),
	}
	if q.Session == nil {
		meta, invalid := wire.ParseMeta(strictjson.Get(params.raw, "_meta"))
		if invalid != nil {
			return nil, invalid
		}
		q.Can = meta.Capabilities
	}
	if invalid := q.Check(); invalid != nil {
		return nil, invalid
	}
	return in.custom(ctx, params, q.TaskID, func(ctx context.Context, principal string) ([]byte, error) {
		return in.Tasks.Serve(ctx, principal, q)
	})
}

// rawParams returns the checked parameters of a request of a method that the SDK does not know.
func (in incoming) rawParams() (*rawParams, error) {
	params, _ := in.req.GetParams().(*rawParams)
	if params == nil {
		params = new(rawParams) // a request without any
	}
	if params.raw != nil {
		if err := strictjson.Check(params.raw, in.Calls.Limits.Depth); err != nil {
			return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: %v", err)
		}
	}
	return params, nil
}

// custom serves a request of a method that the SDK does not know, which is for a target.
func (in incoming) custom(ctx context.Context, params *rawParams, target string,
	serve func(ctx context.Context, principal string) ([]byte, error)) (mcp.Result, error) {
	return in.pass(ctx, target, func(ctx context.Context, p gate.Passage) (mcp.Result, error) {
		own := *params // which the SDK hands to the method's handler, past all middleware
		own.serve = func(ctx context.Context) (*rawResult, error) {
			encoded, err := serve(ctx, p.Principal)
			switch class := fault.Of(err); {
			case class.Busy():
				return nil, err
			case err != nil:
				return nil, fault.Wire(err)
			}
			return &rawResult{encoded: encoded}, nil
		}
		if sessionOf(in.req) == nil { // it came past the SDK
			return own.serve(ctx)
		}
		return in.registered.next(ctx, in.method, &mcp.ServerRequest[*rawParams]{Session: sessionOf(in.req), Params: &own,
			Extra: in.req.GetExtra()})
	})
}

// advertise tells clients that there are tasks: the extension to clients of 2026-07-28, the capability and each tool's
// support to earlier clients.
func (in incoming) advertise(result mcp.Result) (mcp.Result, error) {
	switch r := result.(type) {
	case *mcp.DiscoverResult:
		r.Capabilities.AddExtension(wire.TasksExtension, nil)
		if in.Tasks.Events == nil {
			return r, nil
		}
		return discoverEvents(r)
	case *mcp.InitializeResult:
		own := &initializeResult{InitializeResult: r}
		own.Capabilities.ServerCapabilities = r.Capabilities
		own.Capabilities.Tasks = json.RawMessage(`{"cancel":{},"requests":{"tools":{"call":{}}}}`)
		if in.ListsTasks {
			own.Capabilities.Tasks = json.RawMessage(`{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`)
		}
		encoded, err := json.Marshal(own)
		return &rawResult{encoded: encoded}, err
	case *mcp.ListToolsResult:
		if legacySession(in.req) == nil {
			return r, nil
		}
		own := &listToolsResult{r, make([]listedTool, len(r.Tools))}
		for i, t := range r.Tools {
			own.Tools[i].Tool = t
			if h := in.Handlers.Lookup(wire.CallTool, t.Name); h != nil && h.Tasks != nil {
				support := "optional"
				if h.Tasks.Required {
					support = "required"
				}
				own.Tools[i].Execution = map[string]string{"taskSupport": support}
			}
		}
		encoded, err := json.Marshal(own)
		return &rawResult{encoded: encoded}, err
	}
	return result, nil
}

// initializeResult is the SDK's with the capability for tasks (2025-11-25, "Capabilities").
type initializeResult struct {
	*mcp.InitializeResult
	Capabilities struct {
		*mcp.ServerCapabilities
		Tasks json.RawMessage `json:"tasks"`
	} `json:"capabilities"`
}

// listToolsResult is the SDK's with each tool's support for tasks (2025-11-25, "Tool-Level Negotiation").
type listToolsResult struct {
	*mcp.ListToolsResult
	Tools []listedTool `json:"tools"`
}

type listedTool struct {
	*mcp.Tool
	Execution map[string]string `json:"execution,omitempty"`
}
