// Package gate lets requests for handlers and tasks through, from any front: see [Gate].
package gate

import (
	"context"
	"errors"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/wire"
)

// Gate lets every request for a handler or a task through, or refuses it, from any front. It names the caller, asks the
// operator whether the caller may, takes the request's share of the limits, and tells the operator how it ended. It is
// safe for concurrent use; its fields must not be changed while it is used.
type Gate struct {
	// Name returns the principal of a request. Nil means the UserID of the token info.
	Name func(ctx context.Context, extra *mcp.RequestExtra) (string, error)
	// AnonymousTokens lets tokens that name nobody pass as the anonymous caller.
	AnonymousTokens bool
	// Authorize decides whether a caller may make a request. Nil lets everybody.
	Authorize func(ctx context.Context, a Access) error
	Limits    bound.Limits
	Shares    *Shares
	Sessions  *Sessions
	Audit     *report.Audit
	Observer  *report.Observer
	Log       *slog.Logger
}

// Access is a request at the gate.
type Access struct {
	Principal string // set by the gate, unless the front has named the caller: see [Origin]
	Method    string
	Target    string
	Extra     *mcp.RequestExtra
}

// Origin says where a request came from, beside its [Access].
type Origin struct {
	Named     bool   // the front has set [Access].Principal, as [Gate.Principal] named the caller
	ID        []byte // of JSON-RPC, raw; nil if the front does not know it
	Version   string // of the protocol
	Transport string // such as [report.TransportHTTP]
	Meta      report.Texts
}

// operationOf returns the operation of a request.
func operationOf(a Access, from Origin) report.Operation {
	op := report.Operation{
		Kind: report.OperationRequest, Method: a.Method, Protocol: from.Version, Transport: from.Transport,
		Request: wire.IDText(from.ID), Meta: report.MetaOf(from.Meta),
	}
	switch {
	case wire.MayAsk(a.Method):
		op.Target = a.Target
	case wire.IsTask(a.Method): // its id is a secret
		op.Task = report.TaskName(a.Target)
	}
	return op
}

// Passage is one request's way through the gate.
type Passage struct {
	Principal, Method, Target string
	InSession                 bool
	Watch                     *report.Watch

	// Crowded waits a moment for a share of the calls that run at once, and reports whether there is still none: then
	// the call is to be handed back to the client, if it can be. It is nil if the call has its share.
	Crowded func(context.Context) bool
}

// ServeFunc serves a request that has passed the gate. Its error is one for the client.
type ServeFunc func(ctx context.Context, p Passage) error

// Pass lets a request through to serve, or refuses it. The session belongs to a client before 2026-07-28, or is nil.
// The error is one for the client.
func (g *Gate) Pass(ctx context.Context, a Access, from Origin, session *mcp.ServerSession, serve ServeFunc) error {
	return g.observe(ctx, a, from, func(w *report.Watch) (err error) {
		if !from.Named {
			if a.Principal, err = g.Principal(ctx, a); err != nil {
				return err
			}
		}
		return g.pass(ctx, a, w, session, serve)
	})
}

// TurnAway tells the operator of a request that is answered with err before its message is read.
func (g *Gate) TurnAway(ctx context.Context, from Origin, err error) {
	_ = g.observe(ctx, Access{}, from, func(*report.Watch) error { return err })
}

// observe follows a request through the gate, for the log and the operator.
func (g *Gate) observe(ctx context.Context, a Access, from Origin, pass func(w *report.Watch) error) error {
	if invalid := checkTarget(&a); invalid != nil {
		pass = func(*report.Watch) error { return invalid }
	}
	if !g.Log.Enabled(ctx, slog.LevelDebug) && g.Observer == nil {
		return pass(nil)
	}
	w := report.Follow(g.Observer, operationOf(a, from))
	var err error = errPanicked // of the SDK's handlers, or of middleware
	defer func() {
		w.Finish(ctx, err)
		w.Log(ctx, g.Log)
	}()
	err = pass(w)
	return err
}

var errPanicked = fault.Internal()

// checkTarget returns an error for a name or URI that is too long. It cuts the target, which every log line and event
// about the request repeats.
func checkTarget(a *Access) error {
	most := 1 << 10
	if a.Method == wire.ReadResource {
		most = 8 << 10
	}
	if len(a.Target) <= most {
		return nil
	}
	a.Target = wire.Cut(a.Target, 100)
	return wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: what the request is for exceeds the limit of %d bytes",
		most)
}

func (g *Gate) pass(ctx context.Context, a Access, w *report.Watch, session *mcp.ServerSession, serve ServeFunc) error {
	if session != nil {
		if err := g.CheckOwner(ctx, session.ID(), a); err != nil {
			return err
		}
		if a.Principal != "" { // else anybody who knows the ID can use the session
			w.InSession(session.ID())
		}
	}
	if err := g.Authorized(ctx, a); err != nil {
		return err
	}
	if session != nil {
		// The request is the whole call: outside of sessions its time to live is in its state.
		var cancel context.CancelFunc
		ctx, cancel = withLifetime(ctx, "seconds per call", g.Limits.CallTTL)
		defer cancel()
	}
	if a.Method == wire.TaskResult || a.Method == wire.StreamEvents {
		var cancel context.CancelFunc
		ctx, cancel = WhileTokenLasts(ctx, a.Extra)
		defer cancel()
	}
	p := Passage{a.Principal, a.Method, a.Target, session != nil, w, nil}
	if session == nil && wire.MayAsk(a.Method) {
		if whole, _ := ctx.Value(undividedKey{}).(*undivided); whole != nil {
			if err := g.Shares.takeWhole(ctx, whole, a.Principal); err != nil {
				return err
			}
			mayLeave(ctx, &whole.hold)
		} else if hold, full := g.Shares.Calls.Take(a.Principal, 1); full == nil {
			if waits := waitsOf(ctx); waits == nil {
				defer hold.Release()
			} else {
				defer waits.addCall(hold).Release()
			}
		} else {
			late := new(callHold) // of its own, because a Hold in a closure is allocated
			defer late.Release()
			mayLeave(ctx, late)
			p.Crowded = func(ctx context.Context) bool {
				if full := g.Shares.awaitCall(ctx, &late.Hold, a.Principal); full != nil {
					_ = g.Shares.GaveWay(ctx, full) // logs it
					return true
				}
				return false
			}
		}
	}
	err := serve(ctx, p)
	if err != nil && fault.CutShort(ctx) {
		err = context.Cause(ctx)
	}
	return err
}

// namedKey is the key of the principal of [Gate.Named]. Each gate has its own: a handler may connect to another server
// with its context, and that server asks its own operator who the caller is.
type namedKey struct{ gate *Gate }

// Named returns the context of a request whose caller [Gate.Principal] has named, so that the gate does not ask again.
// The requests of a session get it from the one that opened the session. So the front has to check that they come from
// the same caller: see [Gate.CheckOwner].
func (g *Gate) Named(ctx context.Context, principal string) context.Context {
	return context.WithValue(ctx, namedKey{g}, principal)
}

// Principal names the caller of a request. The error is one for the client.
func (g *Gate) Principal(ctx context.Context, a Access) (string, error) {
	if principal, named := ctx.Value(namedKey{g}).(string); named {
		return principal, nil
	}
	extra := a.Extra
	if extra == nil {
		extra = new(mcp.RequestExtra) // of a transport that says nothing of the caller
	}
	var principal string
	var err error
	switch {
	case g.Name != nil:
		err = fault.Safely(func() (err error) {
			principal, err = g.Name(ctx, extra)
			return err
		})
	case extra.TokenInfo != nil:
		principal = extra.TokenInfo.UserID
	}
	if err == nil && principal == "" && extra.TokenInfo != nil && !g.AnonymousTokens {
		err = errors.New("a verified token names nobody: have its verifier set the UserID of TokenInfo, or name the caller " +
			"in Options.Principal, or set Options.AnonymousTokens to serve all such tokens as one anonymous caller")
	}
	if err != nil {
		g.Log.WarnContext(ctx, "askback: a caller was refused", "error", err)
		return "", g.refuse(ctx, a, "caller", wire.Errorf(jsonrpc.CodeInvalidRequest, "the caller could not be identified"))
	}
	return principal, nil
}

// Authorized asks the operator whether a caller may make a request, or whether one that stays open may go on. The error
// is one for the client.
func (g *Gate) Authorized(ctx context.Context, a Access) error {
	if g.Authorize == nil {
		return nil
	}
	err := fault.Safely(func() error { return g.Authorize(ctx, a) })
	if err == nil {
		return nil
	}
	target := ""
	if wire.MayAsk(a.Method) { // the id of a task is a secret
		target = a.Target
	}
	g.Log.WarnContext(ctx, "askback: a request was not authorized", "method", a.Method, "target", target, "error", err)
	if errors.Is(err, fault.ErrUndecided) {
		return &fault.UnavailableError{Reason: "the server cannot tell now whether the caller is authorized: try again later"}
	}
	if sent, ok := errors.AsType[*jsonrpc.Error](err); ok && sent != nil {
		return g.refuse(ctx, a, "authorize", sent)
	}
	code := int64(jsonrpc.CodeInvalidRequest)
	if wire.IsEvent(a.Method) {
		code = wire.CodeForbidden
	}
	return g.refuse(ctx, a, "authorize", wire.Errorf(code, "the caller is not authorized for this request"))
}

// refuse tells the operator that a request does not pass, and returns the error for the client.
func (g *Gate) refuse(ctx context.Context, a Access, reason string, sent *jsonrpc.Error) error {
	g.Audit.Tell(ctx, report.AuditEvent{
		Kind: report.AuditRefused, Principal: a.Principal, Method: a.Method, Target: a.Target, Reason: reason,
	})
	return &fault.RefusedError{Fault: sent, Reason: reason}
}

// Opened records that the caller opened the session.
func (g *Gate) Opened(ctx context.Context, session *mcp.ServerSession, extra *mcp.RequestExtra) error {
	if session.ID() == "" { // of a transport that is one session
		return nil
	}
	principal, err := g.Principal(ctx, Access{Method: "initialize", Extra: extra})
	if err != nil {
		return err
	}
	return g.Sessions.Open(ctx, session, principal)
}

// CheckOwner refuses what comes in a session from another principal than the one who opened it.
func (g *Gate) CheckOwner(ctx context.Context, sessionID string, a Access) error {
	if !g.Sessions.Owns(a.Principal, sessionID) {
		return g.refuse(ctx, a, "session", wire.Errorf(jsonrpc.CodeInvalidRequest, "the session belongs to another caller"))
	}
	return nil
}

// WhileTokenLasts bounds what waits for others, such as a subscription, by the life of its caller's token.
func WhileTokenLasts(ctx context.Context, extra *mcp.RequestExtra) (context.Context, context.CancelFunc) {
	if extra == nil || extra.TokenInfo == nil || extra.TokenInfo.Expiration.IsZero() {
		return context.WithCancel(ctx)
	}
	expired := &fault.UnavailableError{Reason: "the caller's token has expired: send the request again"}
	return context.WithDeadlineCause(ctx, extra.TokenInfo.Expiration, expired)
}

// Asking bounds how long a client may take to answer inside its session.
func (g *Gate) Asking(ctx context.Context) (context.Context, context.CancelFunc) {
	most := g.Limits.RoundTTL
	return context.WithTimeoutCause(ctx, most, fault.TimeLimit("seconds per round", most))
}
