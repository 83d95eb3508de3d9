package call

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/wire"
)

// Gate is what every request for a handler or a task passes, whatever front brought it. It names the caller, asks the
// operator whether the caller may, takes the request's share of the limits, and tells the operator how it ended. It
// is safe for concurrent use; its fields must not be changed while it is used.
type Gate struct {
	// Name returns the principal of a request. Nil means the UserID of the token info.
	Name func(ctx context.Context, extra *mcp.RequestExtra) (string, error)
	// AnonymousTokens lets tokens that name nobody pass as the anonymous caller.
	AnonymousTokens bool
	// Authorize decides whether a caller may make a request. Nil lets everybody.
	Authorize func(ctx context.Context, a Access) error
	Limits    Limits
	Audit     *Audit
	Log       *slog.Logger

	owners sync.Map // the principals of those who opened sessions, by the session's ID
}

// Access is a request at the gate.
type Access struct {
	Principal string // set by the gate
	Method    string
	Target    string
	Extra     *mcp.RequestExtra
}

// Passage is one request's way through the gate.
type Passage struct {
	Principal, Method, Target string
	InSession                 bool
}

// Pass lets a request through to serve, or refuses it. The session is that of a client
// before 2026-07-28, or nil. The error is one for the client.
func (g *Gate) Pass(ctx context.Context, a Access, session *mcp.ServerSession, serve func(ctx context.Context, p Passage) error) error {
	if !g.Log.Enabled(ctx, slog.LevelDebug) {
		return g.pass(ctx, a, session, serve)
	}
	begun := time.Now()
	err := g.pass(ctx, a, session, serve)
	attrs := []slog.Attr{slog.String("method", a.Method), slog.Duration("duration", time.Since(begun))}
	if wire.MayAsk(a.Method) { // the id of a task is a secret
		attrs = append(attrs, slog.String("target", a.Target))
	}
	if err != nil {
		attrs = append(attrs, slog.Int64("code", Fault(err).Code))
	}
	g.Log.LogAttrs(ctx, slog.LevelDebug, "askback: a request", attrs...)
	return err
}

func (g *Gate) pass(ctx context.Context, a Access, session *mcp.ServerSession, serve func(ctx context.Context, p Passage) error) error {
	var err error
	if a.Principal, err = g.principal(ctx, a); err != nil {
		return err
	}
	if session != nil {
		if err := g.checkOwner(ctx, session.ID(), a); err != nil {
			return err
		}
	}
	if err := g.authorize(ctx, a); err != nil {
		return err
	}
	if session != nil {
		// The request is the whole call: outside of sessions its time to live is in its state.
		var cancel context.CancelFunc
		ctx, cancel = withLimit(ctx, "seconds per call", g.Limits.CallTTL)
		defer cancel()
	}
	if a.Method == wire.TaskResult {
		var cancel context.CancelFunc
		ctx, cancel = WhileTokenLasts(ctx, a.Extra)
		defer cancel()
	}
	err = serve(ctx, Passage{a.Principal, a.Method, a.Target, session != nil})
	if err != nil && expired(ctx) {
		err = context.Cause(ctx)
	}
	return err
}

// principal names the caller of a request. The error is one for the client.
func (g *Gate) principal(ctx context.Context, a Access) (string, error) {
	extra := a.Extra
	if extra == nil {
		extra = new(mcp.RequestExtra) // of a transport that says nothing of the caller
	}
	var principal string
	var err error
	switch {
	case g.Name != nil:
		err = Safely(func() (err error) {
			principal, err = g.Name(ctx, extra)
			return err
		})
	case extra.TokenInfo != nil:
		principal = extra.TokenInfo.UserID
	}
	if err == nil && principal == "" && extra.TokenInfo != nil && !g.AnonymousTokens {
		err = errors.New("a verified token names nobody: have its verifier set the UserID of TokenInfo, or name the caller in Options.Principal, " +
			"or set Options.AnonymousTokens to serve all such tokens as one anonymous caller")
	}
	if err != nil {
		g.Log.WarnContext(ctx, "askback: a caller was refused", "error", err)
		return "", g.refuse(ctx, a, "caller", wire.Errorf(jsonrpc.CodeInvalidRequest, "the caller could not be identified"))
	}
	return principal, nil
}

func (g *Gate) authorize(ctx context.Context, a Access) error {
	if g.Authorize == nil {
		return nil
	}
	err := Safely(func() error { return g.Authorize(ctx, a) })
	if err == nil {
		return nil
	}
	target := ""
	if wire.MayAsk(a.Method) { // the id of a task is a secret
		target = a.Target
	}
	g.Log.WarnContext(ctx, "askback: a request was not authorized", "method", a.Method, "target", target, "error", err)
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok && fault != nil {
		return g.refuse(ctx, a, "authorize", fault)
	}
	return g.refuse(ctx, a, "authorize", wire.Errorf(jsonrpc.CodeInvalidRequest, "the caller is not authorized for this request"))
}

// refuse tells the operator that a request does not pass, and returns the error for the client.
func (g *Gate) refuse(ctx context.Context, a Access, reason string, fault *jsonrpc.Error) error {
	g.Audit.Tell(ctx, AuditEvent{Kind: AuditRefused, Principal: a.Principal, Method: a.Method, Target: a.Target, Reason: reason})
	return &RefusedError{fault}
}

// RefusedError is a request that the gate did not let through because of who sent it. Over HTTP its status is 403.
type RefusedError struct{ Fault *jsonrpc.Error }

func (e *RefusedError) Error() string { return e.Fault.Error() }
func (e *RefusedError) Unwrap() error { return e.Fault }

// UnavailableError says that the server cannot serve a request now, and that the client should send it again. Over
// HTTP its status is 503.
type UnavailableError struct {
	Reason     string        // for the client
	RetryAfter time.Duration // the pause that the client is asked for; zero leaves it to the client
}

func (e *UnavailableError) Error() string { return e.Reason + ": send the request again" }

// Opened records that the caller opened the session.
func (g *Gate) Opened(ctx context.Context, session *mcp.ServerSession, extra *mcp.RequestExtra) error {
	id := session.ID()
	if id == "" { // of a transport that is one session
		return nil
	}
	principal, err := g.principal(ctx, Access{Method: "initialize", Extra: extra})
	if err != nil {
		return err
	}
	g.owners.Store(id, principal)
	runtime.AddCleanup(session, func(id string) { g.owners.Delete(id) }, id)
	return nil
}

// CheckOwner refuses what comes in a session from another caller than the one who opened it.
func (g *Gate) CheckOwner(ctx context.Context, sessionID string, extra *mcp.RequestExtra) error {
	if _, known := g.owners.Load(sessionID); !known {
		return nil // the SDK knows of no such session, either
	}
	a := Access{Extra: extra}
	var err error
	if a.Principal, err = g.principal(ctx, a); err != nil {
		return err
	}
	return g.checkOwner(ctx, sessionID, a)
}

func (g *Gate) checkOwner(ctx context.Context, sessionID string, a Access) error {
	if known, ok := g.owners.Load(sessionID); ok && known != a.Principal {
		return g.refuse(ctx, a, "session", wire.Errorf(jsonrpc.CodeInvalidRequest, "the session belongs to another caller"))
	}
	return nil
}

// WhileTokenLasts bounds what waits for others, such as a subscription, by the life of its caller's token.
func WhileTokenLasts(ctx context.Context, extra *mcp.RequestExtra) (context.Context, context.CancelFunc) {
	if extra == nil || extra.TokenInfo == nil || extra.TokenInfo.Expiration.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadlineCause(ctx, extra.TokenInfo.Expiration, &UnavailableError{Reason: "the caller's token has expired"})
}

// Asking bounds how long a client may take to answer inside its session.
func (g *Gate) Asking(ctx context.Context) (context.Context, context.CancelFunc) {
	return withLimit(ctx, "seconds per round", g.Limits.RoundTTL)
}

// withLimit bounds a context by a time to live, whose name its cause tells.
func withLimit(ctx context.Context, name string, ttl time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, ttl, &journal.LimitError{Limit: name, Max: Seconds(ttl)})
}

// Seconds is a duration as an error tells it, rounded up.
func Seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// expired reports whether a context is done because of [withLimit].
func expired(ctx context.Context) bool {
	_, limit := errors.AsType[*journal.LimitError](context.Cause(ctx))
	return limit
}
