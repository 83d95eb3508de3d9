// Package rounds passes calls on by the revision 2026-07-28: each round is a request, and its answer is the result or
// what has to be asked before the next round. What must not be sent twice is stored before it is sent.
package rounds

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge/internal/calls"
	"github.com/askback-mcp/askback/bridge/internal/outcome"
	"github.com/askback-mcp/askback/bridge/internal/upstream"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/seal"
)

// Rounds is the way to a server by rounds.
type Rounds struct {
	// Keys seal what is kept of the server's state.
	Keys *seal.Ring
	// Send sends a round of a call to the server. Its progress goes to report, unless that is nil.
	Send func(ctx context.Context, c *calls.Call, round *client.Pending, report upstream.Progress) (
		result json.RawMessage, next *client.Pending, err error)
}

// mostCarried bounds what the host of a call carries of the server's states, in bytes. A call with more goes on in the
// store.
const mostCarried = 16 << 10

// Pass passes a call on to the server, round by round.
func (w *Rounds) Pass(ctx context.Context, c *calls.Call) (*outcome.Record, error) {
	p := &pass{Call: c, way: w, once: !c.Repeatable, tasks: c.InWords.Load()}
	carried := 0 // bytes of the server's states in the journal
	next := &client.Pending{Method: c.Method}
	for n := 1; ; n++ {
		r, err := p.round(ctx, n, next)
		if err != nil || r.Sealed == "" {
			return r, err
		}
		p.once = r.Once
		if next, err = p.open(ctx, n, r.Sealed); err != nil {
			return nil, err
		}
		if carried += len(r.Sealed); carried > mostCarried && c.Method == wire.CallTool {
			if err := c.Host.Detach(); err != nil {
				return nil, err
			}
		}
		if next.Answers, err = c.Asks.Ask(next.Questions); err != nil {
			return nil, err
		}
	}
}

// pass is one run of a call by rounds.
type pass struct {
	*calls.Call
	way   *Rounds
	once  bool // a round that is begun must not be sent again
	tasks bool // the server is told that the bridge takes tasks, because it makes only tasks of such calls, or words
	again int  // how often the round was sent again
	older bool // the round was not sent, because the server has become an older one
}

// Repeated implements [outcome.Subject].
func (p *pass) Repeated() bool { return p.again > 0 }

// Strict implements [outcome.Subject]. It stays so, whatever the server says later.
func (p *pass) Strict() bool { return p.once || p.Call.Strict() }

// round sends one round, or finds what it brought. What must not be sent twice is stored before it is sent, and the
// journal says that it begins.
func (p *pass) round(ctx context.Context, n int, next *client.Pending) (*outcome.Record, error) {
	p.again = 0
	p.once = p.once || p.Noted(ctx, journal.Begun, fmt.Sprintf("round %d", n))
	safe := !p.once || next.TaskID != ""       // a task can be asked for its result again
	if n > 1 && (!safe || next.TaskID != "") { // nobody waits in a request for a task of the server's
		if err := p.Host.Detach(); err != nil {
			return nil, err
		}
	}
	stored := p.Host.Nonce() != ""
	if n == 1 && !stored && p.Host.Round() == 1 {
		return p.first(ctx, next)
	}
	if stored && !safe {
		r, err := p.sendOnce(ctx, n, next)
		return r, p.Raise(ctx, err)
	}
	if stored && next.TaskID == "" {
		begins, err := p.begin(ctx, fmt.Sprint(n))
		if err != nil {
			return nil, p.Raise(ctx, err)
		}
		if !begins {
			p.again = 1
		}
	}
	r, err := p.step(ctx, n, fmt.Sprintf("round %d", n), next)
	return r, p.Raise(ctx, err)
}

// begin notes in the journal that a round is sent. Begins is false if an earlier run has noted that.
func (p *pass) begin(ctx context.Context, suffix string) (begins bool, err error) {
	err = p.Host.Do(ctx, "begin "+suffix, func(context.Context) error {
		if err := p.MaySend(); err != nil {
			return err
		}
		begins = true
		return nil
	})
	return begins, err
}

// first sends the first round of a call that nobody has stored. Only a round that asks is recorded.
func (p *pass) first(ctx context.Context, next *client.Pending) (*outcome.Record, error) {
	r, err := p.send(ctx, 1, next)
	if p.older {
		return nil, upstream.ErrLegacy
	}
	if lost, ok := errors.AsType[*outcome.UnknownError](err); ok {
		return &outcome.Record{Words: outcome.Unknown(p, 1, lost.Cause)}, nil
	}
	if err != nil || r.Sealed == "" {
		return r, err
	}
	return askback.Do(ctx, p.Host, "round 1", func(context.Context) (*outcome.Record, error) { return r, nil })
}

// step sends a round as a step of the call.
func (p *pass) step(ctx context.Context, n int, name string, next *client.Pending) (*outcome.Record, error) {
	r, err := askback.Do(ctx, p.Host, name, func(ctx context.Context) (*outcome.Record, error) {
		if err := p.MaySend(); err != nil {
			return nil, err
		}
		switch {
		case next.TaskID != "" || p.once || !p.Strict():
		case p.Repeated():
			return nil, new(outcome.UnknownError)
		default:
			return outcome.Endf("The server no longer marks the tool %q as read-only or idempotent, so round %d "+
				"of this call, which began before that, is not sent. Look at what it changes, and call it again.", p.Name, n), nil
		}
		return p.send(ctx, n, next)
	})
	if lost, ok := errors.AsType[*outcome.UnknownError](err); ok {
		return &outcome.Record{Words: outcome.Unknown(p, n, lost.Cause)}, nil
	}
	return r, err
}

// sendOnce sends a round that must not run twice. If nobody knows its outcome, a person decides whether it is sent
// again.
func (p *pass) sendOnce(ctx context.Context, n int, next *client.Pending) (*outcome.Record, error) {
	suffix := fmt.Sprint(n)
	for i := 1; ; i++ {
		r, err := askback.AtMostOnce(ctx, p.Host, "round "+suffix, func(ctx context.Context) (*outcome.Record, error) {
			if err := p.MaySend(); err != nil {
				return nil, &askback.DidNotHappenError{Reason: err.Error()}
			}
			if i == 1 && p.Noted(ctx, journal.Step, "begin "+suffix) { // when the tool was idempotent
				return nil, errors.New(outcome.Because(nil))
			}
			r, err := p.send(ctx, n, next)
			if err != nil {
				var unknown *outcome.UnknownError
				_ = errors.As(err, &unknown) // else the context has ended
				err = errors.New(outcome.Because(cmp.Or(unknown, new(outcome.UnknownError)).Cause))
			}
			return r, err
		})
		suffix = fmt.Sprintf("%d again %d", n, i)
		unknown, lost := errors.AsType[*askback.UnknownOutcomeError](err)
		if _, held := errors.AsType[*askback.DidNotHappenError](err); held {
			if err := p.Raise(ctx, p.MaySend()); err != nil {
				return nil, err
			}
			continue
		}
		if !lost {
			return r, err
		}
		words := outcome.UnknownBecause(p, n, cmp.Or(unknown.Cause, outcome.Because(nil)))
		if sent, err := p.mayRepeat(words); !sent || err != nil {
			return &outcome.Record{Words: words}, err
		}
		p.again++
	}
}

// mayRepeat asks the caller, at the desk, whether a round whose outcome is unknown is sent again.
func (p *pass) mayRepeat(words string) (bool, error) {
	caller := p.Host.Principal()
	if caller == "" {
		return false, nil
	}
	err := askback.Approve(p.Host, p.Asks.Next("bridge_repeat"), askback.Question{
		Message: words + " Call it again?", For: []string{askback.User(caller)},
	})
	if _, declined := errors.AsType[*askback.DeclinedError](err); declined {
		return false, nil
	}
	return err == nil, err
}

// send sends a round, and makes the record of what came back. The error is an *outcome.UnknownError if the server
// may have got the round and nobody knows what it did.
func (p *pass) send(ctx context.Context, n int, next *client.Pending) (*outcome.Record, error) {
	if p.Gone.Load() {
		return outcome.NoLongerOffered(p, n), nil
	}
	round := *next
	round.Params, round.Meta = p.Params, p.RequestMeta(p.tasks)
	var report upstream.Progress
	if p.Progress || p.Host.Nonce() != "" { // the progress of a task is its message
		report = p.Host
	}
	result, asked, err := p.way.Send(ctx, p.Call, &round, report)
	if needsTasks(err) && (n == 1 || p.Repeatable) && !p.tasks && !p.Host.Can(askback.CapabilityTasks) {
		p.tasks = true
		round.Meta = p.RequestMeta(p.tasks)
		result, asked, err = p.way.Send(ctx, p.Call, &round, report)
	}
	p.older = errors.Is(err, upstream.ErrLegacy)
	switch {
	case err != nil:
		return p.failed(ctx, n, err)
	case asked == nil && p.Host.Nonce() != "":
		return p.Kept(&outcome.Record{Result: result}), nil
	case asked == nil:
		return &outcome.Record{Result: result}, nil
	}
	sealed, err := p.seal(ctx, n, asked)
	if err != nil {
		return outcome.Endf("The tool %q asks, but what has to be kept for it is too large or cannot be "+
			"sealed: %v", p.Name, err), nil
	}
	return &outcome.Record{Sealed: sealed, Once: p.once || p.Strict()}, nil
}

// needsTasks reports whether the server refused a call because its client does not take tasks, and so is to get it
// again (basic, "Per-request protocol fields"). The bridge takes tasks, for every host.
func needsTasks(err error) bool {
	fault, ok := errors.AsType[*jsonrpc.Error](err)
	return ok && fault.Code == mcp.CodeMissingRequiredClientCapabilities &&
		strings.Contains(string(fault.Data), strconv.Quote(wire.TasksExtension))
}

// failed makes a record of the error of a round. It returns the error of outcome.Classify if the target cannot be
// called again.
func (p *pass) failed(ctx context.Context, n int, err error) (*outcome.Record, error) {
	r, unknown := outcome.Classify(ctx, p, n, err)
	if unknown == nil || ctx.Err() != nil {
		return r, unknown
	}
	p.Log.WarnContext(ctx, "bridge: a round with the server failed", "target", p.Name, "call", p.Host.ID(), "error", err)
	if !p.Strict() {
		return outcome.Endf("The connection to the server of %q failed: %v", p.Name, err), nil
	}
	return nil, unknown
}
