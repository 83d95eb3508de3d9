package sdkfront

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/strictjson"
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
		a := gate.Access{Principal: principal, Method: in.method, Target: name, Extra: in.req.GetExtra()}
		return in.serveEvents(ctx, a, in.requestOf(ctx), params.raw)
	})
}

// serveEvents serves a request about events that has passed the gate. Only a stream needs to know where it comes from.
func (f *Front) serveEvents(ctx context.Context, a gate.Access, r *Request, params []byte) ([]byte, error) {
	if a.Method != wire.StreamEvents || r == nil {
		return f.Tasks.ServeEvents(ctx, a.Principal, a.Method, params)
	}
	return f.Tasks.StreamEvents(ctx, a.Principal, params, &tasks.EventStream{ID: r.ID, Notify: r.Client.Notify,
		Authorized: func(ctx context.Context) error { return f.Gate.Authorized(ctx, a) }})
}

// stream serves a request for a stream of events on a connection of whole messages, where the SDK does not tell its
// handlers which request they serve. It reports whether the SDK is to see the request instead.
func (c *connection) stream(ctx context.Context, req *jsonrpc.Request) (pass bool) {
	meta, invalid := wire.ParseMeta(strictjson.Get(req.Params, "_meta"))
	id, err := json.Marshal(req.ID.Raw())
	if !c.front.ServesEvents(req.Method) || invalid != nil || meta.Version == "" || err != nil ||
		c.front.requestOf(c.life) != nil {
		return true
	}
	own := c.reserve(ctx, req)
	if own == nil {
		return false
	}
	r := &Request{Request: wire.Request{ID: id, Method: req.Method, Params: req.Params}, Client: own}
	r.Args.Target, r.Args.Meta = wire.Name(req.Method, req.Params), meta
	if extra, ok := req.Extra.(*mcp.RequestExtra); ok && extra != nil {
		r.Extra = *extra
	}
	c.start(func() {
		defer c.unlisten(req.ID)
		var out *call.Outcome
		var err error
		r.Principal, err = c.front.Gate.Principal(own.ctx, gate.Access{Method: req.Method, Extra: &r.Extra})
		if err == nil {
			out, err = c.front.Serve(own.ctx, r)
		}
		switch {
		case errors.Is(context.Cause(own.ctx), context.Canceled): // by the client, which wants no response
		case err != nil:
			c.refuse(c.life, req.ID, fault.Wire(err))
		default:
			_ = c.Connection.Write(c.life, &jsonrpc.Response{ID: req.ID, Result: out.Encoded})
		}
	})
	return false
}

// TakesEvents implements [Client].
func (*subscription) TakesEvents() bool { return true }

// Notify implements [Client].
func (l *subscription) Notify(method string, params []byte) error {
	return l.c.notify(l.ctx, method, params)
}

// discoverEvents tells clients that there are events: under the name of the extension, and under the key of its first
// sketch, which some hosts read.
func discoverEvents(r *mcp.DiscoverResult) (mcp.Result, error) {
	r.Capabilities.AddExtension(wire.EventsExtension, map[string]any{"listChanged": true})
	own := &discoverResult{DiscoverResult: r}
	own.Capabilities.ServerCapabilities = r.Capabilities
	own.Capabilities.Events = json.RawMessage(`{"listChanged":true}`)
	return own, nil
}

// discoverResult is the SDK's with that key, which is "events".
type discoverResult struct {
	*mcp.DiscoverResult
	Capabilities struct {
		*mcp.ServerCapabilities
		Events json.RawMessage `json:"events"`
	} `json:"capabilities"`
}
