package askback

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/drafts"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// handler is a registered tool, prompt or resource.
type handler struct {
	method   string
	headers  []wire.ParamHeader
	tasks    *TaskSupport // of a tool whose calls may be tasks, or nil
	template string       // of a resource template, which matches reads
	matches  func(uri string) bool
	// invoke decodes the request's arguments and runs the author's function.
	invoke func(ctx context.Context, call *Call, params *wire.Params) (any, error)
	// fail turns the handler's error into a result, for tools.
	fail func(error) any
}

// exchange is one request for a handler, whatever carried it here.
type exchange struct {
	handler   *handler
	params    *wire.Params
	raw       []byte // the parameters as they came
	can       Kind
	wish      taskWish
	task      *taskRun // in which the handler runs, or nil
	session   bool     // the request belongs to a legacy session
	principal string
	progress  progressFunc
	echo      *drafts.Call // in a session whose questions carry a state, or nil
	// request makes the SDK's view of the request.
	request func(mine manualState) mcp.Request
}

// reply is what one round answers: a complete result, or the task that the call became, or
// questions, state or both.
type reply struct {
	result    any
	task      *task.Task
	dialect   string // of the request that gets the task
	detached  bool   // the handler wants the call to go on as a task
	questions []keyedQuestion
	state     string
	expires   time.Time // when the state does
}

type keyedQuestion struct {
	key string
	*question
}

func (r *reply) inputRequired() bool { return r.result == nil && r.task == nil }

// typed are the questions as the SDK's types.
func (r *reply) typed() mcp.InputRequestMap {
	requests := make(mcp.InputRequestMap, len(r.questions))
	for _, q := range r.questions {
		requests[q.key] = q.typed
	}
	return requests
}

// encoded are the questions as they are sent.
func (r *reply) encoded() []wire.InputRequest {
	requests := make([]wire.InputRequest, len(r.questions))
	for i, q := range r.questions {
		requests[i] = wire.InputRequest{Key: q.key, Method: q.method, Params: q.params}
	}
	return requests
}

// serve runs one round of a call whose journal travels in requestState.
func (s *Server) serve(ctx context.Context, x *exchange) (*reply, error) {
	j, err := s.openJournal(ctx, x)
	if known, ok := errors.AsType[*knownTask](err); ok {
		return s.created(x, known.task)
	}
	if err != nil {
		return nil, err
	}
	waited, manual, recorded := j.Round > 0, manualStyle(j), len(j.Entries)
	r, err := s.goOn(ctx, x, j)
	switch ended := err != nil || !r.inputRequired(); {
	case !waited || !ended:
	case ctx.Err() != nil && len(j.Entries) > recorded && !manual:
		s.keepUndelivered(ctx, x, j)
	case err == nil:
		s.dropState(ctx, x, j)
	}
	return r, err
}

func (s *Server) goOn(ctx context.Context, x *exchange, j *journal.Journal) (*reply, error) {
	if x.atOnce() {
		journal.Begin(j, x.params.Responses, s.journalLimits()) // takes the answers
		return s.createTask(ctx, x, j)
	}
	bare := s.opts.BareFirstRound && !x.params.HasState
	r, err := s.round(ctx, x, j, bare)
	if err != nil || !r.inputRequired() {
		return r, err
	}
	if r.detached {
		return s.createTask(ctx, x, j)
	}
	if s.opts.BareFirstRound && j.Round == 1 && len(j.Entries) == 0 && j.Manual == "" && len(r.questions) > 0 {
		return r, nil
	}
	r.state, r.expires, err = s.sealJournal(ctx, x, j)
	return r, err
}

// round runs the handler once against j and extends j.
func (s *Server) round(ctx context.Context, x *exchange, j *journal.Journal, bare bool) (*reply, error) {
	mine, begin := takeManual(j, x.params.Responses), journal.Begin
	if bare {
		mine.responses, begin = x.params.Responses, journal.BeginBare
	}
	run := begin(j, x.params.Responses, s.journalLimits())
	run.Distinct = s.states != nil && x.task == nil // in every phase: one may be rolled out
	call := &Call{
		id:        j.ID,
		round:     j.Round + 1,
		principal: x.principal,
		can:       x.can,
		run:       run,
		progress:  x.progress,
		request:   func() mcp.Request { return x.request(mine) },
		support:   x.handler.tasks,
		task:      x.task != nil,
		session:   x.session,
	}
	if x.task != nil {
		run.Commit = x.task.record
		if x.task.work.Stopped {
			run.Halt = errTaskEnded
			_, err := s.invoke(ctx, x, call)
			return nil, call.cleanUp(ctx, err)
		}
	}
	result, err := s.invoke(ctx, x, call)
	asks, suspended, err := run.Finish(err)
	if err != nil {
		return s.failed(x, exported(err))
	}
	questions, state, manual := manualOutcome(result)
	switch {
	case manual && x.task != nil:
		return s.failed(x, errors.New("a handler in the manual style cannot run as a task: it has to ask through its Call"))
	case suspended && manual:
		return nil, errors.New("the handler asked through its Call and returned input requests of its own: it can do one or the other")
	case suspended:
		r := &reply{questions: make([]keyedQuestion, len(asks)), detached: run.Detached()}
		for i, a := range asks {
			r.questions[i] = keyedQuestion{j.Pending[i].Wire, a.Request.(*question)}
		}
		return r, nil
	case manual:
		return s.suspendManual(x.can, j, questions, state)
	case result == nil:
		return nil, errors.New("the handler returned no result")
	}
	return &reply{result: result}, nil
}

// failed makes a handler's error its tool's result, except where the protocol has an
// error for it.
func (s *Server) failed(x *exchange, err error) (*reply, error) {
	_, capability := errors.AsType[*CapabilityError](err)
	_, limit := errors.AsType[*LimitError](err)
	_, protocol := errors.AsType[*jsonrpc.Error](err)
	if x.handler.fail == nil || capability || limit || protocol {
		return nil, err
	}
	return &reply{result: x.handler.fail(err)}, nil
}

func (s *Server) invoke(ctx context.Context, x *exchange, call *Call) (result any, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = s.panicked(ctx, x.handler.method, call, v)
		}
	}()
	return x.handler.invoke(ctx, call, x.params)
}

// panicked logs what was recovered from a handler, with the stack of this goroutine, and
// returns what the client is told.
func (s *Server) panicked(ctx context.Context, method string, call *Call, v any) error {
	s.log.ErrorContext(ctx, "askback: a handler panicked", "method", method,
		"call", call.ID(), "panic", v, "stack", string(debug.Stack()))
	return wire.Errorf(jsonrpc.CodeInternalError, "internal error")
}

// openJournal returns the journal of the request's state, or a new call's. Where it goes on
// from another one than the state's, it takes those answers out of x that are to other
// questions.
func (s *Server) openJournal(ctx context.Context, x *exchange) (*journal.Journal, error) {
	now := time.Now()
	if !x.params.HasState {
		// Without BareFirstRound an answer to nothing is one whose state got lost.
		if len(x.params.Responses) > 0 && !s.opts.BareFirstRound {
			if j, err := s.recalled(ctx, x, StateMissing); j != nil || err != nil {
				return j, err
			}
		}
		return &journal.Journal{ID: rand.Text(), Started: now}, nil
	}
	opened, err := s.keys.Open(x.params.State, s.binding(x), now)
	if err != nil {
		reason := seal.Reason("unknown")
		if refused, ok := errors.AsType[*seal.OpenError](err); ok {
			reason = refused.Reason
		}
		return s.recallOrRefuse(ctx, x, reason, err)
	}
	payload := opened.Payload
	if sum, ok := journal.DecodeReference(payload); ok {
		var reason seal.Reason
		payload, reason, err = s.referred(ctx, sum)
		switch {
		case reason != "":
			return s.recallOrRefuse(ctx, x, reason, err)
		case err != nil:
			s.stateFailed(ctx, x, "reading a stored state", err)
			return nil, wire.Errorf(jsonrpc.CodeInternalError, "internal error")
		}
	}
	j, err := journal.Decode(payload)
	if err != nil {
		return s.recallOrRefuse(ctx, x, "payload", err)
	}
	fresh, err := s.useState(ctx, x, opened, j)
	if err != nil {
		return nil, err
	}
	if !fresh {
		if t := s.taskOf(ctx, x, j); t != nil {
			return nil, &knownTask{t} // the round was repeated, because its response was lost
		}
		return nil, s.refuse(ctx, x, "replayed", errors.New("it was used before, and the replay guard allows one use"))
	}
	if s.states != nil && s.states.Mode == DualMode {
		j = s.compared(ctx, x, j, payload)
	}
	return j, nil
}

// recallOrRefuse is for a state that does not open: its call goes on if it is stored.
func (s *Server) recallOrRefuse(ctx context.Context, x *exchange, reason seal.Reason, err error) (*journal.Journal, error) {
	refusal := s.refuse(ctx, x, reason, err)
	if j, err := s.recalled(ctx, x, StateInvalid); j != nil || err != nil {
		return j, err
	}
	return nil, refusal
}

// useState reports whether the replay guard lets a state be used.
func (s *Server) useState(ctx context.Context, x *exchange, opened *seal.State, j *journal.Journal) (fresh bool, err error) {
	if s.states == nil {
		return s.use(ctx, x, opened.Expires, opened.ID)
	}
	return s.use(ctx, x, opened.Expires, opened.ID, roundID(j)) // another instance may be in an earlier phase
}

// use reports whether the replay guard lets all of ids be used; without a guard, any.
func (s *Server) use(ctx context.Context, x *exchange, expires time.Time, ids ...string) (fresh bool, err error) {
	if s.opts.ReplayGuard == nil {
		return true, nil
	}
	for _, id := range ids {
		err = safely(func() (err error) {
			fresh, err = s.opts.ReplayGuard.Use(ctx, id, expires)
			return err
		})
		if err != nil {
			s.log.ErrorContext(ctx, "askback: the replay guard failed", "method", x.handler.method, "error", err)
			return false, wire.Errorf(jsonrpc.CodeInternalError, "internal error")
		}
		if !fresh {
			return false, nil
		}
	}
	return true, nil
}

// refuse tells the operator why a state was refused, and the client only that it was.
func (s *Server) refuse(ctx context.Context, x *exchange, reason seal.Reason, err error) error {
	s.log.WarnContext(ctx, "askback: requestState refused", "method", x.handler.method, "reason", string(reason), "error", err)
	if s.opts.StateRefused != nil {
		s.tell(ctx, "Options.StateRefused", func() { s.opts.StateRefused(ctx, x.handler.method, reason) })
	}
	return wire.InvalidState()
}

func (s *Server) sealJournal(ctx context.Context, x *exchange, j *journal.Journal) (state string, expires time.Time, err error) {
	now := time.Now()
	if expires = s.expiry(j, now); !expires.After(now) {
		return "", expires, &LimitError{Limit: "seconds per call", Max: int(s.opts.Limits.CallTTL.Seconds())}
	}
	if s.states != nil {
		state, err = s.sealBesideStore(ctx, x, j, now, expires)
	} else {
		state, err = s.keys.Seal(s.binding(x), j.Append(make([]byte, 0, 512)), now, expires)
	}
	if err == nil && len(state) > s.opts.Limits.StateBytes {
		err = &LimitError{Limit: "bytes of requestState", Max: s.opts.Limits.StateBytes}
	}
	return state, expires, err
}

// expiry is when the state of a round that ends now expires.
func (s *Server) expiry(j *journal.Journal, now time.Time) time.Time {
	round, call := now.Add(s.opts.Limits.RoundTTL), j.Started.Add(s.opts.Limits.CallTTL)
	if call.Before(round) {
		return call
	}
	return round
}

// meta is the _meta of a result that needs input.
func (r *reply) meta() mcp.Meta {
	if r.state == "" {
		return nil
	}
	return mcp.Meta{wire.MetaExpires: r.expires.UTC().Format(time.RFC3339)}
}

func (s *Server) binding(x *exchange) seal.Binding {
	arguments := x.params.Arguments
	if arguments == nil {
		arguments = []byte("{}") // absent and empty are the same call
	}
	return seal.Binding{
		Audience:  s.opts.Audience,
		Method:    x.handler.method,
		Target:    x.params.Target,
		Arguments: strictjson.Digest(arguments),
		Principal: x.principal,
	}
}

// lookup finds the handler for a request, or nil: an exact resource goes before
// templates, templates in the order they were added.
func (s *Server) lookup(method, target string) *handler {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch method {
	case wire.CallTool:
		return s.tools[target]
	case wire.GetPrompt:
		return s.prompts[target]
	case wire.ReadResource:
		if h := s.resources[target]; h != nil {
			return h
		}
		if i := slices.IndexFunc(s.templates, func(h *handler) bool { return h.matches(target) }); i >= 0 {
			return s.templates[i]
		}
	}
	return nil
}

// serves reports whether a request is for one of Askback's handlers; params is a checked
// object, or nil.
func (s *Server) serves(method string, params []byte) bool {
	target, _ := strictjson.String(strictjson.Get(params, wire.TargetMember(method)))
	return s.lookup(method, target) != nil
}

func (s *Server) principal(ctx context.Context, extra *mcp.RequestExtra) (string, error) {
	if extra == nil {
		extra = new(mcp.RequestExtra) // of a transport that says nothing of the caller
	}
	var principal string
	var err error
	switch {
	case s.opts.Principal != nil:
		err = safely(func() (err error) {
			principal, err = s.opts.Principal(ctx, extra)
			return err
		})
	case extra.TokenInfo != nil:
		principal = extra.TokenInfo.UserID
	}
	if err == nil && principal == "" && extra.TokenInfo != nil && !s.opts.AnonymousTokens {
		err = errors.New("a verified token names nobody: have its verifier set the UserID of TokenInfo, or name the caller in Options.Principal, " +
			"or set Options.AnonymousTokens to serve all such tokens as one anonymous caller")
	}
	if err != nil {
		s.log.WarnContext(ctx, "askback: a caller was refused", "error", err)
		return "", wire.Errorf(jsonrpc.CodeInvalidRequest, "the caller could not be identified")
	}
	return principal, nil
}

// safely runs a function of the operator's or of a handler's author. Its panic is an error, because it must not end the
// process: the SDK and the task engine call from goroutines of their own.
func safely(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}

// tell tells an observer. What becomes of the request does not depend on it.
func (s *Server) tell(ctx context.Context, observer string, observe func()) {
	err := safely(func() error { observe(); return nil })
	if err != nil {
		s.log.ErrorContext(ctx, "askback: an observer panicked", "observer", observer, "error", err)
	}
}
