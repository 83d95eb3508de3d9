package gate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"reflect"
	"runtime"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/fault"
)

// Sessions are the SDK's sessions that hold something: those that clients before 2026-07-28 opened, until they end,
// and connections of whole messages as long as they have open requests. They are safe for concurrent use.
type Sessions struct {
	Shares *Shares
	Calls  int                                 // open requests of one session
	Live   func() iter.Seq[*mcp.ServerSession] // yields the sessions that have not ended

	owners sync.Map // the principals of those who opened sessions, by the session's ID

	mu    sync.Mutex
	open  map[*mcp.ServerSession]*openSession
	byID  map[string]*openSession // the sessions that clients opened
	kept  int                     // the size of byID when ended sessions were last removed
	posts map[uintptr]*post       // by the address of their header, the only thing that the SDK passes on of them
}

// openSession is guarded by the mutex of Sessions.
type openSession struct {
	*mcp.ServerSession
	all       *Sessions
	principal string
	hold      bound.Hold // of Shares.Sessions, if a client opened the session; it waits while none of the calls works
	counted   bool       // hold is taken, and given back when the session ends
	announced int        // requests in the HTTP requests that are being served
	calls     map[*openCall]struct{}
	working   int // calls that do not wait
}

// post is an HTTP request with requests of a session. It stays open until they are answered. It is guarded by the mutex
// of sessions.
type post struct {
	stream  *bound.Hold // of Shares.Streams
	waiter  bound.Waiter
	calls   int // requests in it
	working int // requests that have begun, have not ended and do not wait
}

// openCall is an open request of a session, or of a connection of whole messages. Its HTTP request may have ended.
type openCall struct {
	own         *openSession
	post        *post // nil if it is not known
	slot, bytes bound.Hold
	cancel      context.CancelCauseFunc
	waits       int // what it waits for at once; guarded by the mutex of Sessions
}

func (s *openSession) idle() bool { return s.announced == 0 && len(s.calls) == 0 }

// at returns the record of an SDK's session, which forget may remove.
func (s *Sessions) at(ss *mcp.ServerSession) *openSession {
	if s.open == nil {
		s.open, s.byID = make(map[*mcp.ServerSession]*openSession), make(map[string]*openSession)
		s.posts = make(map[uintptr]*post)
	}
	if s.open[ss] == nil {
		s.open[ss] = &openSession{ServerSession: ss, all: s, calls: make(map[*openCall]struct{})}
	}
	return s.open[ss]
}

// forget removes a record that holds nothing.
func (s *Sessions) forget(own *openSession) {
	if own.idle() && !own.counted {
		delete(s.open, own.ServerSession)
	}
}

// end gives back the share of a session, once, and cancels its open calls.
func (s *Sessions) end(own *openSession, because error) {
	if !own.counted {
		return
	}
	own.counted = false
	own.hold.Release()
	for c := range own.calls {
		c.cancel(because)
	}
	delete(s.byID, own.ID())
	s.forget(own)
}

var errSessionEnded = errors.New("the session has ended")

// endAll ends those that the SDK has no longer. Nobody tells when that happens: to wait for it takes a goroutine a
// session.
func (s *Sessions) endAll(live iter.Seq[*mcp.ServerSession]) {
	ended := maps.Clone(s.byID)
	for ss := range live {
		delete(ended, ss.ID())
	}
	for _, own := range ended {
		s.end(own, errSessionEnded)
	}
	s.kept = len(s.byID)
}

// Open records that a principal opened a session, and takes the session's share. If there is no room, another session
// gives way: its client gets 404 and opens a new one.
func (s *Sessions) Open(ctx context.Context, ss *mcp.ServerSession, principal string) error {
	if err := s.take(ctx, ss, principal); err != nil {
		return err
	}
	s.owners.Store(ss.ID(), principal)
	runtime.AddCleanup(ss, func(id string) { s.owners.Delete(id) }, ss.ID())
	return nil
}

// Owns reports whether a principal opened a session. It is true if it is not known who opened the session.
func (s *Sessions) Owns(principal, sessionID string) bool {
	owner, known := s.owners.Load(sessionID)
	return !known || owner == principal
}

// take takes the share of a session that a principal opens.
func (s *Sessions) take(ctx context.Context, ss *mcp.ServerSession, principal string) error {
	hold, err := s.Shares.Take(ctx, s.Shares.Sessions, principal, 1)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.at(ss)
	if own.counted {
		hold.Release()
		return nil // it is initialized again, which the SDK refuses
	}
	if few := 16; len(s.byID) >= few+2*s.kept { // so that those that have ended are not kept for long
		s.endAll(s.Live())
	}
	own.principal, own.hold, own.counted = principal, hold, true
	if own.working == 0 {
		own.hold.Wait(own)
	}
	s.byID[ss.ID()] = own
	return nil
}

// GiveWay implements [bound.Waiter].
func (s *openSession) GiveWay(because *bound.FullError) {
	go func() { // ends when the session's handlers have returned
		s.all.mu.Lock()
		s.all.end(s, s.all.Shares.GaveWay(context.Background(), because))
		s.all.mu.Unlock()
		_ = s.Close()
	}()
}

// End cancels the open calls of a session and gives back its share. The SDK waits for these calls when it ends
// the session.
func (s *Sessions) End(sessionID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own := s.byID[sessionID]; own != nil {
		s.end(own, errSessionEnded)
	}
}

// crowded returns an error if a session has too many open requests.
func (s *Sessions) crowded(open int) error {
	if open <= s.Calls {
		return nil
	}
	reason := fmt.Sprintf("the limit of %d open requests of one session is reached: wait for the response to one", s.Calls)
	return &fault.CrowdedError{UnavailableError: &fault.UnavailableError{Reason: reason, RetryAfter: retryAfter}}
}

// Announce admits n requests of a session, before the HTTP request that brings them starts a goroutine for each. The
// sessionID is empty if they open a session. The stream is the HTTP request's share while it stays open; it waits when
// each of its requests waits or has ended.
func (s *Sessions) Announce(
	sessionID string, n int, header http.Header, stream *bound.Hold, w bound.Waiter,
) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.byID[sessionID]
	if own != nil {
		if err := s.crowded(max(own.announced+n, len(own.calls))); err != nil {
			return nil, err
		}
		own.announced += n
	}
	if s.posts == nil {
		s.posts = make(map[uintptr]*post)
	}
	key := reflect.ValueOf(header).Pointer()
	s.posts[key] = &post{stream, w, n, 0}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.posts, key)
		if own != nil {
			own.announced -= n
			s.forget(own)
		}
	}, nil
}

// Hold takes the shares of a request of a session, or of a connection of whole messages, for as long as it is open. The
// size of its parameters is in bytes, and header is the header of its HTTP request. The request uses the returned
// context from now on.
func (s *Sessions) Hold(
	ctx context.Context, ss *mcp.ServerSession, size int, header http.Header,
) (_ context.Context, release func(), err error) {
	c := new(openCall)
	ctx, c.cancel = context.WithCancelCause(ctx)
	if err := s.register(c, ss, header); err != nil {
		c.cancel(nil)
		return nil, nil, err
	}
	if ss.ID() != "" { // connections are opened by the operator
		c.slot, err = s.Shares.Take(ctx, s.Shares.Open, c.own.principal, 1)
		if err == nil && size > bound.Small {
			c.bytes, err = s.Shares.Take(ctx, s.Shares.OpenBytes, c.own.principal, size)
		}
	}
	if err != nil {
		c.end()
		return nil, nil, err
	}
	ctx, done := withHolder(ctx, s.Shares, c)
	return ctx, func() { done(); c.end() }, nil
}

// register counts a call in its session, unless the session has too many already.
func (s *Sessions) register(c *openCall, ss *mcp.ServerSession, header http.Header) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.own = s.at(ss)
	if header != nil {
		c.post = s.posts[reflect.ValueOf(header).Pointer()]
	}
	err := s.crowded(max(c.own.announced, len(c.own.calls)+1))
	if err != nil {
		s.forget(c.own)
		return err
	}
	if err := c.count(1); err != nil {
		_ = c.count(-1)
		s.forget(c.own)
		return s.Shares.GaveWay(context.Background(), err)
	}
	c.own.calls[c] = struct{}{}
	return nil
}

// end gives back the shares of the call.
func (c *openCall) end() {
	c.cancel(nil)
	c.slot.Release()
	c.bytes.Release()
	s := c.own.all
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(c.own.calls, c)
	if c.waits == 0 {
		_ = c.count(-1)
	}
	s.forget(c.own)
}

// count adds n to the working calls of the session and of the HTTP request. The error says that the session has given
// way.
func (c *openCall) count(n int) (err error) {
	own := c.own
	own.working += n
	switch {
	case !own.counted:
	case own.working == 0:
		own.hold.Wait(own)
	default:
		err = own.hold.Resume()
	}
	c.post.count(n)
	return err
}

func (p *post) count(n int) {
	if p == nil {
		return
	}
	if p.working += n; p.working <= 0 {
		p.stream.Wait(p.waiter)
	} else {
		_ = p.stream.Resume() // if it has given way the response is lost, and not the call
	}
}

// Wait implements [Holder].
func (c *openCall) Wait() {
	s := c.own.all
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.waits++; c.waits > 1 {
		return
	}
	c.slot.Wait(c)
	c.bytes.Wait(c)
	_ = c.count(-1)
}

// Leave implements [Holder]. The share of an HTTP request with other requests in it stays, and gives way.
func (c *openCall) Leave(w bound.Waiter) {
	s := c.own.all
	s.mu.Lock()
	defer s.mu.Unlock()
	c.slot.Release()
	c.slot = bound.Hold{}
	c.bytes.Wait(w)
	if c.waits++; c.waits > 1 {
		return
	}
	_ = c.count(-1)
	if c.post != nil && c.post.calls == 1 {
		c.post.stream.Release()
	}
}

// Resume implements [Holder].
func (c *openCall) Resume() error {
	s := c.own.all
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.waits--; c.waits > 0 {
		return nil
	}
	err := c.count(1)
	if c.slot == (bound.Hold{}) && c.own.counted { // given back by Leave; without room the call ends all the same
		c.slot, _ = s.Shares.Open.Take(c.own.principal, 1)
	}
	for _, hold := range []*bound.Hold{&c.slot, &c.bytes} {
		if gone := hold.Resume(); err == nil {
			err = gone
		}
	}
	if err = c.own.all.Shares.GaveWay(context.Background(), err); err != nil {
		c.cancel(err)
	}
	return err
}

// GiveWay implements [bound.Waiter].
func (c *openCall) GiveWay(because *bound.FullError) {
	c.cancel(c.own.all.Shares.GaveWay(context.Background(), because))
}
