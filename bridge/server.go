package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
)

// server is the server behind the bridge, and the connection to it.
type server struct {
	connect func() (mcp.Transport, error)
	version string // to speak, or empty
	client  *client.Client

	mu      sync.Mutex
	open    *client.Session // nil after the connection has ended
	dialing *dial           // a connection that is made, or nil
	again   bool            // there has been a connection before
	closed  bool
	life    context.Context // ends with close
	stop    context.CancelFunc
	ended   sync.WaitGroup
	logs    atomic.Bool // the server has a log that hosts can see
	lost    func()      // the connection has ended
	changed func()      // what the server offers may have changed

	slots    chan struct{} // one for each round in progress, or nil for no bound
	tokens   atomic.Int64
	progress sync.Map // from tokens to channels of reports

	// Of an older server.
	subscribed subscriptions
	older      atomic.Bool // what the last connection, or attempt at one, says of the server
	pool       *pool
	calls      *openCalls
	waited     waits
	left       waits // for a bridge with another policy
}

// progress is told how far a call is.
type progress interface {
	Progress(ctx context.Context, progress, total float64, message string) error
}

func newServer(b *upstream) *server {
	s := &server{connect: b.Connect, version: b.Version, lost: func() { signal(b.lists.ended) }, changed: b.lists.changed,
		calls: newOpenCalls()}
	if len(b.opts.Servers) > 1 {
		s.slots = make(chan struct{}, roundsAtOnce)
	}
	s.life, s.stop = context.WithCancel(context.Background())
	base := client.Options{
		Implementation: b.opts.Implementation,
		Limits:         client.Limits{MessageBytes: b.opts.MessageBytes, Rounds: mostPages},
		SDK: mcp.ClientOptions{
			Logger:                      b.log,
			ProgressNotificationHandler: s.reported,
			ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { s.changed() },
			PromptListChangedHandler:    func(context.Context, *mcp.PromptListChangedRequest) { s.changed() },
			ResourceListChangedHandler:  func(context.Context, *mcp.ResourceListChangedRequest) { s.changed() },
			ResourceUpdatedHandler:      b.resourceUpdated,
			LoggingMessageHandler:       b.logged,
		},
	}
	// A server may list a tool that asks only to clients that can be asked.
	everything := new(pooled).options(base, abilities{true, true, true, true, true})
	s.client = client.New(&everything)
	s.pool = newPool(b.opts.Sessions, b.SessionPerCall, func(ctx context.Context, p *pooled) (*client.Session, error) {
		opts := p.options(base, p.kind.can)
		session, err := s.begin(ctx, client.New(&opts))
		if err == nil && !isOlder(session) {
			s.leaveOlder()
			return nil, errors.Join(errModern, session.Close())
		}
		if err == nil {
			for _, uri := range s.subscribed.of(p.kind.caller) {
				_ = session.SDK().Subscribe(ctx, &mcp.SubscribeParams{URI: uri}) // the server's resource may be gone
			}
		}
		return session, err
	})
	return s
}

// errModern says that a server that was older has become one of 2026-07-28.
var errModern = errors.New("the server has changed to 2026-07-28")

// sessionVersion is the newest revision with sessions.
const sessionVersion = "2025-11-25"

// begin makes a connection. An era is a property of the server: one that is known to be older is not asked for its era
// again, unless it refuses to begin a session.
func (s *server) begin(ctx context.Context, c *client.Client) (*client.Session, error) {
	known := s.older.Load() && s.version == ""
	speaks := &mcp.ClientSessionOptions{ProtocolVersion: s.version}
	if known {
		speaks.ProtocolVersion = sessionVersion
	}
	transport, err := s.connect()
	if err != nil {
		return nil, err
	}
	session, err := c.Connect(ctx, transport, speaks)
	if err == nil || !known || ctx.Err() != nil {
		return session, err
	}
	speaks.ProtocolVersion = ""
	if transport, err = s.connect(); err != nil {
		return nil, err
	}
	if session, err = c.Connect(ctx, transport, speaks); err == nil && !isOlder(session) {
		s.older.Store(false)
	}
	return session, err
}

// dial is a connection that is made for everybody who waits for it.
type dial struct {
	done    chan struct{}
	session *client.Session
	err     error
}

// dialTime bounds how long a connection is made.
const dialTime = 30 * time.Second

// roundsAtOnce bounds the rounds that one of several servers is sent at once: fewer than askback.Limits gives one
// session of a host, so that a server that does not answer leaves room for the others.
const roundsAtOnce = 48

// session returns the connection to the server, and makes one if there is none.
func (s *server) session(ctx context.Context) (*client.Session, error) {
	s.mu.Lock()
	if s.open != nil || s.closed {
		defer s.mu.Unlock()
		if s.closed {
			return nil, errors.New("the bridge stops")
		}
		return s.open, nil
	}
	d := s.dialing
	if d == nil {
		d = &dial{done: make(chan struct{})}
		s.dialing = d
		s.ended.Go(func() { s.dial(d) })
	}
	s.mu.Unlock()
	select {
	case <-d.done:
		return d.session, d.err
	case <-ctx.Done():
		return nil, fmt.Errorf("the server does not answer: %w", context.Cause(ctx))
	}
}

// dial makes a connection.
func (s *server) dial(d *dial) {
	defer close(d.done)
	ctx, cancel := context.WithTimeout(s.life, dialTime)
	defer cancel()
	var err error
	if d.session, err = s.begin(ctx, s.client); err != nil {
		err = &ConnectError{err}
	}
	d.err = err
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialing = nil
	switch {
	case err != nil:
	case s.closed:
		d.session, d.err = nil, errors.Join(errors.New("the bridge stops"), d.session.Close())
	default:
		if s.open = d.session; s.again {
			s.changed()
		}
		s.again = true
		s.older.Store(isOlder(d.session))
		if res := d.session.SDK().InitializeResult(); res != nil && res.Capabilities != nil {
			s.logs.Store(res.Capabilities.Logging != nil)
		}
		s.ended.Go(func() { s.await(d.session) })
	}
}

// await waits for the end of a connection. The next call learns the reason.
func (s *server) await(session *client.Session) {
	_ = session.SDK().Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == session {
		s.open = nil
		s.lost()
	}
}

// introduction is what the server has said of itself, or nil.
func (s *server) introduction() *mcp.InitializeResult {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return nil
	}
	return s.open.SDK().InitializeResult()
}

// close ends the open calls and the connections.
func (s *server) close() error {
	s.calls.close()
	s.pool.close()
	s.mu.Lock()
	session := s.open
	s.open, s.closed = nil, true
	s.mu.Unlock()
	s.stop()
	var err error
	if session != nil {
		err = session.Close()
	}
	s.ended.Wait()
	return err
}

// send sends one round of a call. If the server has forgotten the session before the round came, it is sent in another
// one.
func (s *server) send(
	ctx context.Context, p *client.Pending, report progress,
) (result json.RawMessage, next *client.Pending, err error) {
	session, err := s.session(ctx)
	if err != nil {
		return nil, nil, &client.NotRunError{Err: err}
	}
	if p.TaskID == "" && s.slots != nil { // what waits for a task is counted by the store
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		default:
			return nil, nil, &client.NotRunError{
				Err: fmt.Errorf("%d calls of it are in progress, call it again later", cap(s.slots)),
			}
		}
	}
	result, next, err = s.sendIn(ctx, session, p, report)
	if forgot(session, err) {
		s.leave(session)
		if session, err = s.session(ctx); err != nil {
			return nil, nil, &client.NotRunError{Err: err}
		}
		result, next, err = s.sendIn(ctx, session, p, report)
	}
	fault, ok := errors.AsType[*jsonrpc.Error](err)
	if ok && fault.Code == jsonrpc.CodeMethodNotFound && !isOlder(session) {
		s.leave(session) // which may be of an era that the server no longer has
	}
	return result, next, err
}

// sessionOf is the session that a caller has at an older server, or else the connection for everybody. Without a caller
// it is for lists, which may depend on what the only caller did.
func (s *server) sessionOf(ctx context.Context, caller string, only bool) (*client.Session, error) {
	if s.older.Load() {
		if session := s.pool.current(caller, only); session != nil {
			return session, nil
		}
	}
	return s.session(ctx)
}

// leave ends a connection whose session the server does not know.
func (s *server) leave(session *client.Session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == session {
		s.open = nil
		s.ended.Go(func() { _ = session.Close() })
	}
}

// leaveOlder ends the connection if it is a session, because its server has none any more.
func (s *server) leaveOlder() {
	s.mu.Lock()
	session := s.open
	s.mu.Unlock()
	if session != nil && isOlder(session) {
		s.leave(session)
	}
}

// sendIn sends a round in a session. Its progress goes to report, unless that is nil.
func (s *server) sendIn(
	ctx context.Context, session *client.Session, p *client.Pending, report progress,
) (result json.RawMessage, next *client.Pending, err error) {
	if report == nil {
		return session.Send(ctx, p)
	}
	token, done := s.tell(ctx, report)
	defer done()
	own := *p
	if own.Meta = maps.Clone(p.Meta); own.Meta == nil {
		own.Meta = make(mcp.Meta)
	}
	own.Meta["progressToken"] = token
	return session.Send(ctx, &own)
}

// mostReports is how many reports of a call wait for its host. What comes while they do is left out.
const mostReports = 64

// tell has a call told of its progress until done, which passes on what has come. A host that is slow to read it
// keeps nobody else's from coming, because all of them come on one connection.
func (s *server) tell(ctx context.Context, report progress) (token string, done func()) {
	token = "bridge-" + strconv.FormatInt(s.tokens.Add(1), 10)
	reports, ended := make(chan *mcp.ProgressNotificationParams, mostReports), make(chan struct{})
	var passing sync.WaitGroup
	passing.Go(func() {
		pass := func(p *mcp.ProgressNotificationParams) { _ = report.Progress(ctx, p.Progress, p.Total, p.Message) }
		for {
			select {
			case p := <-reports:
				pass(p)
			case <-ended:
				for range len(reports) {
					pass(<-reports)
				}
				return
			}
		}
	})
	s.progress.Store(token, reports)
	return token, func() {
		s.progress.Delete(token)
		close(ended)
		passing.Wait()
	}
}

// reported notes how far a call is.
func (s *server) reported(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
	if call, ok := s.progress.Load(req.Params.ProgressToken); ok {
		select {
		case call.(chan *mcp.ProgressNotificationParams) <- req.Params:
		default:
		}
	}
}
