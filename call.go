package askback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
)

// Call is one call of a tool, prompt or resource, over all its rounds. A handler gets
// a new Call in every round and may use it from several goroutines until it returns.
type Call struct{ c *call.Call }

// ID returns the call's id, the same in all its rounds: 130 random bits in text form. It is not secret: nobody can
// derive a requestState or a task's id from it.
func (c *Call) ID() string { return c.c.ID() }

// Round returns the number of this round, from 1.
func (c *Call) Round() int { return c.c.Round }

// Principal returns the authenticated caller, or "" for an anonymous one.
func (c *Call) Principal() string { return c.c.Principal }

// Can reports whether the client declared the capability, or every one of a set. The client
// declares its capabilities in each round anew.
func (c *Call) Can(capability Capability) bool { return Capability(c.c.Can)&capability == capability }

// Request returns the SDK's view of the request, an *mcp.CallToolRequest,
// *mcp.GetPromptRequest or *mcp.ReadResourceRequest. Its session is nil where the
// request did not come through the SDK. For a handler in the SDK's manual style it
// has the answers to its own questions and its own state.
func (c *Call) Request() mcp.Request { return c.c.View() }

// Progress tells the client how far the call is, if it asked to be told. Progress must grow; what does not is left
// out. Total is zero where it is unknown. In a task it becomes the task's message. (basic/patterns/progress)
func (c *Call) Progress(ctx context.Context, progress, total float64, message string) error {
	return c.c.Progress(ctx, progress, total, message)
}

// Checkpoint ends this round without a question: the client sends the request again, and another instance may continue
// from here. The first time the key is reached the error is [ErrInputRequired], and nil from then on. Each checkpoint
// of a handler needs its own key.
//
// Clients accept few rounds without a question. The Go SDK's client gives up at the third of a call, mcp-go's client at
// the third in a row, and the clients of the TypeScript and Python SDKs after ten rounds in all. So a call is handed
// back to its client at most twice. From the third checkpoint on, the next round begins inside the same request and at
// the same instance, after a pause of 50 ms that doubles up to one second. In a session before 2026-07-28 and in a
// task, every next round begins there, without a pause.
//
// A handler that has to wait for something outside, such as a page behind [ElicitURL], waits for it itself first, for
// some seconds and no longer than ctx lasts, and then makes a checkpoint with [Call.Round] in its key. Each counts in
// Limits.Rounds, and clients bound the time of a request, many by a minute: to wait for longer, ask a question
// ("Continue?") or become a task with [Call.Detach].
func (c *Call) Checkpoint(ctx context.Context, key string) error { return c.c.Checkpoint(ctx, key) }

// Sleep waits until d has passed since the sleep of this name was reached for the first time. Only a task can sleep: it
// holds nothing meanwhile, and another instance may continue it. Until then the error is [ErrInputRequired], which the
// handler returns, and nil from then on. At most Limits.Within; a d that differs in a later run is ignored. A watch may
// sleep as often as it likes: Limits.Rounds does not count a round in which nothing but sleeps is open.
func (c *Call) Sleep(name string, d time.Duration) error {
	err := c.c.Sleep(name, d)
	if err != nil && !errors.Is(err, ErrInputRequired) {
		err = &fault.AskError{Err: err}
	}
	return err
}

// Answers tells who gave the answer to the question under a key, when, through which channel and why: everybody whose
// vote counted, in the order of the votes. It is empty until there is an answer.
func (c *Call) Answers(key string) []input.Provenance { return c.c.Answers(key) }

// Receipt returns the signed statement of how people have decided the question under a key: see [ReceiptSigner]. It is
// empty until they have, without [DeskOptions].Receipts, and for an answer of the call's own client.
func (c *Call) Receipt(key string) string { return c.c.Receipt(key) }

// IdempotencyKey returns a key that is the same in every attempt at the named step of this call, and of no other, for
// outside systems that accept one: a response that is lost after a step makes the client repeat the round, and with
// it the step. In a first round that is repeated the key differs, because the client has no state yet that could
// carry the call's id: ask before the first step. Under [Options.BareFirstRound] the same is true of the second round,
// unless the handler read the key before it asked.
func (c *Call) IdempotencyKey(step string) string { return c.c.IdempotencyKey(step) }

// Fence returns the fencing token of the claim under which a task runs: the claim's number, which rises with every
// claim. Of two workers that believe they have the task, the one with the higher number has it. A database that loses
// commits gives a number again, and [Call.Nonce] tells the two claims apart. It is 0 outside of tasks.
//
// An outside system is safe from a worker that was out of reach for longer than its lease if it remembers the number
// and the nonce that it was shown last, accepts a higher number, or the same number with the same nonce, and refuses
// everything else. A handler whose token is refused returns an error that wraps [task.ErrLeaseLost]: the run then has
// no outcome, and when the lease has ended, the task continues under a claim with the next number.
func (c *Call) Fence() int64 { return c.c.Fence }

// Nonce returns the random value of the claim under which a task runs, in letters and digits. Every other claim has a
// different one, including claims that the database has lost. It is empty outside of tasks. See [Call.Fence].
func (c *Call) Nonce() string { return c.c.Nonce }

// Do runs step and records its result; in later rounds the recorded result is returned and step does not run. The
// result travels as JSON, in the first run too, so that it is the same in all of them. While a question is open no
// step runs, and the error is [ErrInputRequired]. A step that fails records nothing. Each step of a handler needs its
// own name. A step cannot ask: ask before it. A round ends when its steps have: one that runs in another goroutine
// must not wait for what a later round brings. In a task the result is durable when Do returns; a worker that was out
// of reach for longer than its lease may still be in a step that another one has begun, but cannot record it: see
// [Call.Fence].
//
//	order, err := askback.Do(ctx, call, "order", func(ctx context.Context) (Order, error) {
//		return shop.Order(ctx, item, call.IdempotencyKey("order"))
//	})
//	if err != nil {
//		return "", err
//	}
func Do[T any](ctx context.Context, call *Call, name string, step func(context.Context) (T, error)) (T, error) {
	return do(ctx, call, name, call.c.Step, step)
}

// do runs a step, and records its result as JSON.
func do[T any](
	ctx context.Context, c *Call, name string,
	run func(context.Context, string, call.Step) ([]byte, error), step func(context.Context) (T, error),
) (T, error) {
	var result T
	value, err := run(ctx, name, func(ctx context.Context) ([]byte, error) {
		v, err := step(ctx)
		if err != nil {
			return nil, err
		}
		data, err := json.Marshal(v)
		if err != nil {
			err = fmt.Errorf("step %q ran, but its result cannot be recorded: %w", name, err)
			if _, never := errors.AsType[*json.UnsupportedTypeError](err); never {
				err = &fault.Mistake{Kind: "step result", Err: err}
			}
			return nil, err
		}
		if c.c.Probe != nil {
			c.c.Probe.Encoded(name, v, data)
		}
		return data, nil
	})
	if err != nil {
		return result, stepError(err)
	}
	if err := json.Unmarshal(value, &result); err != nil {
		return result, fmt.Errorf("step %q: its recorded result does not fit %T (was the type changed?): %w",
			name, result, err)
	}
	return result, nil
}

// AtMostOnce is [Do] for a step that must never run twice, because the outside system takes no idempotency key: that
// the step begins is recorded before it runs. If its process dies before it has a result, the step does not run again.
// The error is then an [*UnknownOutcomeError] in every later run, and the handler looks, or asks a person:
//
//	receipt, err := askback.AtMostOnce(ctx, call, "pay", bank.Pay)
//	if unknown, ok := errors.AsType[*askback.UnknownOutcomeError](err); ok {
//		return "", askback.Approve(call, "paid", askback.Question{Message: unknown.Error(), For: accountants})
//	}
//
// A step that returns a [*DidNotHappenError] has certainly had no effect. That is recorded and returned alike in every
// run, and any other error ends unknown: a step under another name tries again. The step's context outlives a shutdown
// of the server, for three quarters of Tasks.Lease.
//
// Only the journal of a task can record what begins. Any other call becomes a task first, as by [Call.Detach] or as if
// it waited for people, and the error is [ErrInputRequired]. Where it cannot become one, the error says so. A worker
// that was out of reach for longer than its lease may still be in a step that another one finds begun: see
// [Call.Fence]. A database that loses commits may lose that a step began.
func AtMostOnce[T any](ctx context.Context, call *Call, name string, step func(context.Context) (T, error)) (T, error) {
	return do(ctx, call, name, call.c.StepOnce, step)
}

// Do is [Do] for a step without a result: the step is recorded, and does not run again.
//
//	err := call.Do(ctx, "close", func(ctx context.Context) error { return tracker.Close(ctx, bug) })
func (c *Call) Do(ctx context.Context, name string, step func(context.Context) error) error {
	_, err := c.c.Step(ctx, name, func(ctx context.Context) ([]byte, error) {
		return []byte("null"), step(ctx)
	})
	return stepError(err)
}

// stepError returns the error of a step as this package's type.
func stepError(err error) error {
	switch err := err.(type) {
	case *journal.UnknownOutcomeError:
		return (*UnknownOutcomeError)(err)
	case *journal.DidNotHappenError:
		return (*DidNotHappenError)(err)
	}
	return err
}
