package call

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/bound"
)

// sessions are the SDK's sessions that hold something: those that clients before 2026-07-28 opened, until they end,
// and connections of whole messages as long as they have open requests.
type sessions struct {
	mu   sync.Mutex
	open map[*mcp.ServerSession]*openSession
	byID map[string]*openSession // those that were opened
	kept int                     // how many of these there were when the ended ones were last removed
}

// openSession is guarded by the mutex of sessions.
type openSession struct {
	*mcp.ServerSession
	principal string
	hold      bound.Hold // of Shares.Sessions, for one that was opened
	counted   bool       // hold is taken, and given back when the session ends
	slots     bound.Hold // of Shares.Streams, as many as need; of nothing on connections, which the operator opens
	announced int        // requests that HTTP requests which are being served have brought, or are about to
	calls     int        // open requests; those of an HTTP request that has ended stay open
	listening int        // open streams that its client reads
	used      time.Time  // when it last had any of these
}

func (s *openSession) need() int  { return max(s.announced, s.calls) }
func (s *openSession) idle() bool { return s.need() == 0 && s.listening == 0 }

// at returns the record of an SDK's session, which forget may remove.
func (s *sessions) at(ss *mcp.ServerSession) *openSession {
	if s.open == nil {
		s.open, s.byID = make(map[*mcp.ServerSession]*openSession), make(map[string]*openSession)
	}
	if s.open[ss] == nil {
		s.open[ss] = &openSession{ServerSession: ss}
	}
	return s.open[ss]
}

// forget removes a record that holds nothing.
func (s *sessions) forget(own *openSession) {
	if own.idle() && !own.counted {
		delete(s.open, own.ServerSession)
	}
}

// idlest returns the session of a principal that has been idle for longest, or nil.
func (s *sessions) idlest(principal string) (found *openSession) {
	for _, candidate := range s.open {
		if candidate.counted && candidate.principal == principal && candidate.idle() && (found == nil || candidate.used.Before(found.used)) {
			found = candidate
		}
	}
	return found
}

// end gives back the share of a session, once.
func (s *sessions) end(own *openSession) {
	if !own.counted {
		return
	}
	own.counted = false
	own.hold.Release()
	delete(s.byID, own.ID())
	s.forget(own)
}

// endAll ends those that the SDK has no longer. Nobody tells when that happens: to wait for it takes a goroutine a
// session.
func (s *sessions) endAll(live iter.Seq[*mcp.ServerSession]) {
	ended := maps.Clone(s.byID)
	for ss := range live {
		delete(ended, ss.ID())
	}
	for _, own := range ended {
		s.end(own)
	}
	s.kept = len(s.byID)
}

// open takes the share of a session that a principal opens. To make room it ends the principal's session that
// has been idle for longest: its client gets to know by 404, and opens another one.
func (g *Gate) open(ctx context.Context, ss *mcp.ServerSession, principal string) error {
	s := &g.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.at(ss)
	if own.counted {
		return nil // it is initialized again, which the SDK refuses
	}
	if few := 16; len(s.byID) >= few+2*s.kept { // so that those that have ended are not kept for long
		s.endAll(g.Live())
	}
	hold, err := g.Shares.Sessions.Take(principal, 1)
	if err != nil {
		s.endAll(g.Live())
		hold, err = g.Shares.Sessions.Take(principal, 1)
	}
	if err != nil {
		idle := s.idlest(principal)
		if idle == nil {
			s.forget(own)
			return g.full(ctx, err)
		}
		s.end(idle)
		go idle.Close() // which waits for a request that comes at this moment
		if hold, err = g.Shares.Sessions.Take(principal, 1); err != nil {
			s.forget(own)
			return g.full(ctx, err)
		}
	}
	own.slots, _ = g.Shares.Streams.Take(principal, 0)
	own.principal, own.hold, own.counted, own.used = principal, hold, true, time.Now()
	s.byID[ss.ID()] = own
	return nil
}

// take adds n to a count of a session.
func (g *Gate) take(ctx context.Context, own *openSession, count *int, n int) error {
	*count += n
	var err error
	if own.need() > g.Limits.SessionCalls {
		reason := fmt.Sprintf("the limit of %d open requests of one session is reached: wait for the response to one", g.Limits.SessionCalls)
		err = &CrowdedError{&UnavailableError{reason, retryAfter}}
	} else {
		err = g.full(ctx, own.slots.Resize(own.need()))
	}
	if err != nil {
		*count -= n
		g.sessions.forget(own)
	}
	return err
}

// give takes n off a count of a session.
func (g *Gate) give(own *openSession, count *int, n int) {
	g.sessions.mu.Lock()
	defer g.sessions.mu.Unlock()
	*count -= n
	_ = own.slots.Resize(own.need()) // to give back succeeds
	own.used = time.Now()
	g.sessions.forget(own)
}

// Announce takes what n requests of a session will hold, before the HTTP request that brings them starts a goroutine
// for each.
func (g *Gate) Announce(ctx context.Context, sessionID string, n int) (release func(), err error) {
	s := &g.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.byID[sessionID]
	if own == nil {
		return func() {}, nil // the SDK knows of no such session, either
	}
	if err := g.take(ctx, own, &own.announced, n); err != nil {
		return nil, err
	}
	return func() { g.give(own, &own.announced, n) }, nil
}

// Hold takes what a request of a session, or of a connection of whole messages, holds while it is open, with
// parameters of that many bytes.
func (g *Gate) Hold(ctx context.Context, ss *mcp.ServerSession, size int) (release func(), err error) {
	s := &g.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.at(ss)
	if err := g.take(ctx, own, &own.calls, 1); err != nil {
		return nil, err
	}
	body, err := g.Shares.BodyBytes.Take(own.principal, size)
	if err != nil {
		own.calls--
		_ = own.slots.Resize(own.need()) // to give back succeeds
		s.forget(own)
		return nil, g.full(ctx, err)
	}
	return func() {
		body.Release()
		g.give(own, &own.calls, 1)
	}, nil
}

// Listen keeps a session, for as long as its client reads a stream of it, from being ended as an idle one.
func (g *Gate) Listen(sessionID string) (release func()) {
	s := &g.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.byID[sessionID]
	if own == nil {
		return func() {}
	}
	own.listening++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		own.listening--
		own.used = time.Now()
		s.forget(own)
	}
}
