package askback

import (
	"context"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// PromptHandler handles a request for a prompt. It runs from the top in every round.
// Its errors become JSON-RPC errors: see [ToolHandler] for which.
type PromptHandler func(ctx context.Context, call *Call, arguments map[string]string) (*mcp.GetPromptResult, error)

// AddPrompt adds a prompt, or replaces the prompt of the same name. A request without an argument that p says is
// required is refused before h runs.
func (s *Server) AddPrompt(p *mcp.Prompt, h PromptHandler) {
	hd := &call.Handler{
		Method: wire.GetPrompt,
		Invoke: func(ctx context.Context, c *call.Call, params *wire.Params) (mcp.Result, error) {
			arguments, err := promptArguments(p, params.Arguments)
			if err != nil {
				return nil, &fault.NotRunError{Err: err}
			}
			res, err := h(ctx, &Call{c}, arguments)
			if err != nil || res == nil {
				return nil, err
			}
			if passed := raw.Of[*raw.Result](res); passed != nil {
				return passed, nil
			}
			final := *res
			if final.Messages == nil {
				final.Messages = []*mcp.PromptMessage{}
			}
			return &final, nil
		},
	}
	s.mcp.AddPrompt(p, func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return serveAs[*mcp.GetPromptResult](ctx, s, hd, req)
	})
	s.handlers.Add(hd, p.Name)
}

// RemovePrompts removes the prompts with these names.
func (s *Server) RemovePrompts(names ...string) {
	s.handlers.Remove(wire.GetPrompt, names...)
	s.mcp.RemovePrompts(names...)
}

func promptArguments(p *mcp.Prompt, raw []byte) (map[string]string, error) {
	arguments := make(map[string]string)
	for name, value := range strictjson.Members(raw) {
		text, ok := strictjson.String(value)
		if !ok {
			return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "prompt %q: the value of each argument must be a string", p.Name)
		}
		arguments[string(name)] = text
	}
	missing := slices.IndexFunc(p.Arguments, func(a *mcp.PromptArgument) bool {
		_, given := arguments[a.Name]
		return a.Required && !given
	})
	if missing >= 0 {
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "prompt %q needs the argument %q",
			p.Name, p.Arguments[missing].Name)
	}
	return arguments, nil
}
