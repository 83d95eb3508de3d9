package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// A session before 2026-07-28 does not say which of several open calls a question belongs to. So calls that may ask
// take turns in it, and all others run beside them at once:
//
//   - A tool whose call has succeeded without a question does not ask, as far as is known. One that has asked does.
//   - A call of a tool that is not known waits for its turn, too. As long as the server has never asked, it waits for a
//     moment only.
//   - If a question comes that several calls may have asked, it waits for a moment until one call is left, and then
//     goes to the one whose arguments it names, or that came first. All of them are calls of one caller.

// The bounds of a wait for the turn.
const (
	settleTime = 2 * time.Second // while the server has never asked
	turnTime   = time.Minute     // for a call that does not wait for an answer
	ownerTime  = time.Second     // until it is clear who asks
)

// habits are what is known of the tools of a server.
type habits struct {
	mu    sync.Mutex
	asked bool            // the server has asked
	asks  map[string]bool // false for a tool whose calls have succeeded without a question
}

// loud reports whether a call of the tool may ask.
func (h *habits) loud(tool string, can abilities) bool {
	if tool == "" || !can.form && !can.url && !can.sampling {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	asks, known := h.asks[tool]
	return asks || !known
}

// note notes that a tool has asked, or has succeeded without that.
func (h *habits) note(tool string, asks bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asks == nil {
		h.asks = make(map[string]bool)
	}
	h.asks[tool] = h.asks[tool] || asks
	h.asked = h.asked || asks
}

func (h *habits) serverAsks() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

// busyUntil returns until when a call that came at began waits for its turn in the session, and what its caller is told
// if it has not come by then, with the pool's lock held. A nil error means that the call is then made anyway.
func (s *pooled) busyUntil(loud bool, began time.Time) (until time.Time, err error) {
	switch open := s.awaited(); {
	case s.users >= mostTogether:
		return began.Add(poolTime), fmt.Errorf("not sent: %d calls are in progress in its session, try again later", s.users)
	case !loud || s.loud == 0:
		return time.Time{}, nil
	case open != nil:
		if open.asked.After(began) {
			began = open.asked
		}
		return began.Add(poolTime), fmt.Errorf("not sent: the answer to %q is awaited: answer it, or cancel that call",
			about(open.Question))
	case !s.pool.habits.serverAsks():
		return began.Add(settleTime), nil
	}
	return began.Add(turnTime), errors.New("not sent: another call that may ask is in progress, try again later")
}

// awaited returns a question of the session that has no answer, or nil.
func (s *pooled) awaited() *openQuestion {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		if q := c.awaited(); q != nil {
			return q
		}
	}
	return nil
}

// join lets a call get the questions of the session.
func (s *pooled) join(c *openCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	close(s.changed)
	s.changed = make(chan struct{})
}

// leave ends that.
func (s *pooled) leave(c *openCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = slices.DeleteFunc(s.calls, func(other *openCall) bool { return other == c })
	close(s.changed)
	s.changed = make(chan struct{})
}

// errNoCall refuses what a server asks outside of the calls of its tools.
var errNoCall = errors.New("the bridge passes on a server's questions only while one of its tools is called")

// ask passes a question of the server on to its call. One that has come to the wrong call goes to another one when that
// has ended.
func (s *pooled) ask(ctx context.Context, q *client.Question) (answer, error) {
	for {
		c, sure, err := s.owner(ctx, q)
		if err != nil {
			if s.pool != nil && s.pool.apart && q.Method != input.MethodListRoots { // the session of lists has no pool
				s.spoiled.Store(true)
			}
			return answer{}, err
		}
		asked, err := c.add(q, sure)
		if q.Method != input.MethodListRoots {
			s.pool.asked(c.seat.Load())
		}
		var a answer
		if err == nil {
			a, err = c.await(ctx, asked)
		}
		s.mu.Lock()
		c.owns--
		s.mu.Unlock()
		if !errors.Is(err, errMoves) {
			return a, err
		}
	}
}

// asked notes that a call has asked.
func (p *pool) asked(s *seat) {
	p.habits.note(s.tool, true)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !s.loud {
		s.loud = true
		s.pooled.loud++
	}
	p.change()
}

// askerKey is the key of the *openCall whose error asks a question. It is nil for what is no call of a tool.
type askerKey struct{}

// owner waits until it is clear which call a question belongs to, for a bounded time.
func (s *pooled) owner(ctx context.Context, q *client.Question) (c *openCall, sure bool, err error) {
	s.mu.Lock()
	if c, known := ctx.Value(askerKey{}).(*openCall); known {
		defer s.mu.Unlock()
		if c == nil {
			return nil, false, errNoCall
		}
		c.owns++
		return c, true, nil
	}
	s.waiting = append(s.waiting, q)
	s.mu.Unlock()
	late := time.NewTimer(ownerTime)
	defer late.Stop()
	for guess := false; ; {
		s.mu.Lock()
		var atOnce bool
		c, atOnce = s.pick(q)
		sure = len(s.calls) == 1 || q.Method == input.MethodListRoots // a tool that has never asked may do so
		changed := s.changed
		if c == nil || atOnce || guess || ctx.Err() != nil {
			s.waiting = slices.DeleteFunc(s.waiting, func(other *client.Question) bool { return other == q })
			if c != nil {
				c.owns++
			}
			s.mu.Unlock()
			if c == nil {
				err = errNoCall
			}
			return c, sure, err
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-late.C:
			guess = true
		case <-ctx.Done():
		}
	}
}

// pick returns the call that a question most likely belongs to, and whether there is nothing to wait for, with the lock
// held. It returns nil if there is no call.
func (s *pooled) pick(q *client.Question) (c *openCall, atOnce bool) {
	may := keep(s.calls, func(c *openCall) bool { return s.pool.habits.loud(c.seat.Load().tool, s.kind.can) })
	if len(may) == 0 {
		return nil, false
	}
	if len(may) == 1 || q.Method == input.MethodListRoots {
		return may[0], true
	}
	free := keep(may, func(c *openCall) bool { return c.owns == 0 })
	if named := keep(free, func(c *openCall) bool { return mentions(q.Params, c.params) }); len(named) == 1 {
		return named[0], false
	}
	return free[min(max(0, slices.Index(s.waiting, q)), len(free)-1)], false
}

// keep returns the calls of which something is so, or all if that is none.
func keep(calls []*openCall, is func(*openCall) bool) (kept []*openCall) {
	for _, c := range calls {
		if is(c) {
			kept = append(kept, c)
		}
	}
	if kept == nil {
		return calls
	}
	return kept
}

// mentions reports whether a question has one of the texts among the arguments of a call.
func mentions(question, params json.RawMessage) bool {
	for _, value := range strictjson.Members(strictjson.Get(params, "arguments")) {
		if text := bytes.Trim(value, `"`); len(text) > 2 && len(text) < len(value) && bytes.Contains(question, text) {
			return true
		}
	}
	return false
}
