package askback

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// Requests about tasks through the SDK: over stdio, and in sessions before 2026-07-28.

// rawParams are the parameters of a method that the SDK does not know, as they came.
type rawParams struct {
	mcp.ParamsBase
	raw json.RawMessage
}

// GetMeta is for requests without parameters, too, for which the SDK has a nil *rawParams.
func (p *rawParams) GetMeta() map[string]any {
	if p == nil {
		return nil
	}
	return p.Meta
}

func (p *rawParams) UnmarshalJSON(data []byte) error {
	p.raw = slices.Clone(data)
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

// addTaskMethods makes the SDK pass the requests about tasks to the middleware.
func (s *Server) addTaskMethods() error {
	for _, method := range wire.TaskMethods {
		err := mcp.AddReceivingCustomMethod(s.mcp, method, func(context.Context, *mcp.ServerSession, *rawParams) (*rawResult, error) {
			return nil, methodNotFound(method)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) serveTasksSDK(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
	params, _ := req.GetParams().(*rawParams)
	if params == nil {
		params = new(rawParams) // a request without any
	}
	if params.raw != nil {
		if err := strictjson.Check(params.raw, s.opts.Limits.Depth); err != nil {
			return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: %v", err)
		}
	}
	q := &taskRequest{method: method}
	inSession := legacy(req)
	if inSession {
		q.session = req.GetSession().(*mcp.ServerSession)
	} else {
		meta, fault := wire.ParseMeta(strictjson.Get(params.raw, "_meta"))
		if fault != nil {
			return nil, fault
		}
		q.extension = Kind(meta.Capabilities)&KindTasks != 0
	}
	if !q.methodExists() {
		return nil, methodNotFound(method)
	}
	parsed, fault := newTaskRequest(method, params.raw)
	if fault != nil {
		return nil, fault
	}
	parsed.extension, parsed.session = q.extension, q.session
	var err error
	if parsed.principal, err = s.principal(ctx, req.GetExtra()); err != nil {
		return nil, err
	}
	res, err := s.serveTask(ctx, parsed)
	if err != nil {
		return nil, protocolError(err)
	}
	encoded, err := res.encode(s, !inSession)
	return &rawResult{encoded: encoded}, err
}

// advertise tells clients that there are tasks: the extension to those of 2026-07-28, the
// capability and each tool's support to those before.
func (s *Server) advertise(req mcp.Request, result mcp.Result) (mcp.Result, error) {
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
		if s.opts.Tasks.ListAnonymous || s.opts.Principal != nil {
			tasks = `{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
		}
		encoded, err = withMember(encoded, "capabilities", "tasks", tasks)
		return &rawResult{encoded: encoded}, err
	case *mcp.ListToolsResult:
		if !legacy(req) {
			return r, nil
		}
		return s.withTaskSupport(r)
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
func (s *Server) withTaskSupport(r *mcp.ListToolsResult) (mcp.Result, error) {
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
		h := s.lookup(wire.CallTool, t.Name)
		if h == nil || h.tasks == nil {
			continue
		}
		support := "optional"
		if h.tasks.Required {
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
