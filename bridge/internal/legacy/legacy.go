// Package legacy passes calls on to servers before the revision 2026-07-28, which ask inside their open calls.
//
// The call lives in this process (opencall.go), in its caller's session (pool.go, turns.go), and its task runs here
// again and again (call.go):
//
//  1. The journal says that the call begins, and which process has it.
//  2. Each question of the server is recorded, and asked.
//  3. The open call gets the answers, and asks again or ends. Its result is recorded.
//
// A process that does not have the open call leaves the task to the one that does, for as long as that lives.
package legacy

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/bridge/internal/calls"
	"github.com/askback-mcp/askback/bridge/internal/upstream"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/wire"
)

// Options configure [Sessions].
type Options struct {
	// Conn is the server.
	Conn *upstream.Conn
	// Most bounds the sessions of all callers. Zero means 32.
	Most int
	// Apart gives each call of a tool a session of its own.
	Apart bool
	// Instance tells this process from others.
	Instance string
	// Lease is how long a process that is gone keeps a stored call.
	Lease time.Duration
	// Times replace how long something is waited for, unless they are zero.
	Times Times
}

// Times are for tests.
type Times struct {
	Pool   time.Duration // that a call waits for a session
	Holder time.Duration // that the process with an open call may take to go on with a task that is due
	Watch  time.Duration // between two looks at the task of an open call
}

// Sessions are the sessions that callers have at one server, with the calls that are open in them. They are safe for
// concurrent use.
type Sessions struct {
	conn     *upstream.Conn
	instance string
	// holder is how long a process that has an open call may take to go on with a task that is due, before others believe
	// that it is gone.
	holder     time.Duration
	pool       *pool
	calls      *openCalls
	waited     calls.Handoffs
	subscribed subscriptions
}

// New returns no session: they begin with their callers' calls.
func New(opts Options) *Sessions {
	s := &Sessions{conn: opts.Conn, instance: opts.Instance, holder: cmp.Or(opts.Times.Holder, 6*opts.Lease),
		calls: newOpenCalls(cmp.Or(opts.Times.Watch, time.Second))}
	s.pool = newPool(cmp.Or(max(opts.Most, 0), 32), opts.Apart, cmp.Or(opts.Times.Pool, 5*time.Second), s.begin)
	return s
}

// begin makes the connection of a session.
func (s *Sessions) begin(ctx context.Context, p *pooled) (*client.Session, error) {
	opts := s.conn.ClientOptions(p.kind.can, p.ask)
	session, err := s.conn.Begin(ctx, client.New(&opts))
	if err != nil {
		return session, err
	}
	if !upstream.IsLegacy(session) {
		s.conn.LeaveLegacy()
		return nil, errors.Join(calls.ErrModern, session.Close())
	}
	for _, uri := range s.subscribed.of(p.kind.caller) {
		_ = session.SDK().Subscribe(ctx, &mcp.SubscribeParams{URI: uri}) // the server's resource may be gone
	}
	return session, nil
}

// Current is the session that a caller has at an older server, or else the connection for everybody.
func (s *Sessions) Current(ctx context.Context, caller string) (*client.Session, error) {
	return s.session(ctx, caller, false)
}

// ForLists is the session that the only caller has at an older server, because what is listed may depend on what the
// caller did, or else the connection for everybody.
func (s *Sessions) ForLists(ctx context.Context) (*client.Session, error) {
	return s.session(ctx, "", true)
}

func (s *Sessions) session(ctx context.Context, caller string, only bool) (*client.Session, error) {
	if s.conn.Legacy() {
		if session := s.pool.current(caller, only); session != nil {
			return session, nil
		}
	}
	return s.conn.Session(ctx)
}

// Subscribe subscribes to a resource for a caller, whose later sessions subscribe to it again.
func (s *Sessions) Subscribe(ctx context.Context, caller, uri string) error {
	s.subscribed.add(caller, uri)
	session, err := s.Current(ctx, caller)
	if err != nil {
		return err
	}
	return session.SDK().Subscribe(ctx, &mcp.SubscribeParams{URI: uri})
}

// Send sends a round of a call. What is no call of a tool goes to its caller's session at an older server, which may
// remember in it what it is about.
func (s *Sessions) Send(
	ctx context.Context, c *calls.Call, round *client.Pending, report upstream.Progress,
) (result json.RawMessage, next *client.Pending, err error) {
	if c.Method != wire.CallTool && s.conn.Legacy() && !s.pool.apart {
		at, err := s.pool.take(ctx, kindOf(c), "")
		if err == nil {
			defer s.pool.give(at, false)
			own := *round
			own.Meta = sessionMeta(c)
			result, next, err = s.conn.SendIn(withAsker(ctx, nil), at.Session, &own, report)
			if !upstream.Forgot(at.Session, err) {
				return result, next, err
			}
			at.spoiled.Store(true)
		}
	}
	return s.conn.Send(ctx, round, report)
}

// Close ends the open calls and their sessions.
func (s *Sessions) Close() {
	s.calls.close()
	s.pool.close()
}

// kindOf returns the kind of session that a call needs. A read goes to the session in which its caller calls tools.
func kindOf(c *calls.Call) sessionKind {
	can, desk := c.Can(), c.Host.Principal() != ""
	can.Form, can.URL = can.Form || desk, can.URL || desk
	return sessionKind{c.Host.Principal(), can}
}

// sessionMeta is the _meta of a call in a session. It outlives the request.
func sessionMeta(c *calls.Call) mcp.Meta {
	meta := c.RequestMeta(false)
	delete(meta, mcp.MetaKeyClientCapabilities) // the session has told them
	for name, value := range meta {
		if encoded, ok := value.(json.RawMessage); ok {
			meta[name] = bytes.Clone(encoded)
		}
	}
	return meta
}

// subscriptions are the resources that callers have subscribed to. A caller's later sessions subscribe to them again.
// The zero value is ready to use.
type subscriptions struct {
	mu  sync.Mutex
	all map[string][]string // URIs by caller
}

// mostSubscriptions bounds the subscriptions of one caller.
const mostSubscriptions = 256

func (s *subscriptions) add(caller, uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[string][]string)
	}
	if uris := s.all[caller]; len(uris) < mostSubscriptions && !slices.Contains(uris, uri) {
		s.all[caller] = append(uris, uri)
	}
}

// of returns the subscriptions of a caller.
func (s *subscriptions) of(caller string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all[caller])
}
