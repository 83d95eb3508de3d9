// Package attack alters rounds of a call: their states, answers and arguments.
package attack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/internal/fit"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/internal/rawclient/alter"
)

// An Attacker sends what no honest client would.
type Attacker struct{ *talk.Client }

// NeverAsked sends answers without a state, in a call that was never begun.
const NeverAsked = "never asked"

// ErrInapplicable says that the state of a call does not have the part that an alteration changes.
var ErrInapplicable = errors.New("the alteration does not apply")

// Attack sends a round of a call with the alterations of a step. The call itself stays where it is. The text is a
// canary of the attack's own, and variant the alteration of the state that is chosen from several.
func (k *Attacker) Attack(ctx context.Context, c *talk.Call, s corpus.Step, variant, text string) (*talk.Reply, error) {
	if s.Round != "" {
		return k.endAgain(ctx, c, variant, text)
	}
	a := *c
	a.Steps = slices.Clone(c.Steps)
	a.Replies = slices.Clone(c.Replies)
	if s.Arguments == "other" || variant == Wholly || variant == NeverAsked {
		if err := k.Fill(&a); err != nil {
			return nil, err
		}
	}
	last := c.Last()
	answers := k.Answers(c.Target, last.Questions, c.Canary)
	if s.Answers != "" {
		answers = k.alterAnswers(c, s.Answers, variant, text)
	}
	if variant == NeverAsked {
		for _, round := range c.Target.Rounds {
			maps.Copy(answers, k.Answers(c.Target, round.Questions, text))
		}
	}
	state := last.State
	if s.State == "none" {
		state = nil
	} else if s.State != "" && state != nil {
		var err error
		if s.State == "forge" {
			if variant, c.Brought, err = k.forge(&a, c.Text, *state, variant); err != nil {
				return nil, err
			}
		} else if s.State == "random" { // another one each time, for what counts once
			variant = fmt.Sprintf("random %d", rand.IntN(1e6))
		}
		changed, err := alter.State(*state, variant)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrInapplicable, err)
		}
		k.Hide(c.Target, changed)
		state = &changed
	}
	p, err := k.SendCall(ctx, &a, s, answers, state)
	if err == nil {
		last := &a.Steps[len(a.Steps)-1]
		last.Variant, last.From = variant, c.Last().State
		c.Steps = a.Steps
	}
	return p, err
}

// endAgain goes back to an earlier round of a call that has ended, and answers from there on to the end.
func (k *Attacker) endAgain(ctx context.Context, c *talk.Call, round, text string) (*talk.Reply, error) {
	n, err := strconv.Atoi(round)
	if err != nil {
		return nil, err
	}
	c.Replies, c.Canary = slices.Clone(c.Replies[:n]), text
	p := c.Last()
	for sent := false; err == nil && len(c.Replies) < talk.MaxRounds && (!sent || p.Class == talk.Advanced); sent = true {
		p, err = k.Answer(ctx, c, corpus.Step{})
	}
	return p, err
}

// alterAnswers returns the answers to the newest questions, altered.
func (k *Attacker) alterAnswers(c *talk.Call, how, variant, text string) map[string]any {
	answers := map[string]any{}
	for _, q := range c.Last().Questions {
		honest := k.Honest(c.Target, q, text)
		accepted, _ := honest.(map[string]any)
		form := q.Method == "elicitation/create" && q.Mode == "form"
		switch how {
		case "none":
			continue
		case "decline", "cancel":
			if form {
				honest = map[string]any{"action": how, "content": accepted["content"]}
			}
		case "honest-decline":
			if form {
				honest = map[string]any{"action": "decline"}
			}
		case "action":
			if form {
				honest = map[string]any{"action": "perhaps", "content": accepted["content"]}
			}
		case "kind":
			if q.Method == "elicitation/create" {
				honest = map[string]any{"role": "assistant", "model": "none",
					"content": map[string]any{"type": "text", "text": text}}
			} else {
				honest = map[string]any{"action": "accept", "content": map[string]any{"text": text}}
			}
		case "key":
			answers[q.Key+"-other"] = honest
			continue
		case "unasked":
			extra, _ := k.Honest(c.Target, q, c.Canary).(map[string]any)
			answers[q.Key] = extra
			answers["askback-unasked"] = honest
			continue
		case "schema":
			fits, ok := accepted["content"].(map[string]any)
			honest = k.Honest(c.Target, q, c.Canary) // the other questions of the round
			if !ok || !form {
				break
			}
			wrong := fit.Misfits(q.Schema, fits, text)
			for i, w := range wrong {
				if variant == fmt.Sprintf("%s %d", q.Key, i) {
					honest = map[string]any{"action": "accept", "content": w}
				}
			}
		}
		answers[q.Key] = honest
	}
	return answers
}

// Misfits returns the variants of an attack with content that does not fit a form of the round.
func (k *Attacker) Misfits(t *talk.Target, round int) (variants []string) {
	for _, q := range t.Rounds[round-1].Questions {
		if q.Method != "elicitation/create" || q.Mode != "form" {
			continue
		}
		answer, _ := k.Honest(t, q, "x").(map[string]any)
		fits, _ := answer["content"].(map[string]any)
		wrong := fit.Misfits(q.Schema, fits, "x")
		for i := range wrong {
			variants = append(variants, fmt.Sprintf("%s %d", q.Key, i))
		}
	}
	return variants[:min(len(variants), 6)]
}

// StatesBefore are the numbers of the rounds that have a state, and come before another.
func StatesBefore(t *talk.Target, round int) (numbers []string) {
	for i, p := range t.Rounds[:round-1] {
		if p.State != nil {
			numbers = append(numbers, strconv.Itoa(i+1))
		}
	}
	return numbers
}
