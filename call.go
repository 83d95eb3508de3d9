package askback

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/journal"
)

// Call is one call of a tool, prompt or resource, over all its rounds. A handler gets
// a new Call in every round and may use it from several goroutines until it returns.
type Call struct {
	id        string // the journal's: a secret
	round     int
	principal string
	can       Kind
	run       *journal.Run
	progress  progressFunc
	request   func() mcp.Request
	support   *TaskSupport // of its tool; nil means none
	task      bool         // it is one by now
	session   bool         // it runs inside one request of a legacy session
	inline    bool         // its handler asks through a session: see AddInlineTool

	mu   sync.Mutex
	undo []func(context.Context) error
	last float64 // the last progress that was sent
	sent bool
}

type progressFunc func(ctx context.Context, progress, total float64, message string) error

// ID returns the call's id, the same in all its rounds: 130 random bits in text form. It
// is no secret: neither a requestState nor a task's id can be had from it.
func (c *Call) ID() string { return journal.Derived("call", c.id) }

// Round returns the number of this round, from 1.
func (c *Call) Round() int { return c.round }

// Principal returns the authenticated caller, or "" for an anonymous one.
func (c *Call) Principal() string { return c.principal }

// Can reports whether the client declared that it can answer questions of this kind.
// It may change from round to round with what the client declares.
func (c *Call) Can(kind Kind) bool { return c.can&kind == kind }

// Request returns the SDK's view of the request, an *mcp.CallToolRequest,
// *mcp.GetPromptRequest or *mcp.ReadResourceRequest. Its session is nil where the
// request did not come through the SDK. For a handler in the SDK's manual style it
// has the answers to its own questions and its own state.
func (c *Call) Request() mcp.Request { return c.request() }

// Progress tells the client how far the call is, if it asked to be told. Progress
// must grow; what does not is left out. Total is zero where it is unknown. In a task it
// becomes the task's message. (basic/patterns/progress)
func (c *Call) Progress(ctx context.Context, progress, total float64, message string) error {
	if c.progress == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent && progress <= c.last {
		return nil
	}
	c.sent, c.last = true, progress
	return c.progress(ctx, progress, total, message)
}

// Checkpoint ends this request without a question: the client sends it again at once,
// and another instance may go on from here. The first time the key is reached the
// error is [ErrInputRequired], ever after nil. A handler that has to wait for
// something outside (a page behind [ElicitURL]) makes a new checkpoint in each round,
// with [Call.Round] in its key; it should wait a little itself before it does, because
// some clients, and every session before 2026-07-28, come back at once, and so does a task.
func (c *Call) Checkpoint(ctx context.Context, key string) error {
	if c.inline {
		return errInline
	}
	return c.run.Checkpoint(ctx, key)
}

// IdempotencyKey returns a key that is the same in every attempt at the named step of
// this call, and of no other, for outside systems that accept one: a response that is
// lost after a step makes the client repeat the round, and with it the step. In a
// first round that is repeated the key differs, because the client has no state yet
// that could carry the call's id.
func (c *Call) IdempotencyKey(step string) string {
	sum := sha256.Sum256([]byte("askback step\x00" + c.id + "\x00" + step))
	return hex.EncodeToString(sum[:16])
}

// Do runs step and records its result; in later rounds the recorded result is
// returned and step does not run. The result travels as JSON, in the first run too,
// so that it is the same in all of them. While a question is open no step runs, and
// the error is [ErrInputRequired]. A step that fails records nothing. Each step of a
// handler needs its own name. A round ends when its steps have: one that runs in another
// goroutine must not wait for what a later round brings. In a task the result is durable
// when Do returns; a worker that was out of reach for longer than its lease may still be in a
// step that another one has begun, but cannot record it.
//
//	order, err := askback.Do(ctx, call, "order", func(ctx context.Context) (Order, error) {
//		return shop.Order(ctx, item, call.IdempotencyKey("order"))
//	})
//	if err != nil {
//		return nil, nil, err
//	}
func Do[T any](ctx context.Context, call *Call, name string, step func(context.Context) (T, error)) (T, error) {
	var result T
	value, err := call.run.Step(ctx, name, func(ctx context.Context) ([]byte, error) {
		v, err := step(ctx)
		if err != nil {
			return nil, err
		}
		data, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("step %q ran, but its result cannot be recorded: %w", name, err)
		}
		return data, nil
	})
	if err != nil {
		return result, err
	}
	if err := json.Unmarshal(value, &result); err != nil {
		return result, fmt.Errorf("step %q: its recorded result does not fit %T (was the type changed?): %w", name, result, err)
	}
	return result, nil
}

// Ask asks several questions in one round trip. Each answer is stored where its Ask
// points. The error is [ErrInputRequired] until all are answered; then, if users
// declined any, the joined [DeclinedError]s.
func (c *Call) Ask(ctx context.Context, asks ...Ask) error {
	if c.inline {
		return errInline
	}
	var open, declined error
	for _, a := range asks {
		err := c.ask(ctx, a)
		_, isDeclined := errors.AsType[*DeclinedError](err)
		switch {
		case err == nil:
		case errors.Is(err, ErrInputRequired):
			open = err
		case isDeclined:
			declined = errors.Join(declined, err)
		default:
			return err
		}
	}
	if open != nil {
		return open
	}
	return declined
}

func (c *Call) ask(ctx context.Context, a Ask) error {
	if a.err != nil {
		return fmt.Errorf("question %q: %w", a.key, a.err)
	}
	ask := journal.Ask{Key: a.key, Digest: a.digest, Accept: a.accept, Request: a.question}
	if err := ctx.Err(); err != nil {
		ask.Unable = err // what was answered before is found all the same: see OnCancel
	} else if !c.Can(a.need) {
		ask.Unable = &CapabilityError{Key: a.key, Need: a.need}
	}
	value, err := c.run.Ask(ask)
	if err != nil {
		return exported(err)
	}
	return a.decode(value)
}
