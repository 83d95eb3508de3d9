// Package home has the three homes of a call's journal: [Carried] by the client in a sealed
// requestState, [Held] in memory inside one request of a session, and [Stored] with a task.
package home

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/clock"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
)

// Home returns the home of one request's call.
func (c *Carrier) Home(r *call.Request) *Carried {
	return &Carried{Carrier: c, request: r, stored: storedState{carrier: c, request: r}}
}

// Carried is the home of a journal that travels in requestState. It implements [call.Home].
type Carried struct {
	*Carrier
	request *call.Request
	task    TaskRequest

	// As the journal was opened:
	resumed bool // in a round after the first
	manual  bool // with a handler in the SDK's manual style
	entries int
	timed   []journal.Question // those that were open and have a deadline
	issued  time.Time          // when its state was sealed, or zero

	stored storedState

	digest [32]byte // of the arguments, unless their parameters have it
	paused time.Duration
}

// Open implements [call.Home].
func (c *Carried) Open(ctx context.Context) (opened call.Opened, err error) {
	params := c.request.Params
	if c.task, err = c.readTaskRequest(c.request, params.Meta.Capabilities&wire.Tasks != 0); err != nil {
		return opened, err
	}
	now := clock.Now(ctx)
	j, out, err := c.open(ctx, now)
	if err == nil && out == nil && j.Moved {
		out, err = c.moved(ctx, j)
	}
	switch {
	case err != nil || out != nil && out.Follow == nil:
		return call.Opened{Outcome: out}, err
	case out != nil:
		opened.Follow = out.Follow
		if !j.Moved {
			j = j.Follow(now)
		}
	}
	c.task.Fresh = j.Round == 0
	c.resumed, c.manual, c.entries = j.Round > 0, j.IsManual(), len(j.Entries)
	c.timed, c.stored.outlives = c.expire(ctx, c.request, j, now)
	answers := call.Answers{Responses: params.Responses, Bare: c.Bare && !params.HasState}
	if c.Desk && !c.manual {
		measure(j, answers, c.issued, now)
	}
	if opened.Follow != nil {
		opened.Journal, opened.Answers = j, answers
		return opened, nil
	}
	return c.opened(ctx, j, answers), nil
}

// opened returns a client's call that goes on from j.
func (c *Carried) opened(ctx context.Context, j *journal.Journal, answers call.Answers) call.Opened {
	c.notePlainForms(ctx, c.request, j)
	o := call.Opened{Journal: j, Answers: answers}
	h := c.request.Handler
	if c.Desk && c.Tasks != nil && h.Method == wire.CallTool && !h.Fetches {
		o.Wait = (*waiting)(c)
	}
	switch support := h.Tasks; {
	case c.task.Dialect != "":
		// In a session the answer must be a task (2025-11-25, "Result Retrieval").
		o.AtOnce = c.request.InSession || !support.AtDetach
		o.Detach = (*detaching)(c)
		c.request.Can |= wire.Tasks
	case support != nil && support.Always && o.Wait != nil:
		o.AtOnce = !support.AtDetach
		o.Detach = (*waiting)(c)
	}
	return o
}

// waiting moves the call to where people answer it. The client gets a task, or the outcome if that comes soon.
type waiting Carried

// Move implements [call.Mover].
func (w *waiting) Move(ctx context.Context, j *journal.Journal) (*call.Outcome, error) {
	c := (*Carried)(w)
	return c.Tasks.Create(ctx, c.request, c.taskRequestFor(), j)
}

// detaching moves the call to the task that its client asked for.
type detaching Carried

// Move implements [call.Mover].
func (d *detaching) Move(ctx context.Context, j *journal.Journal) (*call.Outcome, error) {
	return d.Tasks.Create(ctx, d.request, d.task, j)
}

// taskRequestFor is how the client takes the task of a call that waits for people. The tool may be one without tasks.
func (c *Carried) taskRequestFor() TaskRequest {
	as := c.task
	if as.Dialect == "" && !c.request.InSession && c.request.Params.Meta.Capabilities&wire.Tasks != 0 {
		as.Dialect = DialectExtension
	}
	return as
}

// open returns the journal of the request's state, or a new call's. If it returns another journal than the state's,
// it removes from the request the answers to questions that this journal has not asked.
func (c *Carried) open(ctx context.Context, now time.Time) (*journal.Journal, *call.Outcome, error) {
	params := c.request.Params
	if !params.HasState {
		// Without Bare an answer to nothing is one whose state got lost.
		if len(params.Responses) > 0 && !c.Bare {
			if j, err := c.recall(ctx, state.Missing); j != nil || err != nil {
				return j, nil, err
			}
		}
		return &journal.Journal{ID: rand.Text(), Started: now}, nil, nil
	}
	opened, err := c.Keys.Open(params.State, c.binding(), now)
	if err != nil {
		reason := seal.Reason("unknown")
		if refused, ok := errors.AsType[*seal.OpenError](err); ok {
			reason = refused.Reason
		}
		return c.recallOrRefuse(ctx, reason, err)
	}
	payload := opened.Payload
	c.issued = opened.Issued
	if sum, ok := journal.DecodeReference(payload); ok {
		var reason seal.Reason
		payload, reason, err = c.stored.load(ctx, sum)
		switch {
		case reason != "":
			return c.recallOrRefuse(ctx, reason, err)
		case err != nil:
			c.stored.failed(ctx, "reading a stored state", err)
			return nil, nil, fault.Internal()
		}
	}
	j, err := journal.Decode(payload)
	if err != nil {
		return c.recallOrRefuse(ctx, "payload", err)
	}
	fresh, err := c.useState(ctx, opened, j)
	if err != nil {
		return nil, nil, err
	}
	if !fresh && !j.Moved { // a task takes only answers to what it asks now
		if c.Tasks != nil {
			// The round was repeated, because its response was lost.
			if out, err := c.Tasks.Find(ctx, c.request, c.taskRequestFor(), j.ID); out != nil || err != nil {
				return j, out, err
			}
		}
		return nil, nil, c.refuseUse(ctx, opened.Issued, "it was used before")
	}
	if c.stored.data = payload; c.States != nil && c.States.Mode == state.Dual {
		j = c.stored.reconcile(ctx, j, payload)
	}
	return j, nil, nil
}

// moved returns the outcome of a request whose client follows the task that its call has become.
func (c *Carried) moved(ctx context.Context, j *journal.Journal) (out *call.Outcome, err error) {
	if c.Tasks != nil {
		out, err = c.Tasks.Find(ctx, c.request, c.taskRequestFor(), j.ID)
	}
	if out == nil && err == nil {
		err = wire.Errorf(jsonrpc.CodeInvalidParams, "the call went on as a task, which is no longer kept")
	}
	return out, err
}

// recall returns the stored journal of a call whose request brought no state that opens,
// or nil. An error is the replay guard's.
func (c *Carried) recall(ctx context.Context, outcome state.Outcome) (*journal.Journal, error) {
	if !c.stored.keeps() {
		return nil, nil
	}
	b := c.binding()
	j := c.stored.find(ctx, &b)
	if j == nil {
		return nil, nil
	}
	now := clock.Now(ctx)
	until := now.Add(c.Limits.RoundTTL)
	if longer := c.expiry(j, now); longer.After(until) { // the round's state outlives a deadline
		until = longer
	}
	fresh, err := c.use(ctx, until, roundID(j))
	switch {
	case err != nil:
		return nil, err
	case !fresh:
		c.stored.observe(ctx, state.Unknown)
		return nil, nil
	}
	c.stored.observe(ctx, outcome)
	return j, nil
}

// recallOrRefuse returns the stored journal of a call whose state does not open, or refuses the state.
func (c *Carried) recallOrRefuse(
	ctx context.Context, reason seal.Reason, err error,
) (*journal.Journal, *call.Outcome, error) {
	refusal := c.refuse(ctx, reason, err)
	if j, err := c.recall(ctx, state.Invalid); j != nil || err != nil {
		return j, nil, err
	}
	return nil, nil, refusal
}

// refuse logs the reason why a state is refused, which the client does not learn.
func (c *Carried) refuse(ctx context.Context, reason seal.Reason, err error) error {
	c.Log.WarnContext(ctx, "askback: requestState refused", "method", c.request.Handler.Method,
		"target", c.request.Params.Target, "reason", string(reason), "error", err)
	c.tell(ctx, c.request, report.AuditRefused, string(reason))
	c.request.Watch.RefusedState(string(reason))
	return wire.InvalidState()
}

// Begin implements [call.Home].
func (c *Carried) Begin(run *journal.Run, j *journal.Journal, answers call.Answers, limits *bound.Limits) {
	begin := run.Begin
	if answers.Bare {
		begin = run.BeginBare
	}
	begin(j, answers.Responses, limits)
}

// Suspend implements [call.Home]: it seals the journal. A call that was handed back without a question as often as
// clients accept waits here, and then continues in the same request.
func (c *Carried) Suspend(
	ctx context.Context, j *journal.Journal, out *call.Outcome,
) (none call.Answers, again bool, err error) {
	if len(out.Questions) == 0 && !j.IsManual() && j.HandedBackTooOften() {
		return none, true, c.pause(ctx)
	}
	j.Start(clock.Now(ctx))
	// The state has the deadlines of questions, and for a desk the time at which they were asked.
	fresh := c.Bare && !c.Desk && latest(j).IsZero() && j.Round == 1 && len(j.Entries) == 0 && j.Manual == ""
	if fresh && len(out.Questions) > 0 && !out.Named {
		return none, false, nil
	}
	out.State, out.Expires, err = c.Seal(ctx, j)
	return none, false, err
}

// The pauses between rounds inside one request. Each pause is twice as long as the one before it.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = time.Second
)

// pause waits as a client would before it sends the request again.
func (c *Carried) pause(ctx context.Context) error {
	c.paused = min(max(2*c.paused, firstPause), maxPause)
	timer := time.NewTimer(c.paused)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Seal makes the requestState of j, and stores what the phase wants stored.
func (c *Carried) Seal(ctx context.Context, j *journal.Journal) (sealed string, expires time.Time, err error) {
	now := clock.Now(ctx)
	if expires = c.expiry(j, now); !expires.After(now) {
		return "", expires, fault.TimeLimit("seconds per call", c.Limits.CallTTL)
	}
	if b := c.binding(); c.States != nil {
		sealed, err = c.stored.seal(ctx, j, &b, now, expires)
	} else {
		sealed, err = c.Keys.Seal(b, j.Append(make([]byte, 0, 512)), now, expires)
	}
	switch {
	case err != nil:
		if fault.Of(err) != fault.Limit {
			err = fault.Wire(err)
		}
	case len(sealed) > c.Limits.StateBytes:
		err = &fault.LimitError{Limit: "bytes of requestState", Max: int64(c.Limits.StateBytes)}
	}
	return sealed, expires, err
}

// expiry returns the time at which the state of a round that ends now expires. It outlives the deadlines of the round's
// questions by the time to live of a round, so that a client which comes back late learns what became of them.
func (c *Carried) expiry(j *journal.Journal, now time.Time) time.Time {
	expires := now.Add(c.Limits.RoundTTL)
	if whole := j.Started.Add(c.Limits.CallTTL); whole.Before(expires) {
		expires = whole
	}
	if deadline := latest(j); !deadline.IsZero() {
		if outlives := deadline.Add(c.Limits.RoundTTL); outlives.After(expires) {
			return outlives
		}
	}
	return expires
}

// End implements [call.Home].
func (c *Carried) End(ctx context.Context, j *journal.Journal, _ *call.Outcome, err error) {
	switch {
	case !c.resumed:
	case ctx.Err() != nil && len(j.Entries) > c.entries && !c.manual:
		c.keepUndelivered(ctx, j)
	case err == nil:
		c.Drop(ctx, j)
	}
}

// keepUndelivered stores the journal of a round whose client has gone away. The client gets no
// response, so it may repeat the round.
func (c *Carried) keepUndelivered(ctx context.Context, j *journal.Journal) {
	if !c.stored.keeps() {
		return
	}
	j.Round++ // a client that repeats the round is one round behind
	if len(j.Pending) == 0 {
		// Its questions keep their deadlines.
		j.Pending = slices.DeleteFunc(c.timed, func(q journal.Question) bool { return j.Settled(&q) })
	}
	now, b, payload := clock.Now(ctx), c.binding(), j.Append(nil)
	if expires := c.expiry(j, now); expires.After(now) && len(payload) <= c.Limits.StoredBytes {
		c.stored.put(ctx, j, &b, payload, expires)
	}
}

// Drop deletes the state of a call that has ended.
func (c *Carried) Drop(ctx context.Context, j *journal.Journal) { c.stored.drop(ctx, j) }

// Spend marks a state that was answered elsewhere as used, so that no call goes on from it
// where states may be used once.
func (c *Carried) Spend(ctx context.Context, j *journal.Journal, sealed string) error {
	if c.Guard == nil {
		return nil
	}
	opened, err := c.Keys.Open(sealed, c.binding(), clock.Now(ctx))
	if err != nil {
		return nil // it has expired, and is of no use to anybody
	}
	fresh, err := c.useState(ctx, opened, j)
	if err == nil && !fresh {
		err = c.refuseUse(ctx, opened.Issued, "the call went on from it elsewhere")
	}
	return err
}

// useState reports whether the replay guard lets a state be used.
func (c *Carried) useState(ctx context.Context, opened *seal.State, j *journal.Journal) (fresh bool, err error) {
	if opened.Issued.Before(c.Since) {
		return false, nil
	}
	if c.States == nil {
		return c.use(ctx, opened.Expires, opened.ID)
	}
	return c.use(ctx, opened.Expires, opened.ID, roundID(j)) // another instance may be in an earlier phase
}

// roundID returns the ID of a round for a [state.Guard], whether its journal was carried or stored.
func roundID(j *journal.Journal) string {
	return journal.Derived("round "+strconv.Itoa(j.Round), j.ID)
}

// refuseUse refuses a state because of the replay guard.
func (c *Carried) refuseUse(ctx context.Context, issued time.Time, why string) error {
	if issued.Before(c.Since) {
		why = "it was sealed before this process began, and a state.MemoryGuard does not know what was used then"
	}
	return c.refuse(ctx, "replayed", errors.New(why+"; the replay guard allows one use"))
}

// use reports whether the replay guard lets all of ids be used; without a guard, any. The guard remembers them until
// the clock of every instance is past expires.
func (c *Carried) use(ctx context.Context, expires time.Time, ids ...string) (fresh bool, err error) {
	if c.Guard == nil {
		return true, nil
	}
	for _, id := range ids {
		err = fault.Safely(func() (err error) {
			fresh, err = c.Guard.Use(ctx, id, expires.Add(seal.MaxClockSkew))
			return err
		})
		if err != nil {
			c.Log.ErrorContext(ctx, "askback: the replay guard failed", "method", c.request.Handler.Method, "error", err)
			return false, fault.Internal()
		}
		if !fresh {
			return false, nil
		}
	}
	return true, nil
}

func (c *Carried) binding() seal.Binding {
	r := c.request
	if r.Params.Digest == nil {
		arguments := r.Params.Arguments
		if arguments == nil {
			arguments = []byte("{}") // absent and empty are the same call
		}
		c.digest = strictjson.Digest(arguments)
		r.Params.Digest = &c.digest
		if !r.Handler.Sealed.Load() {
			r.Handler.Sealed.Store(true)
		}
	}
	return seal.Binding{
		Audience:  c.Audience,
		Method:    r.Handler.Method,
		Target:    r.Params.Target,
		Arguments: *r.Params.Digest,
		Principal: r.Principal,
	}
}
