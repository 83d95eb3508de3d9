package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/check/internal/verdict"
)

const (
	manyAnswers = 10_000
	grown       = 10_000 // bytes of a state that only answers beside the question have brought in
)

// judgeLoad sends what is large, many or long, and looks what the server keeps of it, and whether it still serves.
func (e *Judge) judgeLoad(ctx context.Context, p corpus.Probe, t *talk.Target, v *findings.Verdict) error {
	defer func() { e.served = nil }()
	switch aim := p.Steps[len(p.Steps)-1]; {
	case aim.Send == "half":
		return e.judgeHalf(ctx, p, v)
	case aim.Answers == "many":
		return e.judgeMany(ctx, p, t, v)
	case p.Steps[0].Times > 1:
		return e.judgeAbandoned(ctx, p, t, v)
	}
	return e.judgeEndpoint(ctx, p, t, v)
}

// judgeMany answers a question, and sends many answers beside it that nobody has asked for. To ignore them is right,
// and to keep them is not.
func (e *Judge) judgeMany(ctx context.Context, p corpus.Probe, t *talk.Target, v *findings.Verdict) error {
	honest, err := transport.RetryLost(func() (*talk.Call, error) { return e.Advance(ctx, t, corpus.Step{}, 2) })
	if err != nil {
		return err
	}
	if len(honest.Replies) < 2 && honest.Last().Asks() {
		return talk.NoVerdict("the honest answer is not taken", "")
	}
	usual, kept, slow := honest.Last().StateSize, 0, 0
	var outcome string
	for range verdict.Repeats {
		c, err := transport.RetryLost(func() (*talk.Call, error) { return e.crowd(ctx, t) })
		if errors.Is(err, transport.ErrSlow) {
			slow++
			continue
		}
		if err != nil {
			return e.endOf(p, v, err)
		}
		outcome = c.Last().Outcome()
		if kept = c.Last().StateSize; kept < usual+grown {
			kept = 0
			break
		}
	}
	after, err := transport.RetryLost(func() (*talk.Call, error) { return e.Advance(ctx, t, corpus.Step{}, 2) })
	switch {
	case err != nil:
		return e.endOf(p, v, err)
	case after.Last().Class != honest.Last().Class:
		return talk.NoVerdict("the honest call ended in another way after the load than before it", "")
	case slow == verdict.Repeats:
		return verdict.Found(p, v, "observation", nil,
			"a retry with %d answers gets no response within %v, %d times of %d: send one, and measure", manyAnswers,
			e.Line.Patience*transport.LoadPatience, slow, verdict.Repeats)
	case kept > 0 && slow == 0:
		return verdict.Found(p, v, "observation", nil, "the state of the next round grows from %d to %d bytes by %d answers "+
			"that nobody has asked for: send them under other keys beside the answer, and look at requestState", usual, kept,
			manyAnswers)
	case outcome == string(talk.Advanced):
		return verdict.Pass(v,
			"the call went on with the answer that it had asked for, and the next state has nothing of the others")
	}
	return verdict.Pass(v, "a retry with %d answers: %s", manyAnswers, outcome)
}

// crowd calls a target, and answers its first question among many answers that it has not asked for.
func (e *Judge) crowd(ctx context.Context, t *talk.Target) (*talk.Call, error) {
	c, err := e.Call(ctx, t, corpus.Step{})
	if err != nil {
		return nil, err
	}
	if !c.Last().Asks() {
		return nil, fmt.Errorf("%w: the call did not ask", transport.ErrLost)
	}
	answers := map[string]any{}
	for range manyAnswers {
		answers[fmt.Sprintf("%012x", rand.Uint64())] = json.RawMessage(`{"action":"accept","content":{}}`)
	}
	maps.Copy(answers, e.Answers(t, c.Last().Questions, c.Canary))
	params := t.Params(c.Arguments)
	params["inputResponses"] = answers
	if state := c.Last().State; state != nil {
		params["requestState"] = *state
	}
	return c, e.Deliver(ctx, c, transport.Request{Method: t.Method, Params: params, Capabilities: c.Capabilities,
		Load: true, Large: true})
}

// judgeHalf opens requests whose bodies stop in the middle, and looks how long the server waits for the rest, and
// whether it serves another caller meanwhile.
func (e *Judge) judgeHalf(ctx context.Context, p corpus.Probe, v *findings.Verdict) error {
	if e.Lister == "" {
		return talk.NoVerdict("nothing was listed", "a server that speaks 2026-07-28")
	}
	other := corpus.Step{}
	if e.Second {
		other.As = "second"
	}
	t := &talk.Target{Method: e.Lister}
	if err := e.serves(ctx, t, nil); err != nil {
		return err
	}
	n := p.Steps[len(p.Steps)-1].Times
	began := time.Now()
	open, unserved, err := e.stall(ctx, t, other, n)
	took := time.Since(began).Round(time.Second)
	if err != nil {
		return err
	}
	if err := e.serves(ctx, t, nil); err != nil {
		return e.endOf(p, v, err)
	}
	switch {
	case open == n:
		return verdict.Found(p, v, "observation", nil,
			"%d requests were still open %v after half of their bodies, and another caller was not served %d times "+
				"meanwhile: send the head and half of the body of a request, and wait", n, took, unserved)
	case unserved >= verdict.Repeats:
		return verdict.Found(p, v, "observation", nil,
			"while %d requests waited for the other half of their bodies, another caller was not served %d times, and was "+
				"before and after", n, unserved)
	}
	return verdict.Pass(v, "the server ended %d of %d requests after half of their bodies, within %v", n-open, n, took)
}

// stall holds n requests whose bodies are half there, while the server does. It returns how many are still open at the
// end, and how often an honest request was not served meanwhile.
func (e *Judge) stall(ctx context.Context, t *talk.Target, other corpus.Step, n int) (open, unserved int, err error) {
	held, release := context.WithTimeout(ctx, e.Line.Quiet)
	ended, wait := e.Line.Stall(held, transport.Request{Method: t.Method, Capabilities: transport.AllCapabilities}, n)
	defer wait()
	defer release()
	tick := time.NewTicker(e.Line.Quiet / 13)
	defer tick.Stop()
	for open = n; open > 0; {
		select {
		case <-ended:
			if held.Err() == nil {
				open--
			}
		case <-tick.C:
			got, err := transport.RetryLost(func() (*talk.Call, error) { return e.first(ctx, t, other, true) })
			if errors.Is(err, transport.ErrStopped) {
				return 0, 0, err
			}
			if err != nil || !got.Last().Progresses() {
				unserved++
			}
		case <-held.Done():
			if ctx.Err() != nil {
				return 0, 0, e.Line.Stop(context.Cause(ctx).Error())
			}
			return open, unserved, nil
		}
	}
	return open, unserved, nil
}

// judgeAbandoned makes many first rounds, answers none of them, and looks whether another caller is served then. A
// server may refuse the load, and needs time to get over it.
func (e *Judge) judgeAbandoned(ctx context.Context, p corpus.Probe, t *talk.Target, v *findings.Verdict) error {
	aim := p.Steps[len(p.Steps)-1]
	before, err := transport.RetryLost(func() (*talk.Call, error) { return e.first(ctx, t, aim, false) })
	if err != nil {
		return err
	}
	if !before.Last().Asks() {
		return talk.NoVerdict("the call of the second identity is refused: "+before.Last().Why,
			"a second identity that may call it")
	}
	begun, refusal := 0, ""
	for ; begun < p.Steps[0].Times && refusal == ""; begun++ {
		c, err := transport.RetryLost(func() (*talk.Call, error) { return e.first(ctx, t, corpus.Step{}, true) })
		switch {
		case errors.Is(err, transport.ErrStopped):
			return err
		case err != nil:
			refusal = err.Error()
		case !c.Last().Asks():
			refusal = c.Last().Outcome()
		}
	}
	for began := time.Now(); ; {
		c, err := transport.RetryLost(func() (*talk.Call, error) { return e.first(ctx, t, aim, true) })
		if errors.Is(err, transport.ErrStopped) {
			return err
		}
		if err == nil && c.Last().Asks() {
			return verdict.Pass(v, "another caller was served %v after %d first rounds without an answer",
				time.Since(began).Round(time.Second), begun)
		}
		if err != nil {
			refusal = err.Error()
		} else {
			refusal = c.Last().Outcome()
		}
		if waited := time.Since(began); waited > e.Line.Quiet {
			_ = e.Line.Stop("the server refuses every call after the abandoned rounds")
			return verdict.Found(p, v, "observation", nil,
				"after %d first rounds without an answer, another caller was refused "+
					"for %v (%s), and was served before: call it as often, and then as somebody else", begun,
				waited.Round(time.Second), refusal)
		}
		if err := e.Line.Rest(ctx, e.Line.Quiet/13); err != nil {
			return err
		}
	}
}
