package client

import (
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/client/internal/tap"
)

// ErrPark is the error that a handler returns, wrapped or not, when it has no answer at hand. The call
// ends with a [*PendingError] that wraps ErrPark.
var ErrPark = errors.New("there is no answer yet: park the call")

// ErrTaskCancelled is the error of a call whose task was cancelled.
var ErrTaskCancelled = errors.New("the task was cancelled")

// ErrTaskUnknown reports that a server does not know a task, or does not show it to this user: the ID is wrong, the
// task's time to live is over, or a client of another revision made it. It comes with the server's *jsonrpc.Error
// -32602. (SEP-2663, "Task Polling"; 2025-11-25, "Protocol Errors")
var ErrTaskUnknown = errors.New("the server has no such task")

// UndeclaredError reports that a server asked for something that the client declared no
// capability for, or that the protocol does not have. Nothing was answered.
type UndeclaredError struct {
	Key  string // The key of the question.
	Kind string // such as "sampling.tools", or the unknown method
}

func (e *UndeclaredError) Error() string {
	return fmt.Sprintf("the server asked %q for %q, which this client did not declare", e.Key, e.Kind)
}

// RefusedError reports that the server refused a call's state: it expired, it was used before where a state may be used
// once, it belongs to another user or server, or the server no longer has the keys that sealed it.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the server refused the call's state (it may have expired, been used, or belong to another "+
		"user): %v", e.Err)
}

func (e *RefusedError) Unwrap() error { return e.Err }

// NotRunError reports that a request of a call did not run. Either the server has refused it with an HTTP status that
// servers send before anything runs (400, 401, 403, 404, 405, 406, 413, 415, 421 or 429), or it was not sent: there was
// no connection, or no byte was written to a program. The rounds before it did run. A status of 400 or 404 says so only
// without an error of JSON-RPC that names the request: some servers give these statuses to the errors of handlers, too.
//
// After any other error of a call nobody knows whether the request ran, except that a *jsonrpc.Error without a
// NotRunError around it is the server's own answer.
type NotRunError struct {
	Status int   // The HTTP status. Zero means that the request was not sent.
	Err    error // what the server said, perhaps with a *jsonrpc.Error, or why the request was not sent
}

func (e *NotRunError) Error() string { return e.Err.Error() }

func (e *NotRunError) Unwrap() error { return e.Err }

// refused reports whether a server has answered a request with one of the statuses of a NotRunError.
func refused(err error) bool {
	status, ok := errors.AsType[*tap.StatusError](err)
	return ok && status.Refuses()
}

// ProtocolError reports that a server's message broke the protocol.
type ProtocolError struct{ Reason string }

func (e *ProtocolError) Error() string { return "the server broke the protocol: " + e.Reason }

// isFault reports whether an error is a JSON-RPC error.
func isFault(err error) bool {
	_, ok := errors.AsType[*jsonrpc.Error](err)
	return ok
}

// hasCode reports whether an error is a JSON-RPC error with this code.
func hasCode(err error, code int64) bool {
	fault, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && fault.Code == code
}
