package bridge

import (
	"context"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/bridge/internal/names"
)

// front answers hosts, from all servers and what hosts see of them.
type front struct {
	servers []*behind
	catalog *catalog
	early   *early
}

// receiving is the middleware of the bridge's server. A call of a handler that is registered may be served past it.
func (f *front) receiving(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		for !f.early.isOver() {
			news := f.catalog.resources.news.Next()
			until := f.waitsFor(method, req)
			if until == nil || until.Err() != nil {
				break
			}
			select {
			case <-until.Done():
			case <-news:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		f.find(ctx, req)
		result, err := next(ctx, method, req)
		if tell := tellings[method]; tell != nil && err == nil {
			return f.retell(result, tell)
		}
		return result, err
	}
}

// waitsFor returns the event for which a request waits while the bridge starts, or nil.
func (f *front) waitsFor(method string, req mcp.Request) context.Context {
	kind, name := kindResource, ""
	switch p := req.GetParams().(type) {
	case *mcp.InitializeParams, *mcp.DiscoverParams:
		return f.early.hello
	case *mcp.CallToolParamsRaw:
		kind, name = kindTool, p.Name
	case *mcp.GetPromptParams:
		kind, name = kindPrompt, p.Name
	case *mcp.ReadResourceParams:
		name = p.URI
	case *mcp.SubscribeParams:
		name = p.URI
	case *mcp.CompleteParams:
	default:
		if strings.HasSuffix(method, "/list") {
			return f.early.lists
		}
		return nil
	}
	if names.Own[name] || f.catalog.seen(kind, name) != nil {
		return nil
	}
	return f.early.started
}
