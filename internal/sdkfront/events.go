package sdkfront

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
)

// ServesEvents reports whether a method is a request about events, and callers get events.
func (f *Front) ServesEvents(method string) bool {
	return f.Tasks != nil && f.Tasks.Events != nil && wire.IsEvent(method)
}

// aboutEvents serves a request about events. The revisions with sessions do not have them.
func (in incoming) aboutEvents(ctx context.Context) (mcp.Result, error) {
	params, err := in.rawParams()
	if err != nil {
		return nil, err
	}
	if legacySession(in.req) != nil {
		return nil, &notFoundError{tasks.MethodNotFound(in.method)}
	}
	name := wire.Name(in.method, params.raw)
	return in.custom(ctx, params, name, func(ctx context.Context, principal string) ([]byte, error) {
		return in.Tasks.ServeEvents(ctx, principal, in.method, params.raw)
	})
}

// discoverEvents tells clients that there are events: under the name of the extension, and under the key of its first
// sketch, which some hosts read.
func discoverEvents(r *mcp.DiscoverResult) (mcp.Result, error) {
	r.Capabilities.AddExtension(wire.EventsExtension, nil)
	own := &discoverResult{DiscoverResult: r}
	own.Capabilities.ServerCapabilities = r.Capabilities
	return own, nil
}

// discoverResult is the SDK's with that key, which is "events".
type discoverResult struct {
	*mcp.DiscoverResult
	Capabilities struct {
		*mcp.ServerCapabilities
		Events struct{} `json:"events"`
	} `json:"capabilities"`
}
