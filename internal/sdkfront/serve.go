package sdkfront

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
)

// Serve serves a request for one of our handlers, about tasks or events, or for a subscription to them. All
// receiving middleware that would see it at the SDK's server sees it. The SDK itself is passed by where it has nothing
// to add.
func (f *Front) Serve(ctx context.Context, r *Request) (*call.Outcome, error) {
	listens := r.Method == tasks.MethodListen
	switch {
	case !f.direct() || listens && (f.chained.Load() || !tasks.OnlyHere(r.Params)):
		return f.throughServer(f.Context(ctx, r), r)
	case listens:
		return f.follow(f.Context(ctx, r), r)
	case f.chained.Load():
		return f.throughMiddleware(f.Context(ctx, r), r)
	}
	return f.throughGate(ctx, r)
}

// throughGate brings a request that no middleware has to see to its handler, or to the tasks.
func (f *Front) throughGate(ctx context.Context, r *Request) (out *call.Outcome, err error) {
	a := gate.Access{Principal: r.Principal, Method: r.Method, Target: r.Args.Target, Extra: &r.Extra}
	from := gate.Origin{Named: true, ID: r.ID, Version: r.Args.Meta.Version, Transport: transportOf(&r.Extra),
		Meta: &r.Args.Meta}
	err = f.Gate.Pass(ctx, a, from, nil, func(ctx context.Context, p gate.Passage) (err error) {
		if r.Handler == nil {
			serve := func() ([]byte, error) { return f.Tasks.Serve(ctx, p.Principal, &r.Task) }
			if wire.IsEvent(r.Method) {
				serve = func() ([]byte, error) { return f.serveEvents(ctx, a, r, r.Params) }
			}
			encoded, err := serve()
			out = &call.Outcome{Encoded: encoded}
			return err
		}
		r.call = call.Request{Handler: r.Handler, Params: &r.Args, Raw: r.Params, Progress: r.progress(), Extra: &r.Extra,
			Ran: &r.Ran}
		admit(&r.call, p)
		r.home = *f.Carrier.Home(&r.call)
		out, err = f.Calls.Serve(ctx, &r.call, &r.home)
		return err
	})
	return out, err
}

// throughMiddleware brings a request through the middleware of [Front.AddReceivingMiddleware]. It has no session there.
func (f *Front) throughMiddleware(ctx context.Context, r *Request) (*call.Outcome, error) {
	var req mcp.Request
	if wire.IsTask(r.Method) || wire.IsEvent(r.Method) {
		params := new(rawParams)
		if r.Params != nil {
			if err := params.UnmarshalJSON(r.Params); err != nil {
				return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: %v", err)
			}
		}
		req = &mcp.ServerRequest[*rawParams]{Params: params, Extra: &r.Extra}
	} else {
		req = call.View(r.Method, Carry(r.Params, nil), nil, &r.Extra, call.Manual{})
	}
	result, err := f.receive(ctx, r.Method, req)
	if err != nil {
		return nil, err
	}
	if raw, ok := result.(*rawResult); ok {
		return &call.Outcome{Encoded: raw.encoded}, nil
	}
	return &call.Outcome{Result: result}, nil
}

// follow serves a subscription of [tasks.OnlyHere] past the SDK, whose session would be half of what the subscription
// costs.
func (f *Front) follow(ctx context.Context, r *Request) (*call.Outcome, error) {
	ctx, cancel := gate.WhileTokenLasts(ctx, &r.Extra)
	defer cancel()
	l, err := f.Listen(ctx, r.ID, r.Params, &r.Extra)
	if err != nil {
		return nil, err
	}
	if err = r.Client.Notify(tasks.MethodAcknowledged, l.Acknowledge(nil)); err == nil {
		err = f.Tasks.Follow(ctx, l, r.Client.Notify)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return &call.Outcome{Encoded: f.Tasks.Result(l)}, err
}
