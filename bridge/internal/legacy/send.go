package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/askback-mcp/askback/bridge/internal/calls"
	"github.com/askback-mcp/askback/bridge/internal/outcome"
	"github.com/askback-mcp/askback/bridge/internal/upstream"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// open calls the tool in its caller's session. Refused is the reason why it was not called. The error is
// calls.ErrModern if the server has no sessions any more.
func (c *call) open(ctx context.Context, key callKey) (open *openCall, refused *outcome.Record, err error) {
	if c.Gone.Load() {
		return nil, outcome.NoLongerOffered(c, 1), nil
	}
	at, err := c.pool.take(ctx, kindOf(c.Call), c.Name)
	if err == nil {
		pending := &client.Pending{Method: c.Method, Params: c.Params, Meta: sessionMeta(c.Call)}
		open, err = c.calls.open(key, pending.Params, func(ctx context.Context, open *openCall) *outcome.Record {
			return c.send(ctx, open, at, pending)
		})
		if err != nil {
			c.pool.give(at, false)
		}
	}
	if errors.Is(err, calls.ErrModern) {
		return nil, nil, calls.ErrModern
	}
	if err != nil {
		return nil, c.notMade(err), nil
	}
	return open, nil, nil
}

// notMade is the end of a call that was not made.
func (c *call) notMade(err error) *outcome.Record {
	notRun, ok := errors.AsType[*client.NotRunError](err)
	switch {
	case ok:
		return outcome.DidNotRun(c, 1, notRun)
	case c.Repeated():
		return outcome.DidNotRun(c, 1, &client.NotRunError{Err: err})
	}
	return outcome.Endf("The tool %q was not called: %v", c.Name, err)
}

// send makes the call at its place in a session, and gives the place back. If the server has forgotten the session
// before the call came, it is made in another one.
func (c *call) send(ctx context.Context, open *openCall, at *seat, pending *client.Pending) *outcome.Record {
	result, err := c.sendAt(ctx, open, at, pending)
	if upstream.Forgot(at.Session, err) {
		at.spoiled.Store(true)
		c.pool.give(at, false)
		if at, err = c.pool.take(ctx, at.kind, at.tool); err != nil {
			open.modern = errors.Is(err, calls.ErrModern)
			return c.explainEnd(open, c.notMade(err), nil)
		}
		result, err = c.sendAt(ctx, open, at, pending)
	}
	r := &outcome.Record{Result: result}
	if err != nil {
		refused, _ := errors.AsType[*client.NotRunError](err)
		r, err = outcome.Classify(ctx, c, 1, err)
		if spoils(at.Session, refused, err) && ctx.Err() == nil ||
			c.pool.apart && (err != nil || r.Words != "" || refused != nil) {
			at.spoiled.Store(true)
		}
	} else if at.loud && string(strictjson.Get(result, "isError")) != "true" {
		c.pool.habits.note(at.tool, false)
	}
	c.pool.give(at, ctx.Err() != nil)
	if ctx.Err() != nil {
		return &outcome.Record{Words: context.Cause(ctx).Error()}
	}
	if open.lost = err != nil; open.lost {
		c.Log.WarnContext(ctx, "bridge: a session with the server failed", "target", c.Name, "call", open.key.call,
			"error", errors.Unwrap(err))
	}
	return c.explainEnd(open, r, err)
}

// sendAt makes the call in a session, whose questions it may get meanwhile, and follows it if it is a task there.
func (c *call) sendAt(
	ctx context.Context, open *openCall, at *seat, pending *client.Pending,
) (result json.RawMessage, err error) {
	at.join(open)
	defer at.leave()
	ctx = withAsker(ctx, at)
	for next := pending; err == nil && next != nil; {
		result, next, err = c.conn.SendIn(ctx, at.Session, next, open)
	}
	return result, err
}

// spoils reports whether a session is not used again after an error: the connection to a program broke, or a server at
// a URL perhaps does not know the session.
func spoils(s *client.Session, refused *client.NotRunError, err error) bool {
	if refused != nil {
		return refused.Status == 0 || refused.Status == http.StatusBadRequest || refused.Status == http.StatusNotFound
	}
	return err != nil && s.SDK().ID() == ""
}

// explainEnd returns what becomes of a call that has ended in its session. A server that has given up waiting for an
// answer is said to have.
func (c *call) explainEnd(open *openCall, r *outcome.Record, err error) *outcome.Record {
	q := open.unanswered()
	if q == nil {
		if err != nil {
			return &outcome.Record{Words: outcome.Unknown(c, 1, errors.Unwrap(err))}
		}
		return r
	}
	reason := "the connection to it ended"
	switch {
	case err != nil:
	case r.Error != nil:
		reason = fmt.Sprintf("it answered with the error %q", truncate(r.Error.Message))
	case r.Words != "":
		reason = r.Words
	case string(strictjson.Get(r.Result, "isError")) == "true":
		reason = fmt.Sprintf("it answered %q", truncate(firstText(r.Result)))
	default:
		return r // it has a result without the answer
	}
	return outcome.Endf("The server of the tool %q did not wait any longer for the answer to %q, "+
		"after %v: %s. The tool may have run up to this question, and it was not called again.",
		c.Name, label(q.Question), time.Since(q.asked).Round(time.Second), reason)
}
