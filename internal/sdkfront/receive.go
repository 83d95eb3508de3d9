package sdkfront

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// receive serves a request, from every transport. A panic of middleware, or of a handler of the SDK's, costs the
// request and not the process.
func (f *Front) receive(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
	if probe, ok := req.(*mcp.ServerRequest[*mcp.DiscoverParams]); ok && probe.Session != f.listing {
		req, err = f.apart(probe)
		if err != nil {
			return nil, err
		}
	}
	if fault := checkProgressToken(req); fault != nil {
		return nil, fault
	}
	ctx, release, err := f.hold(ctx, method, req)
	if err != nil {
		return nil, fault.Wire(err)
	}
	defer release()
	panicked := fault.Safely(func() error {
		result, err = (*f.handler.Load())(ctx, method, req)
		return nil
	})
	if panicked != nil {
		return nil, f.panicked(ctx, method, panicked)
	}
	session := sessionOf(req)
	if passed, ok := result.(*raw.Result); ok && err == nil && session != nil && session != f.listing {
		return f.encode(&call.Outcome{Result: passed}, legacySession(req) != nil)
	}
	return result, err
}

// apart returns a probe as one in a session of its own. The SDK would take it for the beginning of its session, and
// refuse to initialize the session of a client whose probe has timed out (basic/transports/stdio, "Backward
// Compatibility").
func (f *Front) apart(probe *mcp.ServerRequest[*mcp.DiscoverParams]) (mcp.Request, error) {
	session, err := listingSession(f.Server)
	if err != nil {
		return nil, err
	}
	own := *probe
	own.Session = session
	return &own, nil
}

// panicked logs a panic of middleware or of another function of the operator, and returns the error for the client.
func (f *Front) panicked(ctx context.Context, method string, err error) error {
	f.Log.ErrorContext(ctx, "askback: middleware panicked", "method", method, "error", err)
	return fault.Internal()
}

// checkProgressToken returns an error for a token that is too long, for requests of every handler.
func checkProgressToken(req mcp.Request) error {
	params, ok := req.GetParams().(mcp.RequestParams)
	if !ok || reflect.ValueOf(params).IsNil() {
		return nil
	}
	if token, ok := params.GetProgressToken().(string); ok && len(token) > wire.MaxProgressToken {
		return wire.LongProgressToken()
	}
	return nil
}

// hold takes the share of a request in a session, or on a connection of whole messages. An HTTP request outside of
// sessions has taken its own before, and notifications end at once.
func (f *Front) hold(
	ctx context.Context, method string, req mcp.Request,
) (_ context.Context, release func(), err error) {
	session := sessionOf(req)
	if session == nil || method == "initialize" || strings.HasPrefix(method, "notifications/") ||
		ctx.Value(admittedKey{}) != nil {
		return ctx, func() {}, nil
	}
	size := 0
	if session.ID() != "" { // its HTTP request may end before
		params, _ := json.Marshal(req.GetParams())
		size = len(params)
	}
	var header http.Header
	if extra := req.GetExtra(); extra != nil {
		header = extra.Header
	}
	return f.Gate.Sessions.Hold(ctx, session, size, header)
}

// Receive serves a request for one of our handlers or about tasks past the SDK, through the middleware of
// AddReceivingMiddleware. The request has no session. Progress tells the client how far the call is, or is nil.
func (f *Front) Receive(ctx context.Context, id []byte, method string, params []byte, extra *mcp.RequestExtra,
	progress call.ProgressFunc) (*call.Outcome, error) {
	var req mcp.Request
	if wire.IsTask(method) {
		p := new(rawParams)
		if params != nil {
			if err := p.UnmarshalJSON(params); err != nil {
				return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: %v", err)
			}
		}
		req = &mcp.ServerRequest[*rawParams]{Params: p, Extra: extra}
	} else {
		req = call.View(method, Carry(params, nil), nil, extra, call.Manual{})
	}
	ctx = context.WithValue(ctx, progressKey{}, progress)
	if f.Gate.Observer != nil {
		ctx = context.WithValue(ctx, idKey{}, id)
	}
	result, err := f.receive(ctx, method, req)
	if err != nil {
		return nil, err
	}
	if raw, ok := result.(*rawResult); ok {
		return &call.Outcome{Encoded: raw.encoded}, nil
	}
	return &call.Outcome{Result: result}, nil
}

type progressKey struct{}

// idKey is the key of a request's raw ID in its context.
type idKey struct{}

// handle brings a request to the gate, and all others to the SDK's handlers.
func (f *Front) handle(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
	switch {
	case wire.MayAsk(method) && target(req) != "":
		return f.call(ctx, method, req)
	case f.Tasks != nil && wire.IsTask(method):
		return f.aboutTask(ctx, method, req)
	case method == "initialize":
		if err := f.Gate.Opened(ctx, sessionOf(req), req.GetExtra()); err != nil {
			return nil, fault.Wire(err)
		}
	}
	result, err := f.next(ctx, method, req)
	if err != nil || f.Tasks == nil {
		return result, err
	}
	return f.advertise(req, result)
}

// passageKey is the key of a request's [gate.Passage] in its context.
type passageKey struct{ *Front }

// pass brings a request through the gate. What serve returns is encoded where the SDK's types cannot express it.
func (f *Front) pass(ctx context.Context, method, target string, req mcp.Request,
	serve func(ctx context.Context, p gate.Passage) (mcp.Result, error)) (result mcp.Result, err error) {
	from, _ := ctx.Value(originKey{}).(*origin)
	if from != nil {
		var cancel context.CancelFunc
		ctx, cancel = from.follow(ctx)
		defer cancel()
	}
	a := gate.Access{Method: method, Target: target, Extra: req.GetExtra()}
	err = f.Gate.Pass(ctx, a, describe(ctx, req), legacySession(req),
		func(ctx context.Context, p gate.Passage) (err error) {
			result, err = serve(context.WithValue(ctx, passageKey{f}, p), p)
			return err
		})
	if from != nil {
		from.refuse(err)
	}
	switch fault.Of(err) {
	case fault.Refused, fault.Unavailable, fault.Crowded, fault.Limit:
		if sessionOf(req) != nil {
			return nil, fault.Wire(err)
		}
	}
	if sent, ok := errors.AsType[*jsonrpc.Error](err); ok && sent != nil && sent.Code == jsonrpc.CodeMethodNotFound {
		err = &notFoundError{sent}
	}
	return result, err
}

// notFoundError is an error -32601 with a message of its own. It has no Unwrap, because the SDK's connection replaces
// the message of every error that is, or wraps, an error with this code.
type notFoundError struct{ fault *jsonrpc.Error }

func (e *notFoundError) Error() string { return e.fault.Message }

// As lets errors.As find the fault.
func (e *notFoundError) As(target any) bool {
	to, ok := target.(**jsonrpc.Error)
	if ok {
		*to = e.fault
	}
	return ok
}

// call serves a request that may ask.
func (f *Front) call(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
	return f.pass(ctx, method, target(req), req, func(ctx context.Context, p gate.Passage) (mcp.Result, error) {
		h := f.Lookup(ctx, method, target(req))
		if h == nil {
			return f.serveForeign(ctx, p, method, req)
		}
		var result mcp.Result
		var err error
		if sessionOf(req) == nil { // it came past the SDK
			result, err = f.ServeHandler(ctx, h, req)
		} else {
			result, err = f.next(ctx, method, req)
		}
		if err != nil {
			return nil, err
		}
		if out := takeOutcome(result); out != nil {
			return f.encode(out, p.InSession)
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
func (f *Front) serveForeign(ctx context.Context, p gate.Passage, method string, req mcp.Request) (mcp.Result, error) {
	m := newManualRequest(req)
	r, err := f.foreignRequest(p, method, req, m)
	if err != nil {
		return nil, err
	}
	r.Handler = &call.Handler{Method: method, Invoke: func(ctx context.Context, c *call.Call,
		params *wire.Params) (mcp.Result, error) {
		result, err := f.next(ctx, method, c.View())
		if isUnknown(err, method, params.Target) {
			err = &fault.NotRunError{Err: err}
		}
		return result, err
	}}
	r.Ran = f.ran(ctx)
	r.As = func(back call.Manual) mcp.Request { return m.with(back.State, m.typed(back)) }
	var at call.Home = f.Carrier.Home(r)
	if r.InSession {
		at = f.Carrier.Held(r, sessionOf(req))
	}
	out, err := f.Calls.Serve(ctx, r, at)
	switch {
	case err != nil:
		return nil, foreignError(err)
	case out.Result != nil:
		return out.Result, nil
	}
	return f.encode(out, r.InSession)
}

// ServeHandler serves a request for one of our handlers at the end of the SDK's path. A result that the SDK's types
// do not express is one that they do, and carries the outcome past the middleware that stands between.
func (f *Front) ServeHandler(ctx context.Context, h *call.Handler, req mcp.Request) (mcp.Result, error) {
	p, passed := ctx.Value(passageKey{f}).(gate.Passage)
	if !passed { // another middleware made a context of its own
		return f.pass(ctx, h.Method, target(req), req, func(ctx context.Context, _ gate.Passage) (mcp.Result, error) {
			return f.ServeHandler(ctx, h, req)
		})
	}
	if h.Matches != nil { // the SDK chose it by the order of the texts
		h = cmp.Or(f.Handlers.Lookup(h.Method, target(req)), h)
	}
	out, err := f.serveOwn(ctx, p, h, req)
	if err != nil {
		return nil, fault.Wire(err)
	}
	if _, passed := out.Result.(*raw.Result); out.Result != nil && !passed {
		return out.Result, nil
	}
	return carryOutcome(h.Method, out), nil
}

func (f *Front) serveOwn(ctx context.Context, p gate.Passage, h *call.Handler, req mcp.Request) (*call.Outcome, error) {
	raw, id, err := exactParams(req, f.Calls.Limits.Depth)
	if err != nil {
		return nil, err
	}
	if err := strictjson.Check(raw, f.Calls.Limits.Depth); err != nil {
		return nil, wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: %v", err)
	}
	params, fault := wire.ParseParams(h.Method, raw)
	if fault != nil {
		return nil, fault
	}
	session := sessionOf(req)
	r := &call.Request{
		Handler:   h,
		Params:    params,
		Raw:       raw,
		Can:       params.Meta.Capabilities &^ wire.Tasks, // the home says whether this call can become one
		Principal: p.Principal,
		InSession: p.InSession,
		Crowded:   p.Crowded,
		Watch:     p.Watch,
		Progress:  progressTo(ctx, session, req),
		Session:   session,
		Extra:     req.GetExtra(),
		Ran:       f.ran(ctx),
	}
	if !p.InSession {
		return f.Calls.Serve(ctx, r, f.Carrier.Home(r))
	}
	r.Can = sessionCapabilities(session)
	held := f.Carrier.Held(r, session)
	echo := f.Echo.Load()
	if echo == nil || id == nil {
		return f.Calls.Serve(ctx, r, held)
	}
	at, err := (*echo)(r, held, id)
	if err != nil {
		return nil, err
	}
	return f.Calls.Serve(ctx, r, at)
}

// describe returns what is known of a request beside its caller and target. The SDK does not tell its handlers the
// request's ID.
func describe(ctx context.Context, req mcp.Request) gate.Origin {
	meta := req.GetParams().GetMeta()
	from := gate.Origin{Transport: transportOf(req.GetExtra()), Meta: report.MetaTexts(meta)}
	from.ID, _ = ctx.Value(idKey{}).([]byte)
	if session := legacySession(req); session != nil {
		if opened := session.InitializeParams(); opened != nil {
			from.Version = opened.ProtocolVersion
		}
	} else {
		from.Version, _ = meta[mcp.MetaKeyProtocolVersion].(string)
	}
	return from
}

// progressTo tells the client of a request how far the call is, if it asked to be told.
func progressTo(ctx context.Context, session *mcp.ServerSession, req mcp.Request) call.ProgressFunc {
	if session == nil {
		progress, _ := ctx.Value(progressKey{}).(call.ProgressFunc)
		return progress
	}
	params, ok := req.GetParams().(mcp.RequestParams)
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
