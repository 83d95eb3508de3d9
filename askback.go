// Package askback serves MCP tools that ask back: in the middle of a call a tool asks the user a question, the
// client's model for a completion, or the client for its roots, and goes on with the answer.
//
// A handler is a plain function that runs from the top in every round. What was
// answered and what was done before is found again, not asked or done twice:
//
//	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil), nil)
//
//	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"},
//		func(ctx context.Context, call *askback.Call, in Bug) (string, error) {
//			res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
//			if err != nil {
//				return "", err // not answered yet, declined or cancelled
//			}
//			err = call.Do(ctx, "close", func(ctx context.Context) error {
//				return tracker.Close(ctx, in.ID, res.Resolution) // recorded: never runs again
//			})
//			return fmt.Sprintf("Bug #%d closed as %s.", in.ID, res.Resolution), err
//		})
//
//	// Or srv.Run(ctx, &mcp.StdioTransport{}).
//	err = drain.Serve(ctx, listener, &http.Server{Handler: srv.HTTPHandler(nil)}, nil)
//
// It implements Multi Round-Trip Requests of the Model Context Protocol, revision 2026-07-28: a question ends the
// request with input_required, and the client sends the request again with the answer. Between rounds nothing is
// held: what the call has learned travels in requestState, sealed (package seal) and bound to server, method, tool,
// arguments and principal, so that any instance with the same keys can serve any round. Clients of earlier revisions
// get the same questions inside their session, from the same handlers.
//
// With [Options.Tasks] the calls of a tool added with [AddTaskTool] may go on as durable
// tasks: the journal is in a store, every step is committed as it completes, and any
// instance goes on after a restart, or days later when an answer comes.
//
// A server tells its operator what it does: in the log, to [Options.Audit] who did what, and to [Options.Observe] what
// takes time: each request, run of a task and step, under the public ID of its call. What an observer sets as
// [Operation].Trace travels with the call, so that one trace covers all its rounds on all instances.
//
// Between asks a handler must be deterministic in what it asks: the same answers lead to the same questions.
// Put everything with a side effect into [Do] or [Call.Do]. Package askbacktest checks both in a unit test.
package askback

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/ending"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/httpfront"
	"github.com/askback-mcp/askback/internal/inline"
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/sdkfront"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

// Options configure a [Server]. The zero value is ready to use by one process.
type Options struct {
	// Keys seal requestState. All instances behind one endpoint need the same keys, and [seal.Ring.Replace] changes them
	// while the server runs. Nil means one random key that ends with the process, and a warning in the log when the server
	// is served over HTTP.
	Keys *seal.Ring

	// Audience names the service that a requestState is for: instances of one service share it, and another service's
	// state is refused even under the same keys. Empty means the name in the SDK server's Implementation.
	Audience string

	// Principal names the authenticated caller, to whom every requestState and every task is bound. It is called once
	// for an HTTP request, or for a request on another connection that calls a handler or is about tasks or events. An
	// error refuses the request. Nil means the UserID of the SDK's token info. The empty principal is the anonymous
	// caller, who sends requests without a token that Principal does not name.
	Principal func(ctx context.Context, extra *mcp.RequestExtra) (string, error)

	// AnonymousTokens serves a request whose verified token names nobody as one of the anonymous caller. Otherwise it
	// is refused: everybody with such a token could go on with the calls, and read the tasks, of everybody else.
	AnonymousTokens bool

	// Authorize decides, if set, whether a caller may make a request: a call of a tool, a
	// request for a prompt or a resource, and every request about a task or events. An error refuses it, with HTTP status
	// 403 where there is one. A *jsonrpc.Error is sent as it is; of any other the client is told nothing, and the log
	// everything.
	Authorize func(ctx context.Context, access Access) error

	// AuthorizeContinues has Authorize asked again, with Access.Continues, when a call goes on in a task because other
	// people have decided what it asked: its caller may have lost their rights meanwhile. A refusal ends the call, which
	// cleans up. After an error that wraps [ErrUndecided] the task waits, and Authorize is asked again.
	AuthorizeContinues bool

	// ReplayGuard makes every requestState single use: a [state.MemoryGuard] in one process, the Guard of a Store of
	// task/sqlite or task/postgres in several. A MemoryGuard forgets when its process ends. So a Server with a MemoryGuard
	// refuses every state that was sealed before [New]: calls that wait while the process restarts cannot continue. Nil
	// lets a client send a round again until the state expires, because its response may have been lost, and also answer
	// the round differently.
	ReplayGuard state.Guard

	// BareFirstRound leaves requestState out of a first round that has nothing to remember, and takes the answers of
	// a retry that comes without one by their keys alone. Nothing then binds such answers to the question they were
	// asked for, and every such retry is a call of its own, with an ID and idempotency keys of its own, unless the
	// handler read one of these before it asked: then it has something to remember. It excludes ReplayGuard.
	BareFirstRound bool

	// PlainForms, if set, reports whether a client shows nothing but text, yes or no, and single choices in forms. Such a
	// client is asked for numbers and multiple choices as text, and handlers get what the text stands for. The client says
	// by itself who it is. It is called concurrently, for each request that may ask. Nil: every client gets the forms as
	// they are.
	PlainForms func(client *mcp.Implementation) bool

	// Tasks let calls go on as durable tasks. Nil: none do.
	Tasks *Tasks

	// Events let callers learn what becomes of their tasks. Nil: they have to ask for each task.
	Events *EventOptions

	// Desk lets questions go to people apart from the client. Nil: none does, and a question for somebody else than the
	// caller is an error of its handler.
	Desk *DeskOptions

	// States put a store beside requestState, for a migration or for states that are too
	// large to travel. Nil means that requestState carries everything.
	States *state.Options

	// Limits bound calls and requests.
	Limits Limits

	// Logger receives warnings, refused states with their reason, and panics. Nil means slog.Default().
	Logger *slog.Logger

	// Audit, if set, is told who asked, answered, did and was refused what, in every kind of session, call and task.
	// The request waits for it, and it is called concurrently. A panic in it is logged and costs nothing else. The
	// context is the request's, and may be done. An event is not for the client.
	Audit func(ctx context.Context, e AuditEvent)

	// Observe, if set, is called when an operation begins. It may return the context for what happens in it, and a
	// function that is called once when the operation has ended: by then the fields of op that tell of the end are
	// set. Either may be nil. It is for traces and metrics: the module askback/otelaskback has one for OpenTelemetry. The
	// operation waits for both functions, and they are called concurrently for different operations. A panic in one is
	// logged and costs nothing else.
	Observe func(ctx context.Context, op *Operation) (observed context.Context, end func())
}

// Access is a request, as [Options.Authorize] sees it.
type Access struct {
	Principal string // the caller's, or "" for an anonymous one
	Method    string // such as "tools/call"
	Target    string // the tool's or prompt's name, the resource's URI, the task's id, the event type's name, or ""
	// Extra is what the transport says of the caller: token info, and headers over HTTP. It
	// is nil where the transport says nothing.
	Extra *mcp.RequestExtra
	// Continues is set if no request is made: see [Options.AuthorizeContinues]. Extra is nil then.
	Continues bool
}

// ErrUndecided is wrapped by an error of [Options.Authorize] that is no refusal: it cannot tell now. The client of a
// request is told to send it again, with HTTP status 503 where there is one.
var ErrUndecided = fault.ErrUndecided

// Server adds handlers that ask back to a server of the official Go SDK. It is safe for concurrent use.
type Server struct {
	mcp       *mcp.Server
	opts      Options
	log       *slog.Logger
	supported []string // protocol versions, newest first
	handlers  *call.Registry
	sdk       *sdkfront.Front
	inline    func() *inline.Server // made when the first inline tool is called
	warnKeys  sync.Once             // of a random key
}

// New returns a Server on m. What is registered on m itself keeps working: handlers that never ask are untouched, and
// the requestState of those written in the SDK's manual style is sealed for them. Nil options are the zero Options.
// There can be one Server on m.
//
// Receiving middleware of m sees every request, whenever it was added. Where there is any,
// no request for a handler added to the Server takes the path past the SDK that makes
// [Server.HTTPHandler] cheap: see [Server.AddReceivingMiddleware].
func New(m *mcp.Server, opts *Options) (*Server, error) {
	s := &Server{mcp: m, handlers: new(call.Registry)}
	if opts != nil {
		s.opts = *opts
	}
	if err := s.opts.Limits.setDefaults(); err != nil {
		return nil, err
	}
	if s.log = s.opts.Logger; s.log == nil {
		s.log = slog.Default()
	}
	if s.opts.BareFirstRound && s.opts.ReplayGuard != nil {
		return nil, errors.New("askback: BareFirstRound and ReplayGuard exclude each other: a round without a requestState " +
			"has nothing that could be used once only, so its answers could be sent again without end; leave out one of them")
	}
	name, info, err := s.discover()
	if err != nil {
		return nil, fmt.Errorf("askback: asking the server who it is: %w", err)
	}
	setDefault(&s.opts.Audience, name)
	keys := s.opts.Keys
	if keys == nil {
		if keys, err = seal.NewRing(seal.NewKey(time.Now())); err != nil {
			return nil, err
		}
	}
	shares, err := s.opts.Limits.shares(s.log)
	if err != nil {
		return nil, err
	}
	limits := s.opts.Limits.bounds()
	var audit *report.Audit
	if hook := s.opts.Audit; hook != nil {
		tell := func(ctx context.Context, e report.AuditEvent) { hook(ctx, AuditEvent(e)) }
		audit = &report.Audit{Hook: tell, Log: s.log}
	}
	var observer *report.Observer
	if hook := s.opts.Observe; hook != nil {
		follow := func(ctx context.Context, op *report.Operation) (context.Context, func()) {
			return hook(ctx, (*Operation)(op))
		}
		observer = &report.Observer{Hook: follow, Log: s.log}
	}
	engine := &call.Engine{Limits: limits, Audit: audit, Observer: observer, Log: s.log}
	carrier := &home.Carrier{
		Keys: keys, Audience: s.opts.Audience, Limits: limits, Bare: s.opts.BareFirstRound,
		Guard: s.opts.ReplayGuard, Audit: audit, PlainForms: s.opts.PlainForms, Log: s.log,
	}
	if _, forgets := s.opts.ReplayGuard.(*state.MemoryGuard); forgets {
		carrier.Since = time.Now().Truncate(time.Millisecond) // as states say when they were sealed
	}
	if s.opts.States != nil {
		if err := carrier.UseStates(*s.opts.States, s.opts.Principal != nil); err != nil {
			return nil, err
		}
	}
	way := &gate.Gate{
		Name: s.opts.Principal, AnonymousTokens: s.opts.AnonymousTokens, Limits: limits, Shares: shares,
		Sessions: &gate.Sessions{Shares: shares, Calls: limits.SessionCalls, Live: m.Sessions},
		Audit:    audit, Observer: observer, Log: s.log,
	}
	if authorize := s.opts.Authorize; authorize != nil {
		way.Authorize = func(ctx context.Context, a gate.Access) error {
			return authorize(ctx, Access{Principal: a.Principal, Method: a.Method, Target: a.Target, Extra: a.Extra})
		}
	}
	s.inline = sync.OnceValue(func() *inline.Server { return inline.New(engine, exported) })
	s.sdk = &sdkfront.Front{
		Server: m, Gate: way, Calls: engine, Handlers: s.handlers, Carrier: carrier, Info: info, Log: s.log,
	}
	if s.opts.Tasks != nil {
		if s.sdk.Tasks, err = s.newTasks(engine, info); err != nil {
			return nil, err
		}
		s.sdk.ListsTasks = s.opts.Tasks.ListAnonymous || s.opts.Principal != nil
		carrier.Tasks = s.sdk.Tasks
	} else if s.opts.Events != nil {
		return nil, errors.New("askback: Options.Events needs Options.Tasks: events tell what becomes of tasks")
	}
	if s.opts.Desk != nil {
		if err := s.useDesk(engine, s.sdk.Tasks); err != nil {
			return nil, err
		}
	}
	return s, s.sdk.Install()
}

// AddReceivingMiddleware adds middleware that sees each request to the server before its handler does, as on the SDK's
// server, and with the same type: the first one is the outermost, and all are outside of those added before. Requests
// over HTTP still take the path past the SDK, where they have no session: GetSession returns a nil *mcp.ServerSession.
// A result that needs input has the type that the SDK's MarshalJSON encodes, and no fields.
func (s *Server) AddReceivingMiddleware(middleware ...mcp.Middleware) {
	s.sdk.AddReceivingMiddleware(middleware...)
}

func init() {
	raw.Around = func(server any, middleware mcp.Middleware) { server.(*Server).sdk.Around(middleware) }
}

// HTTPHandler serves the MCP endpoint: handlers of the Server to clients of the 2026-07-28 revision on a path of its
// own, all else through the SDK's handlers, and legacy sessions beside them. Bearer tokens are checked by a handler
// around it, such as the SDK's auth.RequireBearerToken. It panics if a trusted origin is not an origin, or an allowed
// host is not a host. (basic/transports/streamable-http)
func (s *Server) HTTPHandler(opts *HTTPOptions) http.Handler {
	if opts == nil {
		opts = new(HTTPOptions)
	}
	if s.opts.Keys == nil { // over stdio this process is the only instance
		s.warnKeys.Do(func() {
			s.log.Warn("askback: no keys configured: sealing requestState with a random key; " +
				"calls that are waiting for an answer cannot be finished by another instance or after a restart")
		})
	}
	h, err := httpfront.New(s.sdk, &httpfront.Options{
		TrustedOrigins: opts.TrustedOrigins, AllowedHosts: opts.AllowedHosts,
		ReadTimeout: opts.ReadTimeout, WriteTimeout: opts.WriteTimeout,
		Drafts: opts.Drafts, Streamable: opts.Streamable, Supported: s.supported,
	})
	if err != nil {
		panic("askback: " + err.Error())
	}
	return h
}

// HTTPOptions configure [Server.HTTPHandler]. The zero value is ready to use.
type HTTPOptions struct {
	// TrustedOrigins are web origins, such as "https://app.example.com", whose pages
	// may send requests besides pages of the server's own origin.
	TrustedOrigins []string

	// AllowedHosts are the host names, such as "mcp.example.com", under which the server is reached: with a port, only
	// under that port. Requests under any other name are refused. If the list is empty, a server on a loopback address
	// takes only names of that address, and on other addresses a web page is refused unless it comes from a trusted origin
	// or the server is reached by its IP address: a page can have its own name lead to the server (DNS rebinding), and
	// nothing else tells it apart.
	AllowedHosts []string

	// ReadTimeout is how long a client may take to send the body of a request. Zero means 30 seconds, or the
	// ReadTimeout of the http.Server if that is shorter; a negative one means no limit.
	ReadTimeout time.Duration

	// WriteTimeout is how long a client may take to read each 64 KiB of a response, or an event that is shorter. It
	// takes the place of the WriteTimeout of the http.Server, which would end streams. Zero means 30 seconds; a
	// negative one leaves the deadlines of the http.Server as they are.
	WriteTimeout time.Duration

	// Drafts also serves requests in the forms of the proposals that led to the 2026-07-28 revision, to peers that
	// were built on them: see docs/drafts.md. Leave it off where no such peers exist.
	Drafts bool

	// Streamable configures what the SDK serves behind the same endpoint: subscriptions, and the sessions of legacy
	// clients. Its JSONResponse is also the form of lists and discovery. Stateless, MaxRequestBodyBytes and
	// PropagateRequestCancellation are set by Askback. A SessionTimeout of zero means 30 minutes.
	Streamable mcp.StreamableHTTPOptions
}

// Run serves one connection of a transport of the SDK, such as mcp.StdioTransport,
// until the client ends it or ctx is done. Lines on standard input that are no messages
// are answered with an error, and the connection goes on. (basic/transports/stdio)
func (s *Server) Run(ctx context.Context, t mcp.Transport) error {
	waits, end := context.WithCancel(context.Background())
	defer end()
	return s.mcp.Run(ending.With(ctx, waits), s.sdk.Transport(t, ctx.Done(), end))
}

// Connect serves a connection in the background: see mcp.Server.Connect.
func (s *Server) Connect(
	ctx context.Context, t mcp.Transport, opts *mcp.ServerSessionOptions,
) (*mcp.ServerSession, error) {
	return s.mcp.Connect(ctx, s.sdk.Transport(t, nil, nil), opts)
}

// Ready returns an error if a store that requests need does not answer: the store in [Options.Tasks] or in
// [Options.States]. It makes one small read of each, and is for the readiness probe of a load balancer: see package
// drain.
func (s *Server) Ready(ctx context.Context) error {
	const missing = "ready?" // no task or state has such an ID
	if t := s.opts.Tasks; t != nil {
		if _, err := t.Store.Get(ctx, missing); err != nil && !errors.Is(err, task.ErrNotFound) {
			return fmt.Errorf("askback: reading from the store of the tasks: %w", err)
		}
	}
	if states := s.opts.States; states != nil {
		if _, err := states.Store.GetState(ctx, missing); err != nil {
			return fmt.Errorf("askback: reading from the store of the states: %w", err)
		}
	}
	return nil
}

// discover asks the SDK's server for its protocol versions, its name, and the _meta that
// says who answers (basic, "Per-response protocol fields"), which it tells no other way.
func (s *Server) discover() (name string, info []byte, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	here, there := mcp.NewInMemoryTransports()
	session, err := s.mcp.Connect(ctx, there, nil)
	if err != nil {
		return "", nil, err
	}
	defer session.Close()
	var refusal error
	client := mcp.NewClient(&mcp.Implementation{Name: "askback"}, nil)
	client.AddSendingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, req)
			if found, ok := result.(*mcp.DiscoverResult); ok {
				s.supported = found.SupportedVersions
			}
			refusal = cmp.Or(refusal, err)
			return result, err
		}
	})
	conn, err := client.Connect(ctx, here, &mcp.ClientSessionOptions{ProtocolVersion: wire.Version})
	if err != nil {
		return "", nil, err
	}
	defer conn.Close()
	if s.supported == nil {
		return "", nil, fmt.Errorf("it must support protocol version %s: %w", wire.Version, refusal)
	}
	who := conn.InitializeResult().ServerInfo
	if who == nil {
		return "", nil, errors.New("the result carries no server info")
	}
	info, err = json.Marshal(map[string]any{mcp.MetaKeyServerInfo: who})
	return who.Name, info, err
}
