package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
)

var (
	errHandler  = errors.New("the tracker is down")
	errProtocol = wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: no")
	errUnable   = &UnableError{"name", wire.Form}
	errLimit    = &LimitError{"rounds per call", 3}
	errRefused  = &RefusedError{wire.Errorf(jsonrpc.CodeInvalidRequest, "another caller's session"), "session"}
	errAway     = &UnavailableError{"the server is stopping", 1500 * time.Millisecond}
	errCrowded  = &CrowdedError{&UnavailableError{"the caller is at its limit", time.Second}}
	errAsk      = &AskError{errors.New("question: no message")}
	errNil      = fmt.Errorf("nothing: %w", (*jsonrpc.Error)(nil))
)

// TestErrors has for each error what becomes of it: its class, whether it is sent although a tool's errors are results,
// and what the client gets over JSON-RPC and HTTP.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		err     error
		class   Class
		sent    bool
		code    int64
		message string
		status  int
		after   int64
	}{
		{errHandler, Handler, false, jsonrpc.CodeInternalError, "the tracker is down", http.StatusOK, 0},
		{errAsk, Question, false, jsonrpc.CodeInternalError, "question: no message", http.StatusOK, 0},
		{errProtocol, Protocol, true, jsonrpc.CodeInvalidParams, "invalid params: no", http.StatusBadRequest, 0},
		{errUnable, Capability, true, -32021, "Missing required client capability: elicitation.form",
			http.StatusBadRequest, 0},
		{errLimit, Limit, true, jsonrpc.CodeInternalError, "the limit of 3 rounds per call is reached", http.StatusOK, 0},
		{errRefused, Refused, true, jsonrpc.CodeInvalidRequest, "another caller's session", http.StatusForbidden, 0},
		{errAway, Unavailable, false, jsonrpc.CodeInternalError, "the server is stopping", http.StatusServiceUnavailable, 2},
		{errCrowded, Crowded, false, jsonrpc.CodeInternalError, "the caller is at its limit", http.StatusTooManyRequests, 1},
		{errNil, Protocol, true, jsonrpc.CodeInternalError, "internal error", http.StatusOK, 0},
		{Internal(), Protocol, true, jsonrpc.CodeInternalError, "internal error", http.StatusOK, 0},
		{errors.Join(errHandler, errAsk, errLimit, errUnable), Capability, true, -32021,
			"Missing required client capability: elicitation.form", http.StatusBadRequest, 0},
		{errors.Join(errProtocol, errLimit), Limit, true, jsonrpc.CodeInvalidParams, "invalid params: no",
			http.StatusBadRequest, 0},
	} {
		if got := Of(c.err); got != c.class || got.Sent() != c.sent {
			t.Errorf("%v: class %d, sent %t; want %d, %t", c.err, got, got.Sent(), c.class, c.sent)
		}
		if e := Wire(c.err); e.Code != c.code || e.Message != c.message {
			t.Errorf("%v: sent as %d %q; want %d %q", c.err, e.Code, e.Message, c.code, c.message)
		}
		expect.Equal(t, fmt.Sprint(c.err)+": busy", Of(c.err).Busy(), (c.after > 0))
		if status, after := Status(c.err), RetryAfter(c.err); status != c.status || after != c.after {
			t.Errorf("%v: status %d, retry after %d; want %d, %d", c.err, status, after, c.status, c.after)
		}
		if wrapped := fmt.Errorf("while: %w", c.err); Of(wrapped) != c.class || Status(wrapped) != c.status {
			t.Errorf("%v: wrapped it has class %d and status %d", c.err, Of(wrapped), Status(wrapped))
		}
	}
	expect.Equal(t, "no error has a class", Of(nil), None)
	for err, want := range map[error]string{
		errUnable:  `the question "name" needs the client capability elicitation.form, which the client did not declare`,
		errRefused: "another caller's session", errAway: "the server is stopping",
		errAsk: "question: no message",
		TimeLimit("seconds per round", 1200*time.Millisecond): "the limit of 2 seconds per round is reached",
	} {
		expect.Equal(t, "err.Error()", err.Error(), want)
	}
}

// TestEndsOfRequests has whose fault the end of a request is whose context may be done.
func TestEndsOfRequests(t *testing.T) {
	end := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	alive, gone := t.Context(), end(nil)
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		want Class
	}{
		{"a result", alive, nil, None},
		{"a result for nobody", gone, nil, None},
		{"a result past a limit", end(errLimit), nil, None},
		{"the handler", alive, errHandler, Handler},
		{"a limit", alive, errLimit, Limit},
		{"a limit, and the client has gone", gone, errLimit, Limit},
		{"time", end(errLimit), errHandler, Limit},
		{"time, while the client lacks a capability", end(errLimit), errUnable, Limit},
		{"the server stops", end(errAway), errHandler, Limit},
		{"the request gave way", end(errCrowded), context.Canceled, Limit},
		{"unavailable, but not because of the context", alive, errAway, Unavailable},
		{"the client has gone", gone, errHandler, Cancelled},
		{"the client has gone, with an error of the protocol", gone, errProtocol, Cancelled},
		{"the client lacks a capability", gone, errUnable, Capability},
	} {
		expect.Equal(t, c.name+": class", During(c.ctx, c.err), c.want)
		if got, want := CutShort(c.ctx), c.ctx != alive && c.ctx != gone; got != want {
			t.Errorf("%s: cut short: %t", c.name, got)
		}
	}
}

// TestEndingErrors has which of several joined errors ends a call.
func TestEndingErrors(t *testing.T) {
	suspended := errors.New("input required")
	for _, c := range []struct{ err, want error }{
		{nil, nil},
		{suspended, nil},
		{errors.Join(suspended, errHandler), nil},
		{errors.Join(suspended, errUnable), errUnable},
		{errors.Join(suspended, errProtocol), errProtocol},
		{errors.Join(suspended, errLimit), errLimit},
		{errors.Join(suspended, errAsk), errAsk},
		{errors.Join(errAsk, errLimit, suspended, errProtocol, errUnable), errUnable},
		{errors.Join(errAsk, errLimit, suspended, errProtocol), errProtocol},
		{errors.Join(errAsk, errLimit, suspended), errLimit},
	} {
		expect.Equal(t, fmt.Sprint(c.err)+": ends it", Ending(c.err), c.want)
	}
}

func TestSafely(t *testing.T) {
	if err := Safely(func() error { return errHandler }); err != errHandler {
		t.Errorf("got %v", err)
	}
	err := Safely(func() error { panic("no tracker") })
	for _, want := range []string{"panic: no tracker\n", "fault_test.go"} {
		expect.Fails(t, "a panic", err, want)
	}
}
