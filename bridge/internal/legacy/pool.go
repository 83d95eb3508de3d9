package legacy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/bridge/internal/upstream"
	"github.com/askback-mcp/askback/client"
)

// pool are the sessions in which callers use an older server. A caller has one session for everything, because a
// server may remember in it what the caller did, and callers share none. See turns.go for the calls at once. A caller
// gets another session, for other abilities, only while it has fewer than are free, so that some are left for
// others.
type pool struct {
	connect func(context.Context, *pooled) (*client.Session, error)
	most    int
	apart   bool // each call has a session of its own
	habits  habits
	wait    time.Duration   // that a call waits for a session
	life    context.Context // ends with close
	stop    context.CancelFunc

	mu      sync.Mutex
	closed  bool
	idle    []*pooled               // the one that was used last is the last
	shared  map[sessionKind]*pooled // those in use that take further calls
	busy    map[string]int          // sessions in use by caller
	inUse   int                     // the sum of busy
	changed chan struct{}           // is closed when something changes that a call may wait for
	ending  sync.WaitGroup
}

// mostTogether is how many calls one session has at once.
const mostTogether = 64

// surplusTime is how long a session stays that its caller does not use, besides the one that was used last.
const surplusTime = time.Minute

// connectTime bounds the beginning of a session.
const connectTime = time.Minute

// sessionKind says which calls a session is for.
type sessionKind struct {
	caller string
	can    upstream.Abilities // that the server was told of
}

// pooled is a session of a pool.
type pooled struct {
	*client.Session // once ready is closed, without err
	pool            *pool
	kind            sessionKind
	ready           chan struct{}
	err             error         // why the session could not begin
	over            chan struct{} // is closed when the connection has ended
	spoiled         atomic.Bool   // it takes no further calls

	// Under the pool's lock.
	used      time.Time
	users     int  // calls, and other requests
	loud      int  // calls of them that may ask
	cancelled bool // its last call was cancelled

	mu      sync.Mutex
	calls   []*seat       // in the order in which their calls came
	changed chan struct{} // is closed when calls changes
}

// seat is the place of a call in a session.
type seat struct {
	*pooled
	tool string // empty for a request that is no call of a tool
	loud bool   // under the pool's lock
	call *openCall
}

func newPool(
	most int, apart bool, wait time.Duration, connect func(context.Context, *pooled) (*client.Session, error),
) *pool {
	p := &pool{connect: connect, most: most, apart: apart, wait: wait, busy: make(map[string]int),
		shared: make(map[sessionKind]*pooled), changed: make(chan struct{})}
	p.life, p.stop = context.WithCancel(context.Background())
	return p
}

// fullError says that a caller has its share of the sessions.
type fullError struct{ busy, most int }

func (e *fullError) Error() string {
	return fmt.Sprintf("your share of the %d sessions of the bridge is in use (%d of them), perhaps by calls that wait "+
		"for an answer: answer or cancel one of them, or try again later", e.most, e.busy)
}

// wait lets a call wait for a change of the pool, until a time.
type wait struct {
	changed <-chan struct{}
	until   time.Time
}

// take returns the place of a call, or of another request if tool is empty, in a session. It waits for one for a
// bounded time.
func (p *pool) take(ctx context.Context, kind sessionKind, tool string) (*seat, error) {
	for began := time.Now(); ; {
		s, w, err := p.reserve(kind, tool, began)
		if s != nil {
			return p.awaitSession(ctx, s)
		}
		if err != nil {
			return nil, err
		}
		late := time.NewTimer(time.Until(w.until))
		select {
		case <-w.changed:
		case <-late.C:
		case <-ctx.Done():
			late.Stop()
			return nil, context.Cause(ctx)
		}
		late.Stop()
	}
}

// reserve finds a place for a call that has waited since began. It returns what the call waits for if there is none.
func (p *pool) reserve(kind sessionKind, tool string, began time.Time) (*seat, *wait, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errStops
	}
	loud := p.habits.loud(tool, kind.can)
	if s := p.shared[kind]; s != nil && s.usable() {
		if until, err := s.busyUntil(loud, began); until.After(time.Now()) {
			return nil, &wait{p.changed, until}, nil
		} else if err != nil {
			return nil, nil, err
		}
		return s.sit(tool, loud), nil, nil
	}
	if busy := p.busy[kind.caller]; busy >= p.most-p.inUse {
		if until := began.Add(p.wait); until.After(time.Now()) {
			return nil, &wait{p.changed, until}, nil
		}
		return nil, nil, &fullError{busy, p.most}
	}
	p.busy[kind.caller]++
	p.inUse++
	s := p.unused(kind)
	if s == nil {
		s = &pooled{pool: p, kind: kind, ready: make(chan struct{}), over: make(chan struct{}), changed: make(chan struct{})}
		p.ending.Go(s.begin)
	}
	if !p.apart {
		p.shared[kind] = s
	}
	return s.sit(tool, loud), nil, nil
}

// sit adds a user of the session, with the pool's lock held.
func (s *pooled) sit(tool string, loud bool) *seat {
	s.users++
	if loud {
		s.loud++
	}
	return &seat{pooled: s, tool: tool, loud: loud}
}

// unused takes an idle session, with the lock held. If there is none, there is room for one afterwards.
func (p *pool) unused(kind sessionKind) *pooled {
	for i, candidate := range slices.Backward(p.idle) {
		if candidate.kind == kind {
			p.idle = slices.Delete(p.idle, i, i+1)
			if candidate.usable() {
				return candidate
			}
			p.end(candidate)
		}
	}
	if len(p.idle)+p.inUse > p.most { // there is at least one that nobody uses
		p.end(p.idle[0])
		p.idle = slices.Delete(p.idle, 0, 1)
	}
	return nil
}

// begin begins the session, for all who wait for it.
func (s *pooled) begin() {
	defer close(s.ready)
	ctx, cancel := context.WithTimeout(s.pool.life, connectTime)
	defer cancel()
	if s.Session, s.err = s.pool.connect(ctx, s); s.err != nil {
		s.spoiled.Store(true)
		return
	}
	go func() {
		_ = s.SDK().Wait() // the next call learns the reason
		close(s.over)
	}()
}

// awaitSession waits until the session of a place has begun.
func (p *pool) awaitSession(ctx context.Context, s *seat) (*seat, error) {
	select {
	case <-s.ready:
	case <-ctx.Done():
		p.give(s, false)
		return nil, context.Cause(ctx)
	}
	if s.err != nil {
		p.give(s, false)
		return nil, &client.NotRunError{Err: s.err}
	}
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

// give takes a place back. A call that was cancelled may go on, and ask: where each call has a session of its own, that
// one is not used again.
func (p *pool) give(s *seat, cancelled bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.users--; s.loud {
		s.pooled.loud--
	}
	defer p.change()
	if s.users > 0 {
		return
	}
	p.free(s.kind.caller)
	if p.shared[s.kind] == s.pooled {
		delete(p.shared, s.kind)
	}
	if s.cancelled = cancelled && p.apart; s.cancelled || !s.usable() || p.closed {
		p.end(s.pooled)
		return
	}
	s.used = time.Now()
	if slices.ContainsFunc(p.idle, func(other *pooled) bool { return other.kind == s.kind }) {
		time.AfterFunc(surplusTime, p.trim)
	}
	p.idle = append(p.idle, s.pooled)
}

// free ends the use of a session, with the lock held.
func (p *pool) free(caller string) {
	p.inUse--
	if p.busy[caller]--; p.busy[caller] == 0 {
		delete(p.busy, caller)
	}
}

// change wakes those who wait for something, with the lock held.
func (p *pool) change() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// current returns the session that a caller used last, or nil. With only, it returns nil if there are other callers.
func (p *pool) current(caller string, only bool) (last *client.Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.apart {
		return nil
	}
	all := slices.Concat(p.idle, slices.Collect(maps.Values(p.shared)))
	for _, s := range all {
		select {
		case <-s.ready:
		default:
			continue
		}
		if only && s.kind.caller != all[0].kind.caller {
			return nil
		}
		if s.usable() && (only || s.kind.caller == caller) {
			last = s.Session
		}
	}
	return last
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
	begin := p.ending.Go
	if p.closed { // a call that gives its place back later than that is not waited for
		begin = func(end func()) { go end() }
	}
	begin(func() {
		if <-s.ready; s.err != nil {
			return
		}
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
	p.stop()
	p.mu.Lock()
	for _, s := range p.idle {
		p.end(s)
	}
	p.idle, p.closed = nil, true
	p.change()
	p.mu.Unlock()
	p.ending.Wait()
}
