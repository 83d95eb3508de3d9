package client

import (
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// ErrPark is what a handler returns, wrapped or not, when it has no answer at hand. The call
// ends with a [*PendingError] that wraps ErrPark.
var ErrPark = errors.New("there is no answer yet: park the call")

// ErrTaskCancelled is the error of a call whose task was cancelled.
var ErrTaskCancelled = errors.New("the task was cancelled")

// ErrTaskUnknown says that a server does not know a task, or does not show it to this user: the ID is wrong, the
// task's time to live is over, or a client of another revision made it. It comes with the server's *jsonrpc.Error
// -32602. (SEP-2663, "Task Polling"; 2025-11-25, "Protocol Errors")
var ErrTaskUnknown = errors.New("the server has no such task")

// UndeclaredError says that a server asked for something that the client declared no
// capability for, or that the protocol does not have. Nothing was answered.
type UndeclaredError struct {
	Key  string // The key of the question.
	Kind string // such as "sampling.tools", or the unknown method
}

func (e *UndeclaredError) Error() string {
	return fmt.Sprintf("the server asked %q for %q, which this client did not declare", e.Key, e.Kind)
}

// RefusedError says that the server refused a call's state: it expired, it was used before where a state may be used
// once, it belongs to another user or server, or the server no longer has the keys that sealed it.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the server refused the call's state (it may have expired, been used, or belong to another "+
		"user): %v", e.Err)
}

func (e *RefusedError) Unwrap() error { return e.Err }

// ProtocolError says that a server's message broke the protocol.
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
