// Package call runs the handlers of tools, prompts and resources. For a request that has passed the gate, the [Engine]
// opens the call's journal in its [Home], runs the handler once against it, and hands the [Outcome] to the home to be
// kept, or back to the front that brought the request. The package does not know transports, and it does not know where
// journals are.
package call

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/report"
)

// Call is one call as its handler sees it in one round. It is safe for concurrent use until the handler returns.
type Call struct {
	*Request
	Round  int
	Inline bool  // its handler asks through a session: it has no asks and no checkpoints
	Probe  Probe // nil in a server

	ctx    context.Context // of the round
	manual Manual
	view   mcp.Request // in place of the request's own
	id     string      // the journal's: a secret
	named  atomic.Bool // the handler has read what is derived from id
	run    journal.Run
	trace  string      // the journal's
	plain  bool        // the journal's PlainForms
	asks   atomic.Bool // the handler asks through its Call

	detaches, audited bool // as [Opened] has it
	moves, stays      bool // it can become a task, or is one
	waits             bool // for people, now or once it is a task
	desk              *Desk
	within            time.Duration // the longest Within of a question

	log      *slog.Logger
	mistaken atomic.Bool // the handler has made a mistake in this round
	audit    *report.Audit
	observer *report.Observer

	mu   sync.Mutex
	undo []func(context.Context) error
}

// ID returns the call's public id to its handler, which may rely on it in the next round.
func (c *Call) ID() string {
	c.named.Store(true)
	return c.PublicID()
}

// PublicID returns the call's public id. Nobody can derive a requestState or a task's id from it.
func (c *Call) PublicID() string { return journal.Derived("call", c.id) }

// IdempotencyKey returns a key for every attempt at the named step of this call, and no other.
func (c *Call) IdempotencyKey(step string) string {
	c.named.Store(true)
	sum := sha256.Sum256([]byte("askback step\x00" + c.id + "\x00" + step))
	return hex.EncodeToString(sum[:16])
}

// Progress tells the client how far the call is: see [Request.Report].
func (c *Call) Progress(ctx context.Context, progress, total float64, message string) error {
	return c.Report(ctx, progress, total, message)
}

// View returns the SDK's view of the request.
func (c *Call) View() mcp.Request {
	if c.view != nil {
		return c.view
	}
	return c.Request.view(c.manual)
}

// SetView replaces the request that the handler sees.
func (c *Call) SetView(view mcp.Request) { c.view = view }

// errInline is for a handler that asks through its session.
var errInline error = fault.Mistakef("a handler added with AddInlineTool asks through its session: " +
	"to ask through its Call, add it with AddTool")

// Ask returns the recorded answer to a question, as its Accept returned it. The error is
// [journal.ErrInputRequired] until there is one.
func (c *Call) Ask(key string, q *question.Question) ([]byte, error) {
	if c.Inline {
		return nil, c.Mistaken(errInline)
	}
	return c.AskInline(c.ctx, key, q)
}

// AskInline is [Call.Ask] for what stands in for the session of an inline handler.
func (c *Call) AskInline(ctx context.Context, key string, q *question.Question) ([]byte, error) {
	answer, err := c.askRun(ctx, key, q)
	if c.Probe != nil {
		c.Probe.Asked(key, err)
	}
	return answer, c.Mistaken(err)
}

func (c *Call) askRun(ctx context.Context, key string, q *question.Question) ([]byte, error) {
	q, err := c.route(key, q)
	if err != nil {
		return nil, err
	}
	ask := journal.Ask{Key: key, Digest: q.Digest, Accept: q.Accept, Correctable: question.Correctable(q.Method),
		Within: q.Within, Apart: len(q.For) > 0 && !q.Fallback || q.Method == "", Fallback: q.Fallback, Sleep: q.Method == "",
		Request: q}
	if c.plain {
		ask.Accept = q.Plain().Accept
	}
	if err := ctx.Err(); err != nil {
		ask.Unable = err // what was answered before is found all the same: see OnCancel
	} else if c.Can&q.Need != q.Need {
		ask.Apart = ask.Apart || q.Fallback
		if !ask.Apart {
			ask.Unable = &fault.UnableError{Key: key, Need: q.Need &^ c.Can}
		}
	}
	if c.audit == nil || c.audited {
		return c.run.Ask(ask)
	}
	c.asks.Store(true)
	taken := false // in this round
	accept := ask.Accept
	ask.Accept = func(raw []byte) ([]byte, error) {
		answer, err := accept(raw)
		taken = err == nil
		return answer, err
	}
	answer, err := c.run.Ask(ask)
	if taken && err == nil { // now, because the hook must not run while the journal is locked
		c.tell(ctx, Answered(key, q.Digest, answer))
	}
	return answer, err
}

// Step is what a step does. It returns the JSON of its result.
type Step func(context.Context) ([]byte, error)

// Step returns the recorded result of an author's step, or runs it and records what it returns.
func (c *Call) Step(ctx context.Context, name string, step Step) ([]byte, error) {
	value, err := []byte(nil), reserved(name)
	if err == nil {
		value, err = c.step(ctx, name, false, step)
	}
	return value, c.Mistaken(err)
}

// StepOnce is Step for a step that never runs twice. Only a task can have one, so that the call becomes one first.
func (c *Call) StepOnce(ctx context.Context, name string, step Step) ([]byte, error) {
	switch {
	case c.stays:
	case c.run.Suspended():
		return nil, journal.ErrInputRequired
	case !c.moves:
		return nil, c.Mistaken(fault.Mistakef("the step %q must not run twice, so it needs a task, and this call cannot "+
			"become one: set Options.Tasks and Options.Desk, so that every call of a tool can", name))
	default:
		return nil, c.run.Detach()
	}
	value, err := []byte(nil), reserved(name)
	if err == nil {
		value, err = c.step(ctx, name, true, step)
	}
	return value, c.Mistaken(err)
}

// reserved returns an error for a step whose record could be taken for a gate.
func reserved(name string) error {
	if strings.HasPrefix(name, gateName(1)) {
		return fault.Mistakef("the step %q: names that begin with %q are for what rules record; rename it", name, gateName(1))
	}
	return nil
}

// instance names this process for those who run it.
var instance = sync.OnceValue(func() string {
	host, err := os.Hostname()
	return fmt.Sprintf("%s, process %d", cmp.Or(host, fmt.Sprint(err)), os.Getpid())
})

func (c *Call) step(ctx context.Context, name string, once bool, step Step) ([]byte, error) {
	run := func(step Step) ([]byte, error) { return c.run.Step(ctx, name, step) }
	if once {
		now := clock.Now(ctx)
		if c.Probe != nil { // a test compares replays, and each makes this record again
			now = time.UnixMilli(0)
		}
		run = func(step Step) ([]byte, error) { return c.run.StepOnce(ctx, name, now, instance(), step) }
	}
	if c.Probe != nil {
		watched := step
		step = func(ctx context.Context) ([]byte, error) { return c.Probe.Step(ctx, name, once, watched) }
	}
	if c.audit == nil && c.observer == nil {
		return run(step)
	}
	ran := false
	op := &report.Operation{
		Kind: report.OperationStep, Method: c.Handler.Method, Target: c.Params.Target, Call: c.PublicID(), Round: c.Round,
		Task: c.Request.Task, Step: name, Meta: report.MetaOf(&c.Params.Meta), Trace: c.trace,
	}
	end := func() {}
	defer func() { end() }() // also when the step panics
	value, err := run(func(ctx context.Context) ([]byte, error) {
		ran, op.Began = true, time.Now()
		ctx, end = c.observer.Begin(ctx, op)
		op.Outcome = "failed"
		return step(ctx)
	})
	if ran {
		if err == nil {
			op.Outcome = "completed"
		}
		c.tell(ctx, report.AuditEvent{Kind: report.AuditStep, Key: name, Reason: op.Outcome})
	}
	return value, err
}

// Checkpoint suspends the call when it is reached for the first time.
func (c *Call) Checkpoint(ctx context.Context, key string) error {
	if c.Inline {
		return c.Mistaken(errInline)
	}
	return c.Mistaken(c.run.Checkpoint(ctx, key))
}

// Detach suspends the call to go on as a task, if it is not one and its client can take one.
func (c *Call) Detach() error {
	switch {
	case c.Handler.Tasks == nil:
		return c.Mistaken(fault.Mistakef("Detach: the tool must be added with AddTaskTool"))
	case c.run.Suspended():
		return journal.ErrInputRequired
	case !c.detaches:
		return nil
	}
	return c.run.Detach()
}

// Suspended reports whether a question is open or a checkpoint was reached.
func (c *Call) Suspended() bool { return c.run.Suspended() }

// Answered reports whether the outcome depends on who answered.
func (c *Call) Answered() bool { return c.run.Answered() }

// OnCancel registers what cleans up if the call is a task that is ended from outside.
func (c *Call) OnCancel(cleanup func(context.Context) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.undo = append(c.undo, cleanup)
}

// noteRan tells the front that the author's function has run and returned err.
//
// An error for a capability that the client lacks must have status 400 (basic, "_meta"), with which servers refuse
// requests before anything runs. So it has that status as long as it is true: once the handler has begun a step, there
// may be an effect, and a client that is told otherwise repeats it.
func (c *Call) noteRan(err error) {
	lacks := err != nil && fault.Wire(err).Code == mcp.CodeMissingRequiredClientCapabilities
	_, refused := errors.AsType[*fault.NotRunError](err)
	if c.Ran != nil && !refused && (!lacks || c.run.Stepped()) {
		c.Ran.Store(true)
	}
}

// cleanUp runs what the handler registered to undo what it began, once it has returned err.
// The error says that the handler has to run once more for it.
func (c *Call) cleanUp(ctx context.Context, err error) error {
	c.mu.Lock()
	undo := c.undo
	c.mu.Unlock()
	if errors.Is(err, context.Canceled) || errors.Is(err, journal.ErrRecorded) {
		err = nil // it came as far as ever
	}
	for _, f := range slices.Backward(undo) {
		err = errors.Join(err, fault.Safely(func() error { return f(ctx) }))
	}
	return err
}

// Mistaken returns an error. If it is one that only the handler's author can mend, the operator is told, because the
// client that gets the error cannot: once for each mistake and handler.
func (c *Call) Mistaken(err error) error {
	m, ok := errors.AsType[*fault.Mistake](err)
	if !ok {
		return err
	}
	c.mistaken.Store(true)
	if c.Probe != nil {
		c.Probe.Mistaken(err)
	}
	text := err.Error()
	if tell, last := c.Handler.mistakes.note(m.Kind, text); tell {
		attrs := []any{"call", c.PublicID(), "method", c.Handler.Method, "target", c.Params.Target, "round", c.Round,
			"mistake", fmt.Sprintf("%.1000s", text)}
		if last {
			attrs = append(attrs, "note", "further mistakes of this kind are not logged")
		}
		c.log.WarnContext(c.ctx, "askback: a handler made a mistake, which its author has to mend", attrs...)
	}
	return err
}

// tell tells the operator what happened in this round of the call.
func (c *Call) tell(ctx context.Context, event report.AuditEvent) {
	c.Request.tell(ctx, c.audit, c.id, c.Round, event)
}

// tellPut tells the operator that a question is put to people, unless an earlier run has put it.
func (c *Call) tellPut(ctx context.Context, q *journal.Question, to []string) {
	if c.audit == nil || q.Known || len(to) == 0 {
		return
	}
	c.tell(ctx, report.AuditEvent{
		Kind: report.AuditAsked, Key: q.Key, Digest: q.Digest.String(), For: strings.Join(to, ","),
	})
}

// tellManual tells the operator of the answers that a handler in the SDK's manual style was given.
func (c *Call) tellManual() {
	if c.audit == nil || len(c.manual.Responses) == 0 {
		return
	}
	responses := responsesOf(c.Request.view(c.manual))
	for _, key := range slices.Sorted(maps.Keys(responses)) {
		action := ""
		if r, ok := responses[key].(*mcp.ElicitResult); ok {
			action = r.Action
		}
		c.tell(c.ctx, report.AuditEvent{Kind: report.AuditAnswered, Key: key, Action: action})
	}
}
