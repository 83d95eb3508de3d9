package legacy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/askback-mcp/askback/bridge/internal/upstream"
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
//   - A question goes to the only call that is open, or the only one whose arguments it names. If there are several, it
//     waits for a moment until one is left, and is then refused: nobody sees the question of another call.

// The bounds of a wait for the turn.
const (
	settleTime = 2 * time.Second  // while the server has never asked
	turnTime   = time.Minute      // for a call that does not wait for an answer
	ownerTime  = 10 * time.Second // until it is clear who asks
)

// busyUntil returns until when a call that came at began waits for its turn in the session, and what its caller is told
// if it has not come by then, with the pool's lock held. A nil error means that the call is then made anyway.
func (s *pooled) busyUntil(loud bool, began time.Time) (until time.Time, err error) {
	switch open, name := s.awaited(); {
	case s.users >= mostTogether:
		return began.Add(s.pool.wait),
			fmt.Errorf("not sent: %d calls are in progress in its session, try again later", s.users)
	case !loud || s.loud == 0:
		return time.Time{}, nil
	case open != nil:
		if open.asked.After(began) {
			began = open.asked
		}
		way := "answer it, or cancel that call"
		if name != "" {
			way += fmt.Sprintf("; askback_result with the name %q asks it again", name)
		}
		return began.Add(s.pool.wait), fmt.Errorf("not sent: the answer to %q is awaited: %s", label(open.Question), way)
	case !s.pool.habits.serverAsks():
		return began.Add(settleTime), nil
	}
	return began.Add(turnTime), errors.New("not sent: another call that may ask is in progress, try again later")
}

// awaited returns a question of the session that has no answer, or nil, and the name of its call.
func (s *pooled) awaited() (q *openQuestion, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, at := range s.calls {
		if q, name := at.call.awaited(); q != nil {
			return q, name
		}
	}
	return nil, ""
}

// join lets the call of a place get the questions of the session.
func (s *seat) join(c *openCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call = c
	s.calls = append(s.calls, s)
	close(s.changed)
	s.changed = make(chan struct{})
}

// leave ends that.
func (s *seat) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = slices.DeleteFunc(s.calls, func(other *seat) bool { return other == s })
	close(s.changed)
	s.changed = make(chan struct{})
}

// ask passes a question of the server on to its call.
func (s *pooled) ask(ctx context.Context, q *client.Question) (upstream.Answer, error) {
	at, err := s.owner(ctx, q)
	if err != nil {
		if s.pool.apart && q.Method != input.MethodListRoots {
			s.spoiled.Store(true)
		}
		return upstream.Answer{}, err
	}
	asked, err := at.call.add(q)
	if q.Method != input.MethodListRoots {
		s.pool.asked(at)
	}
	if err != nil {
		return upstream.Answer{}, err
	}
	a, err := at.call.await(ctx, asked)
	return a.Answer, err
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

// askerKey is the key of the *seat of the call whose error asks a question. It is nil for what is no call of a tool.
type askerKey struct{}

func withAsker(ctx context.Context, s *seat) context.Context {
	return context.WithValue(ctx, askerKey{}, s)
}

// owner waits until it is clear which call a question belongs to, for a bounded time. A call that has come later did
// not ask it, and neither did one that ends meanwhile.
func (s *pooled) owner(ctx context.Context, q *client.Question) (*seat, error) {
	if at, known := ctx.Value(askerKey{}).(*seat); known {
		if at == nil {
			return nil, upstream.ErrNoCall
		}
		return at, nil
	}
	s.mu.Lock()
	may := slices.Clone(s.calls)
	s.mu.Unlock()
	late := time.NewTimer(ownerTime)
	defer late.Stop()
	for {
		s.mu.Lock()
		may = slices.DeleteFunc(may, func(at *seat) bool { return !slices.Contains(s.calls, at) })
		changed := s.changed
		s.mu.Unlock()
		named := slices.DeleteFunc(slices.Clone(may), func(at *seat) bool { return !mentions(q.Params, at.call.params) })
		switch {
		case len(may) == 0:
			return nil, upstream.ErrNoCall
		case len(may) == 1 || q.Method == input.MethodListRoots:
			return may[0], nil
		case len(named) == 1:
			return named[0], nil
		}
		select {
		case <-changed:
		case <-late.C:
			return nil, ambiguous(q, may)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// ambiguous refuses a question that several calls may have asked.
func ambiguous(q *client.Question, may []*seat) error {
	var tools []string
	for _, at := range may {
		tools = append(tools, strconv.Quote(at.tool))
	}
	return fmt.Errorf("nobody was asked %q: calls of %s are in progress in one session, and any of them may ask it; call "+
		"the tool again when the others have ended, or give each call a session", label(q), strings.Join(tools, ", "))
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
