// Package outcome tells how a round with a server ends, and keeps that in the journal of its call.
//
// A round without a result ends in one of three ways, over every transport and with servers of every revision:
//
//   - The server answered with an error of its own, which the host gets.
//   - The round did not run, as package client says from what the transport noted of its request.
//   - Its outcome is unknown. Everything else is.
package outcome

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
)

// Subject is the tool, the prompt or the resource of a call.
type Subject interface {
	// Thing names it, such as: tool "order".
	Thing() string
	// Strict reports whether a round with it must not be sent twice.
	Strict() bool
	// Repeated reports whether the round was sent before, and nobody knows whether it ran then.
	Repeated() bool
}

// UnknownError says that nobody knows whether a round ran.
type UnknownError struct {
	// Cause is nil if an earlier run of the handler has sent the round.
	Cause error
}

func (e *UnknownError) Error() string { return "the outcome of the round is unknown" }

func (e *UnknownError) Unwrap() error { return e.Cause }

// Classify makes a record of the error of round n that the server has answered, or that did not run. Otherwise it
// returns an *UnknownError, or the cause of the context's end.
func Classify(ctx context.Context, s Subject, n int, err error) (*Record, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if refused, ok := errors.AsType[*client.NotRunError](err); ok {
		return DidNotRun(s, n, refused), nil
	}
	_, followed := errors.AsType[*client.PendingError](err) // an error about the task is not an outcome of the call
	followed = followed || errors.Is(err, client.ErrTaskUnknown)
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok && !followed {
		_, refused := errors.AsType[statusError](err)
		return &Record{Error: fault, NotRun: n == 1 && refused}, nil
	}
	if undeclared, ok := errors.AsType[*client.UndeclaredError](err); ok {
		return Endf("The %s was called, but what its server answered cannot be passed on: %v",
			s.Thing(), undeclared), nil
	}
	if unreadable(err) && !followed {
		return &Record{Words: Unknown(s, n, err)}, nil
	}
	return nil, &UnknownError{err}
}

// DidNotRun is the end of a round that did not run.
func DidNotRun(s Subject, n int, e *client.NotRunError) *Record {
	round, hint := "the call", ""
	if n > 1 {
		round = fmt.Sprintf("round %d of the call", n)
	}
	if s.Repeated() {
		return Endf("The %s may have run: the outcome of %s is unknown. When it was sent again, it did not run: %v.",
			s.Thing(), round, e)
	}
	switch e.Status {
	case 0:
		return Endf("The server of the %s cannot be reached, and %s was not sent. It did not run: %v",
			s.Thing(), round, e)
	case http.StatusUnauthorized, http.StatusForbidden:
		hint = " If it wants credentials, the bridge needs them."
	case http.StatusTooManyRequests:
		hint = " Call it again later."
	}
	fault, ok := errors.AsType[*jsonrpc.Error](e)
	switch {
	case !ok:
		return Endf("The server of the %s refused %s, which did not run: %v.%s", s.Thing(), round, e,
			hint)
	case fault.Code == mcp.CodeMissingRequiredClientCapabilities: // which a server may find out while it runs
		return &Record{Error: fault, NotRun: n == 1}
	}
	explained := *fault
	explained.Message += fmt.Sprintf(" (HTTP status %d %s: %s did not run)", e.Status, http.StatusText(e.Status), round)
	return &Record{Error: &explained, NotRun: n == 1}
}

// NoLongerOffered is the end of a call whose tool is gone before its round n.
func NoLongerOffered(s Subject, n int) *Record {
	if s.Repeated() {
		return DidNotRun(s, n, &client.NotRunError{Err: errors.New("the server no longer offers it")})
	}
	return Endf("The server no longer offers the %s. Round %d of this call was not sent.", s.Thing(), n)
}

// statusError is an error of package client that has an HTTP status.
type statusError interface {
	error
	HTTPStatus() int
}

// Unknown says that nobody knows whether a round ran.
func Unknown(s Subject, n int, cause error) string {
	return UnknownBecause(s, n, Because(cause))
}

// Because says what is known of a round whose outcome is unknown. A nil cause is the end of a process or a connection.
func Because(cause error) string {
	status, isStatus := errors.AsType[statusError](cause)
	switch {
	case unreadable(cause):
		return fmt.Sprintf("what came back cannot be passed on: %v", cause)
	case isStatus:
		return status.Error()
	case errors.Is(cause, client.ErrTaskUnknown):
		return "the server no longer knows the task that it made of it"
	}
	return "nothing came back before the bridge or the connection stopped"
}

// UnknownBecause is [Unknown] with what [Because] has said.
func UnknownBecause(s Subject, n int, because string) string {
	text := fmt.Sprintf("The outcome of this call is unknown: round %d of the %s was sent to the server, and %s. It may "+
		"have run.", n, s.Thing(), because)
	if s.Strict() {
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
