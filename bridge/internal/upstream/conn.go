// Package upstream is the connection to one server behind the bridge: what it is told, and what it says.
package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/wire"
)

// Options configure a [Conn].
type Options struct {
	// Connect returns a transport to the server, for each connection.
	Connect func() (mcp.Transport, error)
	// Version is the revision to speak. Empty means the newest that both know.
	Version string
	// Client are the options of every client of the server. The connection sets what hears of lists and progress.
	Client client.Options
	// Several says that other servers share the host's requests with this one.
	Several bool
	// Changed is called when what the server offers may have changed, and Lost when the connection has ended.
	Changed, Lost func()
}

// Conn is a server behind the bridge, and the connection to it that everybody shares. It is safe for concurrent use.
type Conn struct {
	// Life ends with Close.
	Life context.Context

	opts   Options
	client *client.Client
	stop   context.CancelFunc

	mu      sync.Mutex
	open    *client.Session // nil after the connection has ended
	dialing *dial           // a connection that is made, or nil
	again   bool            // there has been a connection before
	closed  bool
	ended   sync.WaitGroup
	logs    atomic.Bool // the server has a log that hosts can see
	legacy  atomic.Bool // what the last connection, or attempt at one, says of the server

	slots   chan struct{} // one for each round in progress, or nil for no bound
	reports reports
}

// ErrNoCall refuses what a server asks outside of the calls of its tools.
var ErrNoCall = errors.New("the bridge passes on a server's questions only while one of its tools is called")

// New returns a server that is not connected yet.
func New(opts Options) *Conn {
	c := &Conn{opts: opts}
	if opts.Several {
		c.slots = make(chan struct{}, roundsAtOnce)
	}
	c.Life, c.stop = context.WithCancel(context.Background())
	sdk := &c.opts.Client.SDK
	sdk.ProgressNotificationHandler = c.reports.reported
	sdk.ToolListChangedHandler = func(context.Context, *mcp.ToolListChangedRequest) { opts.Changed() }
	sdk.PromptListChangedHandler = func(context.Context, *mcp.PromptListChangedRequest) { opts.Changed() }
	sdk.ResourceListChangedHandler = func(context.Context, *mcp.ResourceListChangedRequest) { opts.Changed() }
	// A server may list a tool that asks only to clients that can be asked.
	own := c.ClientOptions(All, func(context.Context, *client.Question) (Answer, error) { return Answer{}, ErrNoCall })
	c.client = client.New(&own)
	return c
}

// Answer is what a server gets for a question in an open call: one of its fields.
type Answer struct {
	Elicited *mcp.ElicitResult
	Sampled  *mcp.CreateMessageWithToolsResult
	Roots    []*mcp.Root
}

// ClientOptions are the options of a client that can be asked this, and asks back with ask.
func (c *Conn) ClientOptions(
	can Abilities, ask func(context.Context, *client.Question) (Answer, error),
) client.Options {
	opts := c.opts.Client
	elicit := func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		a, err := ask(ctx, q)
		return a.Elicited, err
	}
	if can.Form {
		opts.Form = elicit
	}
	if can.URL {
		opts.URL = elicit
	}
	if opts.SampleTools = can.Tools; can.Sampling {
		opts.Sample = func(ctx context.Context, q *client.Question,
			_ *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			a, err := ask(ctx, q)
			return a.Sampled, err
		}
	}
	if can.Roots {
		opts.Roots = func(ctx context.Context) ([]*mcp.Root, error) {
			a, err := ask(ctx, &client.Question{Key: input.MethodListRoots, Method: input.MethodListRoots})
			return a.Roots, err
		}
	}
	return opts
}

// Legacy reports whether the server is, as far as is known, of a revision whose servers ask inside their calls.
func (c *Conn) Legacy() bool { return c.legacy.Load() }

// Logs reports whether the server has a log that hosts can see.
func (c *Conn) Logs() bool { return c.logs.Load() }

// IsLegacy reports whether a session is of a revision whose servers ask inside their calls.
func IsLegacy(s *client.Session) bool {
	res := s.SDK().InitializeResult()
	return res != nil && res.ProtocolVersion < wire.Version
}

// sessionVersion is the newest revision with sessions.
const sessionVersion = "2025-11-25"

// Begin makes a connection. An era is a property of the server: one that is known to be older is not asked for its era
// again, unless it refuses to begin a session.
func (c *Conn) Begin(ctx context.Context, by *client.Client) (*client.Session, error) {
	known := c.legacy.Load() && c.opts.Version == ""
	speaks := &mcp.ClientSessionOptions{ProtocolVersion: c.opts.Version}
	if known {
		speaks.ProtocolVersion = sessionVersion
	}
	transport, err := c.opts.Connect()
	if err != nil {
		return nil, err
	}
	session, err := by.Connect(ctx, transport, speaks)
	if err == nil || !known || ctx.Err() != nil {
		return session, err
	}
	speaks.ProtocolVersion = ""
	if transport, err = c.opts.Connect(); err != nil {
		return nil, err
	}
	if session, err = by.Connect(ctx, transport, speaks); err == nil && !IsLegacy(session) {
		c.legacy.Store(false)
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

// Session returns the connection to the server, and makes one if there is none.
func (c *Conn) Session(ctx context.Context) (*client.Session, error) {
	c.mu.Lock()
	if c.open != nil || c.closed {
		defer c.mu.Unlock()
		if c.closed {
			return nil, errors.New("the bridge stops")
		}
		return c.open, nil
	}
	d := c.dialing
	if d == nil {
		d = &dial{done: make(chan struct{})}
		c.dialing = d
		c.ended.Go(func() { c.dial(d) })
	}
	c.mu.Unlock()
	select {
	case <-d.done:
		return d.session, d.err
	case <-ctx.Done():
		return nil, fmt.Errorf("the server does not answer: %w", context.Cause(ctx))
	}
}

// dial makes a connection.
func (c *Conn) dial(d *dial) {
	defer close(d.done)
	ctx, cancel := context.WithTimeout(c.Life, dialTime)
	defer cancel()
	var err error
	if d.session, err = c.Begin(ctx, c.client); err != nil {
		err = &ConnectError{err}
	}
	d.err = err
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dialing = nil
	switch {
	case err != nil:
	case c.closed:
		d.session, d.err = nil, errors.Join(errors.New("the bridge stops"), d.session.Close())
	default:
		if c.open = d.session; c.again {
			c.opts.Changed()
		}
		c.again = true
		c.legacy.Store(IsLegacy(d.session))
		if res := d.session.SDK().InitializeResult(); res != nil && res.Capabilities != nil {
			c.logs.Store(res.Capabilities.Logging != nil)
		}
		c.ended.Go(func() { c.await(d.session) })
	}
}

// await waits for the end of a connection. The next call learns the reason.
func (c *Conn) await(session *client.Session) {
	_ = session.SDK().Wait()
	c.mu.Lock()
	if c.open == session {
		c.open = nil
		c.opts.Lost()
	}
	c.mu.Unlock()
	_ = session.Close() // its subscription ends with it
}

// Introduction is what the server has said of itself, or nil.
func (c *Conn) Introduction() *mcp.InitializeResult {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		return nil
	}
	return c.open.SDK().InitializeResult()
}

// Close ends the connection.
func (c *Conn) Close() error {
	c.mu.Lock()
	session := c.open
	c.open, c.closed = nil, true
	c.mu.Unlock()
	c.stop()
	var err error
	if session != nil {
		err = session.Close()
	}
	c.ended.Wait()
	return err
}

// Send sends one round of a call. If the server has forgotten the session before the round came, it is sent in another
// one.
func (c *Conn) Send(
	ctx context.Context, p *client.Pending, report Progress,
) (result json.RawMessage, next *client.Pending, err error) {
	session, err := c.sessionFor(ctx, p)
	if err != nil {
		return nil, nil, &client.NotRunError{Err: err}
	}
	if p.TaskID == "" && c.slots != nil { // what waits for a task is counted by the store
		select {
		case c.slots <- struct{}{}:
			defer func() { <-c.slots }()
		default:
			return nil, nil, &client.NotRunError{
				Err: fmt.Errorf("%d calls of it are in progress, call it again later", cap(c.slots)),
			}
		}
	}
	result, next, err = c.SendIn(ctx, session, p, report)
	if Forgot(session, err) {
		c.leave(session)
		if session, err = c.sessionFor(ctx, p); err != nil {
			return nil, nil, &client.NotRunError{Err: err}
		}
		result, next, err = c.SendIn(ctx, session, p, report)
	}
	fault, ok := errors.AsType[*jsonrpc.Error](err)
	if ok && fault.Code == jsonrpc.CodeMethodNotFound && !IsLegacy(session) {
		c.leave(session) // which may be of an era that the server no longer has
	}
	return result, next, err
}

// ErrLegacy says that a call of a tool was not sent, because the server is of a revision that asks inside its calls.
var ErrLegacy = errors.New("the server has changed to a revision before " + wire.Version)

// sessionFor returns the connection to the server for a round. A tool is not called in a session that everybody
// shares, because nobody could answer its questions there.
func (c *Conn) sessionFor(ctx context.Context, p *client.Pending) (*client.Session, error) {
	session, err := c.Session(ctx)
	if err == nil && p.Method == wire.CallTool && IsLegacy(session) {
		err = ErrLegacy
	}
	return session, err
}

// leave ends a connection whose session the server does not know.
func (c *Conn) leave(session *client.Session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == session {
		c.open = nil
		c.ended.Go(func() { _ = session.Close() })
	}
}

// LeaveLegacy ends the connection if it is a session, because its server has none any more.
func (c *Conn) LeaveLegacy() {
	c.mu.Lock()
	session := c.open
	c.mu.Unlock()
	if session != nil && IsLegacy(session) {
		c.leave(session)
	}
}

// SendIn sends a round in a session. Its progress goes to report, unless that is nil.
func (c *Conn) SendIn(
	ctx context.Context, session *client.Session, p *client.Pending, report Progress,
) (result json.RawMessage, next *client.Pending, err error) {
	if report == nil {
		return session.Send(ctx, p)
	}
	token, done := c.reports.tell(ctx, report)
	defer done()
	own := *p
	if own.Meta = maps.Clone(p.Meta); own.Meta == nil {
		own.Meta = make(mcp.Meta)
	}
	own.Meta["progressToken"] = token
	return session.Send(ctx, &own)
}

// Forgot reports whether a round did not run because its server does not know the session, or the connection had ended
// before. Another session may have it.
func Forgot(s *client.Session, err error) bool {
	refused, ok := errors.AsType[*client.NotRunError](err)
	return ok && (refused.Status == http.StatusNotFound && s.SDK().ID() != "" ||
		refused.Status == 0 && errors.Is(err, mcp.ErrConnectionClosed))
}

// ConnectError says that no connection to a server could be made. Its text leaves out what each layer of the client
// adds, which nobody can act on.
type ConnectError struct{ Err error }

func (e *ConnectError) Error() string {
	if failed, ok := errors.AsType[*url.Error](e.Err); ok {
		return failed.Err.Error()
	}
	return layers.ReplaceAllString(e.Err.Error(), "")
}

func (e *ConnectError) Unwrap() error { return e.Err }

var layers = regexp.MustCompile(`^connecting: (calling "[^"]*": |sending "[^"]*": )*`)
