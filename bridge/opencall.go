package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// openCalls are the calls that are open in the sessions of this process.
type openCalls struct {
	stopped chan struct{} // is closed when the bridge stops

	mu    sync.Mutex
	calls map[callKey]*openCall
	work  sync.WaitGroup // what the calls have running
}

func newOpenCalls() *openCalls {
	return &openCalls{stopped: make(chan struct{}), calls: make(map[callKey]*openCall)}
}

// stops reports whether the bridge stops.
func (o *openCalls) stops() bool {
	select {
	case <-o.stopped:
		return true
	default:
		return false
	}
}

// callKey names an open call. An attempt is one call of the server's tool.
type callKey struct {
	call    string
	attempt int
}

// openCall is a call of a tool that is open at an older server. It outlives the runs of its handler: the server waits
// in it for the answers to its questions.
type openCall struct {
	key    callKey
	seat   atomic.Pointer[seat]
	params json.RawMessage
	all    *openCalls
	cancel context.CancelCauseFunc // ends the call at the server
	once   sync.Once               // begins watch
	over   chan struct{}           // is closed when the call has ended
	owns   int                     // questions, under the lock of its session

	mu        sync.Mutex
	questions []*openQuestion // in the order in which they came
	result    *record         // once the call has ended
	lost      bool            // the result is that the connection failed
	modern    bool            // the call was not made, because the server has no sessions any more
	changes   int             // of questions and result
	changed   chan struct{}   // is closed at the next change

	run progress // of the run that has the call, or nil
	// reports are the reports of progress that are on their way to the host.
	reports sync.WaitGroup
	last    string // the nonce of the last run
	seen    int    // the changes that it has seen
}

// openQuestion is a question of the server in its open call.
type openQuestion struct {
	*client.Question
	asked     time.Time
	answer    chan answer // has room for one
	given     bool        // there was an answer
	withdrawn bool        // the server does not wait for the answer
	sure      bool        // it is of this call
}

// answer is what the server gets: one of its fields.
type answer struct {
	elicited *mcp.ElicitResult
	sampled  *mcp.CreateMessageWithToolsResult
	roots    []*mcp.Root
	err      error
}

// The bounds of what a server asks in one call, besides the bounds of the client.
const (
	mostOpen  = 64
	mostAsked = 1024
)

// Why open calls are ended at the server.
var (
	errStops     = errors.New("the bridge stops")
	errCancelled = errors.New("the call was cancelled")
	errOrphaned  = errors.New("the call did not become a task")
)

// find returns an open call of this process, or nil.
func (o *openCalls) find(key callKey) *openCall {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls[key]
}

// open makes a call at the server, at its place in a session.
func (o *openCalls) open(key callKey, p *pool, s *seat, as *passage, pending *client.Pending) (*openCall, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &openCall{key: key, params: pending.Params, all: o, cancel: cancel, changed: make(chan struct{}),
		over: make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stops() {
		cancel(nil)
		p.give(s, false)
		return nil, errStops
	}
	o.calls[key] = c
	o.work.Go(func() {
		defer cancel(nil)
		c.end(c.send(ctx, p, s, as, pending))
	})
	return c, nil
}

// send makes the call, and gives the session back. If the server has forgotten the session before the call came, it is
// made in another one.
func (c *openCall) send(ctx context.Context, p *pool, s *seat, as *passage, pending *client.Pending) *record {
	c.seat.Store(s)
	s.join(c)
	result, err := as.sendInSession(ctx, c, s.Session, pending)
	if forgot(s.Session, err) {
		s.spoiled.Store(true)
		s.leave(c)
		p.give(s, false)
		if s, err = p.take(ctx, s.kind, s.tool); err != nil {
			c.modern = errors.Is(err, errModern)
			r, _ := as.classify(ctx, 1, err)
			return as.ended(c, r, nil)
		}
		c.seat.Store(s)
		s.join(c)
		result, err = as.sendInSession(ctx, c, s.Session, pending)
	}
	r := &record{Result: result}
	if err != nil {
		refused, _ := errors.AsType[*client.NotRunError](err)
		r, err = as.classify(ctx, 1, err)
		if spoils(s.Session, refused, err) && ctx.Err() == nil || p.apart && (err != nil || r.Words != "" || refused != nil) {
			s.spoiled.Store(true)
		}
	} else if s.loud && string(strictjson.Get(result, "isError")) != "true" {
		p.habits.note(s.tool, false)
	}
	s.leave(c)
	p.give(s, ctx.Err() != nil)
	if ctx.Err() != nil {
		return &record{Words: context.Cause(ctx).Error()}
	}
	if c.lost = err != nil; c.lost {
		as.log.WarnContext(ctx, "bridge: a session with the server failed", "target", as.name, "call", c.key.call,
			"error", errors.Unwrap(err))
	}
	return as.ended(c, r, err)
}

// spoils reports whether a session is not used again after an error: the connection to a program broke, or a server at
// a URL perhaps does not know the session.
func spoils(s *client.Session, refused *client.NotRunError, err error) bool {
	if refused != nil {
		return refused.Status == 0 || refused.Status == http.StatusBadRequest || refused.Status == http.StatusNotFound
	}
	return err != nil && s.SDK().ID() == ""
}

// forget removes a call, and ends it at the server.
func (c *openCall) forget(cause error) {
	c.cancel(cause)
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.all.calls[c.key] == c {
		delete(c.all.calls, c.key)
	}
}

// close ends all calls.
func (o *openCalls) close() {
	o.mu.Lock()
	close(o.stopped)
	for _, c := range o.calls {
		c.cancel(errStops)
	}
	o.mu.Unlock()
	o.work.Wait()
}

// change makes a change known, with the lock held.
func (c *openCall) change() {
	c.changes++
	close(c.changed)
	c.changed = make(chan struct{})
}

// end notes how the call ended.
func (c *openCall) end(r *record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result = r
	close(c.over)
	c.change()
}

// errMoves says that a call has ended without the answer to a question that may be another call's.
var errMoves = errors.New("the call has ended")

// await waits for the answer to a question of the server.
func (c *openCall) await(ctx context.Context, asked *openQuestion) (_ answer, err error) {
	select {
	case a := <-asked.answer:
		return a, a.err
	case <-c.over:
		err = errMoves
		if asked.sure {
			err = errNoCall
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	asked.withdrawn = true
	c.change()
	return answer{}, err
}

// add adds a question, which is sure to be this call's or not.
func (c *openCall) add(q *client.Question, sure bool) (*openQuestion, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	open := 0
	for _, q := range c.questions {
		if !q.given && !q.withdrawn {
			open++
		}
	}
	if open >= mostOpen || len(c.questions) >= mostAsked {
		return nil, fmt.Errorf("a call has at most %d questions at once, and %d in all", mostOpen, mostAsked)
	}
	asked := &openQuestion{Question: q, asked: time.Now(), answer: make(chan answer, 1), sure: sure}
	c.questions = append(c.questions, asked)
	c.change()
	return asked, nil
}

// give gives the server an answer, once.
func (c *openCall) give(q *openQuestion, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !q.given {
		q.given = true
		q.answer <- a
	}
}

// waits reports whether the server waits for an answer, or has got it.
func (c *openCall) waits(q *openQuestion) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return q.given || !q.withdrawn
}

// next waits until the call has ended, or has asked more than this many questions. It returns all of them.
func (c *openCall) next(ctx context.Context, known int) (questions []*openQuestion, result *record, err error) {
	for {
		c.mu.Lock()
		questions, result, c.seen = c.questions, c.result, c.changes
		changed := c.changed
		c.mu.Unlock()
		if result != nil || len(questions) > known {
			return questions, result, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
}

// enter begins a run of the handler. The progress of the run is the progress of the call. It returns how to end it.
func (c *openCall) enter(call *askback.Call, h *taskrun.Holder) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.run, c.last = call, call.Nonce()
	if h != nil {
		c.once.Do(func() { c.watch(h) })
	}
	return func() {
		c.mu.Lock()
		c.run = nil
		c.mu.Unlock()
		c.reports.Wait()
	}
}

// Progress passes on how far the call is, while its handler runs. A host that is slow to read it delays nothing else.
func (c *openCall) Progress(ctx context.Context, progress, total float64, message string) error {
	c.mu.Lock()
	run := c.run
	if run != nil {
		c.reports.Add(1)
	}
	c.mu.Unlock()
	if run == nil {
		return nil
	}
	defer c.reports.Done()
	return run.Progress(ctx, progress, total, message)
}

// watchTime is how often the task of an open call is looked at. It is a variable for tests.
var watchTime = time.Second

// watch ends the call when its task has ended, and makes the task run here when the server did something, or when
// another process has left the task to this one.
func (c *openCall) watch(h *taskrun.Holder) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if c.all.stops() {
		return
	}
	c.all.work.Go(func() {
		ticker := time.NewTicker(watchTime)
		defer ticker.Stop()
		var version int64 // of the task, at the last look
		for over := false; !over; {
			select {
			case <-c.news():
			case <-ticker.C:
			case <-c.all.stopped:
			}
			over = c.look(h, &version)
		}
	})
}

// news returns what is closed at the next change, or nil if there was one that no run has seen: then it is not yet time
// for the next run.
func (c *openCall) news() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != c.seen {
		return nil
	}
	return c.changed
}

// look looks at the task once, whose version was this at the last look, and reports whether the watch is over.
func (c *openCall) look(h *taskrun.Holder, version *int64) (over bool) {
	ctx, cancel := context.WithTimeout(context.Background(), rowTime)
	defer cancel()
	t, err := h.Row(ctx)
	if errors.Is(err, task.ErrNotFound) || err == nil && t.Status.Terminal() {
		c.forget(errCancelled)
		return true
	}
	stops := c.all.stops()
	if err != nil {
		return stops
	}
	c.mu.Lock()
	runs, news, last := c.run != nil, c.changes != c.seen, c.last
	c.mu.Unlock()
	parked := t.Status == task.InputRequired
	left := t.Nonce != last && t.Version == *version
	*version = t.Version
	if !runs && (left || parked && (news || stops)) {
		_ = h.Wake(ctx) // or at the next look
	}
	return stops
}

// rowTime bounds one look at a task.
const rowTime = 5 * time.Second

// unanswered returns the last question that had no answer when the call ended, or nil. No call fails for want of roots:
// servers ask for them when a session begins, and the first call can end before the host has answered.
func (c *openCall) unanswered() *openQuestion {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.questions)
	if n == 0 {
		return nil
	}
	q := c.questions[n-1]
	if q.given || !q.sure || q.Method == input.MethodListRoots {
		return nil
	}
	return q
}

// awaited returns a question that has no answer and that the server waits for, or nil.
func (c *openCall) awaited() *openQuestion {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.questions {
		if !q.given && !q.withdrawn {
			return q
		}
	}
	return nil
}

// answerOf makes an answer of its JSON.
func answerOf(method string, data json.RawMessage) (a answer) {
	var err error
	switch method {
	case input.MethodElicit:
		decoder := json.NewDecoder(strings.NewReader(string(data)))
		decoder.UseNumber()
		a.elicited = new(mcp.ElicitResult)
		err = decoder.Decode(a.elicited)
	case input.MethodCreateMessage:
		a.sampled = new(mcp.CreateMessageWithToolsResult)
		err = json.Unmarshal(data, a.sampled)
	default:
		err = json.Unmarshal(strictjson.Get(data, "roots"), &a.roots)
	}
	if err != nil {
		return answer{err: fmt.Errorf("the answer cannot be passed on: %w", err)}
	}
	return a
}
