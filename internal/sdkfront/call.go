package sdkfront

import (
	"cmp"
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// call serves a request that may ask.
func (in incoming) call(ctx context.Context) (mcp.Result, error) {
	return in.pass(ctx, target(in.req), func(ctx context.Context, p gate.Passage) (mcp.Result, error) {
		h := in.Lookup(ctx, in.method, target(in.req))
		if h == nil {
			return in.serveForeign(ctx, p)
		}
		var result mcp.Result
		var err error
		if sessionOf(in.req) == nil { // it came past the SDK
			result, err = in.ServeHandler(ctx, h, in.req)
		} else {
			result, err = in.registered.next(ctx, in.method, in.req)
		}
		if err != nil {
			return nil, err
		}
		if out := takeOutcome(result); out != nil {
			return in.encode(out, p.InSession)
		}
		if _, _, manual := call.ManualOutcome(result); manual {
			// The result is from a handler that was added to the SDK's server in place of ours.
			return nil, fault.Internal()
		}
		return result, nil
	})
}

// encode makes the result of an outcome that the SDK's types do not express.
func (f *Front) encode(out *call.Outcome, inSession bool) (mcp.Result, error) {
	info := f.Info
	if inSession {
		info = nil
	}
	if passed, ok := out.Result.(*raw.Result); ok && inSession { // results of sessions have no type
		encoded, err := passed.MarshalJSON()
		return &rawResult{encoded: encoded}, err
	}
	encoded, err := out.AppendResult(nil, info)
	return &rawResult{encoded: encoded}, err
}

// serveForeign serves a request for a handler that is registered on the SDK's server. If it is in the manual style,
// the state is sealed for it and, in a session, its further rounds are asked there, too.
func (in incoming) serveForeign(ctx context.Context, p gate.Passage) (mcp.Result, error) {
	m := newManualRequest(in.req)
	r, err := in.foreignRequest(p, m)
	if err != nil {
		return nil, err
	}
	r.Handler = &call.Handler{Method: in.method, Invoke: func(ctx context.Context, c *call.Call,
		params *wire.Params) (mcp.Result, error) {
		result, err := in.registered.next(ctx, in.method, c.View())
		if isUnknown(err, in.method, params.Target) {
			err = &fault.NotRunError{Err: err}
		}
		return result, err
	}}
	r.Ran = in.requestOf(ctx).ran()
	r.As = func(back call.Manual) mcp.Request { return m.with(back.State, m.typed(back)) }
	var at call.Home = in.Carrier.Home(r)
	if r.InSession {
		at = in.Carrier.Held(r, sessionOf(in.req))
	}
	out, err := in.Calls.Serve(ctx, r, at)
	switch {
	case err != nil:
		return nil, foreignError(err)
	case out.Result != nil:
		return out.Result, nil
	}
	return in.encode(out, r.InSession)
}

// ServeHandler serves a request for one of our handlers at the end of the SDK's path. A result that the SDK's types
// do not express is one that they do, and carries the outcome past the middleware that stands between.
func (f *Front) ServeHandler(ctx context.Context, h *call.Handler, req mcp.Request) (mcp.Result, error) {
	in := incoming{f, h.Method, req}
	p, passed := ctx.Value(passageKey{f}).(gate.Passage)
	if !passed { // another middleware made a context of its own
		return in.pass(ctx, target(req), func(ctx context.Context, _ gate.Passage) (mcp.Result, error) {
			return f.ServeHandler(ctx, h, req)
		})
	}
	if h.Matches != nil { // the SDK chose it by the order of the texts
		h = cmp.Or(f.Handlers.Lookup(h.Method, target(req)), h)
	}
	out, err := in.serveOwn(ctx, p, h)
	if err != nil {
		return nil, fault.Wire(err)
	}
	if _, passed := out.Result.(*raw.Result); out.Result != nil && !passed {
		return out.Result, nil
	}
	return carryOutcome(h.Method, out), nil
}

func (in incoming) serveOwn(ctx context.Context, p gate.Passage, h *call.Handler) (*call.Outcome, error) {
	raw, id, err := exactParams(in.req, in.Calls.Limits.Depth)
	if err != nil {
		return nil, err
	}
	if err := strictjson.Check(raw, in.Calls.Limits.Depth); err != nil {
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: %v", err)
	}
	params, fault := wire.ParseParams(h.Method, raw)
	if fault != nil {
		return nil, fault
	}
	session := sessionOf(in.req)
	r := &call.Request{
		Handler: h, Params: params, Raw: raw, Progress: in.progress(ctx), Session: session,
		Extra: in.req.GetExtra(), Ran: in.requestOf(ctx).ran(),
	}
	admit(r, p)
	if !p.InSession {
		return in.Calls.Serve(ctx, r, in.Carrier.Home(r))
	}
	r.Can = sessionCapabilities(session)
	held := in.Carrier.Held(r, session)
	echo := in.Echo.Load()
	if echo == nil || id == nil {
		return in.Calls.Serve(ctx, r, held)
	}
	at, err := (*echo)(r, held, id)
	if err != nil {
		return nil, err
	}
	return in.Calls.Serve(ctx, r, at)
}

// admit gives a request for a handler of ours what the gate knows of it.
func admit(r *call.Request, p gate.Passage) {
	r.Principal, r.InSession, r.Crowded, r.Watch = p.Principal, p.InSession, p.Crowded, p.Watch
	r.Can = r.Params.Meta.Capabilities &^ wire.Tasks // the home says whether this call can become one
}

// progress tells the client of a request how far the call is, if it asked to be told.
func (in incoming) progress(ctx context.Context) call.ProgressFunc {
	session := sessionOf(in.req)
	if session == nil {
		if r := in.requestOf(ctx); r != nil {
			return r.progress()
		}
		return nil
	}
	params, ok := in.req.GetParams().(mcp.RequestParams)
	if !ok || params.GetProgressToken() == nil {
		return nil
	}
	token := params.GetProgressToken()
	return func(ctx context.Context, progress, total float64, message string) error {
		return session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: progress, Total: total, Message: message,
		})
	}
}
