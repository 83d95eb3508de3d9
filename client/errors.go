package client

import (
	"errors"
	"fmt"
	"time"
)

// ErrPark is what a handler returns, wrapped or not, where no answer is at hand: the
// call ends with a [*Pending].
var ErrPark = errors.New("no answer at hand: park the call")

// ErrTaskCancelled is the error of a call whose task was cancelled.
var ErrTaskCancelled = errors.New("the task was cancelled")

// ErrTaskUnknown says that a server does not know a task, or not for this user: its id is
// wrong, its time to live is over, or a client of another revision made it. It comes with the server's *jsonrpc.Error -32602.
// (SEP-2663, "Task Polling"; 2025-11-25, "Protocol Errors")
var ErrTaskUnknown = errors.New("the server knows no such task")

// TaskError says that the waiting for a task ended, but not the task: it may still go on,
// or wait. [Session.Resume] waits again.
type TaskError struct {
	Pending *Pending
	Err     error // why
}

func (e *TaskError) Error() string {
	return fmt.Sprintf("%v; the task %.80q may still go on", e.Err, e.Pending.TaskID)
}

func (e *TaskError) Unwrap() error { return e.Err }

// LimitError says that a server made a call reach one of [Limits]. Pending is the round
// that was reached, if the call can go on from there, such as under wider limits.
type LimitError struct {
	Limit   string // the bound's name, such as "rounds"
	Max     string // its value
	Pending *Pending
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the server went beyond the client's limit of %s %s", e.Max, e.Limit)
}

func limit[T int | time.Duration](name string, value T, p *Pending) *LimitError {
	return &LimitError{Limit: name, Max: fmt.Sprint(value), Pending: p}
}

// UndeclaredError says that a server asked for something that the client declared no
// capability for, or that the protocol does not know. Nothing was answered.
type UndeclaredError struct {
	Key  string // of the question
	Kind string // such as "sampling.tools", or the unknown method
}

func (e *UndeclaredError) Error() string {
	return fmt.Sprintf("the server asked %q for %q, which this client did not declare", e.Key, e.Kind)
}

// RefusedError says that the server did not take a call's state back: it expired, it
// was used before where that is allowed once, it belongs to another user or server, or
// the server's keys are not those that sealed it.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string {
	return fmt.Sprintf("the server did not take the call's state back (it may have expired, been used, or belong to another user): %v", e.Err)
}

func (e *RefusedError) Unwrap() error { return e.Err }

// ProtocolError says that a server's message broke the protocol.
type ProtocolError struct{ Reason string }

func (e *ProtocolError) Error() string { return "the server broke the protocol: " + e.Reason }
