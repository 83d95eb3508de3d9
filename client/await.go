package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/jitter"
	"github.com/askback-mcp/askback/internal/wire"
)

// WaitTask waits for the result of a task, and answers its questions. Errors are as for [Session.CallTool]; an
// [ErrTaskUnknown] means that there is nothing to wait for. The task continues if ctx is cancelled.
func (s *Session) WaitTask(ctx context.Context, id string) (*mcp.CallToolResult, error) {
	tasks, err := s.tasks()
	if err != nil {
		return nil, err
	}
	return as[*mcp.CallToolResult]((&await{Session: s, id: id, tasks: tasks}).run(ctx))
}

// as returns a result in its own type, or nil if there is none. A nil interface must not become a typed nil.
func as[R mcp.Result](res mcp.Result, err error) (R, error) {
	typed, _ := res.(R)
	return typed, err
}

// await waits for one task, and answers its questions.
type await struct {
	*Session
	id     string
	tasks  taskRequests
	target string          // The tool of the call, if it is known.
	params json.RawMessage // The parameters of the call, if they are known.
	round  int             // how often the call, and then the task, has asked
	trace  callTrace
	have   map[string]reply // answers that are not sent yet, by the questions' keys
	known  []*Question      // those asked before the waiting was resumed
	bare   bool             // no handler answers: see [Session.Send]
	result json.RawMessage  // of the task, as it came

	task         *Task            // The task as the server last reported it.
	reported     *Task            // The task as OnRound last saw it.
	sent         map[string]reply // answers that the server has: a status that still asks for them is an old one
	still        int              // status responses in a row in which all questions were answered
	failures     int              // in a row
	over         bool             // the task has ended
	subscription *subscription    // may bring no reports
	woken        int              // how often the subscription ended a pause
}

// reply is an answer, with the digest of the question that it answers.
type reply struct {
	question [32]byte
	answer   json.RawMessage
}

// backstop is the time between two status requests while the server reports changes itself.
const backstop = time.Minute

// awaitPending waits for the task of a pending call from where its waiting ended.
func (s *Session) awaitPending(p *Pending) (*await, error) {
	w := &await{Session: s, id: p.TaskID, tasks: taskRequests{s, p.Tasks}, params: p.Params, round: p.Round,
		have: make(map[string]reply)}
	w.trace.text = p.Trace
	if s.legacy() || p.Tasks != TasksExtension && p.Tasks != TasksProposal {
		var err error
		if w.tasks, err = s.tasks(); err != nil {
			return nil, err
		}
	}
	var params toolParams
	_ = json.Unmarshal(p.Params, &params) // a call that another process parked may lack them
	w.target = params.Name
	for _, q := range p.Questions {
		if !s.legacy() {
			w.known = append(w.known, q)
		}
		if answer, ok := p.Answers[q.Key]; ok {
			w.have[q.Key] = reply{digest(q), answer}
		}
	}
	return w, nil
}

// run is wait, bounded as a call of its own.
func (w *await) run(ctx context.Context) (mcp.Result, error) {
	ctx, leave := w.begin(ctx)
	defer leave()
	return w.wait(ctx)
}

// wait returns the task's result or its error. When the waiting ends before the task, the error is a [*PendingError].
func (w *await) wait(ctx context.Context) (mcp.Result, error) {
	if w.opts.Observe != nil {
		ctx = context.WithValue(ctx, traceKey{}, &w.trace)
	}
	res, err := w.drive(ctx)
	if err == nil {
		return res, nil
	}
	err = cmp.Or(context.Cause(ctx), err)
	if _, pending := errors.AsType[*PendingError](err); pending || w.over {
		return nil, err
	}
	return nil, &PendingError{w.pending(), err}
}

// pending is the call as it stands.
func (w *await) pending() *Pending {
	p := &Pending{Endpoint: w.endpoint, Method: wire.CallTool, Params: w.params, Round: w.round, Trace: w.trace.String(),
		Parked: time.Now(), TaskID: w.id, Tasks: w.tasks.dialect,
		Answers: make(map[string]json.RawMessage)}
	if t := w.task; t != nil {
		p.Questions = t.Questions
		p.setState(t.state)
		if !t.Created.IsZero() && t.TTL > 0 {
			expires := t.Created.Add(t.TTL)
			p.Expires = &expires
		}
	}
	for _, q := range p.Questions {
		for _, known := range []map[string]reply{w.have, w.sent} {
			if r, ok := known[q.Key]; ok && r.question == digest(q) {
				p.Answers[q.Key] = r.answer
			}
		}
	}
	return p
}

func (w *await) drive(ctx context.Context) (*mcp.CallToolResult, error) {
	w.sent, w.subscription = make(map[string]reply), newSubscription(w.Session, w.id)
	if w.tasks.dialect == TasksExtension && !w.silent.Load() && (w.task == nil || !w.task.Ended()) {
		defer w.subscription.subscribe(ctx, w.tasks.dialect)()
	}
	var err error
	r := new(Round)
	if w.task == nil || w.task.Status != taskWorking { // else the response to the call says all
		r = nil
	}
	for {
		if r == nil {
			if r, err = w.poll(ctx); err != nil {
				return nil, err
			}
		}
		res, again, err := w.act(ctx, r)
		if res != nil || err != nil {
			return res, err
		}
		if r = nil; !again {
			if r, err = w.rest(ctx); err != nil {
				return nil, err
			}
		}
	}
}

// poll requests the status of the task, again where the request failed for a while. The round
// names the message that had the status.
func (w *await) poll(ctx context.Context) (*Round, error) {
	for {
		r := &Round{Method: wire.GetTask}
		began := time.Now()
		t, err := w.pollOnce(ctx)
		r.Elapsed = time.Since(began)
		if err != nil && w.subscription.ended.Err() != nil {
			t, r.Method, err = w.subscription.take(), tap.MethodTask, nil
		}
		if err == nil {
			w.task, w.failures = t, 0
			return r, nil
		}
		if w.isFinal(ctx, err) {
			w.over = errors.Is(err, ErrTaskUnknown)
			r.Err = err
			_ = w.report(ctx, r)
			return nil, err
		}
	}
}

// pollOnce requests the status once, until the server reports the task's end meanwhile.
func (w *await) pollOnce(ctx context.Context) (*Task, error) {
	ctx, cancel := join(ctx, w.subscription.ended)
	defer cancel()
	return w.tasks.get(ctx, w.id)
}

// isFinal reports whether an error ends the waiting. If it does not, isFinal has paused.
func (w *await) isFinal(ctx context.Context, err error) bool {
	fault, isFault := errors.AsType[*jsonrpc.Error](err)
	status, isStatus := errors.AsType[*tap.StatusError](err)
	_, isLimit := errors.AsType[*LimitError](err)
	_, isProtocol := errors.AsType[*ProtocolError](err)
	const most = 10
	switch {
	case isFault && fault.Code != jsonrpc.CodeInternalError, isLimit, isProtocol,
		isStatus && status.Code < 500 && status.Code != http.StatusTooManyRequests &&
			status.Code != http.StatusRequestTimeout,
		errors.Is(err, mcp.ErrConnectionClosed), errors.Is(err, io.EOF), w.failures == most:
		return true
	}
	limits := &w.opts.Limits
	wait := min(limits.FirstPause<<w.failures, limits.MaxPause)
	w.failures++
	return pause(ctx, jitter.Around(wait)) != nil
}

// report calls [Options.OnRound], if there is something new.
func (w *await) report(ctx context.Context, r *Round) error {
	r.Number, r.Target, r.Task = w.round, w.target, w.task
	changed := w.task != nil &&
		(w.reported == nil || w.reported.Status != w.task.Status || w.reported.Message != w.task.Message)
	report := w.opts.OnRound
	if report == nil || !changed && !r.Final && r.Err == nil && r.Questions == nil && r.Answers == nil {
		return nil
	}
	w.reported = w.task
	return report(ctx, r)
}

// act does what the task's status asks for. It returns the task's result, or whether to
// request the status again at once.
func (w *await) act(ctx context.Context, r *Round) (res *mcp.CallToolResult, again bool, err error) {
	t := w.task
	if t.Status != taskAsks {
		w.still = 0
	}
	switch {
	case t.Status == taskWorking:
		return nil, false, w.report(ctx, r)
	case t.Status == taskCancelled:
		return w.finish(ctx, r, nil, t.cancellation())
	case w.tasks.dialect == TasksProposal:
		if err := w.report(ctx, r); err != nil {
			return nil, false, err
		}
		return w.fetch(ctx)
	case t.Status == taskCompleted:
		return w.finish(ctx, r, t.Result, nil)
	case t.Status == taskFailed:
		return w.finish(ctx, r, nil, t.failure())
	}
	if t.Questions == nil && len(w.sent) == 0 && r.Method != "" {
		return nil, false, errNothingAsked
	}
	open, err := w.open(t.Questions)
	if err != nil {
		return nil, false, err
	}
	if len(open) > 0 {
		return nil, true, w.answer(ctx, r, open)
	}
	if err := w.report(ctx, r); err != nil {
		return nil, false, err
	}
	// The server has the answers. If it may have lost them it gets them again, which does no
	// harm: after four status responses, after eight, and so on.
	if w.still++; w.still >= 4 && w.still&(w.still-1) == 0 && len(t.Questions) > 0 {
		answers := make(map[string]json.RawMessage)
		for _, q := range t.Questions {
			answers[q.Key] = w.sent[q.Key].answer
		}
		return nil, false, w.send(ctx, answers)
	}
	return nil, false, nil
}

// finish reports the end of the task: its result, or its error.
func (w *await) finish(
	ctx context.Context, r *Round, raw json.RawMessage, err error,
) (*mcp.CallToolResult, bool, error) {
	w.over = true
	var res *mcp.CallToolResult
	if err == nil {
		res, err = parseTaskResult(raw)
	}
	if r.Err = err; err == nil {
		r.Final, r.Result = true, raw
		w.result = raw
	}
	if refused := w.report(ctx, r); refused != nil && err == nil {
		return nil, false, refused
	}
	return res, false, err
}

// open returns the questions that are not answered yet. A key stands for one question as
// long as the task lives (SEP-2663, "Task Update Requests").
func (w *await) open(questions []*Question) ([]*Question, error) {
	var open []*Question
	for _, q := range questions {
		was, ok := w.sent[q.Key]
		switch {
		case !ok:
			open = append(open, q)
		case was.question != digest(q):
			return nil, &ProtocolError{fmt.Sprintf("a task uses the key %.80q for a second question", q.Key)}
		}
	}
	return open, nil
}

// answer answers questions, which came with r:
//
//  1. It counts a round, unless the waiting was resumed with these questions.
//  2. It calls OnRound, and refuses questions of undeclared kinds.
//  3. It gathers the answers that are there already, and the handlers' answers.
//  4. It parks the call if a handler does, and sends the answers otherwise.
func (w *await) answer(ctx context.Context, r *Round, open []*Question) error {
	if slices.ContainsFunc(open, func(q *Question) bool {
		return !slices.ContainsFunc(w.known, func(k *Question) bool { return k.Key == q.Key && digest(k) == digest(q) })
	}) {
		if w.round >= w.opts.Limits.Rounds { // before anybody answers what could not be sent
			return w.opts.Limits.roundsReached()
		}
		w.round++
	}
	w.still, w.known = 0, nil
	given := make(map[string]json.RawMessage)
	for _, q := range open {
		if had, ok := w.have[q.Key]; ok && had.question == digest(q) {
			given[q.Key] = had.answer
		} else {
			r.Questions = append(r.Questions, q)
		}
	}
	if err := w.report(ctx, r); err != nil {
		return err
	}
	answers, parked, err := given, len(given) < len(open), error(nil)
	if !w.bare {
		if err := w.opts.check(open...); err != nil {
			return err
		}
		answers, parked, err = w.opts.answerAll(ctx, open, given)
	}
	replies := make(map[string]reply)
	for _, q := range open {
		if a, ok := answers[q.Key]; ok {
			replies[q.Key] = reply{digest(q), a}
		}
	}
	w.have = replies // until the server has them: nobody should have to answer twice after a lost connection
	switch {
	case err != nil:
		return err
	case parked:
		return &PendingError{w.pending(), ErrPark}
	}
	if err := w.send(ctx, answers); err != nil {
		if isFault(err) {
			w.have = nil // the server refuses them
		}
		return err
	}
	w.have = nil
	maps.Copy(w.sent, replies)
	return nil
}

// send sends answers, again where the request failed for a while.
func (w *await) send(ctx context.Context, answers map[string]json.RawMessage) error {
	for {
		began := time.Now()
		err := w.tasks.answer(ctx, w.id, w.task.state, answers)
		if err != nil && !w.isFinal(ctx, err) {
			continue
		}
		if err == nil {
			w.failures = 0
		}
		refused := w.report(ctx, &Round{Method: answerMethod(w.tasks.dialect), Elapsed: time.Since(began),
			Answers: answers, Err: err})
		if isFault(err) {
			return w.recheck(ctx, err)
		}
		return cmp.Or(err, refused)
	}
}

// recheck requests the status after the server has answered another request with an error. The error may only mean that
// the task has ended meanwhile, or is unknown by now: recheck then returns nil, or [ErrTaskUnknown], in its place.
func (w *await) recheck(ctx context.Context, failed error) error {
	t, err := w.tasks.get(ctx, w.id)
	if errors.Is(err, ErrTaskUnknown) {
		w.over = true
		return err
	}
	if err != nil {
		return failed
	}
	if w.task = t; t.Ended() {
		return nil
	}
	return failed
}

// rest waits until it is time to request the status, or until the server reports it. Then it
// returns the round of the report.
func (w *await) rest(ctx context.Context) (*Round, error) {
	interval := w.interval()
	if w.subscription.reports() {
		interval = max(interval, backstop)
	}
	if w.woken > 32 { // a server may report faster than is good for the client
		if err := pause(ctx, w.opts.Limits.MinPoll); err != nil {
			return nil, err
		}
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(interval):
		return nil, nil
	case <-w.subscription.wake:
		w.woken++
		t := w.subscription.take() // nil if the reports have just begun or ended
		if t == nil || w.isStale(t) {
			return nil, nil // the status is requested again
		}
		w.task = t
		return &Round{Method: tap.MethodTask}, nil
	}
}

// isStale reports whether a report is older than the last status, or by another clock. Times have milliseconds, so a
// report of the same millisecond can be older, too: it asks for an answer that the server has had since.
func (w *await) isStale(t *Task) bool {
	if t.Updated.IsZero() || t.Ended() {
		return false
	}
	if t.Updated.Equal(w.task.Updated) && t.Status == taskAsks && w.task.Status == taskWorking {
		open, err := w.open(t.Questions)
		return err == nil && len(open) == 0
	}
	return t.Updated.Before(w.task.Updated)
}

// interval is the time between two requests for the status.
func (w *await) interval() time.Duration {
	interval := cmp.Or(w.task.PollInterval, time.Second)
	return min(max(interval, w.opts.Limits.MinPoll), w.opts.Limits.MaxPoll)
}

// fetch requests the result in the dialect where it has a request of its own. The response is the result, or the
// questions of the task. In a session before 2026-07-28 the task asks inside the session meanwhile.
func (w *await) fetch(ctx context.Context) (res *mcp.CallToolResult, again bool, err error) {
	began := time.Now()
	questions, leave := w.inline.wait(w.id)
	defer leave()
	x := &tap.Exchange{Method: wire.TaskResult, Name: w.id, Cancelled: make(chan struct{})}
	bounded, cancel := context.WithCancel(ctx)
	var raw json.RawMessage
	var failed error
	responded := make(chan struct{})
	go func() {
		defer close(responded)
		raw, failed = w.exchange(bounded, w.tasks.dialect, x, &taskParams{TaskID: w.id})
	}()
	defer func() { cancel(); <-responded }()

	var ended time.Time // When the status first said that the task has ended.
	// The status is requested beside the open request, because its response can be lost with a connection that nobody
	// closes, and because a cancelled task may leave it open.
	ticks := time.Tick(w.interval())
	for {
		select {
		case <-responded:
			return w.fetched(ctx, &Round{Method: wire.TaskResult, Elapsed: time.Since(began)}, raw, failed)
		case p := <-questions:
			// The request ends before the session does, which may be soon: else the server would
			// wait for an answer that nothing can bring.
			end := responded
			if !p.responded {
				cancel()
				end = x.Cancelled
			}
			select {
			case <-end:
			case <-time.After(time.Second):
			}
			w.task.Questions = []*Question{p.question}
			return nil, false, &PendingError{w.pending(), ErrPark}
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-ticks:
			if w.task.Ended() && ended.IsZero() {
				ended = time.Now()
			} else if w.task.Ended() && time.Since(ended) > backstop/2 { // the response was lost on its way
				return nil, true, nil
			}
			t, err := w.tasks.get(ctx, w.id)
			if err != nil {
				continue
			}
			w.task = t
			if err := w.report(ctx, &Round{Method: wire.GetTask}); err != nil || t.Status == taskCancelled {
				return nil, true, err
			}
		}
	}
}

// fetched reads the response to tasks/result.
func (w *await) fetched(
	ctx context.Context, r *Round, raw json.RawMessage, err error,
) (*mcp.CallToolResult, bool, error) {
	if err != nil {
		switch fault := isFault(err); {
		case fault && w.task.Ended():
			return w.finish(ctx, r, nil, err)
		case !w.isFinal(ctx, err):
			return nil, true, nil
		case fault:
			failed := w.recheck(ctx, err)
			if failed == nil { // the task has ended with this error
				return w.finish(ctx, r, nil, err)
			}
			return nil, false, failed
		}
		return nil, false, err
	}
	asked, err := parseAsked(raw, w.Server(), &w.opts.Limits)
	switch {
	case err != nil:
		return nil, false, err
	case asked == nil:
		return w.finish(ctx, r, raw, nil)
	}
	now := *w.task
	now.Questions, now.state = asked.Questions, asked.state
	w.task = &now
	// Drafts let a task ask again under the same key, if the answer was not good enough. But if the same question comes
	// again, the answer to it may still be on its way.
	if w.still++; w.still > 2 || slices.ContainsFunc(now.Questions, func(q *Question) bool {
		was, ok := w.sent[q.Key]
		return ok && was.question != digest(q)
	}) {
		clear(w.sent)
	}
	open, err := w.open(now.Questions)
	if err != nil || len(open) == 0 {
		return nil, false, err
	}
	return nil, true, w.answer(ctx, r, open)
}
