package client

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/wire"
)

// Options configure a [Client]. A handler that is nil means that the capability is not
// declared. Handlers of one round run concurrently.
type Options struct {
	// Implementation names this client. Nil means Askback's own name.
	Implementation *mcp.Implementation

	// Form asks the user to fill in a form. (client/elicitation)
	Form func(ctx context.Context, q *Question) (*mcp.ElicitResult, error)

	// URL asks the user for consent to open a page, and then opens it. (client/elicitation, "Safe URL Handling")
	URL func(ctx context.Context, q *Question) (*mcp.ElicitResult, error)

	// Sample completes a message with the client's model. (client/sampling)
	Sample func(ctx context.Context, q *Question,
		params *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error)

	// SampleTools declares that Sample can use tools.
	SampleTools bool

	// Roots lists the client's roots. (client/roots)
	Roots func(ctx context.Context) ([]*mcp.Root, error)

	// OnRound, if set, receives every round when its response has come, before any question
	// is answered. An error ends the call with it.
	OnRound func(ctx context.Context, r *Round) error

	// Observe, if set, is called before a request of a call or about a task is sent. It may return the context for the
	// request, and a function that is called once when the request has ended, with the fields of op for the end set.
	// Either may be nil. It is for traces and metrics, as askback.Options.Observe is: the module
	// askback/otelaskback has one for OpenTelemetry. The request waits for both functions, and they are called
	// concurrently for different requests.
	Observe func(ctx context.Context, op *Operation) (observed context.Context, end func())

	// Tasks is the dialect for tasks. The zero value means the server's dialect.
	Tasks TaskDialect

	// Drafts makes the client return the state of a server's question inside a session before 2026-07-28, over HTTP,
	// as the state proposal has it. Servers of Askback send a state if the endpoint's URL has draft=state: see
	// docs/drafts.md. The client does not follow a call to a process that does not hold its session: the call fails,
	// because the session is lost.
	Drafts bool

	// Limits bound calls.
	Limits Limits

	// SDK configures the SDK's client below: notification handlers, logger, keep-alive.
	// Its Capabilities, handlers for questions and MultiRoundTrip are set by this package.
	SDK mcp.ClientOptions
}

// Round is one request and its response, for [Options.OnRound].
//
// When a call has become a task, a Round reports each change of the task's status or message. Method then names the
// request or notification that brought the change, and Number is the number of the last round that asked anything.
type Round struct {
	Number        int // from 1; a resumed call continues to count
	Method        string
	Target        string                     // the tool, prompt or resource URI; empty for a task that is known by its ID
	Task          *Task                      // the task that the call has become, or nil
	Answers       map[string]json.RawMessage // in the request
	StateSent     int                        // bytes of requestState in the request
	Elapsed       time.Duration              // from request to response
	Questions     []*Question                // in the response, in its order
	StateReceived int                        // bytes of requestState in the response
	Pause         time.Duration              // until the retry, if the response asks nothing
	Final         bool                       // the response is the result
	Result        json.RawMessage            // the result as it came, if it is final and not from a cache
	Err           error                      // the request failed
}

// capabilities are those that there are handlers for.
func (o *Options) capabilities() *mcp.ClientCapabilities {
	caps := new(mcp.ClientCapabilities)
	if o.Form != nil || o.URL != nil {
		caps.Elicitation = new(mcp.ElicitationCapabilities)
		if o.Form != nil {
			caps.Elicitation.Form = new(mcp.FormElicitationCapabilities)
		}
		if o.URL != nil {
			caps.Elicitation.URL = new(mcp.URLElicitationCapabilities)
		}
	}
	if o.Sample != nil {
		caps.Sampling = new(mcp.SamplingCapabilities)
		if o.SampleTools {
			caps.Sampling.Tools = new(mcp.SamplingToolsCapabilities)
		}
	}
	if o.Roots != nil {
		caps.RootsV2 = new(mcp.RootCapabilities)
	}
	if o.Tasks == TasksAuto || o.Tasks == TasksExtension {
		caps.AddExtension(wire.TasksExtension, nil)
	}
	return caps
}

// withoutExtension adds the client's capabilities without the tasks extension to a request's
// _meta, where the SDK would declare the extension.
func (o *Options) withoutExtension(meta mcp.Meta) mcp.Meta {
	caps := o.capabilities()
	if caps.Extensions == nil {
		return meta
	}
	caps.Extensions = nil
	all := make(mcp.Meta)
	maps.Copy(all, meta)
	all[mcp.MetaKeyClientCapabilities] = encodable(caps)
	return all
}

// encodable returns capabilities that marshal as the protocol has them. The SDK's type (1.8.0) marshals to roots where
// there are none.
func encodable(caps *mcp.ClientCapabilities) any {
	return struct {
		*mcp.ClientCapabilities
		Roots *mcp.RootCapabilities `json:"roots,omitempty"`
	}{caps, caps.RootsV2}
}

// implementation returns the name and version of the client.
func (o *Options) implementation() *mcp.Implementation {
	return cmp.Or(o.Implementation, &mcp.Implementation{Name: "askback-client", Version: "1.0.0"})
}
