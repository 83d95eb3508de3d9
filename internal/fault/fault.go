// Package fault has the errors with which a request ends, and says whose fault each one is. A front needs no other
// place to know what a client is told:
//
//	switch fault.Of(err) {
//	case fault.Refused: // because of who sent the request
//	case fault.Limit: // a bound that the operator set
//	...
//	}
//	response := fault.Wire(err) // the JSON-RPC error
package fault

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/wire"
)

// Class says whose fault an error is.
type Class int

const (
	// None is the class of a nil error.
	None Class = iota
	// Handler is the class of an error that the author's handler returned. For a tool it is a result.
	Handler
	// Protocol is the class of an error that is sent as it is: a client's mistake, a handler's own *jsonrpc.Error, or an
	// internal error that was logged.
	Protocol
	// Capability is the class of an [UnableError].
	Capability
	// Limit is the class of a [LimitError].
	Limit
	// Refused is the class of a [RefusedError].
	Refused
	// Unavailable is the class of an [UnavailableError].
	Unavailable
	// Crowded is the class of a [CrowdedError].
	Crowded
	// Question is the class of an [AskError] and of a [Mistake].
	Question
	// Cancelled is the class of any other error of a request that the client gave up. Only [During] returns it.
	Cancelled
)

// Of returns the class of an error. If several errors are joined, the one that the protocol has a code for wins.
func Of(err error) Class {
	switch {
	case err == nil:
		return None
	case is[*RefusedError](err):
		return Refused
	case is[*CrowdedError](err):
		return Crowded
	case is[*UnavailableError](err):
		return Unavailable
	case is[*UnableError](err):
		return Capability
	case is[*LimitError](err):
		return Limit
	case is[*jsonrpc.Error](err):
		return Protocol
	case is[*AskError](err), is[*Mistake](err):
		return Question
	}
	return Handler
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// During returns the class of an error with which a request ended whose context is ctx.
func During(ctx context.Context, err error) Class {
	switch class := Of(err); {
	case err == nil || class == Limit:
		return class
	case CutShort(ctx):
		return Limit
	case class != Capability && ctx.Err() != nil:
		return Cancelled
	default:
		return class
	}
}

// CutShort reports whether the server ended a context, because of a limit or because it could not wait for longer.
func CutShort(ctx context.Context) bool {
	class := Of(context.Cause(ctx))
	return class == Limit || class.Busy()
}

// Busy reports whether the client may send the request again, because the server could only not serve it now.
func (c Class) Busy() bool { return c == Unavailable || c == Crowded }

// Sent reports whether a tool's error of this class is sent as a JSON-RPC error. Other errors are a tool's result.
func (c Class) Sent() bool { return c == Protocol || c == Capability || c == Limit || c == Refused }

// Ending returns the error of a handler that ends its call although another error, joined with it, says that the call
// is suspended. It is nil if there is none: that a user declined does not end a call in which other questions are open.
func Ending(err error) error {
	if e, ok := errors.AsType[*UnableError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*LimitError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*AskError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*Mistake](err); ok {
		return e
	}
	return nil
}

// LimitError says that a call reached one of its limits.
type LimitError struct {
	Limit string // the limit's name with its unit, such as "rounds per call"
	Max   int64
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the limit of %d %s is reached", e.Max, e.Limit)
}

// TimeLimit returns the error of a limit on time, whose name ends with its unit, as in "seconds per call".
func TimeLimit(name string, most time.Duration) *LimitError { return &LimitError{name, seconds(most)} }

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// UnableError says that a question was not sent, because the client did not declare the capability that it needs.
type UnableError struct {
	Key  string
	Need wire.Capability
}

func (e *UnableError) Error() string {
	return fmt.Sprintf("the question %q needs the client capability %s, which the client did not declare", e.Key, e.Need)
}

// AskError is the error of an ask that does not wait for an answer and was not declined.
type AskError struct{ Err error }

func (e *AskError) Error() string { return e.Err.Error() }
func (e *AskError) Unwrap() error { return e.Err }

// Mistake is an error that only the author of the handler can mend.
type Mistake struct {
	Kind string // is the same for all errors that differ in a key, a name or a number
	Err  error
}

// Mistakef returns a [Mistake], whose kind is the format.
func Mistakef(format string, args ...any) *Mistake {
	return &Mistake{format, fmt.Errorf(format, args...)}
}

func (e *Mistake) Error() string { return e.Err.Error() }
func (e *Mistake) Unwrap() error { return e.Err }

// NotRunError says that nothing ran for a request, although the engine began to serve it: its arguments are refused, or
// its handler passed it on to a server that refused it.
type NotRunError struct{ Err error }

func (e *NotRunError) Error() string { return e.Err.Error() }
func (e *NotRunError) Unwrap() error { return e.Err }

// RefusedError says that the gate did not let a request through because of who sent it.
type RefusedError struct {
	Fault  *jsonrpc.Error
	Reason string // as askback.AuditRefused has it
}

func (e *RefusedError) Error() string { return e.Fault.Error() }
func (e *RefusedError) Unwrap() error { return e.Fault }

// UnavailableError says that the server cannot serve a request now, and that the client may send it again.
type UnavailableError struct {
	Reason     string        // for the client
	RetryAfter time.Duration // the pause that the client is asked for; zero leaves it to the client
}

func (e *UnavailableError) Error() string { return e.Reason }

// ErrUndecided is wrapped by the error of an operator's function that cannot tell now whether a caller may do
// something.
var ErrUndecided = errors.New("it cannot be told now")

// CrowdedError is an UnavailableError for a caller who holds all of its own share: the server is available to others.
type CrowdedError struct{ *UnavailableError }

func (e *CrowdedError) Unwrap() error { return e.UnavailableError }

// Wire returns the JSON-RPC error for an error where only a JSON-RPC error can be sent.
func Wire(err error) *jsonrpc.Error {
	if unable, ok := errors.AsType[*UnableError](err); ok {
		return wire.MissingCapability(unable.Need)
	}
	if sent, ok := errors.AsType[*jsonrpc.Error](err); ok {
		if sent == nil { // a nil *jsonrpc.Error in an error
			return Internal()
		}
		return sent
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
}

// Internal returns the error of what only the log may tell.
func Internal() *jsonrpc.Error { return wire.Errorf(jsonrpc.CodeInternalError, "internal error") }

// Status returns the HTTP status that the transport prescribes for an error.
// (basic/transports/streamable-http, "Sending Messages to the Server")
func Status(err error) int {
	switch Of(err) {
	case Refused:
		return http.StatusForbidden
	case Crowded:
		return http.StatusTooManyRequests
	case Unavailable:
		return http.StatusServiceUnavailable
	}
	switch Wire(err).Code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, jsonrpc.CodeInvalidParams, mcp.CodeHeaderMismatch,
		mcp.CodeMissingRequiredClientCapabilities, mcp.CodeUnsupportedProtocolVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// RetryAfter returns after how many seconds the client should send the request again, or 0 if it is not to be told.
func RetryAfter(err error) (after int64) {
	if unavailable, ok := errors.AsType[*UnavailableError](err); ok {
		return seconds(unavailable.RetryAfter)
	}
	return 0
}

// Safely runs a function of the operator's or of a handler's author. Its panic is an error, because it must not end
// the process: the SDK and the task engine call from goroutines of their own.
func Safely(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}
