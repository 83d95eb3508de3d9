package call

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/wire"
)

// Engine runs handlers in rounds. It is safe for concurrent use; its fields must not be changed while it is used.
type Engine struct {
	Limits bound.Limits
	Log    *slog.Logger
	Audit  *report.Audit

	Observer *report.Observer

	// Desk says how questions go to people apart from the client. Nil means that none does.
	Desk *Desk
}

// Provenance returns what is recorded with the answers that the client of a principal gave at a time.
func Provenance(principal string, now time.Time) []input.Provenance {
	now = time.UnixMilli(now.UnixMilli())
	return []input.Provenance{{Who: principal, When: now, Channel: input.ChannelHost}}
}

// Serve runs the call of a request as far as it comes: to its end, or to a question whose
// answer its home has to wait for.
func (e *Engine) Serve(ctx context.Context, r *Request, home Home) (*Outcome, error) {
	if probe, _ := ctx.Value(probeKey{}).(Probe); probe != nil {
		home = probe.Home(r, home)
	}
	opened, err := home.Open(ctx)
	if opened.Outcome != nil || err != nil {
		return opened.Outcome, err
	}
	s := openCall{e, opened, r, home}
	if s.Follow != nil {
		r.Handler = s.Follow
	}
	ctx = s.begin(ctx)
	switch {
	case s.AtOnce:
		if out, err := s.detachAtOnce(ctx); err != nil || !s.follow(ctx, out) {
			return out, err
		}
	case r.Crowded != nil && s.mayShed() && r.Crowded(ctx):
		return s.shed(ctx)
	}
	for {
		round, began := s.Journal.Round+1, time.Now()
		out, err := s.round(ctx)
		if err == nil && out.detached {
			out, err = cmp.Or(s.Detach, s.Wait).Move(ctx, s.Journal)
		} else if err == nil && len(out.Apart) > 0 && len(out.Questions) == 0 && s.Wait != nil {
			out, err = s.Wait.Move(ctx, s.Journal)
		}
		r.noteEnded(ctx, e.Log, s.Journal.ID, round, began, s.outcome(ctx, out, err), out)
		if err != nil || !out.InputRequired() {
			out, err = s.end(ctx, round, out, err)
			if err == nil && s.follow(ctx, out) {
				continue
			}
			return out, err
		}
		var again bool
		if s.Answers, again, err = home.Suspend(ctx, s.Journal, out); err != nil {
			return s.endUnkept(ctx, round, err)
		}
		r.Watch.SetStateBytes(len(out.State))
		if !again {
			return out, nil
		}
		s.Journal.By = Provenance(r.Principal, clock.Now(ctx)) // of the answers with which the call goes on
	}
}

// openCall is a request whose call is open.
type openCall struct {
	*Engine
	Opened
	r    *Request
	home Home
}

// begin tells the operator that the request goes on with its call.
func (s *openCall) begin(ctx context.Context) context.Context {
	if len(s.Answers.Responses) > 0 {
		s.Journal.By = Provenance(s.r.Principal, clock.Now(ctx))
	}
	return s.r.watch(ctx, s.Journal)
}

// detachAtOnce detaches a call before its handler runs, with what the client answered before.
func (s *openCall) detachAtOnce(ctx context.Context) (*Outcome, error) {
	s.Journal.Receive(s.Answers.Responses)
	out, err := s.Detach.Move(ctx, s.Journal)
	s.r.Watch.SetOutcome(s.outcome(ctx, out, err))
	return s.end(ctx, s.Journal.Round+1, out, err)
}

// follow lets the request of a client that cannot take a task go on as one that follows the task. By then the operator
// knows how the call itself went on.
func (s *openCall) follow(ctx context.Context, out *Outcome) bool {
	if out.Follow != nil {
		s.r.Handler, s.Opened = out.Follow, Opened{Journal: s.Journal.Follow(clock.Now(ctx))}
	}
	return out.Follow != nil
}

// interrupted reports whether a run that returned err has no outcome.
func (s *openCall) interrupted(err error) bool { return s.Interrupted != nil && s.Interrupted(err) }

// outcome is the outcome of a round for the log and the operator.
func (s *openCall) outcome(ctx context.Context, out *Outcome, err error) string {
	switch {
	case s.interrupted(err):
		return "interrupted"
	case err == nil && out.InputRequired():
		return "input_required"
	}
	return endReason(ctx, out, err)
}

// end ends the call.
func (s *openCall) end(ctx context.Context, round int, out *Outcome, err error) (*Outcome, error) {
	s.home.End(ctx, s.Journal, out, err)
	if !s.interrupted(err) && !s.Journal.Moved {
		s.tellEnded(ctx, round, out, err)
	}
	return out, err
}

// tellEnded tells the operator how the call ended.
func (s *openCall) tellEnded(ctx context.Context, round int, out *Outcome, err error) {
	ended := report.AuditEvent{Kind: report.AuditEnded, Reason: endReason(ctx, out, err)}
	s.r.tell(ctx, s.Audit, s.Journal.ID, round, ended)
}

// endUnkept ends a call whose journal its home could not keep.
func (s *openCall) endUnkept(ctx context.Context, round int, err error) (*Outcome, error) {
	s.tellEnded(ctx, round, nil, err)
	s.r.Watch.SetOutcome(endReason(ctx, nil, err))
	out, err := s.failed(err)
	if err != nil {
		err = fault.Wire(err) // the home's, and not the handler's
	}
	s.home.End(ctx, s.Journal, out, err)
	return out, err
}

// mayShed reports whether a call can be handed back without running its handler. The answers to a call in the manual
// style, or to a call that has no state yet, would be lost. A client whose call is handed back too often gives up.
func (s *openCall) mayShed() bool {
	lost := s.Journal.IsManual() || s.Answers.Bare && len(s.Answers.Responses) > 0
	return !lost && s.Journal.Round < s.Limits.Rounds && s.Journal.MayHandBack()
}

// shed hands a call back with a state and no questions: the client comes back with it at another time, and perhaps to
// another instance. (basic/patterns/mrtr, "Server Requirements")
func (s *openCall) shed(ctx context.Context) (*Outcome, error) {
	s.Journal.HandBack(s.Answers.Responses)
	out := new(Outcome)
	if _, _, err := s.home.Suspend(ctx, s.Journal, out); err != nil {
		return s.endUnkept(ctx, s.Journal.Round, err)
	}
	s.r.tell(ctx, s.Audit, s.Journal.ID, s.Journal.Round, report.AuditEvent{Kind: report.AuditShed})
	s.r.Watch.SetOutcome("shed")
	s.r.Watch.SetStateBytes(len(out.State))
	return out, nil
}

// round runs the handler once against the journal and extends it.
func (s *openCall) round(ctx context.Context) (out *Outcome, err error) {
	e, j := s.Engine, s.Journal
	c := s.newCall(ctx, takeManual(j, s.Answers))
	defer func() { c.noteRan(err) }()
	run := &c.run
	s.home.Begin(run, j, s.Answers, &e.Limits)
	result, err := e.invoke(ctx, c)
	if !s.Answers.Bare || !c.asks.Load() { // a bare retry does not tell whose its answers are
		c.tellManual()
	}
	asks, suspended, err := run.Finish(err)
	refused := run.Refused()
	for _, refusal := range refused {
		LogRefused(ctx, e.Log, c.PublicID(), c.Handler.Method, c.Params.Target, c.Round, refusal)
	}
	if err == nil && suspended {
		if i := slices.IndexFunc(refused, func(r journal.Refusal) bool { return r.Final }); i >= 0 {
			return nil, Unanswerable(&refused[i])
		}
		err = run.CommitRefused(ctx)
	}
	if fault.Of(err) == fault.Limit && len(refused) > 0 {
		err = refused[len(refused)-1].LimitReached(err)
	}
	if err != nil {
		if !c.mistaken.Load() {
			_ = c.Mistaken(err)
		}
		warnOfDropped(ctx, e.Log, c, j, asks, err)
		return s.failed(err)
	}
	requests, state, isManual := ManualOutcome(result)
	switch {
	case suspended && isManual:
		return nil, c.Mistaken(fault.Mistakef("the handler asked through its Call and returned input requests of its own: " +
			"it can do one or the other"))
	case suspended:
		if !c.Handler.Fetches {
			warnOfStrayed(ctx, e.Log, c, asks, run.Strayed())
		}
		return s.suspended(ctx, c, asks, refused), nil
	case isManual:
		return s.suspendedManual(ctx, c, requests, state, result.GetMeta())
	case result == nil:
		return nil, fault.Wire(c.Mistaken(fault.Mistakef("the handler returned no result")))
	}
	return &Outcome{Result: result}, nil
}

// suspended returns the outcome of a round that asks, or that only has to come back.
func (s *openCall) suspended(ctx context.Context, c *Call, asks []journal.Ask, refused []journal.Refusal) *Outcome {
	open := len(s.Journal.Pending)
	out := &Outcome{Named: c.named.Load(), detached: c.run.Detached()}
	if out.Questions = out.one[:min(open, len(out.one))]; open > len(out.one) {
		out.Questions = make([]*question.Question, open)
	}
	for i, a := range asks {
		q := a.Request.(*question.Question)
		if i >= open {
			q.Wire = s.Journal.Apart[i-open].Wire
			if s.Sleeps && open == 0 {
				c.tellPut(ctx, &s.Journal.Apart[i-open], q.For)
			}
			out.Apart = append(out.Apart, q)
			continue
		}
		if c.plain {
			q = q.Plain() // at the desk people see the whole form
		}
		for _, r := range refused {
			if r.Key == a.Key && r.Reason != journal.ErrReworded {
				q = q.Again(r.Reason)
			}
		}
		out.Questions[i], q.Wire = q, s.Journal.Pending[i].Wire
		if s.Audit != nil {
			c.tell(ctx, report.AuditEvent{Kind: report.AuditAsked, Key: a.Key, Digest: a.Digest.String()})
		}
	}
	return out
}

// suspendedManual returns the outcome of a round of a handler in the SDK's manual style.
func (s *openCall) suspendedManual(
	ctx context.Context, c *Call, requests mcp.InputRequestMap, state string, meta mcp.Meta,
) (*Outcome, error) {
	out, err := suspendManual(&s.Limits, c.Can, s.Journal, requests, state)
	if err != nil {
		return nil, err
	}
	out.Meta, out.Named = meta, c.named.Load()
	for _, q := range out.Questions {
		c.tell(ctx, report.AuditEvent{Kind: report.AuditAsked, Key: q.Wire})
	}
	return out, nil
}

// Unanswerable is the error of a call whose client gave an answer that nobody can correct.
func Unanswerable(r *journal.Refusal) error {
	return wire.Errorf(jsonrpc.CodeInvalidParams, "invalid params: %v", r.Err())
}

// CleanUp runs the handler of a call that was ended from outside as far as it came, and then what it registered to undo
// what it began. The operator is told the reason why the call ended.
func (e *Engine) CleanUp(ctx context.Context, r *Request, home Home, reason string) error {
	opened, err := home.Open(ctx)
	if err != nil {
		return err
	}
	s := openCall{e, opened, r, home}
	ctx = s.begin(ctx)
	c := s.newCall(ctx, Manual{})
	home.Begin(&c.run, s.Journal, s.Answers, &e.Limits)
	c.run.Halt = errEnded
	_, err = e.invoke(ctx, c)
	if err = c.cleanUp(ctx, err); err == nil {
		r.tell(ctx, e.Audit, s.Journal.ID, c.Round, report.AuditEvent{Kind: report.AuditEnded, Reason: reason})
	}
	return err
}

// errEnded is the error of all that a handler had not done before it runs again to clean up.
var errEnded = fmt.Errorf("the task was ended from outside: %w", context.Canceled)

// failed makes a handler's error its tool's result, except where the protocol has an error for it.
func (s *openCall) failed(err error) (*Outcome, error) {
	if s.r.Handler.Fail == nil || fault.Of(err).Sent() || s.interrupted(err) {
		return nil, err
	}
	return &Outcome{Result: s.r.Handler.Fail(err)}, nil
}

// newCall returns the call as its handler sees it in this round.
func (s *openCall) newCall(ctx context.Context, manual Manual) *Call {
	j := s.Journal
	probe, _ := ctx.Value(probeKey{}).(Probe)
	c := &Call{
		Request: s.r, Round: j.Round + 1, Probe: probe, ctx: ctx, manual: manual, id: j.ID,
		log: s.Log, audit: s.Audit, observer: s.Observer, trace: j.Trace, plain: j.PlainForms,
		detaches: s.Detach != nil, audited: s.Audited, desk: s.Engine.Desk, within: s.Limits.Within,
		waits: s.Opened.Wait != nil || s.Sleeps,
		moves: s.Detach != nil || s.Opened.Wait != nil, stays: s.Sleeps,
	}
	c.run.Screen = c
	if probe != nil {
		c.id = probe.CallID(j.ID)
	}
	return c
}

func (e *Engine) invoke(ctx context.Context, c *Call) (result mcp.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = e.Panicked(ctx, c, v)
		}
	}()
	if c.Probe != nil {
		ctx = c.Probe.Handle(ctx)
	}
	if refusal, err := e.admit(ctx, c); refusal != nil || err != nil {
		return refusal, err
	}
	return c.Handler.Invoke(ctx, c, c.Params)
}

// Panicked logs what was recovered from a handler, with the stack of this goroutine, and
// returns what the client is told.
func (e *Engine) Panicked(ctx context.Context, c *Call, v any) error {
	if c.Probe != nil {
		c.Probe.Panicked(v, debug.Stack())
	}
	e.Log.ErrorContext(ctx, "askback: a handler panicked", "method", c.Handler.Method,
		"call", c.PublicID(), "panic", v, "stack", string(debug.Stack()))
	return fault.Internal()
}
