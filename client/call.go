package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/jitter"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// CallTool calls a tool and answers its questions, round by round, until its result. InputResponses and RequestState
// of params are not used. (basic/patterns/mrtr, "Client Requirements")
//
// The error is
//
//   - a [*PendingError] when the call can continue with [Session.Resume]: a handler parked
//     it, or it reached a limit after its first round;
//   - a [*LimitError], [*UndeclaredError] or [*ProtocolError] when the server went too far;
//   - a [*RefusedError] when the server refused its own state;
//   - a *jsonrpc.Error when the server answered with one;
//   - a [*NotRunError] when the request did not run, perhaps with the server's *jsonrpc.Error in it;
//   - the context's cause when that is done;
//   - or a handler's own.
//
// When the server makes the call a task, CallTool waits for it: it requests the status as often as the server says,
// or when the server reports a change. When the waiting ends before the task does, such as when ctx is done, the task
// continues: the error is a [*PendingError] that wraps the one above, and [Session.CancelTask] cancels the task. A
// task that was cancelled gives [ErrTaskCancelled]. (SEP-2663)
func (s *Session) CallTool(ctx context.Context, params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	var task json.RawMessage
	if s.opts.Tasks == TasksProposal {
		task = json.RawMessage(`{}`)
	}
	return as[*mcp.CallToolResult](s.callMethod(ctx, wire.CallTool, &toolParams{params.Name, params.Arguments, task},
		params.Meta))
}

// StartTask calls a tool like [Session.CallTool], but returns as soon as the call has become a task. Where it does
// not become one, StartTask returns the result instead: exactly one of task, result and error is not nil. Where the
// client can ask for a time to live it asks for ttl, unless that is zero; in the extension the server decides. In a
// session of 2025-11-25 a task is asked for only if the list of tools allows it. (2025-11-25, "Tool-Level
// Negotiation")
//
// The handlers answer what the tool asks before there is a task. A [*PendingError] of that
// time continues with [Session.Resume] to the result.
func (s *Session) StartTask(
	ctx context.Context, params *mcp.CallToolParams, ttl time.Duration,
) (*Task, *mcp.CallToolResult, error) {
	var task json.RawMessage
	if d := s.opts.Tasks; d == TasksProposal || d == TasksAuto && s.takes {
		task = json.RawMessage(`{}`)
		if ttl > 0 {
			task = fmt.Appendf(nil, `{"ttl":%d}`, max(ttl.Milliseconds(), 1))
		}
	}
	c, err := s.newCall(wire.CallTool, &toolParams{params.Name, params.Arguments, task}, params.Meta)
	if err != nil {
		return nil, nil, err
	}
	c.detach = true
	res, err := as[*mcp.CallToolResult](c.drive(ctx))
	if res != nil || err != nil {
		return nil, res, err
	}
	return c.became, nil, nil
}

// GetPrompt gets a prompt: see [Session.CallTool].
func (s *Session) GetPrompt(ctx context.Context, params *mcp.GetPromptParams) (*mcp.GetPromptResult, error) {
	return as[*mcp.GetPromptResult](s.callMethod(ctx, wire.GetPrompt,
		&mcp.GetPromptParams{Name: params.Name, Arguments: params.Arguments}, params.Meta))
}

// ReadResource reads a resource: see [Session.CallTool].
func (s *Session) ReadResource(ctx context.Context, params *mcp.ReadResourceParams) (*mcp.ReadResourceResult, error) {
	return as[*mcp.ReadResourceResult](s.callMethod(ctx, wire.ReadResource, &mcp.ReadResourceParams{URI: params.URI},
		params.Meta))
}

// Resume continues a pending call: this client's handlers answer what is still open, and the
// call continues to its result, an *mcp.CallToolResult, *mcp.GetPromptResult or
// *mcp.ReadResourceResult. The session must be with the server that was called, or with
// another instance of it. Errors are as for [Session.CallTool]. A call can be resumed more
// than once, unless the server lets each state be used only once.
func (s *Session) Resume(ctx context.Context, p *Pending) (mcp.Result, error) {
	if p.TaskID != "" {
		w, err := s.awaitPending(p)
		if err != nil {
			return nil, err
		}
		return w.run(ctx)
	}
	c, err := s.newCall(p.Method, p.Params, p.Meta)
	if err != nil {
		return nil, fmt.Errorf("not a pending call: %w", err)
	}
	resumed := *p
	resumed.Questions = make([]*Question, len(p.Questions))
	for i, q := range p.Questions {
		asked := *q
		asked.Server = s.Server()
		if _, answered := p.Answers[q.Key]; !answered {
			if err := s.opts.check(&asked); err != nil {
				return nil, err
			}
		}
		resumed.Questions[i] = &asked
	}
	c.pending, c.round, c.trace.text = &resumed, p.Round, p.Trace
	return c.drive(ctx)
}

// call is one call over its rounds.
type call struct {
	*Session
	method, target string
	params         json.RawMessage // The parameters as a Pending holds them.
	arguments      json.RawMessage // The tool's arguments.
	sent           []byte          // the parameters of every round, where they go past the SDK
	throughSDK     func(ctx context.Context) (mcp.Result, error)
	round          int      // the last round that was sent
	pending        *Pending // What the last round asked; nil before the first.
	pause          time.Duration
	relisted       bool     // once is enough
	refusal        error    // the server's, for which pending holds pages to open: see required
	visited        []string // the URLs that the user has agreed to open
	trace          callTrace
	bare           bool            // The caller takes the raw result, and answers: see [Session.Send].
	result         json.RawMessage // of a bare call

	task   json.RawMessage // asks for a task, unless it is nil
	detach bool            // return when there is a task
	became *Task           // the task that the call has become, or nil
	tasks  TaskDialect     // the dialect of that task
}

// toolParams are the parameters of a call of a tool. Task asks for a task, unless it is nil.
type toolParams struct {
	Name      string          `json:"name"`
	Arguments any             `json:"arguments,omitempty"`
	Task      json.RawMessage `json:"task,omitempty"`
}

// callMethod makes a call and drives it to its result.
func (s *Session) callMethod(ctx context.Context, method string, params any, meta mcp.Meta) (mcp.Result, error) {
	c, err := s.newCall(method, params, meta)
	if err != nil {
		return nil, err
	}
	return c.drive(ctx)
}

// newCall makes a call from its parameters, which it sends in every round alike.
func (s *Session) newCall(method string, params any, meta mcp.Meta) (*call, error) {
	data, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	c := &call{Session: s, method: method, params: data}
	var sent any    // in every round
	switch method { // the SDK adds to the Meta that it is given
	case wire.CallTool:
		p := toolParams{Arguments: &c.arguments} // Raw JSON, so that no number loses digits.
		err = json.Unmarshal(data, &p)
		c.target, c.task = p.Name, p.Task
		if c.arguments == nil {
			c.arguments = json.RawMessage(`{}`)
		}
		if c.task != nil && !s.legacy() {
			meta = s.opts.withoutExtension(meta)
		}
		sent = &toolParams{Name: p.Name, Arguments: c.arguments}
		c.throughSDK = func(ctx context.Context) (mcp.Result, error) {
			return s.sdk.CallTool(ctx, &mcp.CallToolParams{Meta: maps.Clone(meta), Name: p.Name, Arguments: c.arguments})
		}
	case wire.GetPrompt:
		var p mcp.GetPromptParams
		err = json.Unmarshal(data, &p)
		c.target = p.Name
		sent = &mcp.GetPromptParams{Name: p.Name, Arguments: p.Arguments}
		c.throughSDK = func(ctx context.Context) (mcp.Result, error) {
			return s.sdk.GetPrompt(ctx, &mcp.GetPromptParams{Meta: maps.Clone(meta), Name: p.Name, Arguments: p.Arguments})
		}
	case wire.ReadResource:
		var p mcp.ReadResourceParams
		err = json.Unmarshal(data, &p)
		c.target = p.URI
		sent = &mcp.ReadResourceParams{URI: p.URI}
		c.throughSDK = func(ctx context.Context) (mcp.Result, error) {
			return s.sdk.ReadResource(ctx, &mcp.ReadResourceParams{Meta: maps.Clone(meta), URI: p.URI})
		}
	default:
		err = fmt.Errorf("the method %q cannot wait", method)
	}
	if err == nil && s.direct != nil {
		c.sent, err = s.direct.encode(sent, meta)
	}
	return c, err
}

// drive sends rounds until the result. It returns nil without an error when a call that detaches has become a task.
func (c *call) drive(ctx context.Context) (mcp.Result, error) {
	ctx, leave := c.begin(ctx)
	defer leave()
	var res mcp.Result
	err := c.negotiate(ctx)
	for err == nil && res == nil && c.became == nil {
		res, err = c.exchange(ctx)
	}
	if err == nil && c.became != nil && !c.detach {
		return c.awaitTask().wait(ctx)
	}
	if err == nil {
		return res, nil
	}
	err = cmp.Or(context.Cause(ctx), err)
	if _, limit := errors.AsType[*LimitError](err); limit && c.pending != nil {
		err = &PendingError{c.pending, err}
	}
	return nil, err
}

// awaitTask waits for the task that the call has become.
func (c *call) awaitTask() *await {
	w := &await{Session: c.Session, id: c.became.ID, tasks: taskRequests{c.Session, c.tasks}, target: c.target,
		params: c.params, round: c.round, task: c.became, reported: c.became}
	w.trace.text = c.trace.String()
	return w
}

// negotiate decides whether a call of a tool in a session before 2026-07-28 asks for a task:
// for the one that the caller wants, as far as the tool allows it.
func (c *call) negotiate(ctx context.Context) error {
	if c.method != wire.CallTool || !c.legacy() {
		return nil
	}
	support := ""
	if d := c.opts.Tasks; c.takes && (d == TasksAuto || d == TasksProposal) {
		var err error
		if support, err = c.inline.taskSupport(c.target, c.List(ctx, "tools/list")); err != nil {
			return fmt.Errorf("finding out whether %q runs as a task: %w", c.target, err)
		}
	}
	switch {
	case support == taskRequired && c.task == nil:
		c.task = json.RawMessage(`{}`)
	case support != taskRequired && support != taskOptional:
		c.task = nil
	}
	return nil
}

// answer gathers the answers for the next round, or waits out its pause.
func (c *call) answer(ctx context.Context) (map[string]json.RawMessage, error) {
	if c.refusal != nil && c.round >= c.opts.Limits.Rounds {
		return nil, c.refusal
	}
	if c.round >= c.opts.Limits.Rounds { // before anybody answers what could not be sent
		return nil, c.opts.Limits.roundsReached()
	}
	p := c.pending
	switch {
	case p == nil:
		return nil, nil
	case c.refusal != nil:
		return nil, c.visit(ctx, p.Questions)
	case len(p.Questions) == 0:
		return nil, pause(ctx, c.pause)
	}
	answers, parked, err := c.opts.answerAll(ctx, p.Questions, p.Answers)
	if err != nil {
		return nil, err
	}
	if parked {
		parkedCall := *p
		parkedCall.Answers = answers
		return nil, &PendingError{&parkedCall, ErrPark}
	}
	return answers, nil
}

// exchange sends one round with its answers. It returns the result. When the call continues, with c.pending or
// as the task c.became, both result and error are nil.
func (c *call) exchange(ctx context.Context) (mcp.Result, error) {
	answers, err := c.answer(ctx)
	if err != nil {
		return nil, err
	}
	c.round++
	x := &tap.Exchange{Answers: answers, Task: c.task}
	r := &Round{Number: c.round, Method: c.method, Target: c.target, Answers: answers}
	if c.pending != nil && c.refusal == nil {
		x.State = c.pending.state()
		r.StateSent = len(c.pending.State)
	}
	began := time.Now()
	result, res, err := c.sendRound(ctx, x)
	r.Elapsed = time.Since(began)
	var next *Pending
	if c.refusal = nil; err == nil {
		next, err = c.outcome(result)
	} else if next = c.required(err); next != nil {
		c.refusal, err = err, nil
	}
	final := err == nil && next == nil && c.became == nil
	switch {
	case final && c.bare:
		c.result, err = bareResult(result, res)
	case final && res == nil:
		res, err = c.decode(result)
	}
	r.Task = c.became
	if hasCode(err, jsonrpc.CodeInvalidParams) && x.State != nil {
		err = &RefusedError{err}
	}
	if r.Err, r.Final = err, final && err == nil; r.Final {
		r.Result = result
	}
	if next != nil {
		r.Questions, r.StateReceived = next.Questions, len(next.State)
		if c.refusal == nil {
			c.pause = c.nextPause(next)
			r.Pause = c.pause
		}
	}
	if report := c.opts.OnRound; report != nil {
		err = cmp.Or(err, report(ctx, r))
	}
	if err != nil || c.became != nil {
		return nil, err
	}
	if next == nil {
		return res, nil
	}
	c.pending = next
	if c.bare {
		return nil, nil
	}
	return nil, c.opts.check(next.Questions...)
}

// nextPause is the pause before a retry: it grows from round to round without questions.
func (c *call) nextPause(p *Pending) time.Duration {
	if len(p.Questions) > 0 {
		return 0
	}
	limits := &c.opts.Limits
	return jitter.Around(min(max(2*c.pause, limits.FirstPause), limits.MaxPause))
}

// sendRound sends a request, and once more in two cases: the headers of a tool that was not
// listed, or a tool that refuses to be called as a task.
func (c *call) sendRound(ctx context.Context, x *tap.Exchange) (result json.RawMessage, res mcp.Result, err error) {
	result, res, err = c.send(ctx, x)
	if refused(err) && hasCode(err, mcp.CodeHeaderMismatch) && !c.relisted && c.relist(ctx) {
		result, res, err = c.send(ctx, x)
	}
	// In the drafts no list says which tools cannot be tasks: the call asks once.
	if hasCode(err, jsonrpc.CodeMethodNotFound) && c.task != nil && !c.legacy() {
		c.task, x.Task = nil, nil
		result, res, err = c.send(ctx, x)
	}
	return result, res, err
}

// send sends a request. The result comes as it is, and also in its type if the SDK has decoded it.
func (c *call) send(ctx context.Context, x *tap.Exchange) (json.RawMessage, mcp.Result, error) {
	if c.direct != nil {
		if cached := c.direct.cached(c.method, c.target); cached != nil {
			return cached, nil, nil
		}
	}
	ctx, end := c.observer.begin(ctx, x, Operation{Method: c.method, Target: c.target, Round: c.round}, &c.trace)
	if c.direct != nil {
		result, err := c.direct.call(ctx, x, c.method, c.target, c.sent, c.arguments)
		err = c.named(delivered(ctx, x, err))
		end(result, err)
		return result, nil, err
	}
	res, err := c.throughSDK(x.Context(ctx))
	result, unread := x.Result()
	if err = x.Failure(err); err != nil && result != nil && unread == nil && !x.Answered() {
		res, err = nil, nil // the SDK cannot decode the result, and the tap has it
	}
	err = c.named(delivered(ctx, x, err))
	end(result, err)
	return result, res, err
}

// bareResult is a result as it came, or as the SDK had it in its cache.
func bareResult(result json.RawMessage, cached mcp.Result) (json.RawMessage, error) {
	if result != nil {
		return result, nil
	}
	return json.Marshal(cached)
}

// named returns an error about the size of a message as one about the result of the call.
func (c *call) named(err error) error {
	limit, ok := errors.AsType[*LimitError](err)
	if !ok || limit.Limit != tap.BytesOfMessage {
		return err
	}
	thing := map[string]string{wire.CallTool: "tool", wire.GetPrompt: "prompt", wire.ReadResource: "resource"}[c.method]
	return &LimitError{fmt.Sprintf("bytes of the result of the %s %.200q", thing, c.target), limit.Max}
}

// delivered returns the error of a request of a call, which is a [*NotRunError] if the request has not reached the
// server, or if the server has refused it.
func delivered(ctx context.Context, x *tap.Exchange, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	status, isStatus := errors.AsType[*tap.StatusError](err)
	switch {
	case isStatus && status.Refuses() && !status.Answers():
		return &NotRunError{Status: status.Code, Err: err}
	case !isStatus && !x.Delivery.Begun():
		return &NotRunError{Err: err}
	}
	return err
}

// decode decodes a result that is complete.
func (c *call) decode(result []byte) (res mcp.Result, err error) {
	switch c.method {
	case wire.CallTool:
		res, err = decodeToolResult(result)
	case wire.GetPrompt:
		res, err = decode(result, new(mcp.GetPromptResult))
	case wire.ReadResource:
		res, err = decode(result, new(mcp.ReadResourceResult))
	}
	if err != nil {
		return nil, &ProtocolError{fmt.Sprintf("its result is not a result of %s: %v", c.method, err)}
	}
	return res, nil
}

// relist lists tools until the one that is called appears, and reports whether it does. The SDK learns from its
// schema which arguments go into headers. It lacks them where the tool has changed, or was not listed in this
// session. (basic/transports/streamable-http, "Client Behavior")
func (c *call) relist(ctx context.Context) bool {
	if c.method != wire.CallTool {
		return false
	}
	c.relisted = true
	params := new(mcp.ListToolsParams)
	for range 4 { // pages: a list can be as long as its server likes
		page, err := c.sdk.ListTools(ctx, params)
		if err != nil {
			return false
		}
		if slices.ContainsFunc(page.Tools, func(t *mcp.Tool) bool { return t.Name == c.target }) {
			return true
		}
		if params.Cursor = page.NextCursor; params.Cursor == "" {
			return false
		}
	}
	return false
}

// outcome reads a result. It returns what the result asks, sets c.became if the result is a
// task, and does neither if the result is complete.
func (c *call) outcome(result []byte) (*Pending, error) {
	if result == nil {
		if c.method == wire.ReadResource { // the SDK had it in its cache
			return nil, nil
		}
		return nil, &ProtocolError{"the response has no result"}
	}
	kind, err := resultType(result)
	if err != nil {
		return nil, err
	}
	untyped := c.task != nil && strictjson.Get(result, "content") == nil // the drafts' results have no type
	created := strictjson.Get(result, "task")
	switch {
	case kind == "task" && c.method == wire.CallTool && c.task == nil && c.opts.Tasks != TasksOff:
		c.tasks = TasksExtension
		c.became, err = parseTask(result, c.Server(), &c.opts.Limits)
		return nil, err
	case kind == "complete" && untyped && created != nil:
		c.tasks = TasksProposal
		c.became, err = parseTask(created, c.Server(), &c.opts.Limits)
		return nil, err
	case kind == "complete" && untyped && strictjson.Get(result, "inputRequests") != nil:
	case kind == "complete":
		return nil, nil
	case kind != "input_required":
		return nil, &ProtocolError{fmt.Sprintf("the resultType %.40q is unknown", kind)}
	}
	return c.asked(result)
}

// asked reads a result that asks.
func (c *call) asked(result []byte) (*Pending, error) {
	state, err := requestState(result)
	if err != nil {
		return nil, err
	}
	questions, err := parseQuestions(result, c.Server(), &c.opts.Limits)
	if err != nil {
		return nil, err
	}
	if questions == nil && state == nil {
		return nil, &ProtocolError{"input is required, but the result has no inputRequests and no requestState"}
	}
	p := &Pending{Endpoint: c.endpoint, Method: c.method, Params: c.params, Round: c.round, Trace: c.trace.String(),
		Questions: questions, Parked: time.Now()}
	p.setState(state)
	if expires := timestamp(strictjson.Get(strictjson.Get(result, "_meta"), wire.MetaExpires)); !expires.IsZero() {
		p.Expires = &expires
	}
	return p, nil
}
