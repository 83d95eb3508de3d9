package askback

import (
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/wire"
)

// ErrInputRequired is returned by an ask that is not answered yet, by [Do] while a
// question is open, and by [Call.Checkpoint]. The handler returns it, wrapped or
// not, which suspends the call.
var ErrInputRequired = journal.ErrInputRequired

// LimitError says that a call reached one of [Limits]. It becomes the JSON-RPC error
// -32603 with its text.
type LimitError struct {
	Limit string // the bound's name, such as "rounds per call"
	Max   int    // its value
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("the limit of %d %s is reached", e.Max, e.Limit)
}

// exported makes the engine's error for a bound this package's.
func exported(err error) error {
	if bound, ok := errors.AsType[*journal.LimitError](err); ok {
		return &LimitError{bound.Limit, bound.Max}
	}
	return err
}

// DeclinedError says that the user declined or dismissed a question. The handler may
// catch it and go on without the answer; returned by a tool it becomes a tool error.
// (client/elicitation, "Response Actions")
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

// CapabilityError says that the client did not declare the capability that a
// question needs, so that the question was not sent. The handler may catch it and go
// on without; returned it becomes the JSON-RPC error -32021 with
// requiredCapabilities. (basic/patterns/mrtr, server requirement 7)
type CapabilityError struct {
	Key  string // of the question, or empty for a tool that needs tasks
	Need Kind
}

func (e *CapabilityError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("the tool needs the client capability %s, which the client did not declare", e.Need)
	}
	return fmt.Sprintf("the question %q needs the client capability %s, which the client did not declare", e.Key, e.Need)
}

func (e *CapabilityError) wire() *jsonrpc.Error {
	return &jsonrpc.Error{
		Code:    mcp.CodeMissingRequiredClientCapabilities,
		Message: "Missing required client capability: " + e.Need.String(),
		Data:    []byte(`{"requiredCapabilities":` + e.Need.capabilities() + `}`),
	}
}

// Kind is a kind of what a client can do for a call, as its capabilities distinguish them.
type Kind uint8

const (
	KindForm          Kind = 1 << iota // elicitation in form mode
	KindURL                            // elicitation in URL mode
	KindSampling                       // sampling
	KindSamplingTools                  // sampling with tools
	KindRoots                          // roots
	KindTasks                          // tasks, in either dialect: see [Call.Detach]
)

// kinds tells of each kind its name and the capabilities object that declares it.
var kinds = []struct {
	kind               Kind
	name, capabilities string
}{
	{KindForm, "elicitation.form", `{"elicitation":{"form":{}}}`},
	{KindURL, "elicitation.url", `{"elicitation":{"url":{}}}`},
	{KindSamplingTools, "sampling.tools", `{"sampling":{"tools":{}}}`},
	{KindSampling, "sampling", `{"sampling":{}}`},
	{KindRoots, "roots", `{"roots":{}}`},
	{KindTasks, "io.modelcontextprotocol/tasks", `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
}

// String names the capability, such as "elicitation.form".
func (k Kind) String() string {
	var names []string
	for _, known := range kinds {
		if k&known.kind != 0 {
			names = append(names, known.name)
		}
	}
	return strings.Join(names, ", ")
}

func (k Kind) capabilities() string {
	for _, known := range kinds {
		if k&known.kind != 0 {
			return known.capabilities
		}
	}
	return "{}"
}

// protocolError is what a handler's error becomes where only a JSON-RPC error can be
// sent.
func protocolError(err error) *jsonrpc.Error {
	if capability, ok := errors.AsType[*CapabilityError](err); ok {
		return capability.wire()
	}
	if wireError, ok := errors.AsType[*jsonrpc.Error](err); ok && wireError == nil {
		return wire.Errorf(jsonrpc.CodeInternalError, "internal error") // a nil *jsonrpc.Error in an error
	} else if ok {
		return wireError
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
}
