package sdkfront

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// Lookup returns our handler for a request, or nil if there is none or a handler of the SDK's server serves the
// request. Every front finds the same handler:
//
//  1. A resource goes before templates, whether it is ours or was added to the SDK's server.
//  2. Between one of our templates and a template of the SDK's server the SDK decides, by the order of their texts.
//  3. Our templates go in the order in which they were added.
func (f *Front) Lookup(ctx context.Context, method, target string) *call.Handler {
	h := f.Handlers.Lookup(method, target)
	if h == nil || h.Matches == nil || f.before { // middleware around ours must not see lists that no client asked for
		return h
	}
	if f.registered.hasResource(ctx, target) {
		return nil
	}
	f.registered.each(ctx, "resources/templates/list", func(result mcp.Result) (next string) {
		list, ok := result.(*mcp.ListResourceTemplatesResult)
		if !ok {
			return ""
		}
		for _, t := range list.ResourceTemplates {
			own := f.Handlers.Template(t.URITemplate)
			switch {
			case own != nil && own.Matches(target):
				return ""
			case own == nil && f.templates.match(t.URITemplate, target):
				h = nil
				return ""
			}
		}
		return list.NextCursor
	})
	return h
}

// Serves reports whether a request is for one of our handlers; params is a checked object, or nil.
func (f *Front) Serves(ctx context.Context, method string, params []byte) bool {
	target, _ := strictjson.String(strictjson.Get(params, wire.TargetMember(method)))
	return f.Lookup(ctx, method, target) != nil
}

// ParamHeaders returns the headers that mirror the parameters of a tool, ours or one of the SDK's server.
func (f *Front) ParamHeaders(ctx context.Context, tool string) ([]wire.ParamHeader, error) {
	if h := f.Handlers.Lookup(wire.CallTool, tool); h != nil {
		return h.Headers, nil
	}
	var found *mcp.Tool
	f.registered.each(ctx, "tools/list", func(result mcp.Result) (next string) {
		list, ok := result.(*mcp.ListToolsResult)
		if !ok {
			return ""
		}
		for _, t := range list.Tools {
			if t.Name == tool {
				found = t
				return ""
			}
		}
		return list.NextCursor
	})
	if found == nil {
		return nil, nil
	}
	headers, err := wire.ParamHeaders(found.InputSchema)
	if err != nil {
		return nil, fmt.Errorf("askback: the input schema of the tool %q: %w", tool, err)
	}
	return headers, nil
}
