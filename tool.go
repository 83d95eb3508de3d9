package askback

import (
	"context"
	"fmt"
	"reflect"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/schema"
	"github.com/askback-mcp/askback/internal/wire"
)

// ToolHandler handles a call of a tool. Its arguments are validated and decoded as
// the SDK's mcp.AddTool does it. It runs from the top in every round.
//
// What the client gets depends on Out:
//
//   - A string is the result's text.
//   - A *mcp.CallToolResult is the whole result; nil is one without content. Its structured
//     content must fit the tool's OutputSchema, if that is set, and becomes its text if it
//     has no content. This is also what a handler in the SDK's manual style returns.
//   - With any the value decides in the same way, and no schema is inferred; nil is a result
//     without content.
//   - Every other type, such as a struct, a map, a slice or a pointer to one, is structured
//     content, and its JSON the result's text. The tool's output schema is inferred from it.
//
// An error that is a *jsonrpc.Error is sent as such; [ErrInputRequired] suspends the call; a [*CapabilityError] or
// [*LimitError] becomes the protocol's error for it; any other error becomes a tool error that the client's model can
// read (server/tools, "Error Handling").
type ToolHandler[In, Out any] func(ctx context.Context, call *Call, in In) (Out, error)

// AddTool adds a tool, or replaces the tool of the same name. Schemas that t does not set are inferred from In and Out
// like the SDK's mcp.AddTool does it; t must not be modified afterwards. AddTool panics if a schema cannot be inferred
// or is invalid, and if t has an OutputSchema although Out is string.
func AddTool[In, Out any](s *Server, t *mcp.Tool, h ToolHandler[In, Out]) {
	addHandler(s, t, nil, h)
}

// AddTaskTool is [AddTool] for a tool whose calls may go on as tasks. Without [Options.Tasks] no client can take one.
func AddTaskTool[In, Out any](s *Server, t *mcp.Tool, support *TaskSupport, h ToolHandler[In, Out]) {
	if support == nil {
		support = new(TaskSupport)
	}
	if s.opts.Tasks == nil && support.Required {
		s.log.Error("askback: a tool that runs as a task only needs Options.Tasks; every call of it will be refused",
			"tool", t.Name)
	}
	if s.opts.Desk == nil && support.Always {
		s.log.Error("askback: a tool with TaskSupport.Always needs Options.Desk; "+
			"clients that cannot take a task wait for the result", "tool", t.Name)
	}
	own := *support
	addHandler(s, t, &own, h)
}

func addHandler[In, Out any](s *Server, t *mcp.Tool, support *TaskSupport, h ToolHandler[In, Out]) {
	if passes, ok := any(h).(ToolHandler[raw.Call, *raw.Result]); ok {
		addRawTool(s, t, support, passes)
		return
	}
	switch reflect.TypeFor[Out]() {
	case reflect.TypeFor[string]():
		if t.OutputSchema != nil {
			panic(fmt.Sprintf("askback.AddTool %q: output schema: a handler that returns a string has no structured content "+
				"to fit it: return a struct or a *mcp.CallToolResult", t.Name))
		}
		addTool[In, any](s, t, support, h.run)
	case reflect.TypeFor[*mcp.CallToolResult]():
		addTool[In, any](s, t, support, h.run)
	default:
		addTool[In, Out](s, t, support, h.run)
	}
}

// run runs the handler, and tells apart what it returns. The result is the call's own: the author may return the same
// one to many.
func (h ToolHandler[In, Out]) run(ctx context.Context, call *Call, in In) (*mcp.CallToolResult, any, error) {
	out, err := h(ctx, call, in)
	if err != nil {
		return nil, nil, err
	}
	switch out := any(out).(type) {
	case string:
		return textResult(out), nil, nil
	case *mcp.CallToolResult:
		return ownResult(out), nil, nil
	}
	return nil, out, nil
}

// textResult returns a result with one text, in one piece of memory.
func textResult(text string) *mcp.CallToolResult {
	r := &struct {
		result  mcp.CallToolResult
		content [1]mcp.Content
		text    mcp.TextContent
	}{text: mcp.TextContent{Text: text}}
	r.content[0] = &r.text
	r.result.Content = r.content[:]
	return &r.result
}

// ownResult returns a copy of a result, which may be nil.
func ownResult(res *mcp.CallToolResult) *mcp.CallToolResult {
	if res == nil {
		return nil
	}
	own := *res
	return &own
}

// addTool adds a tool whose handler returns a result of its own, or nil, and its structured content, or nil.
func addTool[In, Out any](s *Server, t *mcp.Tool, support *TaskSupport,
	run func(context.Context, *Call, In) (*mcp.CallToolResult, any, error)) {
	tool := *t
	arguments, err := schema.ForArguments(&tool, reflect.TypeFor[In]())
	if err != nil {
		panic(fmt.Sprintf("askback.AddTool %q: input schema: %v", t.Name, err))
	}
	output, err := schema.ForResult(&tool, reflect.TypeFor[Out]())
	if err != nil {
		panic(fmt.Sprintf("askback.AddTool %q: output schema: %v", t.Name, err))
	}
	headers, err := wire.ParamHeaders(tool.InputSchema)
	if err != nil {
		panic(fmt.Sprintf("askback.AddTool %q: input schema: %v", t.Name, err))
	}
	h := &call.Handler{
		Method:     wire.CallTool,
		Headers:    headers,
		Tasks:      (*call.TaskSupport)(support),
		Structured: tool.OutputSchema != nil,
		Invoke: func(ctx context.Context, c *call.Call, params *wire.Params) (mcp.Result, error) {
			var own struct { // in one piece of memory
				call Call
				in   In
			}
			own.call.c = c
			if err := arguments.Decode(params.Arguments, params.Floats, &own.in); err != nil {
				return toolError(fmt.Errorf("invalid arguments: %w", err)), nil
			}
			final, out, err := run(ctx, &own.call, own.in)
			if err != nil {
				return nil, err
			}
			if final == nil {
				final = new(mcp.CallToolResult)
			}
			if c.Suspended() || final.InputRequests != nil || final.RequestState != "" {
				return final, nil
			}
			whole := out == nil && !c.Inline // the SDK does not look into a whole result
			if whole && !final.IsError {
				out = final.StructuredContent
			}
			if err := output.Structure(final, out, whole); err != nil {
				return nil, err
			}
			if final.Content == nil {
				final.Content = []mcp.Content{}
			}
			return final, nil
		},
		Fail: toolError,
	}
	s.register(&tool, h)
}

// addRawTool adds a tool whose handler takes its arguments, and returns its result, as JSON.
func addRawTool(s *Server, t *mcp.Tool, support *TaskSupport, h ToolHandler[raw.Call, *raw.Result]) {
	headers, err := wire.ParamHeaders(t.InputSchema)
	if err != nil {
		panic(fmt.Sprintf("askback.AddTool %q: input schema: %v", t.Name, err))
	}
	s.register(t, &call.Handler{
		Method: wire.CallTool, Headers: headers, Tasks: (*call.TaskSupport)(support), Structured: t.OutputSchema != nil,
		Fail: toolError,
		Invoke: func(ctx context.Context, c *call.Call, params *wire.Params) (mcp.Result, error) {
			in := raw.Call{Arguments: params.Arguments, Meta: params.Meta.Raw(), Reports: params.Meta.ProgressToken != nil}
			result, err := h(ctx, &Call{c}, in)
			if err != nil {
				return nil, err
			}
			return result, nil
		},
	})
}

// register adds the handler of a tool.
func (s *Server) register(t *mcp.Tool, h *call.Handler) {
	s.mcp.AddTool(t, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return serveAs[*mcp.CallToolResult](ctx, s, h, req)
	})
	own := *t
	h.Tool = &own
	s.handlers.Add(h, t.Name)
}

// serveAs serves a request that the SDK has brought to one of our handlers.
func serveAs[R mcp.Result](ctx context.Context, s *Server, h *call.Handler, req mcp.Request) (R, error) {
	result, err := s.sdk.ServeHandler(ctx, h, req)
	if err != nil {
		var none R
		return none, err
	}
	return result.(R), nil
}

// RemoveTools removes the tools with these names.
func (s *Server) RemoveTools(names ...string) {
	s.handlers.Remove(wire.CallTool, names...)
	s.mcp.RemoveTools(names...)
}

func toolError(err error) mcp.Result {
	res := new(mcp.CallToolResult)
	res.SetError(err)
	return res
}
