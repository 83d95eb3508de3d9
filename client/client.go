// Package client is the client's side of tools that ask back: it calls a server's
// tools, prompts and resources, answers what they ask, and drives the rounds to the
// end.
//
//	c := client.New(&client.Options{
//		Form: func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
//			return askTheUser(ctx, q) // q.Server asks q.Message, q.Schema
//		},
//	})
//	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, nil)
//	…
//	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "close_bug", Arguments: args})
//
// It stands on the client and the transports of the official Go SDK, and speaks to
// servers of every revision: those of 2026-07-28 by Multi Round-Trip Requests, those
// before inside their session. A client declares the capabilities that it has handlers
// for, and refuses to answer anything else.
//
// Where no answer is at hand a handler returns [ErrPark]. The call then returns a
// [*Pending], which can be stored as JSON; another process, on another machine, a day
// later, resumes it with [Session.Resume].
//
// A server may make a task of a call, which goes on by itself and may outlive everybody who
// waits for it. [Session.CallTool] waits for it; [Session.StartTask] does not, and what it
// needs of the task later is its id.
//
// Servers are not trusted: rounds, questions, message sizes, pauses and the time of a
// whole call are bounded by [Limits].
package client

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// Options configure a [Client]. A handler that is nil means that the capability is not
// declared. Handlers of one round run concurrently.
type Options struct {
	// Implementation says who this client is. Nil means Askback's own name.
	Implementation *mcp.Implementation

	// Form asks the user to fill in a form. (client/elicitation)
	Form func(ctx context.Context, q *Question) (*mcp.ElicitResult, error)

	// URL asks the user for consent to open a page, and opens it only then.
	// (client/elicitation, "Safe URL Handling")
	URL func(ctx context.Context, q *Question) (*mcp.ElicitResult, error)

	// Sample completes a message with the client's model. (client/sampling)
	Sample func(ctx context.Context, q *Question, params *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error)

	// SampleTools declares that Sample can use tools.
	SampleTools bool

	// Roots lists the client's roots. (client/roots)
	Roots func(ctx context.Context) ([]*mcp.Root, error)

	// Observe, if set, is told of every round when its response has come, before any
	// question is answered. An error ends the call with it.
	Observe func(ctx context.Context, r *Round) error

	// Tasks says how to speak about tasks: by itself, as the server can.
	Tasks TaskDialect

	// Drafts makes the client echo the state of a server's request inside a session before
	// 2026-07-28, over HTTP, as the state proposal has it. Servers of Askback send one if
	// the endpoint's URL has draft=state: see docs/drafts.md. The client does not follow a call
	// to another process than the one that holds its session: the call fails, as the session
	// is lost.
	Drafts bool

	// Limits bound calls.
	Limits Limits

	// SDK configures the SDK's client below: notification handlers, logger, keep-alive.
	// Its Capabilities, handlers for questions and MultiRoundTrip are set by this package.
	SDK mcp.ClientOptions
}

// Limits bound what a server can make a client do. A field that is zero has its default.
type Limits struct {
	Rounds       int           // rounds of one call, and pages of a list of tools; default 32
	Questions    int           // questions in one round; default 64
	MessageBytes int           // bytes of one message of the server, or of a list of tools; default 4 MiB
	Depth        int           // nesting of a result's JSON; default 64
	Total        time.Duration // time of one call, with the user's; default 24 hours
	FirstPause   time.Duration // before retrying a round without questions; doubles each time; default 100 ms
	MaxPause     time.Duration // default 5 s
	MinPoll      time.Duration // between two looks at a task, whatever the server says; default 100 ms
	MaxPoll      time.Duration // default 5 minutes
}

func (l *Limits) setDefaults() {
	setDefault(&l.Rounds, 32)
	setDefault(&l.Questions, 64)
	setDefault(&l.MessageBytes, 4<<20)
	setDefault(&l.Depth, 64)
	setDefault(&l.Total, 24*time.Hour)
	setDefault(&l.FirstPause, 100*time.Millisecond)
	setDefault(&l.MaxPause, 5*time.Second)
	setDefault(&l.MinPoll, 100*time.Millisecond)
	setDefault(&l.MaxPoll, 5*time.Minute)
}

func setDefault[T int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// Round is one request and its response, for [Options.Observe]. Of a call that goes on as
// a task it is also how the task stands, told when its status or message has changed: then
// the method is that of the request or notification that told, and the number that of the
// last round in which anything was asked.
type Round struct {
	Number        int // from 1; a resumed call goes on counting
	Method        string
	Target        string                     // the tool, prompt or resource URI; empty for a task that is known by its id
	Task          *Task                      // that the call has become, or nil
	Answers       map[string]json.RawMessage // that the request carried
	StateSent     int                        // bytes of requestState that the request carried
	Elapsed       time.Duration              // from request to response
	Questions     []*Question                // that the response asks, in its order
	StateReceived int                        // bytes of requestState in the response
	Pause         time.Duration              // until the retry, if the response asks nothing
	Final         bool                       // the response is the result
	Result        json.RawMessage            // the result as it came, if it is final and not from a cache
	Err           error                      // the request failed
}

// Client makes connections that share their handlers. It is safe for concurrent use.
type Client struct {
	opts Options
	sdk  *mcp.Client

	sessions sync.Map // of *mcp.ClientSession to *inlineState
}

// New returns a client. Nil options are the zero Options: a client that answers nothing.
func New(opts *Options) *Client {
	c := new(Client)
	if opts != nil {
		c.opts = *opts
	}
	c.opts.Limits.setDefaults()
	impl := c.opts.Implementation
	if impl == nil {
		impl = &mcp.Implementation{Name: "askback-client", Version: "1.0.0"}
	}
	sdk := c.opts.SDK
	sdk.MultiRoundTrip = &mcp.MultiRoundTripOptions{Disabled: true}
	sdk.Capabilities = c.capabilities()
	sdk.ElicitationHandler, sdk.CreateMessageHandler, sdk.CreateMessageWithToolsHandler = nil, nil, nil
	c.sdk = mcp.NewClient(impl, &sdk)
	c.sdk.AddReceivingMiddleware(c.answerInline)
	c.sdk.AddSendingMiddleware(withoutExtension)
	if err := mcp.AddSendingCustomMethod[*taskParams, *noResult](c.sdk, otherMethod); err != nil {
		panic(err) // the SDK has a method of this name
	}
	return c
}

const methodInitialize = "initialize"

// withoutExtension declares no extension of 2026-07-28 in sessions of earlier revisions.
func withoutExtension(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if params, ok := req.GetParams().(*mcp.InitializeParams); ok && method == methodInitialize && params.Capabilities != nil {
			caps := *params.Capabilities
			caps.Extensions = nil
			params.Capabilities = &caps
		}
		return next(ctx, method, req)
	}
}

func (c *Client) capabilities() *mcp.ClientCapabilities {
	caps := new(mcp.ClientCapabilities)
	if c.opts.Form != nil || c.opts.URL != nil {
		caps.Elicitation = new(mcp.ElicitationCapabilities)
		if c.opts.Form != nil {
			caps.Elicitation.Form = new(mcp.FormElicitationCapabilities)
		}
		if c.opts.URL != nil {
			caps.Elicitation.URL = new(mcp.URLElicitationCapabilities)
		}
	}
	if c.opts.Sample != nil {
		caps.Sampling = new(mcp.SamplingCapabilities)
		if c.opts.SampleTools {
			caps.Sampling.Tools = new(mcp.SamplingToolsCapabilities)
		}
	}
	if c.opts.Roots != nil {
		caps.RootsV2 = new(mcp.RootCapabilities)
	}
	if c.opts.Tasks == TasksAuto || c.opts.Tasks == TasksExtension {
		caps.AddExtension(wire.TasksExtension, nil)
	}
	return caps
}

// Session is a connection to one server. It is safe for concurrent use; answers of one
// call never reach another.
type Session struct {
	client   *Client
	sdk      *mcp.ClientSession
	endpoint string
	inline   *inlineState
	life     context.Context // ends when the session is closed
	end      context.CancelCauseFunc
	takes    bool        // calls as tasks, before 2026-07-28
	silent   atomic.Bool // the server tells nothing of tasks by itself
}

// Connect connects over a transport of the SDK, such as mcp.StreamableClientTransport
// or mcp.CommandTransport. Nil options choose the newest revision that both sides speak.
// Over the SDK's HTTP transports, also in a mcp.LoggingTransport, everything goes to the
// origin of the Endpoint: a redirect to another scheme, host or port fails the request.
func (c *Client) Connect(ctx context.Context, t mcp.Transport, opts *mcp.ClientSessionOptions) (*Session, error) {
	s := &Session{client: c}
	hello := &exchange{quiet: true}
	t, err := atOrigin(t)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	if web, ok := t.(*mcp.StreamableClientTransport); ok {
		s.endpoint = web.Endpoint
		bounded, httpClient := *web, *web.HTTPClient
		tap := &tapRoundTripper{base: httpClient.Transport, limits: c.opts.Limits, hello: hello, authorizes: web.OAuthHandler != nil}
		if c.opts.Drafts {
			tap.echoes = &echoes{limits: c.opts.Limits}
		}
		httpClient.Transport = tap
		bounded.HTTPClient = &httpClient
		bounded.MaxEventSize = c.opts.Limits.MessageBytes
		if web.OAuthHandler != nil {
			once := &authorizeOnce{OAuthHandler: web.OAuthHandler}
			defer once.done()
			bounded.OAuthHandler = once
		}
		t = &bounded
	} else {
		t = &tapTransport{t, c.opts.Limits, hello}
	}
	if s.sdk, err = c.sdk.Connect(ctx, t, opts); err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	s.takes = takesTasks(hello)
	s.inline = c.inlineOf(s.sdk)
	s.life, s.end = context.WithCancelCause(context.Background())
	return s, nil
}

// takesTasks reports whether a result of initialize says that calls may be tasks
// (2025-11-25, "Capability Negotiation"), which the SDK does not know.
func takesTasks(hello *exchange) bool {
	value, _ := hello.came()
	for _, name := range []string{"capabilities", "tasks", "requests", "tools", "call"} {
		value = strictjson.Get(value, name)
	}
	return strictjson.TypeOf(value) == strictjson.TypeObject
}

// legacy reports whether the session is of a revision before 2026-07-28.
func (s *Session) legacy() bool {
	res := s.sdk.InitializeResult()
	return res != nil && res.ProtocolVersion < wire.Version
}

// SDK returns the SDK's session below, for lists, completion and subscriptions. Its calls
// are not driven to the end, and what servers ask during them inside a session before
// 2026-07-28 is refused.
func (s *Session) SDK() *mcp.ClientSession { return s.sdk }

// Close ends the connection, the calls, and the questions that handlers still have. A call
// that waits for a task ends with a [*TaskError]. A session that is closed makes no calls.
func (s *Session) Close() error {
	s.end(fmt.Errorf("the session was closed: %w", mcp.ErrConnectionClosed))
	s.inline.close()
	defer s.client.sessions.Delete(s.sdk)
	return s.sdk.Close()
}

// bound is a context that ends with the session, too.
func (s *Session) bound(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	end := func() { cancel(context.Cause(s.life)) }
	if s.life.Err() != nil {
		end()
		return ctx, end
	}
	stop := context.AfterFunc(s.life, end)
	return ctx, func() { stop(); cancel(nil) }
}

// Server says who the server is, as far as it told, or nil.
func (s *Session) Server() *mcp.Implementation {
	if res := s.sdk.InitializeResult(); res != nil {
		return res.ServerInfo
	}
	return nil
}
