package sdkfront

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/wire"
)

// sending stands around what the SDK's server sends: a question in a session has a time to live, if we or the author's
// code ask it.
func (f *Front) sending(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		asks := method == input.MethodElicit || method == input.MethodCreateMessage || method == input.MethodListRoots
		p, inCall := ctx.Value(passageKey{f}).(gate.Passage)
		if !asks || !inCall {
			return next(ctx, method, req)
		}
		if !home.Timed(ctx) {
			var cancel context.CancelFunc
			ctx, cancel = f.Gate.Asking(ctx)
			defer cancel()
		}
		native := asksNatively(req.GetParams())
		if native {
			tellNative(ctx, f.Gate.Audit, p, report.AuditAsked, nil)
		}
		resume := gate.Waiting(ctx)
		result, err := next(ctx, method, req)
		if gaveWay := resume(); gaveWay != nil {
			return nil, gaveWay
		}
		if native && err == nil {
			tellNative(ctx, f.Gate.Audit, p, report.AuditAnswered, result)
		}
		if err == nil {
			result = home.Answered(ctx, result)
		}
		if cause := context.Cause(ctx); err != nil && fault.Of(cause) == fault.Limit {
			err = cause
		}
		return result, err
	}
}

// asksNatively reports whether a handler asks through its session, past the engine, which tells of all other questions
// and gives them a key.
func asksNatively(params mcp.Params) bool {
	return params == nil || params.GetMeta()[wire.MetaKey] == nil // a handler may ask for roots without any
}

// tellNative tells the operator of a question that a handler asks through its session.
func tellNative(ctx context.Context, audit *report.Audit, p gate.Passage, kind string, result mcp.Result) {
	e := report.AuditEvent{Kind: kind, Principal: p.Principal, Method: p.Method, Target: p.Target, Round: 1}
	if r, ok := result.(*mcp.ElicitResult); ok {
		e.Action = r.Action
	}
	audit.Tell(ctx, e)
}

// listingSession returns the session that asks the SDK's server for lists. It is like the session of an HTTP request,
// but closed: the SDK's handlers of lists work nevertheless.
func listingSession(m *mcp.Server) (*mcp.ServerSession, error) {
	session, err := m.Connect(context.Background(), &mcp.StreamableServerTransport{Stateless: true}, nil)
	if err != nil {
		return nil, err
	}
	return session, session.Close()
}
