package trial

import (
	"context"
	"maps"
	"slices"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
)

// like reports that two sets of controls say the same.
func (c *controls) like(other *controls) bool {
	return c.second.Like(other.second) && slices.EqualFunc(c.negatives, other.negatives, (*talk.Reply).Like)
}

// control returns the reply to the last request of a call, after that many rounds: to the honest one, or to one that
// must not have its effect. It is measured once.
func (j *Judge) control(ctx context.Context, t *talk.Target, to, wrong corpus.Step, round int) (*talk.Reply, error) {
	key := controlKey{t, to.As, to.At, round, wrong.State, wrong.Answers}
	if p := j.controls[key]; p != nil {
		return p, nil
	}
	p, err := transport.RetryLost(func() (*talk.Reply, error) {
		c, err := j.Advance(ctx, t, to, round)
		if err != nil {
			return nil, err
		}
		if !c.Last().Asks() {
			return c.Last(), nil
		}
		if wrong.State == "" && wrong.Answers == "" {
			asked := c.Last()
			p, err := j.Answer(ctx, c, to)
			if err == nil && p.Repeats(asked) {
				p.Class, p.Why = talk.Again, "the same questions come again"
			}
			return p, err
		}
		wrong.As, wrong.At = to.As, to.At
		return j.Attack(ctx, c, wrong, "", c.Canary)
	})
	if err != nil {
		return nil, err
	}
	j.controls[key] = p
	return p, nil
}

// forget lets the controls of a target be measured again.
func (j *Judge) forget(t *talk.Target) {
	maps.DeleteFunc(j.controls, func(key controlKey, _ *talk.Reply) bool { return key.target == t })
}

// allControls runs the honest calls and those that must not work.
func (j *Judge) allControls(ctx context.Context, a *trial) (*controls, error) {
	p, t, aim, round := a.Probe, a.target, a.aim, a.round
	valid, err := j.control(ctx, t, corpus.Step{}, corpus.Step{}, round)
	if err != nil {
		return nil, err
	}
	if !valid.Progresses() {
		n := talk.NoVerdict("the honest answer is not taken either: "+string(valid.Class)+" "+valid.Why,
			"arguments and answers that fit, in the file of 'askback check init'")
		if ends := len(t.Rounds); t.Rounds[ends-1].Class == talk.Done {
			n = talk.NoVerdict("the honest call came to its end before, and does not any more: "+valid.Why+". It may act once",
				"useUp in the file of 'askback check init': values of an argument that serve one call each")
		}
		return nil, n
	}
	c := &controls{valid: valid, second: valid}
	to := corpus.Step{As: aim.As, At: aim.At}
	if to.As != "" || to.At != "" {
		if c.second, err = j.control(ctx, t, to, corpus.Step{}, round); err != nil {
			return nil, err
		}
		if !c.second.Progresses() {
			return nil, talk.NoVerdict("the call itself is refused there: "+c.second.Why,
				"a second identity, or a second server, that may call it")
		}
	}
	negatives := []corpus.Step{{State: "none"}, {State: "random"}}
	if aim.State == "none" {
		negatives = negatives[1:] // the attack is no control of itself
	} else if p.Family == "answers" {
		negatives = []corpus.Step{{Answers: "none"}, {Answers: "honest-decline"}}
		if aim.Answers == "none" {
			negatives = negatives[1:] // the attack is no control of itself
		}
	} else if aim.State == "random" {
		negatives = negatives[:1]
	}
	for _, s := range negatives {
		n, err := j.control(ctx, t, to, s, round)
		if err != nil {
			return nil, err
		}
		if n.Like(c.second) && p.Verdicts["refused"] == "" {
			if p.Family == "answers" {
				return nil, talk.NoVerdict("the result is the same without the answer, or when it is declined",
					"a target whose result shows what was answered")
			}
			continue // the other one may be refused
		}
		c.negatives = append(c.negatives, n)
		if s.State == "random" {
			c.random = n
		}
	}
	if len(c.negatives) == 0 && p.Verdicts["refused"] == "" {
		return nil, talk.NoVerdict("the result is the same without the state, or with a random one: it decides nothing",
			"a target that keeps something in its state")
	}
	return c, nil
}
