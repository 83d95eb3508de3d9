package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// await waits for one task, and answers what it asks.
type await struct {
	*Session
	id     string
	tasks  TaskDialect
	target string           // of the call, if it is known
	params json.RawMessage  // of the call, if they are known
	round  int              // how often the call, and then the task, has asked
	have   map[string]reply // answers that are not sent yet, by the questions' keys
	known  []*Question      // that were asked before the waiting was resumed

	task     *Task            // as it was told last
	shown    *Task            // as the observer knows it
	sent     map[string]reply // answers that the server has
	still    int              // looks in a row at which it asked only what it has the answers to
	failures int              // in a row
	over     bool             // the task has ended
	news     *news            // nil where the server tells nothing
	woken    int
}

// reply is an answer and what it answers.
type reply struct {
	question [32]byte
	answer   json.RawMessage
}

// digest tells questions apart that have the same key.
func digest(q *Question) [32]byte {
	method, _ := json.Marshal(q.Method) // a string always marshals
	params := q.Params
	if params == nil {
		params = json.RawMessage("null")
	}
	return strictjson.Digest(fmt.Appendf(nil, "[%s,%s]", method, params))
}

// backstop is how often a task is looked at of whose changes the server tells by itself.
const backstop = time.Minute

// run is wait, bounded as a call of its own.
func (w *await) run(ctx context.Context) (*mcp.CallToolResult, error) {
	ctx, leave := w.begin(ctx)
	defer leave()
	return w.wait(ctx)
}

// wait waits. Whatever ends the waiting but not the task is told with the way back to it.
func (w *await) wait(ctx context.Context) (*mcp.CallToolResult, error) {
	res, err := w.drive(ctx)
	if err == nil {
		return res, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	if _, parked := errors.AsType[*Pending](err); parked || w.over {
		return nil, err
	}
	p := w.pending()
	if bound, ok := errors.AsType[*LimitError](err); ok && bound.Pending == nil {
		bound.Pending = p
	}
	return nil, &TaskError{Pending: p, Err: err}
}

// pending is what goes on with the task.
func (w *await) pending() *Pending {
	p := &Pending{Endpoint: w.endpoint, Method: wire.CallTool, Params: w.params, Round: w.round, Parked: time.Now(), TaskID: w.id, Tasks: w.tasks}
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
				if p.Answers == nil {
					p.Answers = make(map[string]json.RawMessage)
				}
				p.Answers[q.Key] = r.answer
			}
		}
	}
	return p
}

func (w *await) drive(ctx context.Context) (*mcp.CallToolResult, error) {
	if w.tasks == TasksExtension && !w.silent.Load() && (w.task == nil || !w.task.Ended()) {
		defer w.listen(ctx)()
	}
	r, err := new(Round), error(nil)
	if w.task == nil || w.task.Status != taskWorking { // else the answer to the call has told all
		if r, err = w.look(ctx); err != nil {
			return nil, err
		}
	}
	for {
		res, again, err := w.act(ctx, r)
		if res != nil || err != nil {
			return res, err
		}
		r = nil
		if !again {
			if r, err = w.rest(ctx); err != nil {
				return nil, err
			}
		}
		if r == nil {
			if r, err = w.look(ctx); err != nil {
				return nil, err
			}
		}
	}
}

// look asks how the task stands, and again where it did not come through.
func (w *await) look(ctx context.Context) (*Round, error) {
	for {
		began := time.Now()
		t, method, err := w.lookOrHear(ctx)
		if err == nil {
			w.task, w.failures = t, 0
			return &Round{Method: method, Elapsed: time.Since(began)}, nil
		}
		if w.fails(ctx, err) {
			w.over = errors.Is(err, ErrTaskUnknown)
			_ = w.tell(ctx, &Round{Method: wire.GetTask, Elapsed: time.Since(began), Err: err})
			return nil, err
		}
	}
}

// lookOrHear looks once, unless the server tells of the task's end meanwhile. The method is
// that of the message that told.
func (w *await) lookOrHear(ctx context.Context) (t *Task, method string, err error) {
	if w.news == nil {
		t, err = w.Session.look(ctx, w.tasks, w.id)
		return t, wire.GetTask, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type response struct {
		task *Task
		err  error
	}
	came := make(chan response, 1)
	go func() {
		t, err := w.Session.look(ctx, w.tasks, w.id)
		came <- response{t, err}
	}()
	woken := false
	for {
		select {
		case got := <-came:
			if woken { // what else was told is for later
				w.news.rouse()
			}
			return got.task, wire.GetTask, got.err
		case <-w.news.wake:
			woken = true
			if last := w.news.last(); last != nil {
				return last, methodTaskNews, nil
			}
		}
	}
}

// fails reports whether an error is to end the waiting. If not, it has paused.
func (w *await) fails(ctx context.Context, err error) bool {
	fault, isFault := errors.AsType[*jsonrpc.Error](err)
	status, isStatus := errors.AsType[*statusError](err)
	_, isLimit := errors.AsType[*LimitError](err)
	_, isProtocol := errors.AsType[*ProtocolError](err)
	const most = 10
	switch {
	case isFault && fault.Code != jsonrpc.CodeInternalError, isLimit, isProtocol,
		isStatus && status.code < 500 && status.code != http.StatusTooManyRequests && status.code != http.StatusRequestTimeout,
		errors.Is(err, mcp.ErrConnectionClosed), errors.Is(err, io.EOF), w.failures == most:
		return true
	}
	limits := w.client.opts.Limits
	pause := min(limits.FirstPause<<w.failures, limits.MaxPause)
	w.failures++
	return sleep(ctx, pause*3/4+rand.N(pause/2+1)) != nil
}

// tell tells the observer, if there is something new.
func (w *await) tell(ctx context.Context, r *Round) error {
	r.Number, r.Target, r.Task = w.round, w.target, w.task
	changed := w.task != nil && (w.shown == nil || w.shown.Status != w.task.Status || w.shown.Message != w.task.Message)
	observe := w.client.opts.Observe
	if observe == nil || !changed && !r.Final && r.Err == nil && r.Questions == nil && r.Answers == nil {
		return nil
	}
	w.shown = w.task
	return observe(ctx, r)
}

// act does what the task wants. It returns the task's result, or whether to look again at
// once.
func (w *await) act(ctx context.Context, r *Round) (res *mcp.CallToolResult, again bool, err error) {
	t := w.task
	if t.Status != taskAsks {
		w.still = 0
	}
	switch {
	case t.Status == taskWorking:
		return nil, false, w.tell(ctx, r)
	case t.Status == taskCancelled:
		w.over = true
		r.Err = cancelled(t)
		_ = w.tell(ctx, r)
		return nil, false, r.Err
	case w.tasks == TasksSeeds:
		if err := w.tell(ctx, r); err != nil {
			return nil, false, err
		}
		return w.fetch(ctx)
	case t.Status == taskCompleted:
		return w.end(ctx, r, t.Result, nil)
	case t.Status == taskFailed:
		return w.end(ctx, r, nil, taskFault(t))
	}
	if t.Questions == nil && w.sent == nil && r.Method != "" {
		return nil, false, &ProtocolError{"a task waits for input, but inputRequests are missing"}
	}
	open, err := w.open(t.Questions)
	if err != nil {
		return nil, false, err
	}
	if len(open) > 0 {
		return nil, true, w.answer(ctx, r, open)
	}
	if err := w.tell(ctx, r); err != nil {
		return nil, false, err
	}
	// The server has the answers. Should they have been lost on its side, it gets them again,
	// which does no harm: after four looks, after eight, and so on.
	if w.still++; w.still >= 4 && w.still&(w.still-1) == 0 && len(t.Questions) > 0 {
		answers := make(map[string]json.RawMessage)
		for _, q := range t.Questions {
			answers[q.Key] = w.sent[q.Key].answer
		}
		return nil, false, w.send(ctx, answers)
	}
	return nil, false, nil
}

func cancelled(t *Task) error {
	if t.Message == "" {
		return ErrTaskCancelled
	}
	return fmt.Errorf("%w: %s", ErrTaskCancelled, t.Message)
}

// end tells of the end of the task: its result, or its error.
func (w *await) end(ctx context.Context, r *Round, raw json.RawMessage, failed error) (*mcp.CallToolResult, bool, error) {
	w.over = true
	res, err := (*mcp.CallToolResult)(nil), failed
	if err == nil {
		res, err = taskResult(raw)
	}
	if r.Err, r.Final = err, err == nil; r.Final {
		r.Result = raw
	}
	if refused := w.tell(ctx, r); refused != nil && err == nil {
		return nil, false, refused
	}
	return res, false, err
}

// open are the questions that are not answered yet. A key stands for one question as long
// as the task lives (SEP-2663, "Task Update Requests").
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

// answer answers questions. The round tells who asked them.
func (w *await) answer(ctx context.Context, r *Round, open []*Question) error {
	most := w.client.opts.Limits.Rounds
	if slices.ContainsFunc(open, func(q *Question) bool {
		return !slices.ContainsFunc(w.known, func(k *Question) bool { return k.Key == q.Key && digest(k) == digest(q) })
	}) {
		if w.round >= most { // before anybody answers what could not be sent
			return limit("rounds in one call", most, nil)
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
	if err := w.tell(ctx, r); err != nil {
		return err
	}
	for _, q := range open {
		if err := w.client.check(q); err != nil {
			return err
		}
	}
	answers, parked, err := w.client.answerAll(ctx, open, given)
	replies := make(map[string]reply)
	for _, q := range open {
		if a, ok := answers[q.Key]; ok {
			replies[q.Key] = reply{digest(q), a}
		}
	}
	w.have = replies // until the server has them
	switch {
	case err != nil:
		return err
	case parked:
		return w.pending()
	}
	if err := w.send(ctx, answers); err != nil {
		if _, fault := errors.AsType[*jsonrpc.Error](err); fault {
			w.have = nil // the server does not want them
		}
		return err
	}
	w.have = nil
	if w.sent == nil {
		w.sent = make(map[string]reply)
	}
	for key, r := range replies {
		w.sent[key] = r
	}
	return nil
}

// send gives the server answers.
func (w *await) send(ctx context.Context, answers map[string]json.RawMessage) error {
	method := wire.UpdateTask
	if w.tasks == TasksSeeds {
		method = wire.InputResponse
	}
	for {
		began := time.Now()
		err := w.answerTask(ctx, w.tasks, &Task{ID: w.id, state: w.task.state}, answers)
		if err != nil && !w.fails(ctx, err) {
			continue
		}
		if err == nil {
			w.failures = 0
		}
		refused := w.tell(ctx, &Round{Method: method, Elapsed: time.Since(began), Answers: answers, Err: err})
		if _, fault := errors.AsType[*jsonrpc.Error](err); fault {
			ended, unknown := w.meanwhile(ctx)
			if ended {
				return nil
			}
			err = cmp.Or(unknown, err)
		}
		if err == nil {
			err = refused
		}
		return err
	}
}

// meanwhile looks what became of a task about which the server answered with an error: that
// it has ended, or is not known any more, says more than the error.
func (w *await) meanwhile(ctx context.Context) (ended bool, unknown error) {
	t, err := w.Session.look(ctx, w.tasks, w.id)
	if errors.Is(err, ErrTaskUnknown) {
		w.over = true
		return false, err
	}
	if err == nil {
		w.task = t
	}
	return err == nil && t.Ended(), nil
}

// rest waits for the next look, or for news: then it returns the round of these.
func (w *await) rest(ctx context.Context) (*Round, error) {
	interval := w.interval()
	if w.news.listens() {
		interval = max(interval, backstop)
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	var wake chan struct{}
	if w.news != nil {
		const free = 32
		if w.woken > free { // a server may tell more than there is time to hear
			if err := sleep(ctx, w.client.opts.Limits.MinPoll); err != nil {
				return nil, err
			}
		}
		wake = w.news.wake
	}
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timer.C:
			return nil, nil
		case <-wake:
			w.woken++
			t := w.news.take()
			if t == nil { // the server has just begun to tell, or ceased to
				return nil, nil
			}
			if t.Updated.Before(w.task.Updated) && !t.Updated.IsZero() && !t.Ended() {
				return nil, nil // told before the last look, or by another clock
			}
			w.task = t
			return &Round{Method: methodTaskNews}, nil
		}
	}
}

// interval is the time between two looks.
func (w *await) interval() time.Duration {
	interval := w.task.PollInterval
	if interval == 0 {
		interval = time.Second
	}
	return min(max(interval, w.client.opts.Limits.MinPoll), w.client.opts.Limits.MaxPoll)
}

// fetch gets the result where it comes by a request of its own: the result, or what the
// task asks. In a session before 2026-07-28 it asks inside the session meanwhile.
func (w *await) fetch(ctx context.Context) (res *mcp.CallToolResult, again bool, err error) {
	type response struct {
		raw json.RawMessage
		err error
	}
	began := time.Now()
	waiting, leave := w.inline.wait(w.id)
	defer leave()
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	came := make(chan response, 1)
	x := &exchange{method: wire.TaskResult, name: w.id, cancelled: make(chan struct{})}
	go func() {
		raw, err := w.exchangeAbout(bounded, w.tasks, x, &taskParams{TaskID: w.id})
		came <- response{raw, err}
	}()
	give := func() { cancel(); <-came }

	var ended time.Time // when it was first seen to have
	ticker := time.NewTicker(w.interval())
	defer ticker.Stop()
	for {
		select {
		case got := <-came:
			return w.fetched(ctx, &Round{Method: wire.TaskResult, Elapsed: time.Since(began)}, got.raw, got.err)
		case p := <-waiting:
			// The request ends before the session does, which may be soon: else the server would
			// wait for an answer that nothing can bring.
			end := time.NewTimer(time.Second)
			defer end.Stop()
			if !p.told {
				give()
				select {
				case <-x.cancelled:
				case <-end.C:
				}
			} else {
				select {
				case <-came:
				case <-end.C:
					give()
				}
			}
			w.task.Questions = []*Question{p.question}
			return nil, false, w.pending()
		case <-ctx.Done():
			give()
			return nil, false, ctx.Err()
		case <-ticker.C:
			if w.task.Ended() && ended.IsZero() {
				ended = time.Now()
			} else if w.task.Ended() && time.Since(ended) > backstop/2 { // the response was lost on its way
				give()
				return nil, true, nil
			}
			t, err := w.Session.look(ctx, w.tasks, w.id)
			if err != nil {
				continue
			}
			w.task = t
			if err := w.tell(ctx, &Round{Method: wire.GetTask}); err != nil || t.Status == taskCancelled {
				give()
				return nil, true, err
			}
		}
	}
}

// fetched reads what came of tasks/result.
func (w *await) fetched(ctx context.Context, r *Round, raw json.RawMessage, err error) (*mcp.CallToolResult, bool, error) {
	if err != nil {
		if _, fault := errors.AsType[*jsonrpc.Error](err); fault && w.task.Ended() {
			return w.end(ctx, r, nil, err)
		}
		if !w.fails(ctx, err) {
			return nil, true, nil
		}
		if _, fault := errors.AsType[*jsonrpc.Error](err); fault {
			ended, unknown := w.meanwhile(ctx)
			if ended { // with this error
				return w.end(ctx, r, nil, err)
			}
			err = cmp.Or(unknown, err)
		}
		return nil, false, err
	}
	asks, err := w.asked(raw)
	switch {
	case err != nil:
		return nil, false, err
	case asks == nil:
		return w.end(ctx, r, raw, nil)
	}
	now := *w.task
	now.Questions, now.state = asks.Questions, asks.state
	w.task = &now
	// Drafts let a task ask again under the same key, if the answer was not good enough.
	// The same question seen once more may only be one that is still on its way.
	if w.still++; w.still > 2 || slices.ContainsFunc(now.Questions, func(q *Question) bool {
		was, ok := w.sent[q.Key]
		return ok && was.question != digest(q)
	}) {
		w.sent = nil
	}
	open, err := w.open(now.Questions)
	if err != nil || len(open) == 0 {
		return nil, false, err
	}
	return nil, true, w.answer(ctx, r, open)
}
