package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/rawclient"
)

const (
	loadPatience = 4 // times as long as for another response
	maxRest      = 10 * time.Second
	manyAnswers  = 10_000
	grown        = 10_000 // bytes of a state that only answers beside the question have brought in
)

// judgeLoad sends what is large, many or long, and looks what the server keeps of it, and whether it still serves.
func (r *run) judgeLoad(ctx context.Context, p corpus.Probe, t *target, v *findings.Verdict) error {
	defer func() { r.served = nil }()
	switch aim := p.Steps[len(p.Steps)-1]; {
	case aim.Send == "half":
		return r.judgeHalf(ctx, p, v)
	case aim.Answers == "many":
		return r.judgeMany(ctx, p, t, v)
	case p.Steps[0].Times > 1:
		return r.judgeAbandoned(ctx, p, t, v)
	}
	return r.judgeEndpoint(ctx, p, t, v)
}

// borne is what a request of a load came to. A server may refuse it with 429 or 503, or end the connection: it gets a
// pause, and the run goes on.
func (r *run) borne(ctx context.Context, q request, res *response, err error) (*response, error) {
	switch {
	case errors.Is(err, context.DeadlineExceeded) || err != nil && isTimeout(err):
		return nil, fmt.Errorf("%w (%v)", errSlow, r.patienceFor(q))
	case err != nil:
		return nil, fmt.Errorf("%w: %v", errLost, plain(err))
	}
	if isQuiet(res.status) {
		seconds, _ := strconv.Atoi(res.header.Get("Retry-After"))
		rest := min(max(time.Duration(seconds)*time.Second, r.quiet/30), maxRest, r.quiet/6)
		if res.fault == nil {
			res.fault = &rawclient.Error{Status: res.status, Message: http.StatusText(res.status)}
		}
		return res, r.pause(ctx, rest)
	}
	return res, nil
}

// patienceFor is how long a response may take.
func (r *run) patienceFor(q request) time.Duration {
	if q.large {
		return r.line.patience * loadPatience
	}
	return r.line.patience
}

func (r *run) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return r.line.stop(context.Cause(ctx).Error())
	}
}

// judgeMany answers a question, and sends many answers beside it that nobody has asked for. To ignore them is right,
// and to keep them is not.
func (r *run) judgeMany(ctx context.Context, p corpus.Probe, t *target, v *findings.Verdict) error {
	honest, err := retried(func() (*call, error) { return r.advance(ctx, t, step{}, 2) })
	if err != nil {
		return err
	}
	if len(honest.replies) < 2 && honest.last().asks() {
		return &notJudged{"the honest answer is not taken", ""}
	}
	usual, kept, slow := honest.last().stateSize, 0, 0
	var outcome string
	for range repeats {
		c, err := retried(func() (*call, error) { return r.crowd(ctx, t) })
		if errors.Is(err, errSlow) {
			slow++
			continue
		}
		if err != nil {
			return r.endOf(p, v, err)
		}
		outcome = c.last().outcome()
		if kept = c.last().stateSize; kept < usual+grown {
			kept = 0
			break
		}
	}
	after, err := retried(func() (*call, error) { return r.advance(ctx, t, step{}, 2) })
	switch {
	case err != nil:
		return r.endOf(p, v, err)
	case after.last().class != honest.last().class:
		return &notJudged{"the honest call ended in another way after the load than before it", ""}
	case slow == repeats:
		return r.found(p, v, "observation", nil, "a retry with %d answers gets no response within %v, %d times of %d: send "+
			"one, and measure", manyAnswers, r.line.patience*loadPatience, slow, repeats)
	case kept > 0 && slow == 0:
		return r.found(p, v, "observation", nil, "the state of the next round grows from %d to %d bytes by %d answers "+
			"that nobody has asked for: send them under other keys beside the answer, and look at requestState", usual, kept,
			manyAnswers)
	case outcome == string(advanced):
		return pass(v, "the call went on with the answer that it had asked for, and the next state has nothing of the others")
	}
	return pass(v, "a retry with %d answers: %s", manyAnswers, outcome)
}

// crowd calls a target, and answers its first question among many answers that it has not asked for.
func (r *run) crowd(ctx context.Context, t *target) (*call, error) {
	c, err := r.call(ctx, t, step{})
	if err != nil {
		return nil, err
	}
	if !c.last().asks() {
		return nil, fmt.Errorf("%w: the call did not ask", errLost)
	}
	answers := map[string]any{}
	for range manyAnswers {
		answers[fmt.Sprintf("%012x", rand.Uint64())] = json.RawMessage(`{"action":"accept","content":{}}`)
	}
	for _, q := range c.last().questions {
		answers[q.key] = r.honest(t, q, c.canary)
	}
	params := t.params(c.arguments)
	params["inputResponses"] = answers
	if state := c.last().state; state != nil {
		params["requestState"] = *state
	}
	return c, r.deliver(ctx, c, request{method: t.method, params: params, able: c.able, load: true, large: true})
}

// judgeHalf opens requests whose bodies stop in the middle, and looks how long the server waits for the rest, and
// whether it serves another caller meanwhile.
func (r *run) judgeHalf(ctx context.Context, p corpus.Probe, v *findings.Verdict) error {
	if r.lister == "" {
		return &notJudged{"nothing was listed", "a server that speaks 2026-07-28"}
	}
	other := step{}
	if r.Second != nil && !r.Plan.OneIdentity {
		other.As = "second"
	}
	t := &target{method: r.lister}
	if err := r.serves(ctx, t, nil); err != nil {
		return err
	}
	n := p.Steps[len(p.Steps)-1].Times
	began := time.Now()
	open, unserved, err := r.hold(ctx, t, other, n)
	took := time.Since(began).Round(time.Second)
	if err != nil {
		return err
	}
	if err := r.serves(ctx, t, nil); err != nil {
		return r.endOf(p, v, err)
	}
	switch {
	case open == n:
		return r.found(p, v, "observation", nil, "%d requests were still open %v after half of their bodies, and another "+
			"caller was not served %d times meanwhile: send the head and half of the body of a request, and wait", n, took,
			unserved)
	case unserved >= repeats:
		return r.found(p, v, "observation", nil, "while %d requests waited for the other half of their bodies, another "+
			"caller was not served %d times, and was before and after", n, unserved)
	}
	return pass(v, "the server ended %d of %d requests after half of their bodies, within %v", n-open, n, took)
}

// hold holds n requests whose bodies are half there, while the server does. It returns how many are still open at the
// end, and how often an honest request was not served meanwhile.
func (r *run) hold(ctx context.Context, t *target, other step, n int) (open, unserved int, err error) {
	held, release := context.WithTimeout(ctx, r.quiet)
	var group sync.WaitGroup
	defer group.Wait()
	defer release()
	ended := make(chan struct{}, n)
	q := request{method: t.method, able: allCapabilities}
	body, err := json.Marshal(message(q, r.line.sent+1))
	if err != nil {
		return 0, 0, err
	}
	c := r.client("", "")
	c.HTTP = rawclient.Direct(0)
	defer c.HTTP.CloseIdleConnections()
	for range n {
		r.line.sent++
		group.Go(func() {
			half := &halfBody{body[:len(body)/2], held.Done()}
			req, err := c.NewRequest(held, http.MethodPost, half, mirror(q))
			if err != nil {
				return
			}
			req.ContentLength = int64(len(body))
			if s, err := c.Do(req); err == nil {
				_ = s.Close()
			}
			ended <- struct{}{}
		})
	}
	tick := time.NewTicker(r.quiet / 13)
	defer tick.Stop()
	for open = n; open > 0; {
		select {
		case <-ended:
			if held.Err() == nil {
				open--
			}
		case <-tick.C:
			got, err := retried(func() (*call, error) { return r.first(ctx, t, other, true) })
			if errors.Is(err, errStopped) {
				return 0, 0, err
			}
			if err != nil || !got.last().progresses() {
				unserved++
			}
		case <-held.Done():
			if ctx.Err() != nil {
				return 0, 0, r.line.stop(context.Cause(ctx).Error())
			}
			return open, unserved, nil
		}
	}
	return open, unserved, nil
}

// halfBody is a request body that stalls after some bytes, until the request is given up.
type halfBody struct {
	left []byte
	end  <-chan struct{}
}

func (h *halfBody) Read(b []byte) (int, error) {
	if len(h.left) > 0 {
		n := copy(b, h.left)
		h.left = h.left[n:]
		return n, nil
	}
	<-h.end
	return 0, io.ErrUnexpectedEOF
}

// judgeAbandoned makes many first rounds, answers none of them, and looks whether another caller is served then. A
// server may refuse the load, and needs time to get over it.
func (r *run) judgeAbandoned(ctx context.Context, p corpus.Probe, t *target, v *findings.Verdict) error {
	aim := p.Steps[len(p.Steps)-1]
	before, err := retried(func() (*call, error) { return r.first(ctx, t, aim, false) })
	if err != nil {
		return err
	}
	if !before.last().asks() {
		return &notJudged{"the call of the second identity is refused: " + before.last().why,
			"a second identity that may call it"}
	}
	begun, refusal := 0, ""
	for ; begun < p.Steps[0].Times && refusal == ""; begun++ {
		c, err := retried(func() (*call, error) { return r.first(ctx, t, step{}, true) })
		switch {
		case errors.Is(err, errStopped):
			return err
		case err != nil:
			refusal = err.Error()
		case !c.last().asks():
			refusal = c.last().outcome()
		}
	}
	for began := time.Now(); ; {
		c, err := retried(func() (*call, error) { return r.first(ctx, t, aim, true) })
		if errors.Is(err, errStopped) {
			return err
		}
		if err == nil && c.last().asks() {
			return pass(v, "another caller was served %v after %d first rounds without an answer",
				time.Since(began).Round(time.Second), begun)
		}
		if err != nil {
			refusal = err.Error()
		} else {
			refusal = c.last().outcome()
		}
		if waited := time.Since(began); waited > r.quiet {
			_ = r.line.stop("the server refuses every call after the abandoned rounds")
			return r.found(p, v, "observation", nil, "after %d first rounds without an answer, another caller was refused "+
				"for %v (%s), and was served before: call it as often, and then as somebody else", begun,
				waited.Round(time.Second), refusal)
		}
		if err := r.pause(ctx, r.quiet/13); err != nil {
			return err
		}
	}
}
