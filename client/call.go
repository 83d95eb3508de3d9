package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// CallTool calls a tool and answers what it asks, round by round, until its result.
//
// The error is a [*Pending] when a handler parked; a [*LimitError], [*UndeclaredError]
// or [*ProtocolError] when the server went too far; a [*RefusedError] when it did not
// take its own state back; a *jsonrpc.Error when it answered with one; the context's
// cause when that is done; or a handler's own. InputResponses and RequestState of params
// are not used. (basic/patterns/mrtr, "Client Requirements")
//
// A call that the server makes a task is waited for, too: it is looked at as often as the
// server says, or when the server tells of a change. When the waiting ends before the task
// does, as when ctx is done, the task goes on: the error is a [*TaskError] with the way
// back to it, which wraps the one above, and [Session.CancelTask] cancels the task. A task
// that was cancelled gives [ErrTaskCancelled]. (SEP-2663)
func (s *Session) CallTool(ctx context.Context, params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
	var task json.RawMessage
	if s.client.opts.Tasks == TasksSeeds {
		task = json.RawMessage(`{}`)
	}
	c, err := s.newToolCall(params, task)
	if err != nil {
		return nil, err
	}
	res, err := c.drive(ctx)
	if err != nil {
		return nil, err
	}
	return res.(*mcp.CallToolResult), nil
}

// newToolCall makes a call that asks for a task, unless task is nil.
func (s *Session) newToolCall(params *mcp.CallToolParams, task json.RawMessage) (*call, error) {
	data, err := json.Marshal(&toolParams{params.Name, params.Arguments, task})
	if err != nil {
		return nil, err
	}
	return s.newCall(wire.CallTool, data, params.Meta)
}

// toolParams are the parameters of a tool's call.
type toolParams struct {
	Name      string          `json:"name"`
	Arguments any             `json:"arguments,omitempty"`
	Task      json.RawMessage `json:"task,omitempty"`
}

// GetPrompt gets a prompt: see [Session.CallTool].
func (s *Session) GetPrompt(ctx context.Context, params *mcp.GetPromptParams) (*mcp.GetPromptResult, error) {
	return start[*mcp.GetPromptResult](ctx, s, wire.GetPrompt, &mcp.GetPromptParams{Name: params.Name, Arguments: params.Arguments}, params.Meta)
}

// ReadResource reads a resource: see [Session.CallTool].
func (s *Session) ReadResource(ctx context.Context, params *mcp.ReadResourceParams) (*mcp.ReadResourceResult, error) {
	return start[*mcp.ReadResourceResult](ctx, s, wire.ReadResource, &mcp.ReadResourceParams{URI: params.URI}, params.Meta)
}

// Resume goes on with a parked call: this client's handlers answer what is still open,
// and the call continues to its result, an *mcp.CallToolResult, *mcp.GetPromptResult or
// *mcp.ReadResourceResult. The session must be with the server that was called, or with
// another instance of it. Errors are as for [Session.CallTool]. A call that was resumed
// before may be resumed again, where the server does not make its states single use.
func (s *Session) Resume(ctx context.Context, p *Pending) (mcp.Result, error) {
	if p.TaskID != "" {
		res, err := s.resumeTask(ctx, p)
		if err != nil {
			return nil, err // and no result that holds nothing
		}
		return res, nil
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
			if err := s.client.check(&asked); err != nil {
				return nil, err
			}
		}
		resumed.Questions[i] = &asked
	}
	c.pending, c.round = &resumed, p.Round
	return c.drive(ctx)
}

func (s *Session) resumeTask(ctx context.Context, p *Pending) (*mcp.CallToolResult, error) {
	w := &await{Session: s, id: p.TaskID, tasks: p.Tasks, params: p.Params, round: p.Round, have: make(map[string]reply)}
	if s.legacy() || p.Tasks != TasksExtension && p.Tasks != TasksSeeds {
		var err error
		if w.tasks, err = s.dialect(); err != nil {
			return nil, err
		}
	}
	var params toolParams
	_ = json.Unmarshal(p.Params, &params) // which may be missing
	w.target = params.Name
	for _, q := range p.Questions {
		if !s.legacy() {
			w.known = append(w.known, q)
		}
		if answer, ok := p.Answers[q.Key]; ok {
			w.have[q.Key] = reply{digest(q), answer}
		}
	}
	return w.run(ctx)
}

// call is one call over its rounds.
type call struct {
	*Session
	method, target string
	params         json.RawMessage // as a Pending keeps them
	send           func(ctx context.Context) (mcp.Result, error)
	round          int      // the last round that was sent
	pending        *Pending // what it asked, or nil before the first
	pause          time.Duration
	relisted       bool // once is enough

	task   json.RawMessage // asks for a task, if it is not nil
	detach bool            // return when there is a task
	became *Task
	tasks  TaskDialect // of that
}

// newCall makes a call from its parameters, which it sends in every round alike.
func (s *Session) newCall(method string, params json.RawMessage, meta mcp.Meta) (*call, error) {
	var fields struct {
		Name      string          `json:"name"`
		URI       string          `json:"uri"`
		Arguments json.RawMessage `json:"arguments"`
		Task      json.RawMessage `json:"task"`
	}
	if err := json.Unmarshal(params, &fields); err != nil {
		return nil, err
	}
	c := &call{Session: s, method: method, target: fields.Name, params: params}
	if method == wire.CallTool && fields.Task != nil {
		c.task = fields.Task
		if !s.legacy() {
			meta = s.client.undeclared(meta)
		}
	}
	// The SDK adds to the Meta that it is given.
	switch method {
	case wire.CallTool:
		c.send = func(ctx context.Context) (mcp.Result, error) {
			p := &mcp.CallToolParams{Meta: maps.Clone(meta), Name: fields.Name}
			if fields.Arguments != nil {
				p.Arguments = fields.Arguments
			}
			return s.sdk.CallTool(ctx, p)
		}
	case wire.GetPrompt:
		var arguments map[string]string
		if fields.Arguments != nil {
			if err := json.Unmarshal(fields.Arguments, &arguments); err != nil {
				return nil, err
			}
		}
		c.send = func(ctx context.Context) (mcp.Result, error) {
			return s.sdk.GetPrompt(ctx, &mcp.GetPromptParams{Meta: maps.Clone(meta), Name: fields.Name, Arguments: arguments})
		}
	case wire.ReadResource:
		c.target = fields.URI
		c.send = func(ctx context.Context) (mcp.Result, error) {
			return s.sdk.ReadResource(ctx, &mcp.ReadResourceParams{Meta: maps.Clone(meta), URI: fields.URI})
		}
	default:
		return nil, fmt.Errorf("the method %q cannot wait", method)
	}
	return c, nil
}

func start[R mcp.Result](ctx context.Context, s *Session, method string, params any, meta mcp.Meta) (R, error) {
	var none R
	data, err := json.Marshal(params)
	if err != nil {
		return none, err
	}
	c, err := s.newCall(method, data, meta)
	if err != nil {
		return none, err
	}
	res, err := c.drive(ctx)
	if err != nil {
		return none, err
	}
	return res.(R), nil
}

// begin begins a call of a session: it is bounded, and may be asked inside the session.
func (s *Session) begin(ctx context.Context) (_ context.Context, leave func()) {
	total := s.client.opts.Limits.Total
	ctx, done := s.bound(ctx)
	ctx, cancel := context.WithTimeoutCause(ctx, total, limit("total time of a call", total, nil))
	ended := s.inline.enter()
	return ctx, func() { ended(); cancel(); done() }
}

func (c *call) drive(ctx context.Context) (mcp.Result, error) {
	limits := c.client.opts.Limits
	ctx, leave := c.begin(ctx)
	defer leave()
	if err := c.negotiate(ctx); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	for {
		var err error
		var answers map[string]json.RawMessage
		if c.round >= limits.Rounds { // before anybody answers what could not be sent
			err = limit("rounds in one call", limits.Rounds, nil)
		} else {
			answers, err = c.answer(ctx)
		}
		if err == nil {
			var res mcp.Result
			if res, err = c.exchange(ctx, answers); res != nil {
				return res, nil
			}
		}
		if c.became != nil && err == nil {
			if c.detach {
				return nil, nil
			}
			w := &await{Session: c.Session, id: c.became.ID, tasks: c.tasks, target: c.target, params: c.params, round: c.round, task: c.became, shown: c.became}
			res, err := w.wait(ctx)
			if err != nil {
				return nil, err
			}
			return res, nil
		}
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause
		}
		if err != nil {
			if bound, ok := errors.AsType[*LimitError](err); ok && bound.Pending == nil {
				bound.Pending = c.pending
			}
			return nil, err
		}
	}
}

// answer gathers the answers for the next round, or waits out its pause.
func (c *call) answer(ctx context.Context) (map[string]json.RawMessage, error) {
	p := c.pending
	if p == nil {
		return nil, nil
	}
	if len(p.Questions) == 0 {
		timer := time.NewTimer(c.pause)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	answers, parked, err := c.client.answerAll(ctx, p.Questions, p.Answers)
	if err != nil {
		return nil, err
	}
	if parked {
		parkedCall := *p
		parkedCall.Answers = answers
		return nil, &parkedCall
	}
	return answers, nil
}

// exchange sends one round. It returns the result, or neither result nor error when the
// call goes on with c.pending.
func (c *call) exchange(ctx context.Context, answers map[string]json.RawMessage) (mcp.Result, error) {
	limits := c.client.opts.Limits
	c.round++
	x := &exchange{answers: answers, task: c.task}
	r := &Round{Number: c.round, Method: c.method, Target: c.target, Answers: answers}
	if c.pending != nil {
		x.state = c.pending.state()
		r.StateSent = len(c.pending.State)
	}
	began := time.Now()
	res, err := c.send(context.WithValue(ctx, exchangeKey{}, x))
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok && fault.Code == mcp.CodeHeaderMismatch && !c.relisted && c.relist(ctx) {
		res, err = c.send(context.WithValue(ctx, exchangeKey{}, x))
	}
	// In the drafts no list tells which tools cannot be tasks: it is asked once.
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok && fault.Code == jsonrpc.CodeMethodNotFound && c.task != nil && !c.legacy() {
		c.task, x.task = nil, nil
		res, err = c.send(context.WithValue(ctx, exchangeKey{}, x))
	}
	r.Elapsed = time.Since(began)
	result, broken := x.came()
	if broken != nil {
		err = broken
	}
	var next *Pending
	if err == nil {
		next, err = c.outcome(result)
	}
	r.Task = c.became
	if fault, ok := errors.AsType[*jsonrpc.Error](err); ok && fault.Code == jsonrpc.CodeInvalidParams && x.state != nil {
		err = &RefusedError{err}
	}
	if r.Err, r.Final = err, err == nil && next == nil && c.became == nil; r.Final {
		r.Result = result
	}
	if next != nil {
		if r.Questions, r.StateReceived = next.Questions, len(next.State); len(next.Questions) == 0 {
			c.pause = min(max(2*c.pause, limits.FirstPause), limits.MaxPause)
			c.pause = c.pause*3/4 + rand.N(c.pause/2+1) // so that clients shed together do not return together
			r.Pause = c.pause
		} else {
			c.pause = 0
		}
	}
	if observe := c.client.opts.Observe; observe != nil {
		if refused := observe(ctx, r); refused != nil && err == nil {
			err = refused
		}
	}
	if err != nil || c.became != nil {
		return nil, err
	}
	if next == nil {
		return res, nil
	}
	c.pending = next
	for _, q := range next.Questions {
		if err := c.client.check(q); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// relist lists tools until the one that is called is there, and reports whether it is.
// Its schema tells the SDK which arguments go into headers, which the server misses
// where the tool changed, or was not listed in this session.
// (basic/transports/streamable-http, "Client Behavior")
func (c *call) relist(ctx context.Context) bool {
	if c.method != wire.CallTool {
		return false
	}
	c.relisted = true
	params := new(mcp.ListToolsParams)
	const pages = 4 // a list can be as long as its server likes
	for range pages {
		page, err := c.sdk.ListTools(ctx, params)
		if err != nil {
			return false
		}
		if slices.ContainsFunc(page.Tools, func(t *mcp.Tool) bool { return t.Name == c.target }) {
			return true
		}
		if page.NextCursor == "" {
			return false
		}
		params = &mcp.ListToolsParams{Cursor: page.NextCursor}
	}
	return false
}

// outcome reads a result that came: nil if it is complete.
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
	seeds := c.task != nil && strictjson.Get(result, "content") == nil // the drafts' results have no type
	created := strictjson.Get(result, "task")
	switch {
	case kind == "task" && c.method == wire.CallTool && c.task == nil && c.client.opts.Tasks != TasksOff:
		c.tasks = TasksExtension
		c.became, err = c.parseTask(result)
		return nil, err
	case kind == "complete" && seeds && created != nil:
		c.tasks = TasksSeeds
		c.became, err = c.parseTask(created)
		return nil, err
	case kind == "complete" && seeds && strictjson.Get(result, "inputRequests") != nil:
	case kind == "complete":
		return nil, nil
	case kind != "input_required":
		return nil, &ProtocolError{fmt.Sprintf("the resultType %.40q is unknown", kind)}
	}
	p := &Pending{Endpoint: c.endpoint, Method: c.method, Params: c.params, Round: c.round, Parked: time.Now()}
	state, err := requestState(result)
	if err != nil {
		return nil, err
	}
	p.setState(state)
	requests := strictjson.Get(result, "inputRequests")
	if requests == nil && state == nil {
		return nil, &ProtocolError{"input is required, but neither inputRequests nor requestState are there"}
	}
	if requests != nil {
		if p.Questions, err = parseQuestions(requests, c.Server(), c.client.opts.Limits.Questions); err != nil {
			return nil, err
		}
	}
	if meta := strictjson.Get(result, "_meta"); meta != nil && strictjson.TypeOf(meta) == strictjson.TypeObject {
		if text, ok := strictjson.String(strictjson.Get(meta, wire.MetaExpires)); ok {
			if expires, err := time.Parse(time.RFC3339, text); err == nil {
				p.Expires = &expires
			}
		}
	}
	return p, nil
}
