package bridge

import (
	"context"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/bridge/internal/calls"
	"github.com/askback-mcp/askback/bridge/internal/legacy"
)

// requests answer what hosts want to know beside calls and lists.
type requests struct {
	*front
	principal func(context.Context, *mcp.RequestExtra) (string, error)
}

// sessions are those at a server.
func (r *requests) sessions(of *calls.Server) *legacy.Sessions {
	return r.servers[slices.IndexFunc(r.servers, func(b *behind) bool { return b.Server == of })].sessions
}

// complete asks the server that has the prompt or the template.
func (r *requests) complete(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	params := *req.Params
	params.Meta = nil
	var to *calls.Server
	if ref := params.Ref; ref != nil && ref.Type == "ref/prompt" {
		if t := r.catalog.prompts.of(ref.Name); t != nil {
			own := *ref
			own.Name, params.Ref, to = t.Name, &own, t.Server
		}
	} else if ref != nil {
		if t := r.catalog.resources.of(kindTemplate, ref.URI); t != nil {
			to = t.Server
		} else {
			to = r.catalog.ofURI(ref.URI)
		}
	}
	if to == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no server has what is to be completed"}
	}
	session, err := r.sessions(to).Current(ctx, r.caller(ctx, req.Extra))
	if err != nil {
		return nil, err
	}
	return session.SDK().Complete(ctx, &params)
}

// caller names who makes a request, or is empty.
func (r *requests) caller(ctx context.Context, extra *mcp.RequestExtra) string {
	if r.principal == nil {
		return ""
	}
	name, err := r.principal(ctx, extra)
	if err != nil {
		return ""
	}
	return name
}

// subscribe subscribes to a resource at its server, for as long as the connection lasts: other hosts may want to be
// told of it, too.
func (r *requests) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	to := r.catalog.ofURI(req.Params.URI)
	if to == nil {
		return mcp.ResourceNotFoundError(req.Params.URI)
	}
	return r.sessions(to).Subscribe(ctx, r.caller(ctx, req.Extra), req.Params.URI)
}

// unsubscribe ends nothing at the server: see subscribe. The SDK's server no longer tells this host.
func (r *requests) unsubscribe(context.Context, *mcp.UnsubscribeRequest) error { return nil }
