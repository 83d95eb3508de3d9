// Package askback serves MCP tools that ask back: in the middle of a call a tool
// asks the user a question, the client's model for a completion, or the client for
// its roots, and goes on with the answer.
//
// A handler is a plain function that runs from the top in every round. What was
// answered and what was done before is found again, not asked or done twice:
//
//	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil), nil)
//
//	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"},
//		func(ctx context.Context, call *askback.Call, in Bug) (*mcp.CallToolResult, any, error) {
//			res, err := askback.Elicit[Resolution](ctx, call, "resolution", "How was this bug resolved?")
//			if err != nil {
//				return nil, nil, err // not answered yet, declined or cancelled
//			}
//			_, err = askback.Do(ctx, call, "close", func(ctx context.Context) (int, error) {
//				return in.ID, tracker.Close(ctx, in.ID, res.Resolution) // runs once
//			})
//			…
//		})
//
//	http.ListenAndServe(addr, srv.HTTPHandler(nil)) // or srv.Run(ctx, &mcp.StdioTransport{})
//
// It implements Multi Round-Trip Requests of the Model Context Protocol, revision
// 2026-07-28: a question ends the request with input_required, and the client sends
// the request again with the answer. Between rounds nothing is held: what the call
// has learned travels in requestState, sealed (package seal) and bound to server,
// method, tool, arguments and principal, so that any instance with the same keys can
// serve any round. Clients of earlier revisions get the same questions inside their
// session, from the same handlers.
//
// With [Options.Tasks] the calls of a tool added with [AddTaskTool] may go on as durable
// tasks: the journal is in a store, every step is committed as it completes, and any
// instance goes on after a restart, or days later when an answer comes.
//
// Between asks a handler must be deterministic in what it asks: the same answers
// lead to the same questions. Everything with a side effect belongs into [Do].
// Package askbacktest checks both in a unit test.
package askback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// Options configure a [Server]. The zero value is ready to use by one process.
type Options struct {
	// Keys seal requestState. All instances behind one endpoint need the same.
	// Nil means one random key, which no other process and no later one has.
	Keys *seal.Ring

	// Audience names the service that a requestState is for: instances of one
	// service share it, and another service's state is refused even under the same
	// keys. Empty means the name in the SDK server's Implementation.
	Audience string

	// Principal names the authenticated caller, to whom every requestState and every
	// task is bound. An error refuses the request. Nil means the UserID of the SDK's
	// token info. The empty principal is the anonymous caller: that of a request without
	// a token, as long as Principal does not name it.
	Principal func(ctx context.Context, extra *mcp.RequestExtra) (string, error)

	// AnonymousTokens serves a request whose verified token names nobody as one of the
	// anonymous caller. Otherwise it is refused: everybody with such a token could go on
	// with the calls, and read the tasks, of everybody else.
	AnonymousTokens bool

	// ReplayGuard makes every requestState single use. Nil lets a client whose
	// response was lost send a round again until the state expires.
	ReplayGuard ReplayGuard

	// BareFirstRound leaves requestState out of a first round that has nothing to
	// remember, and takes the answers of a retry that comes without one by their
	// keys alone. Nothing then binds such answers to the question they were asked
	// for, and the call's id changes in between.
	BareFirstRound bool

	// Tasks let calls go on as durable tasks. Nil: none do.
	Tasks *Tasks

	// States put a store beside requestState, for a migration or for states that are too
	// large to travel. Nil: there is none.
	States *States

	// Limits bound calls and requests.
	Limits Limits

	// Logger receives warnings, refused states with their reason, and panics.
	// Nil means slog.Default().
	Logger *slog.Logger

	// StateRefused, if set, is called for every requestState that was refused: a
	// place for a metric. It must not block. The reason is not for the client.
	StateRefused func(ctx context.Context, method string, reason seal.Reason)
}

// Limits bound calls and requests. A field that is zero has its default.
type Limits struct {
	Rounds      int           // rounds per call that end with input required; default 32
	Questions   int           // questions per round; default 16
	StateBytes  int           // bytes of a requestState as sent; default 64 KiB
	StoredBytes int           // bytes of a state that overflows into States.Store; default 16 MiB
	BodyBytes   int64         // bytes of an HTTP request's body; default 4 MiB
	Depth       int           // nesting of a request's JSON; default 64
	RoundTTL    time.Duration // how long a client may take to answer; default 1 hour
	CallTTL     time.Duration // how long a whole call may take; default 24 hours, or RoundTTL if that is more
}

func (l *Limits) setDefaults() error {
	setDefault(&l.Rounds, 32)
	setDefault(&l.Questions, 16)
	setDefault(&l.StateBytes, 64<<10)
	setDefault(&l.StoredBytes, 16<<20)
	setDefault(&l.BodyBytes, 4<<20)
	setDefault(&l.Depth, 64)
	setDefault(&l.RoundTTL, time.Hour)
	setDefault(&l.CallTTL, max(24*time.Hour, l.RoundTTL))
	if min(int64(l.Rounds), int64(l.Questions), int64(l.StateBytes), int64(l.StoredBytes), l.BodyBytes, int64(l.Depth), int64(l.RoundTTL), int64(l.CallTTL)) < 0 {
		return errors.New("askback: a negative limit; zero means the default")
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Server adds handlers that ask back to a server of the official Go SDK. It is safe
// for concurrent use.
type Server struct {
	mcp       *mcp.Server
	opts      Options
	log       *slog.Logger
	keys      *seal.Ring
	supported []string     // protocol versions, newest first
	tasks     *task.Engine // nil without Options.Tasks
	states    *States      // nil without Options.States
	runsTasks atomic.Bool
	warnIdle  sync.Once
	standIns  func() *standIns // made when the first inline tool is added
	// meta is the _meta of every result: who answers (basic, "Per-response protocol fields").
	meta []byte

	mu        sync.RWMutex
	tools     map[string]*handler
	prompts   map[string]*handler
	resources map[string]*handler
	templates []*handler
}

// New returns a Server on m. What is registered on m itself keeps working: handlers
// that never ask are untouched, and the requestState of those written in the SDK's
// manual style is sealed for them. Nil options are the zero Options.
//
// Receiving middleware of m sees every request for what is registered on m. It does not
// see requests for handlers added to the Server that come through [Server.HTTPHandler]
// from clients of the 2026-07-28 revision, which have a path of their own: authorize
// such callers in a handler around it, or in [Options.Principal].
func New(m *mcp.Server, opts *Options) (*Server, error) {
	s := &Server{
		mcp:       m,
		tools:     make(map[string]*handler),
		prompts:   make(map[string]*handler),
		resources: make(map[string]*handler),
		standIns:  sync.OnceValue(newStandIns),
	}
	if opts != nil {
		s.opts = *opts
	}
	if err := s.opts.Limits.setDefaults(); err != nil {
		return nil, err
	}
	if s.log = s.opts.Logger; s.log == nil {
		s.log = slog.Default()
	}
	name, err := s.discover()
	if err != nil {
		return nil, fmt.Errorf("askback: asking the server who it is: %w", err)
	}
	setDefault(&s.opts.Audience, name)
	if s.keys = s.opts.Keys; s.keys == nil {
		if s.keys, err = seal.NewRing(seal.NewKey(time.Now())); err != nil {
			return nil, err
		}
		s.log.Warn("askback: no keys configured: sealing requestState with a random key; " +
			"calls that are waiting for an answer cannot be finished by another instance, nor after a restart")
	}
	if s.opts.States != nil {
		if s.states, err = s.newStates(*s.opts.States); err != nil {
			return nil, err
		}
	}
	if s.opts.Tasks != nil {
		if s.tasks, err = s.newTasks(s.opts.Tasks); err != nil {
			return nil, err
		}
		if err := s.addTaskMethods(); err != nil {
			return nil, err
		}
	}
	m.AddReceivingMiddleware(s.middleware)
	return s, nil
}

// discover asks the SDK's server for its name and protocol versions, which it tells
// no other way.
func (s *Server) discover() (name string, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	here, there := mcp.NewInMemoryTransports()
	session, err := s.mcp.Connect(ctx, there, nil)
	if err != nil {
		return "", err
	}
	defer session.Close()
	conn, err := here.Connect(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	id, err := jsonrpc.MakeID("discover")
	if err != nil {
		return "", err
	}
	params, err := json.Marshal(map[string]any{"_meta": map[string]any{
		mcp.MetaKeyProtocolVersion:    wire.Version,
		mcp.MetaKeyClientCapabilities: struct{}{},
	}})
	if err != nil {
		return "", err
	}
	if err := conn.Write(ctx, &jsonrpc.Request{ID: id, Method: "server/discover", Params: params}); err != nil {
		return "", err
	}
	msg, err := conn.Read(ctx)
	if err != nil {
		return "", err
	}
	res, ok := msg.(*jsonrpc.Response)
	if !ok {
		return "", fmt.Errorf("unexpected message of type %T", msg)
	}
	if res.Error != nil {
		return "", fmt.Errorf("it must support protocol version %s: %w", wire.Version, res.Error)
	}
	var found struct {
		Meta              map[string]json.RawMessage `json:"_meta"`
		SupportedVersions []string                   `json:"supportedVersions"`
	}
	if err := json.Unmarshal(res.Result, &found); err != nil {
		return "", err
	}
	s.supported = found.SupportedVersions
	info := found.Meta[mcp.MetaKeyServerInfo]
	if info == nil {
		return "", errors.New("the result carries no server info")
	}
	if s.meta, err = json.Marshal(map[string]any{mcp.MetaKeyServerInfo: info}); err != nil {
		return "", err
	}
	var impl mcp.Implementation
	err = json.Unmarshal(info, &impl)
	return impl.Name, err
}

func (s *Server) journalLimits() journal.Limits {
	return journal.Limits{Rounds: s.opts.Limits.Rounds, Asks: s.opts.Limits.Questions}
}
