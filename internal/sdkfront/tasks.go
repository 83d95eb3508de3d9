package sdkfront

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
)

// aboutTask serves a request about tasks.
func (f *Front) aboutTask(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
	params, _ := req.GetParams().(*rawParams)
	if params == nil {
		params = new(rawParams) // a request without any
	}
	if params.raw != nil {
		if err := strictjson.Check(params.raw, f.Calls.Limits.Depth); err != nil {
			return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: %v", err)
		}
	}
	q, fault := tasks.ReadRequest(method, params.raw, legacySession(req))
	if fault != nil {
		return nil, fault
	}
	return f.pass(ctx, method, q.TaskID, req, func(ctx context.Context, p call.Passage) (mcp.Result, error) {
		q.Principal = p.Principal
		own := *params // which the SDK hands to the method's handler, past all middleware
		own.serve = func(ctx context.Context) (*rawResult, error) {
			encoded, err := f.Tasks.Serve(ctx, q)
			if err != nil {
				return nil, call.Fault(err)
			}
			return &rawResult{encoded: encoded}, nil
		}
		if sessionOf(req) == nil { // it came past the SDK
			return own.serve(ctx)
		}
		return f.next(ctx, method, &mcp.ServerRequest[*rawParams]{Session: sessionOf(req), Params: &own, Extra: req.GetExtra()})
	})
}

// advertise tells clients that there are tasks: the extension to those of 2026-07-28, the
// capability and each tool's support to those before.
func (f *Front) advertise(req mcp.Request, result mcp.Result) (mcp.Result, error) {
	switch r := result.(type) {
	case *mcp.DiscoverResult:
		r.Capabilities.AddExtension(wire.TasksExtension, nil)
		return r, nil
	case *mcp.InitializeResult:
		encoded, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		tasks := `{"cancel":{},"requests":{"tools":{"call":{}}}}`
		if f.ListsTasks {
			tasks = `{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
		}
		encoded, err = withMember(encoded, "capabilities", "tasks", tasks)
		return &rawResult{encoded: encoded}, err
	case *mcp.ListToolsResult:
		if legacySession(req) == nil {
			return r, nil
		}
		return f.withTaskSupport(r)
	}
	return result, nil
}

// withMember adds a member to the object that is a member of another one.
func withMember(obj []byte, outer, name, value string) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(obj, &all); err != nil {
		return nil, err
	}
	var inner map[string]json.RawMessage
	if err := json.Unmarshal(all[outer], &inner); err != nil {
		return nil, err
	}
	inner[name] = json.RawMessage(value)
	var err error
	if all[outer], err = json.Marshal(inner); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// withTaskSupport adds to a list of tools what each has of tasks
// (2025-11-25, "Tool-Level Negotiation").
func (f *Front) withTaskSupport(r *mcp.ListToolsResult) (mcp.Result, error) {
	encoded, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(encoded, &all); err != nil {
		return nil, err
	}
	var tools []json.RawMessage
	if err := json.Unmarshal(all["tools"], &tools); err != nil {
		return nil, err
	}
	for i, t := range r.Tools {
		h := f.Handlers.Lookup(wire.CallTool, t.Name)
		if h == nil || h.Tasks == nil {
			continue
		}
		support := "optional"
		if h.Tasks.Required {
			support = "required"
		}
		tools[i] = slices.Concat(tools[i][:len(tools[i])-1], []byte(`,"execution":{"taskSupport":"`+support+`"}}`))
	}
	if all["tools"], err = json.Marshal(tools); err != nil {
		return nil, err
	}
	encoded, err = json.Marshal(all)
	return &rawResult{encoded: encoded}, err
}
