package sdkfront

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"reflect"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/wire"
)

// receive serves a request, from every transport. A panic of middleware, or of a handler of the SDK's, costs the
// request and not the process.
func (f *Front) receive(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
	if probe, ok := req.(*mcp.ServerRequest[*mcp.DiscoverParams]); ok && probe.Session != f.registered.session {
		req, err = apart(f.Server, probe)
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
		return nil, logPanic(ctx, f.Log, method, panicked)
	}
	session := sessionOf(req)
	if passed, ok := result.(*raw.Result); ok && err == nil && session != nil && session != f.registered.session {
		return f.encode(&call.Outcome{Result: passed}, legacySession(req) != nil)
	}
	return result, err
}

// apart returns a probe as one in a session of its own. The SDK would take it for the beginning of its session, and
// refuse to initialize the session of a client whose probe has timed out (basic/transports/stdio, "Backward
// Compatibility").
func apart(m *mcp.Server, probe *mcp.ServerRequest[*mcp.DiscoverParams]) (mcp.Request, error) {
	session, err := listingSession(m)
	if err != nil {
		return nil, err
	}
	own := *probe
	own.Session = session
	return &own, nil
}

// logPanic logs a panic of middleware or of another function of the operator, and returns the error for the client.
func logPanic(ctx context.Context, log *slog.Logger, method string, err error) error {
	log.ErrorContext(ctx, "askback: middleware panicked", "method", method, "error", err)
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
		f.requestOf(ctx) != nil {
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

// handle brings a request to the gate, and all others to the SDK's handlers.
func (f *Front) handle(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
	in := incoming{f, method, req}
	switch {
	case wire.MayAsk(method) && target(req) != "":
		return in.call(ctx)
	case f.Tasks != nil && wire.IsTask(method):
		return in.aboutTask(ctx)
	case f.ServesEvents(method):
		return in.aboutEvents(ctx)
	case method == "initialize":
		if err := f.Gate.Opened(ctx, sessionOf(req), req.GetExtra()); err != nil {
			return nil, fault.Wire(err)
		}
	}
	result, err := f.registered.next(ctx, method, req)
	if err != nil || f.Tasks == nil {
		return result, err
	}
	return in.advertise(result)
}
