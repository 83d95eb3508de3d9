package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// Send sends one round of a call and returns what came back: the result as the server sent it, or what the call waits
// for. It is for programs that pass a server's questions on, and calls no handlers. The first round takes a Pending
// with Method, Params and Meta; every further one takes the Pending that the round before returned, with an answer to
// each of its questions in Answers. Send sends a round without questions again by itself.
//
// When the call has become a task, the Pending has its TaskID, and perhaps no questions. Send then gives the task the
// answers, and waits until it asks again or has ended. To send such a Pending again does no harm.
//
// The server may ask what Meta declares under mcp.MetaKeyClientCapabilities, in place of the questions that the client
// has handlers for. Whether a question was declared is for the caller of Send to check. Errors are as for
// [Session.CallTool]; the call that a *[PendingError] holds can be sent again. In a session before 2026-07-28 servers
// ask the client's handlers.
func (s *Session) Send(ctx context.Context, p *Pending) (result json.RawMessage, next *Pending, err error) {
	for _, q := range p.Questions {
		if _, answered := p.Answers[q.Key]; !answered {
			return nil, nil, fmt.Errorf("the question %q has no answer", q.Key)
		}
	}
	if p.TaskID != "" {
		w, err := s.awaitPending(p)
		if err != nil {
			return nil, nil, err
		}
		w.bare = true
		_, err = w.run(ctx)
		return w.outcome(err)
	}
	c, err := s.newBareCall(p)
	if err != nil {
		return nil, nil, fmt.Errorf("not a pending call: %w", err)
	}
	if c.bare = true; p.Round > 0 {
		c.pending, c.round, c.trace.text = p, p.Round, p.Trace
		c.pause = c.nextPause(p)
	}
	ctx, leave := c.begin(ctx)
	defer leave()
	if err := c.sendBare(ctx); err != nil {
		return nil, nil, cmp.Or(context.Cause(ctx), err)
	}
	switch {
	case c.result != nil:
		return c.result, nil, nil
	case c.became != nil:
		return nil, c.awaitTask().pending(), nil
	}
	return nil, c.pending, nil
}

// newBareCall is newCall for parameters that go past the SDK as they are: a call may be large, and is passed on often.
func (s *Session) newBareCall(p *Pending) (c *call, err error) {
	if s.direct == nil || !wire.MayAsk(p.Method) {
		return s.newCall(p.Method, p.Params, p.Meta)
	}
	if err := strictjson.Check(p.Params, s.opts.Limits.Depth); err != nil {
		return nil, err
	}
	c = &call{Session: s, method: p.Method, params: p.Params}
	for name, value := range strictjson.Members(p.Params) {
		switch string(name) {
		case wire.TargetMember(p.Method):
			c.target, _ = strictjson.String(value)
		case "arguments":
			c.arguments = value
		case "task", "_meta":
			return s.newCall(p.Method, p.Params, p.Meta)
		}
	}
	if c.target == "" || strictjson.TypeOf(p.Params) != strictjson.TypeObject {
		return nil, fmt.Errorf("the parameters of %s have no %s", p.Method, wire.TargetMember(p.Method))
	}
	c.sent, err = s.direct.withMeta(bytes.TrimSpace(p.Params), p.Meta)
	return c, err
}

// sendBare sends rounds until there is a result, a task, or a question.
func (c *call) sendBare(ctx context.Context) error {
	if err := c.negotiate(ctx); err != nil {
		return err
	}
	for {
		_, err := c.exchange(ctx)
		if err != nil || c.result != nil || c.became != nil || len(c.pending.Questions) > 0 && c.refusal == nil {
			return err
		}
	}
}

// outcome returns how the waiting for a task ended, without its typed result.
func (w *await) outcome(err error) (json.RawMessage, *Pending, error) {
	if parked, ok := errors.AsType[*PendingError](err); ok && errors.Is(err, ErrPark) {
		return nil, parked.Pending, nil
	}
	return w.result, nil, err
}
