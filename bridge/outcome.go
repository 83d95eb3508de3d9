package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/wire"
)

// A round without a result ends in one of three ways, over every transport and with servers of every revision:
//
//   - The server answered with an error of its own, which the host gets.
//   - The round did not run, as package client says from what the transport noted of its request.
//   - Its outcome is unknown. Everything else is.

// unknownError says that nobody knows whether a round ran.
type unknownError struct{ cause error } // the cause is nil if an earlier run of the handler has sent the round

func (e *unknownError) Error() string { return "the outcome of the round is unknown" }

func (e *unknownError) Unwrap() error { return e.cause }

// classify makes a record of the error of a round that the server has answered, or that did not run. Otherwise it
// returns an *unknownError, or the cause of the context's end.
func (p *passage) classify(ctx context.Context, n int, err error) (*record, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if refused, ok := errors.AsType[*client.NotRunError](err); ok {
		return p.didNotRun(n, refused), nil
	}
	_, followed := errors.AsType[*client.PendingError](err) // an error about the task is not an outcome of the call
	followed = followed || errors.Is(err, client.ErrTaskUnknown)
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok && !followed {
		_, refused := errors.AsType[statusError](err)
		return &record{Error: fault, NotRun: n == 1 && refused}, nil
	}
	if undeclared, ok := errors.AsType[*client.UndeclaredError](err); ok {
		return &record{Words: fmt.Sprintf("The %s was called, but what its server answered cannot be passed on: %v",
			p.thing(), undeclared)}, nil
	}
	if unreadable(err) && !followed {
		return &record{Words: p.unknown(n, err)}, nil
	}
	return nil, &unknownError{err}
}

// didNotRun is the end of a round that did not run.
func (p *passage) didNotRun(n int, e *client.NotRunError) *record {
	round, hint := "the call", ""
	if n > 1 {
		round = fmt.Sprintf("round %d of the call", n)
	}
	switch e.Status {
	case 0:
		return &record{Words: fmt.Sprintf("The server of the %s cannot be reached, and %s was not sent. It did not run: %v",
			p.thing(), round, e)}
	case http.StatusUnauthorized, http.StatusForbidden:
		hint = " If it wants credentials, the bridge needs them."
	case http.StatusTooManyRequests:
		hint = " Call it again later."
	}
	fault, ok := errors.AsType[*jsonrpc.Error](e)
	switch {
	case !ok:
		return &record{Words: fmt.Sprintf("The server of the %s refused %s, which did not run: %v.%s", p.thing(), round, e,
			hint)}
	case fault.Code == mcp.CodeMissingRequiredClientCapabilities: // which a server may find out while it runs
		return &record{Error: fault, NotRun: n == 1}
	}
	told := *fault
	told.Message += fmt.Sprintf(" (HTTP status %d %s: %s did not run)", e.Status, http.StatusText(e.Status), round)
	return &record{Error: &told, NotRun: n == 1}
}

// statusError is an error of package client that has an HTTP status.
type statusError interface {
	error
	HTTPStatus() int
}

// unknown says that nobody knows whether a round ran.
func (p *passage) unknown(n int, cause error) string {
	what := "nothing came back before the bridge or the connection stopped"
	status, isStatus := errors.AsType[statusError](cause)
	switch {
	case unreadable(cause):
		what = fmt.Sprintf("what came back cannot be passed on: %v", cause)
	case isStatus:
		what = status.Error()
	case errors.Is(cause, client.ErrTaskUnknown):
		what = "the server no longer knows the task that it made of it"
	}
	text := fmt.Sprintf("The outcome of this call is unknown: round %d of the %s was sent to the server, and %s. It may "+
		"have run.", n, p.thing(), what)
	if p.strict() {
		text += " It does not say that it can be called twice (idempotentHint), so look first at what it changes."
	}
	return text
}

// unreadable reports whether an error says that the server has answered something that cannot be passed on.
func unreadable(err error) bool {
	_, limit := errors.AsType[*client.LimitError](err)
	_, broken := errors.AsType[*client.ProtocolError](err)
	return limit || broken
}

// thing names what the call is for.
func (t *target) thing() string {
	switch t.method {
	case wire.GetPrompt:
		return fmt.Sprintf("prompt %q", t.name)
	case wire.ReadResource:
		return fmt.Sprintf("resource %q", t.name)
	}
	return fmt.Sprintf("tool %q", t.name)
}

// forgot reports whether a round did not run because its server does not know the session, or the connection had ended
// before. Another session may have it.
func forgot(s *client.Session, err error) bool {
	refused, ok := errors.AsType[*client.NotRunError](err)
	return ok && (refused.Status == http.StatusNotFound && s.SDK().ID() != "" ||
		refused.Status == 0 && errors.Is(err, mcp.ErrConnectionClosed))
}
