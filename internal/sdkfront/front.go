// Package sdkfront serves what comes through the SDK's server: connections of whole messages, sessions before
// 2026-07-28, and requests that receiving middleware has to see. Its middleware stands around the SDK's handlers and
// brings each request for a handler or a task to the gate.
package sdkfront

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
)

// Front serves requests that come through an SDK's server. It is safe for concurrent use;
// its exported fields must not be changed while it is used.
type Front struct {
	Server   *mcp.Server
	Gate     *gate.Gate
	Calls    *call.Engine
	Handlers *call.Registry
	Carrier  *home.Carrier
	Tasks    *tasks.Service // nil: there are none
	// ListsTasks says that callers can be told apart and the store lists tasks, so that clients may list theirs.
	ListsTasks bool
	// Echo, if set, makes the home of a call in a session whose questions carry a state.
	Echo atomic.Pointer[EchoFunc]
	Info []byte // the _meta of every result, which says who answers
	Log  *slog.Logger

	receiving reflect.Value // the SDK's handler of received requests; invalid where it cannot be read
	own       uintptr       // the code of our middleware, as receiving has it
	before    bool          // there was middleware when ours was added
	warn      sync.Once

	listing   *mcp.ServerSession // asks the SDK's server for lists
	lists     bool               // List answers clients
	tools     pages
	templates templates

	next    mcp.MethodHandler // the SDK's handlers, and the middleware that was there before ours
	mu      sync.Mutex
	handler atomic.Pointer[mcp.MethodHandler] // handle in the middleware of AddReceivingMiddleware
	chained atomic.Bool                       // there is such middleware
}

// EchoFunc makes the home of a call in a session, given the id of its request.
type EchoFunc func(r *call.Request, held *home.Held, id []byte) (call.Home, error)

// Install adds the front's middleware to the SDK's server.
func (f *Front) Install() error {
	f.receiving = receivingHandler(f.Server)
	pristine := receivingHandler(mcp.NewServer(&mcp.Implementation{Name: "askback"}, nil))
	f.before = !f.receiving.IsValid() || !pristine.IsValid() || f.receiving.Pointer() != pristine.Pointer()
	handle := mcp.MethodHandler(f.handle)
	f.handler.Store(&handle)
	f.own = reflect.ValueOf(f.receive).Pointer()
	if f.receiving.IsValid() && f.receiving.Pointer() == f.own {
		return errors.New("askback: there is a Server on this mcp.Server already")
	}
	var err error
	f.lists = !hasCacheableHook(f.Server)
	if f.listing, err = listingSession(f.Server); err != nil {
		return fmt.Errorf("askback: opening a session for lists: %w", err)
	}
	f.Server.AddSendingMiddleware(f.sending)
	f.Server.AddReceivingMiddleware(f.middleware)
	if f.Tasks == nil {
		return nil
	}
	// So that requests about tasks pass all middleware, as all others do.
	for _, method := range wire.TaskMethods {
		err := mcp.AddReceivingCustomMethod(f.Server, method, func(ctx context.Context, _ *mcp.ServerSession, p *rawParams) (*rawResult, error) {
			if p == nil || p.serve == nil {
				return nil, tasks.MethodNotFound(method)
			}
			return p.serve(ctx)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// receivingHandler is the field of an SDK's server that holds its handler of received
// requests, around which middleware is. The SDK has no other way to tell whether there is any.
func receivingHandler(m *mcp.Server) reflect.Value {
	field := reflect.ValueOf(m).Elem().FieldByName("receivingMethodHandler_")
	if field.IsValid() && field.Kind() != reflect.Func {
		return reflect.Value{}
	}
	return field
}

// Direct reports whether a request may be served without the SDK: nothing but our own middleware would see it there.
func (f *Front) Direct() bool {
	if !f.before && f.receiving.Pointer() == f.own {
		return true
	}
	f.warn.Do(func() {
		f.Log.Info("askback: the mcp.Server has receiving middleware, so that every request takes the SDK's path, which costs several times more; " +
			"middleware added with Server.AddReceivingMiddleware does not need that")
	})
	return false
}

// AddReceivingMiddleware adds middleware that sees every request, through the SDK or past
// it, outside of what was added before. The first one is the outermost.
func (f *Front) AddReceivingMiddleware(middleware ...mcp.Middleware) {
	f.mu.Lock()
	defer f.mu.Unlock()
	handler := *f.handler.Load()
	for _, m := range slices.Backward(middleware) {
		handler = m(handler)
	}
	f.handler.Store(&handler)
	f.chained.Store(len(middleware) > 0 || f.chained.Load())
}

// Chained reports whether there is middleware of AddReceivingMiddleware.
func (f *Front) Chained() bool { return f.chained.Load() }

// middleware stands around the SDK's handlers.
func (f *Front) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	f.next = next
	return f.receive
}

// receive serves a request, by whatever way it came. A panic of middleware, or of a handler of
// the SDK's, costs the request and not the process.
func (f *Front) receive(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
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
	return result, err
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
	if session == nil || method == "initialize" || strings.HasPrefix(method, "notifications/") || ctx.Value(admittedKey{}) != nil {
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
func (f *Front) Receive(ctx context.Context, id []byte, method string, params []byte, extra *mcp.RequestExtra, progress call.ProgressFunc) (*call.Outcome, error) {
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
func (f *Front) pass(ctx context.Context, method, target string, req mcp.Request, serve func(ctx context.Context, p gate.Passage) (mcp.Result, error)) (result mcp.Result, err error) {
	from, _ := ctx.Value(originKey{}).(*origin)
	if from != nil {
		var cancel context.CancelFunc
		ctx, cancel = from.follow(ctx)
		defer cancel()
	}
	a := gate.Access{Method: method, Target: target, Extra: req.GetExtra()}
	err = f.Gate.Pass(ctx, a, describe(ctx, req), legacySession(req), func(ctx context.Context, p gate.Passage) (err error) {
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
	r.Handler = &call.Handler{Method: method, Invoke: func(ctx context.Context, c *call.Call, _ *wire.Params) (mcp.Result, error) {
		return f.next(ctx, method, c.View())
	}}
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
	if out.Result != nil {
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
