package bridge

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/wire"
)

// A server of a revision before 2026-07-28 asks inside its open call. The call lives in this process (opencall.go), in
// its caller's session (pool.go, turns.go), and its task runs here again and again:
//
//  1. The journal says that the call begins, and which process has it.
//  2. Each question of the server is recorded, and asked.
//  3. The open call gets the answers, and asks again or ends. Its result is recorded.
//
// A process that does not have the open call leaves the task to the one that does, for as long as that lives.

// begun is what the journal has of the beginning of a call at an older server.
type begun struct {
	Instance string `json:"instance"` // the process that has the open call
	Behind   string `json:"behind"`   // the server
}

// isOlder reports whether a session is of a revision whose servers ask inside their calls.
func isOlder(s *client.Session) bool {
	res := s.SDK().InitializeResult()
	return res != nil && res.ProtocolVersion < wire.Version
}

// mostAttempts bounds how often a tool that can be called again is called again because its session was lost.
const mostAttempts = 5

// passInSession passes a call of a tool on to an older server.
func (p *passage) passInSession(ctx context.Context) (*record, error) {
	used := maps.Clone(p.asks.used)
	for attempt := 1; ; attempt++ {
		r, err := p.attempt(ctx, attempt)
		if r != nil || err != nil {
			return r, err
		}
		p.asks.used = maps.Clone(used) // so that equal questions find their answers
	}
}

// attempt passes the call on once. It returns nil if the session was lost and the tool is to be called again.
func (p *passage) attempt(ctx context.Context, attempt int) (*record, error) {
	suffix := "1"
	if attempt > 1 {
		suffix = fmt.Sprintf("1 again %d", attempt-1)
	}
	key := callKey{p.call.ID(), attempt}
	if p.call.Nonce() == "" {
		return p.firstInSession(ctx, key, suffix)
	}
	begins := false // and did not begin in an earlier run
	note, err := askback.Do(ctx, p.call, "begin "+suffix, func(context.Context) (*begun, error) {
		if p.raises {
			return nil, errRaise
		}
		begins = true
		return p.begun(), nil
	})
	if errors.Is(err, errRaise) {
		err = p.raise(ctx)
	}
	if err != nil {
		return nil, err
	}
	c := p.behind.calls.find(key)
	if c == nil && begins {
		var refused *record
		if c, refused, err = p.openCall(ctx, key); err != nil {
			return nil, err
		}
		if refused != nil {
			return p.record(ctx, suffix, refused)
		}
	}
	if c == nil {
		return p.endLost(ctx, suffix, attempt, note)
	}
	return p.follow(ctx, c, suffix, attempt)
}

// begun is what the journal has of a call that begins here.
func (p *passage) begun() *begun { return &begun{Instance: p.instance, Behind: p.identity} }

// record records how the call ended.
func (p *passage) record(ctx context.Context, suffix string, r *record) (*record, error) {
	return askback.Do(ctx, p.call, "round "+suffix, func(context.Context) (*record, error) { return p.kept(r), nil })
}

// firstInSession makes a call that nobody has stored. Nothing is stored of it unless the server asks: then it goes on
// as a task.
func (p *passage) firstInSession(ctx context.Context, key callKey, suffix string) (*record, error) {
	c, refused, err := p.openCall(ctx, key)
	if refused != nil || err != nil {
		return refused, err
	}
	leave := c.enter(p.call, nil)
	_, result, err := c.next(ctx, 0)
	leave()
	if err != nil {
		c.forget(errCancelled)
		return nil, err
	}
	if result != nil {
		c.forget(nil)
		if c.modern {
			return nil, errModern
		}
		return result, nil
	}
	_, err = askback.Do(ctx, p.call, "begin "+suffix, func(context.Context) (*begun, error) { return p.begun(), nil })
	if err == nil {
		if err = p.call.Detach(); err == nil {
			err = errors.New("the server asked, and this call cannot wait for an answer")
		}
	}
	if !errors.Is(err, askback.ErrInputRequired) {
		c.forget(errOrphaned)
		return nil, err
	}
	c.expectTask(p.holderTime())
	return nil, err
}

// kind is that of the session of the call's caller.
func (p *passage) kind() sessionKind {
	can, desk := p.can(), p.call.Principal() != "" // a read goes to the session that a call of a tool has
	can.form, can.url = can.form || desk, can.url || desk
	return sessionKind{p.call.Principal(), can}
}

// openCall calls the tool in its caller's session. Refused is the reason why it was not called. The
// error is errModern if the server has no sessions any more.
func (p *passage) openCall(ctx context.Context, key callKey) (c *openCall, refused *record, err error) {
	if p.gone.Load() {
		return nil, p.noLongerOffered(1), nil
	}
	s, err := p.behind.pool.take(ctx, p.kind(), p.name)
	if err == nil {
		pending := &client.Pending{Method: p.method, Params: p.params, Meta: p.sessionMeta()}
		c, err = p.behind.calls.open(key, p.behind.pool, s, p, pending)
	}
	if errors.Is(err, errModern) {
		return nil, nil, errModern
	}
	if refused, ok := errors.AsType[*client.NotRunError](err); ok {
		return nil, p.didNotRun(1, refused), nil
	}
	if err != nil {
		return nil, &record{Words: fmt.Sprintf("The tool %q was not called: %v", p.name, err)}, nil
	}
	return c, nil, nil
}

// sessionMeta is the _meta of a call in a session. It outlives the request.
func (p *passage) sessionMeta() mcp.Meta {
	meta := p.requestMeta()
	delete(meta, mcp.MetaKeyClientCapabilities) // the session has told them
	for name, value := range meta {
		if encoded, ok := value.(json.RawMessage); ok {
			meta[name] = bytes.Clone(encoded)
		}
	}
	return meta
}

// sendRound sends a round. What is no call of a tool goes to its caller's session at an older server, which may
// remember in it what it is about.
func (p *passage) sendRound(
	ctx context.Context, round *client.Pending, report progress,
) (result json.RawMessage, next *client.Pending, err error) {
	if pool := p.behind.pool; p.method != wire.CallTool && p.behind.older.Load() && !pool.apart {
		s, err := pool.take(ctx, p.kind(), "")
		if err == nil {
			defer pool.give(s, false)
			own := *round
			own.Meta = p.sessionMeta()
			result, next, err = p.behind.sendIn(context.WithValue(ctx, askerKey{}, (*openCall)(nil)), s.Session, &own, report)
			if !forgot(s.Session, err) {
				return result, next, err
			}
			s.spoiled.Store(true)
		}
	}
	return p.behind.send(ctx, round, report)
}

// sendInSession makes a call in a session, and follows it if it is a task there.
func (p *passage) sendInSession(
	ctx context.Context, c *openCall, s *client.Session, pending *client.Pending,
) (json.RawMessage, error) {
	ctx = context.WithValue(ctx, askerKey{}, c)
	result, next, err := p.behind.sendIn(ctx, s, pending, c)
	for err == nil && next != nil {
		result, next, err = p.behind.sendIn(ctx, s, next, c)
	}
	return result, err
}

// ended returns what becomes of a call that has ended in its session. A server that has given up waiting for an answer
// is said to have.
func (p *passage) ended(c *openCall, r *record, err error) *record {
	q := c.unanswered()
	if q == nil {
		if err != nil {
			return &record{Words: p.unknown(1, errors.Unwrap(err))}
		}
		return r
	}
	reason := "the connection to it ended"
	switch {
	case err != nil:
	case r.Error != nil:
		reason = fmt.Sprintf("it answered with the error %q", bounded(r.Error.Message))
	case r.Words != "":
		reason = r.Words
	case string(strictjson.Get(r.Result, "isError")) == "true":
		reason = fmt.Sprintf("it answered %q", bounded(firstText(r.Result)))
	default:
		return r // it has a result without the answer
	}
	return &record{Words: fmt.Sprintf("The server of the tool %q did not wait any longer for the answer to %q, after %v: "+
		"%s. The tool may have run up to this question, and it was not called again.",
		p.name, about(q.Question), time.Since(q.asked).Round(time.Second), reason)}
}

// firstText returns the first text of a tool's result.
func firstText(result json.RawMessage) string {
	for content := range strictjson.Elements(strictjson.Get(result, "content")) {
		if text, ok := strictjson.String(strictjson.Get(content, "text")); ok {
			return text
		}
	}
	return "nothing"
}

// follow is one run of a task whose open call this process has.
func (p *passage) follow(ctx context.Context, c *openCall, suffix string, attempt int) (*record, error) {
	defer c.enter(p.call, taskrun.HolderOf(ctx))()
	p.call.OnCancel(func(context.Context) error { c.forget(errCancelled); return nil })
	var keys []string // of the questions that are recorded
	for {
		questions, result, err := c.next(ctx, len(keys))
		if err != nil {
			return nil, err
		}
		if result != nil && c.lost && p.mayCallAgain(attempt) {
			return nil, p.call.Do(ctx, "lost "+suffix, func(context.Context) error { return nil })
		}
		if result != nil {
			return p.record(ctx, suffix, result)
		}
		known := len(keys) // are answered, because an open question ends the run
		for _, q := range questions[known:] {
			step := fmt.Sprintf("question %d of %s", len(keys)+1, suffix)
			_, err := askback.Do(ctx, p.call, step, func(context.Context) (string, error) { return about(q.Question), nil })
			if err != nil {
				return nil, err
			}
			keys = append(keys, p.asks.key(q.Key))
		}
		if err := p.askOpen(c, questions[known:], keys[known:]); err != nil {
			return nil, err
		}
	}
}

// askOpen asks what the server waits for, and gives it the answers that there are.
func (p *passage) askOpen(c *openCall, questions []*openQuestion, keys []string) error {
	var open []error
	for i, q := range questions {
		if !c.waits(q) {
			continue
		}
		data, err := p.asks.askOne(keys[i], q.Question)
		_, unable := errors.AsType[*askback.CapabilityError](err)
		_, limit := errors.AsType[*askback.LimitError](err)
		switch {
		case err == nil:
			c.give(q, answerOf(q.Method, data))
		case unable, limit:
			c.give(q, answer{err: err})
		default:
			open = append(open, err)
		}
	}
	return errors.Join(open...)
}

// about says what a question is, for the words with which its call may end.
func about(q *client.Question) string {
	if q.Message != "" {
		return bounded(q.Message)
	}
	return q.Method
}

// bounded cuts a text of the server for a message.
func bounded(text string) string {
	const most = 300
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}

// holderTime replaces [Bridge.holderTime] in tests, unless it is zero.
var holderTime time.Duration

// holderTime is how long a process that has an open call may take to go on with a task that is due, before others
// believe that it is gone: a minute, unless the operator has changed the leases of tasks.
func (b *Bridge) holderTime() time.Duration {
	return cmp.Or(holderTime, 6*cmp.Or(b.opts.Server.Tasks.Lease, 10*time.Second))
}

// endLost ends a call that this process does not have, once nobody else can have it. It returns nil if the tool is to
// be called again. The journal has the time since which the call is left to the process that had it, because some hosts
// start a bridge for each call, and it does not live long enough. This process leaves it for a moment of its own, too:
// after the machine slept, or if clocks differ, the process that has the call is the first to go on.
func (p *passage) endLost(ctx context.Context, suffix string, attempt int, note *begun) (*record, error) {
	n, asked, err := p.lastQuestion(ctx, suffix)
	if err != nil {
		return nil, err
	}
	if note.Instance != p.instance {
		left := fmt.Sprintf("left at %d of %s", n, suffix)
		since, err := askback.Do(ctx, p.call, left, func(context.Context) (time.Time, error) { return time.Now(), nil })
		if err != nil {
			return nil, err
		}
		if !p.behind.waited.long(p.call.ID()+left, p.holderTime()/6) || time.Since(since) < p.holderTime() {
			return nil, taskrun.ErrHeld
		}
	}
	if p.mayCallAgain(attempt) && note.Behind == p.identity {
		return nil, p.call.Do(ctx, "lost "+suffix, func(context.Context) error { return nil })
	}
	return askback.Do(ctx, p.call, "round "+suffix, func(context.Context) (*record, error) {
		return &record{Words: p.lost(asked)}, nil
	})
}

// mayCallAgain reports whether the tool is called again after so many attempts.
func (p *passage) mayCallAgain(attempts int) bool { return p.repeatable && attempts < mostAttempts }

// errNotAsked says that a journal has no further question.
var errNotAsked = errors.New("there is no further question")

// lastQuestion returns how many questions a call has that this process does not have, and what the last one was.
func (p *passage) lastQuestion(ctx context.Context, suffix string) (n int, last string, err error) {
	for ; ; n++ {
		asked, err := askback.Do(ctx, p.call, fmt.Sprintf("question %d of %s", n+1, suffix),
			func(context.Context) (string, error) { return "", errNotAsked })
		if errors.Is(err, errNotAsked) {
			return n, last, nil
		}
		if err != nil {
			return 0, "", err
		}
		last = asked
	}
}

// lost says that the open call is lost.
func (p *passage) lost(asked string) string {
	if asked == "" {
		return fmt.Sprintf("The session with the server of the tool %q was lost while the tool ran: the bridge that had it "+
			"stopped. The tool may have run, and it was not called again.", p.name)
	}
	return fmt.Sprintf("The session with the server of the tool %q was lost while it waited for the answer to %q: the "+
		"bridge that had it stopped. The tool may have run up to this question, and it was not called again.", p.name, asked)
}

// waits are the calls that this process has left to another one, and since when.
type waits struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// long reports whether a call was left for this time. The calls of long ago are forgotten.
func (w *waits) long(call string, d time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since == nil {
		w.since = make(map[string]time.Time)
	}
	now := time.Now()
	maps.DeleteFunc(w.since, func(_ string, t time.Time) bool { return now.Sub(t) > 60*d })
	began, known := w.since[call]
	if !known {
		w.since[call] = now
		return false
	}
	return now.Sub(began) >= d
}

// first reports whether a call is left for the first time within a while.
func (w *waits) first(call string, d time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since == nil {
		w.since = make(map[string]time.Time)
	}
	now := time.Now()
	maps.DeleteFunc(w.since, func(_ string, t time.Time) bool { return now.Sub(t) > d })
	_, known := w.since[call]
	if !known {
		w.since[call] = now
	}
	return !known
}

// expectTask ends the call if its task does not run here within a time.
func (c *openCall) expectTask(d time.Duration) {
	time.AfterFunc(d, func() {
		c.mu.Lock()
		ran := c.last != ""
		c.mu.Unlock()
		if !ran {
			c.forget(errOrphaned)
		}
	})
}
