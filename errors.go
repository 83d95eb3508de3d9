package askback

import (
	"errors"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/wire"
)

// ErrInputRequired is returned by an ask that is not answered yet, by [Do] while a question is open, and by
// [Call.Checkpoint]. The handler returns it, which suspends the call. It may be wrapped, or joined with the errors of
// other asks: joined with a [*DeclinedError] or an [*UnansweredError] it suspends the call all the same, joined with a
// [*CapabilityError], a [*LimitError] or a *jsonrpc.Error the call ends with that error.
var ErrInputRequired = journal.ErrInputRequired

// LimitError says that a call reached one of [Limits]. It becomes the JSON-RPC error
// -32603 with its text.
type LimitError struct {
	Limit string // what is bounded, with its unit, such as "rounds per call" or "seconds per call"
	Max   int64  // the limit, in that unit
}

func (e *LimitError) Error() string {
	return e.Unwrap().Error()
}

// Unwrap returns the error as the parts of the Server know it.
func (e *LimitError) Unwrap() error { return &fault.LimitError{Limit: e.Limit, Max: e.Max} }

// DeclinedError says that the user declined or dismissed a question. The handler may catch it and go on without the
// answer; returned by a tool it becomes a tool error. While other questions of the round are open the call goes on:
// see [ErrInputRequired]. (client/elicitation, "Response Actions")
type DeclinedError struct {
	Key    string
	Action string // "decline" or "cancel"
	// After is how long after the question the answer came, and NotShown says that nobody can have read the question by
	// then: see [DeskOptions]. Clocks of instances and clients differ, so what a handler makes of it must be harmless
	// where that is wrong. Both are zero without Options.Desk.
	After    time.Duration
	NotShown bool

	by input.Provenance // the person at the desk, or the zero value if the client answered
}

// Error names a person who answered at the desk, with the reason: the model that reads a tool error must not take the
// answer for its user's.
func (e *DeclinedError) Error() string {
	because := ""
	if e.by.Why != "" {
		because = fmt.Sprintf(", because: %q", e.by.Why)
	}
	switch {
	case e.Action == "cancel" && e.by.Who != "":
		return fmt.Sprintf("%s dismissed the question %q without an answer%s", e.by.Who, e.Key, because)
	case e.Action == "cancel":
		return fmt.Sprintf("the question %q was dismissed without an answer", e.Key)
	case e.by.Who != "":
		return fmt.Sprintf("%s declined the question %q%s", e.by.Who, e.Key, because)
	}
	return fmt.Sprintf("the user declined to answer the question %q", e.Key)
}

// Unwrap returns the error as the parts of the Server know it.
func (e *DeclinedError) Unwrap() error { return journal.ErrRecorded }

// UnansweredError says that a question was not decided before its deadline: see [Question]. The handler may catch
// it and go on: remind, take a default, or ask somebody else. Returned by a tool it becomes a tool error. While other
// questions of the round are open the call goes on: see [ErrInputRequired].
type UnansweredError struct {
	Key             string
	Asked, Deadline time.Time // to the millisecond, by the clock of where the call waits
}

func (e *UnansweredError) Error() string { return (*journal.UnansweredError)(e).Error() }

// Unwrap returns the error as the parts of the Server know it.
func (e *UnansweredError) Unwrap() error { return (*journal.UnansweredError)(e) }

// UnknownOutcomeError says that a step of [AtMostOnce] was begun, and that nobody knows whether it happened: its
// process died, or it returned an error. It is the same in every run from then on.
type UnknownOutcomeError struct {
	Step  string
	Since time.Time // when it began, to the millisecond
	By    string    // the host and process that began it, for the operator: Error leaves it out
	Cause string    // the step's error, at most 1 KiB of it; empty if its process died
}

func (e *UnknownOutcomeError) Error() string { return (*journal.UnknownOutcomeError)(e).Error() }

// Unwrap returns the error as the parts of the Server know it.
func (e *UnknownOutcomeError) Unwrap() error { return (*journal.UnknownOutcomeError)(e) }

// DidNotHappenError is what a step of [AtMostOnce] returns if it has certainly had no effect. The step gets it back in
// every run, with the first KiB of the reason.
type DidNotHappenError struct{ Reason string }

func (e *DidNotHappenError) Error() string { return e.Reason }

// Unwrap returns the error as the parts of the Server know it.
func (e *DidNotHappenError) Unwrap() error { return &journal.DidNotHappenError{Reason: e.Reason} }

// CapabilityError says that the client did not declare the capability that a question needs, so that the question was
// not sent. The handler may catch it and go on without; returned it becomes the JSON-RPC error -32021 with
// requiredCapabilities. (basic/patterns/mrtr, server requirement 7)
type CapabilityError struct {
	Key  string // of the question, or empty for a tool that needs tasks
	Need Capability
}

func (e *CapabilityError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("the tool needs the client capability %s, which the client did not declare", e.Need)
	}
	return e.Unwrap().Error()
}

// Unwrap returns the error as the parts of the Server know it.
func (e *CapabilityError) Unwrap() error {
	return &fault.UnableError{Key: e.Key, Need: wire.Capability(e.Need)}
}

// exported returns the error of an ask as this package's type. The other way the types unwrap themselves.
func exported(err error) error {
	if limit, ok := errors.AsType[*fault.LimitError](err); ok {
		return &LimitError{limit.Limit, limit.Max}
	}
	if unable, ok := errors.AsType[*fault.UnableError](err); ok {
		return &CapabilityError{unable.Key, Capability(unable.Need)}
	}
	return err
}

// Capability is a capability that a client declares, or a set of several, combined with |.
type Capability uint8

// The capabilities of clients.
const (
	CapabilityForm          Capability = 1 << iota // elicitation in form mode
	CapabilityURL                                  // elicitation in URL mode
	CapabilitySampling                             // sampling
	CapabilitySamplingTools                        // sampling with tools
	CapabilityRoots                                // roots
	CapabilityTasks                                // tasks, in either dialect: see [Call.Detach]
)

// String names the capability, such as "elicitation.form".
func (c Capability) String() string { return wire.Capability(c).String() }
