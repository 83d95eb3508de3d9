package askback

import (
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/wire"
)

// ErrInputRequired is returned by an ask that is not answered yet, by [Do] while a question is open, and by
// [Call.Checkpoint]. The handler returns it, which suspends the call. It may be wrapped, or joined with the errors of
// other asks: joined with a [*DeclinedError] it suspends the call all the same, joined with a [*CapabilityError], a
// [*LimitError] or a *jsonrpc.Error the call ends with that error.
var ErrInputRequired = journal.ErrInputRequired

// LimitError says that a call reached one of [Limits]. It becomes the JSON-RPC error
// -32603 with its text.
type LimitError struct {
	Limit string // what is bounded, with its unit, such as "rounds per call" or "seconds per call"
	Max   int64  // the limit, in that unit
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the limit of %d %s is reached", e.Max, e.Limit)
}

// exported makes the engine's error of an ask this package's.
func exported(err error) error {
	if bound, ok := errors.AsType[*journal.LimitError](err); ok {
		return &LimitError{bound.Limit, bound.Max}
	}
	if unable, ok := errors.AsType[*call.UnableError](err); ok {
		return &CapabilityError{unable.Key, Capability(unable.Need)}
	}
	return err
}

// DeclinedError says that the user declined or dismissed a question. The handler may catch it and go on without the
// answer; returned by a tool it becomes a tool error. While other questions of the round are open the call goes on:
// see [ErrInputRequired]. (client/elicitation, "Response Actions")
type DeclinedError struct {
	Key    string
	Action string // "decline" or "cancel"
}

func (e *DeclinedError) Error() string {
	if e.Action == "cancel" {
		return fmt.Sprintf("the question %q was dismissed without an answer", e.Key)
	}
	return fmt.Sprintf("the user declined to answer the question %q", e.Key)
}

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
	return fmt.Sprintf("the question %q needs the client capability %s, which the client did not declare", e.Key, e.Need)
}

// Capability is a capability that a client declares, or a set of several, combined with |.
type Capability uint8

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

// askError is the error of an ask that neither waits for an answer nor was declined.
type askError struct{ err error }

func (e *askError) Error() string { return e.err.Error() }
func (e *askError) Unwrap() error { return e.err }

// OfAsk tells the engine that the error is about a question.
func (e *askError) OfAsk() {}

// limitReached is the error of a handler that reached a limit, as the engine knows it.
type limitReached struct {
	error // the handler's
	limit *LimitError
}

func (e *limitReached) Unwrap() error {
	return &journal.LimitError{Limit: e.limit.Limit, Max: e.limit.Max}
}

// engineError translates the error of a handler for the engine, which does not know this package's types. Where a
// handler joins another error with [ErrInputRequired], except those of users who declined, the call ends with it.
func engineError(err error) error {
	capability, isCapability := errors.AsType[*CapabilityError](err)
	fault, isFault := errors.AsType[*jsonrpc.Error](err)
	limit, isLimit := errors.AsType[*LimitError](err)
	failed, isFailed := errors.AsType[*askError](err)
	switch suspended := errors.Is(err, ErrInputRequired); {
	case isCapability:
		return &call.UnableError{Key: capability.Key, Need: wire.Capability(capability.Need)}
	case isFault && suspended:
		return fault
	case isFault:
		return err
	case isLimit && suspended:
		return &limitReached{limit, limit}
	case isLimit:
		return &limitReached{err, limit}
	case isFailed && suspended:
		return failed
	}
	return err
}
