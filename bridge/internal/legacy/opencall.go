package legacy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/bridge/internal/outcome"
	"github.com/askback-mcp/askback/bridge/internal/upstream"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// openCalls are the calls that are open in the sessions of this process.
type openCalls struct {
	stopped chan struct{} // is closed when the bridge stops
	watch   time.Duration // between two looks at the task of a call

	mu    sync.Mutex
	calls map[callKey]*openCall
	work  sync.WaitGroup // what the calls have running
}

func newOpenCalls(watch time.Duration) *openCalls {
	return &openCalls{watch: watch, stopped: make(chan struct{}), calls: make(map[callKey]*openCall)}
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
	params json.RawMessage
	all    *openCalls
	cancel context.CancelCauseFunc // ends the call at the server
	once   sync.Once               // begins watch
	over   chan struct{}           // is closed when the call has ended

	mu        sync.Mutex
	questions []*openQuestion // in the order in which they came
	result    *outcome.Record // once the call has ended
	lost      bool            // the result is that the connection failed
	modern    bool            // the call was not made, because the server has no sessions any more
	changes   int             // of questions and result
	changed   chan struct{}   // is closed at the next change

	run upstream.Progress // of the run that has the call, or nil
	// reports are the reports of progress that are on their way to the host.
	reports sync.WaitGroup
	name    string // of its task, for its caller, or empty
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
}

// answer is for the server, or says why it gets none.
type answer struct {
	upstream.Answer
	err error
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

// open opens a call, which send makes at the server.
func (o *openCalls) open(
	key callKey, params json.RawMessage, send func(context.Context, *openCall) *outcome.Record,
) (*openCall, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &openCall{key: key, params: params, all: o, cancel: cancel, changed: make(chan struct{}),
		over: make(chan struct{})}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stops() {
		cancel(nil)
		return nil, errStops
	}
	o.calls[key] = c
	o.work.Go(func() {
		defer cancel(nil)
		c.end(send(ctx, c))
	})
	return c, nil
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
func (c *openCall) end(r *outcome.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.result = r
	close(c.over)
	c.change()
}

// await waits for the answer to a question of the server.
func (c *openCall) await(ctx context.Context, asked *openQuestion) (_ answer, err error) {
	select {
	case a := <-asked.answer:
		return a, a.err
	case <-c.over:
		err = upstream.ErrNoCall
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	asked.withdrawn = true
	c.change()
	return answer{}, err
}

// add adds a question.
func (c *openCall) add(q *client.Question) (*openQuestion, error) {
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
	asked := &openQuestion{Question: q, asked: time.Now(), answer: make(chan answer, 1)}
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
func (c *openCall) next(ctx context.Context, known int) (questions []*openQuestion, result *outcome.Record, err error) {
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
	if q.given || q.Method == input.MethodListRoots {
		return nil
	}
	return q
}

// awaited returns a question that has no answer and that the server waits for, or nil, and the name of the call.
func (c *openCall) awaited() (q *openQuestion, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.questions {
		if !q.given && !q.withdrawn {
			return q, c.name
		}
	}
	return nil, ""
}

// answerOf makes an answer of its JSON.
func answerOf(method string, data json.RawMessage) (a answer) {
	var err error
	switch method {
	case input.MethodElicit:
		decoder := json.NewDecoder(strings.NewReader(string(data)))
		decoder.UseNumber()
		a.Elicited = new(mcp.ElicitResult)
		err = decoder.Decode(a.Elicited)
	case input.MethodCreateMessage:
		a.Sampled = new(mcp.CreateMessageWithToolsResult)
		err = json.Unmarshal(data, a.Sampled)
	default:
		err = json.Unmarshal(strictjson.Get(data, "roots"), &a.Roots)
	}
	if err != nil {
		return answer{err: fmt.Errorf("the answer cannot be passed on: %w", err)}
	}
	return a
}
