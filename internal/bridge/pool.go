package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/input"
)

// pool are the sessions in which tools of an older server are called. Nothing says which call a question inside a
// session belongs to, so each session has one call at a time. Callers share no sessions, because a server may remember
// who did what in one. A caller gets another session only while it has fewer than are free, so that some are left for
// others.
type pool struct {
	connect func(context.Context, *pooled) (*client.Session, error)
	most    int

	mu      sync.Mutex
	closed  bool
	idle    []*pooled      // the one that was used last is the last
	busy    map[string]int // calls by caller
	calls   int            // the sum of busy
	changed chan struct{}  // is closed when a session is given back
	ending  sync.WaitGroup
}

// sessions is how many sessions a pool has if nobody says it.
const sessions = 32

// poolTime bounds how long a call waits for a session. It is a variable for tests.
var poolTime = 5 * time.Second

// surplusTime is how long a session stays that its caller does not use, besides the one that was used last.
const surplusTime = time.Minute

// connectTime bounds the beginning of a session.
const connectTime = time.Minute

// sessionKind says which calls a session is for.
type sessionKind struct {
	caller string
	can    abilities // that the server was told of
}

// pooled is a session of a pool.
type pooled struct {
	*client.Session
	kind sessionKind
	over chan struct{} // is closed when the connection has ended
	used time.Time
	call atomic.Pointer[openCall] // that has the session, or nil
	// spoiled says that the server asked something while there was no call.
	spoiled   atomic.Bool
	cancelled bool // its last call was cancelled
}

func newPool(most int, connect func(context.Context, *pooled) (*client.Session, error)) *pool {
	if most <= 0 {
		most = sessions
	}
	return &pool{connect: connect, most: most, busy: make(map[string]int), changed: make(chan struct{})}
}

// fullError says that a caller has its share of the sessions.
type fullError struct{ busy, most int }

func (e *fullError) Error() string {
	return fmt.Sprintf("your share of the %d sessions of the bridge is in use (%d of them), perhaps by calls that wait "+
		"for an answer: answer or cancel one of them, or try again later", e.most, e.busy)
}

// take returns a session for one call. The error is a *fullError if none has become free for some time.
func (p *pool) take(ctx context.Context, kind sessionKind) (*pooled, error) {
	late := time.NewTimer(poolTime)
	defer late.Stop()
	for {
		s, changed, err := p.reserve(kind)
		if s != nil || err == nil {
			return p.begin(ctx, s, kind)
		}
		if _, full := errors.AsType[*fullError](err); !full {
			return nil, err
		}
		select {
		case <-changed:
		case <-late.C:
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// reserve counts a call. It returns an idle session, or nil if a new one is to be made; with an error, it counts
// nothing, and changed is closed when it is worth trying again.
func (p *pool) reserve(kind sessionKind) (s *pooled, changed <-chan struct{}, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errStops
	}
	if busy := p.busy[kind.caller]; busy >= p.most-p.calls {
		return nil, p.changed, &fullError{busy, p.most}
	}
	p.busy[kind.caller]++
	p.calls++
	for i, candidate := range slices.Backward(p.idle) {
		if candidate.kind == kind {
			p.idle = slices.Delete(p.idle, i, i+1)
			return candidate, nil, nil
		}
	}
	if len(p.idle)+p.calls > p.most { // there is at least one that nobody uses
		p.end(p.idle[0])
		p.idle = slices.Delete(p.idle, 0, 1)
	}
	return nil, nil, nil
}

// begin returns a session that was reserved, or makes one.
func (p *pool) begin(ctx context.Context, s *pooled, kind sessionKind) (*pooled, error) {
	if s != nil && s.usable() {
		return s, nil
	}
	if s != nil {
		p.mu.Lock()
		p.end(s)
		p.mu.Unlock()
	}
	s = &pooled{kind: kind, over: make(chan struct{})}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	var err error
	if s.Session, err = p.connect(ctx, s); err != nil {
		p.mu.Lock()
		p.free(kind.caller)
		p.mu.Unlock()
		return nil, &client.NotRunError{Err: err}
	}
	go func() {
		_ = s.SDK().Wait() // the next call learns the reason
		close(s.over)
	}()
	return s, nil
}

// usable reports whether a call can use the session.
func (s *pooled) usable() bool {
	select {
	case <-s.over:
		return false
	default:
		return !s.spoiled.Load()
	}
}

// give takes a session back after its call. A call that was cancelled may go on, and ask: its session is not used
// again.
func (p *pool) give(s *pooled, cancelled bool) {
	s.call.Store(nil)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free(s.kind.caller)
	if s.cancelled = cancelled; cancelled || !s.usable() || p.closed {
		p.end(s)
		return
	}
	s.used = time.Now()
	if slices.ContainsFunc(p.idle, func(other *pooled) bool { return other.kind == s.kind }) {
		time.AfterFunc(surplusTime, p.trim)
	}
	p.idle = append(p.idle, s)
}

// free ends the count of a call, with the lock held.
func (p *pool) free(caller string) {
	p.calls--
	if p.busy[caller]--; p.busy[caller] == 0 {
		delete(p.busy, caller)
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// trim ends sessions that were not used for some time, except the last of each kind.
func (p *pool) trim() {
	p.mu.Lock()
	defer p.mu.Unlock()
	newest := make(map[sessionKind]*pooled)
	for _, s := range p.idle {
		newest[s.kind] = s
	}
	p.idle = slices.DeleteFunc(p.idle, func(s *pooled) bool {
		surplus := newest[s.kind] != s && time.Since(s.used) >= surplusTime || !s.usable()
		if surplus {
			p.end(s)
		}
		return surplus
	})
}

// end ends a session without waiting for it, with the lock held. The SDK tells the server behind the caller's back that
// a call was cancelled, which takes a moment.
func (p *pool) end(s *pooled) {
	p.ending.Go(func() {
		if s.cancelled {
			select {
			case <-s.over:
			case <-time.After(cancelTime):
			}
		}
		_ = s.Close()
	})
}

// cancelTime is how long the notice that a call was cancelled may take.
const cancelTime = time.Second

// close ends all sessions that have no call, and waits for those that end.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	for _, s := range p.idle {
		p.end(s)
	}
	p.idle = nil
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	p.ending.Wait()
}

// errNoCall refuses what a server asks outside of the calls of its tools.
var errNoCall = errors.New("the bridge passes on a server's questions only while one of its tools is called")

// ask passes a question of the server on to the call that has the session.
func (s *pooled) ask(ctx context.Context, q *client.Question) (answer, error) {
	c := s.call.Load()
	if c == nil {
		s.spoiled.Store(q.Method != input.MethodListRoots) // which servers ask for when a session begins
		return answer{}, errNoCall
	}
	return c.ask(ctx, q)
}

// options are the client's options for a session in which the server is told of what its caller can be asked.
func (s *pooled) options(base client.Options, can abilities) client.Options {
	elicit := func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		a, err := s.ask(ctx, q)
		return a.elicited, err
	}
	if can.form {
		base.Form = elicit
	}
	if can.url {
		base.URL = elicit
	}
	if base.SampleTools = can.tools; can.sampling {
		base.Sample = func(ctx context.Context, q *client.Question,
			_ *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			a, err := s.ask(ctx, q)
			return a.sampled, err
		}
	}
	if can.roots {
		base.Roots = func(ctx context.Context) ([]*mcp.Root, error) {
			a, err := s.ask(ctx, &client.Question{Key: input.MethodListRoots, Method: input.MethodListRoots})
			return a.roots, err
		}
	}
	base.Limits.CallTTL = atRest // the task of a call ends it long before
	return base
}
