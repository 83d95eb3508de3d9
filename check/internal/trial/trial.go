package trial

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/internal/attack"
	"github.com/askback-mcp/askback/check/internal/fit"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/check/internal/verdict"
	"github.com/askback-mcp/askback/internal/rawclient/alter"
)

// Run runs an attack between its controls.
func (j *Judge) Run(ctx context.Context, p corpus.Probe, t *talk.Target, v *findings.Verdict) error {
	a := &trial{Probe: p, aim: p.Steps[len(p.Steps)-1], target: t, victim: t, round: t.AskRound()}
	if p.Family == "state" {
		a.round = t.StateRound()
	}
	if a.aim.Target != "" {
		if a.victim = OtherTarget(j.targets, t, a.aim.Target); a.victim == nil {
			return talk.NoVerdict("nothing else asks that may be called to its end", "--allow it")
		}
		a.round = 1
	}
	if found, err := j.judgeDefaults(ctx, a, v); found || err != nil {
		return err
	}
	var err error
	if a.control, err = j.allControls(ctx, a); err != nil {
		return err
	}
	variants := j.variants(a)
	if len(variants) == 0 && a.aim.Round != "" {
		return talk.NoVerdict("its calls have no earlier round with a state", "")
	}
	if len(variants) == 0 {
		return talk.NoVerdict("this state has nothing that the attack could change", "")
	}
	// Of several answers a server may keep those that fit, so that the call is not as it was.
	share := a.victim == t && len(p.Steps) == 2 && a.aim.Wait == "" && len(t.Rounds[a.round-1].Questions) == 1
	attempts, err := j.attempts(ctx, a, variants, share)
	if errors.Is(err, errSpent) {
		attempts, err = j.attempts(ctx, a, variants, false)
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(attempts, verdict.Attempt.HasEffect) {
		j.forget(t) // so that all controls are measured after it as well
	}
	after, err := j.allControls(ctx, a)
	if err != nil {
		return err
	}
	if !after.like(a.control) {
		j.forget(t)
		return talk.NoVerdict("the honest call, or one that must not work, ended in another way after the attack "+
			"than before it", "a target that does the same each time")
	}
	return j.conclude(a, v, attempts)
}

// judgeDefaults looks whether a form that nobody has accepted counts as accepted with its defaults.
func (j *Judge) judgeDefaults(ctx context.Context, a *trial, v *findings.Verdict) (found bool, err error) {
	action := a.aim.Answers
	if action != "decline" && action != "cancel" {
		return false, nil
	}
	with, others, some := map[string]any{}, map[string]any{}, false
	unaccepted := map[string]any{}
	for _, q := range a.target.Rounds[a.round-1].Questions {
		answer, _ := j.Honest(a.target, q, j.Argument).(map[string]any)
		fits, isForm := answer["content"].(map[string]any)
		with[q.Key], others[q.Key], unaccepted[q.Key] = answer, answer, answer
		if w, o := fit.Defaults(q.Schema, fits); isForm && w != nil {
			with[q.Key] = map[string]any{"action": "accept", "content": w}
			others[q.Key] = map[string]any{"action": "accept", "content": o}
			unaccepted[q.Key], some = map[string]any{"action": action}, true
		}
	}
	if !some {
		return false, nil
	}
	var last *talk.Call
	send := func(answers map[string]any) (*talk.Reply, error) {
		return transport.RetryLost(func() (*talk.Reply, error) {
			if last, err = j.Advance(ctx, a.target, corpus.Step{}, a.round); err != nil {
				return nil, err
			}
			if !last.Last().Asks() {
				return last.Last(), nil
			}
			return j.SendCall(ctx, last, corpus.Step{}, answers, last.Last().State)
		})
	}
	for n := range verdict.Repeats {
		declined, err := send(unaccepted)
		if err != nil || !declined.Progresses() {
			return false, err
		}
		shown := last.Steps
		for i, answers := range []map[string]any{with, others} {
			accepted, err := send(answers)
			if err != nil || accepted.Like(declined) != (i == 0) {
				return false, err
			}
		}
		if n == verdict.Repeats-1 {
			return true, verdict.Found(a.Probe, v, "observation", shown,
				"a form that was answered with %q ended like one that was accepted with its defaults, and unlike one with "+
					"other values, %d times of %d", action, verdict.Repeats, verdict.Repeats)
		}
	}
	return false, nil
}

// errSpent says that a call which several attempts have shared cannot be ended honestly any more.
var errSpent = errors.New("the state of the call is spent")

// attempts runs an attack in each of its variants. Attempts without an effect may share one call, which is ended
// honestly: that shows that its state was valid all the time, and is the honest call after the attack.
func (j *Judge) attempts(
	ctx context.Context, a *trial, variants []string, share bool,
) (list []verdict.Attempt, err error) {
	var shared *talk.Call
	for _, variant := range variants {
		for n := range verdict.Repeats {
			one, err := transport.RetryLost(func() (verdict.Attempt, error) {
				c := shared
				if c == nil {
					if c, err = j.victimCall(ctx, a, n); err != nil {
						return verdict.Attempt{}, err
					}
				}
				if share {
					shared = c
				}
				return j.attempt(ctx, a, *c, variant)
			})
			if errors.Is(err, attack.ErrInapplicable) {
				break
			} else if err != nil {
				return nil, err
			}
			list = append(list, one)
			if one.HasEffect() {
				shared = nil
			} else if n == 0 && len(variants) > 1 {
				break // an attack of many variants repeats those that have an effect
			}
		}
	}
	return list, j.endHonestly(ctx, a, shared)
}

// endHonestly ends the call that attempts have shared, if they did.
func (j *Judge) endHonestly(ctx context.Context, a *trial, shared *talk.Call) error {
	key := controlKey{target: a.target, as: a.aim.As, at: a.aim.At, round: a.round}
	delete(j.controls, key)
	if shared == nil {
		return nil
	}
	end, err := transport.RetryLost(func() (*talk.Reply, error) { return j.Answer(ctx, shared, corpus.Step{}) })
	switch {
	case err != nil:
		return err
	case !end.Like(a.control.valid):
		return errSpent
	case key.as == "" && key.at == "":
		j.controls[key] = end
	}
	return nil
}

// variants returns the alterations of an attack, of which most have one.
func (j *Judge) variants(a *trial) []string {
	state, aim := "", a.aim
	if a.round > 0 && a.round <= len(a.victim.Rounds) && a.victim.Rounds[a.round-1].State != nil {
		state = *a.victim.Rounds[a.round-1].State
	}
	switch {
	case aim.State == "flip":
		return alter.Flips(state, 5)
	case aim.State == "cut":
		return alter.Cuts(state)
	case aim.State == "random":
		return []string{"random"}
	case aim.State == "forge":
		return j.Forgeries(a.victim, state)
	case aim.State == "none":
		if a.victim.Rounds[0].State == nil { // answers to its first question come without one
			return []string{"left out"}
		}
		return []string{"left out", attack.NeverAsked}
	case aim.Answers == "schema":
		return j.Misfits(a.victim, a.round)
	case aim.Round != "":
		return attack.StatesBefore(a.victim, a.round)
	}
	return []string{""}
}

// attempt runs an attack once, on a call that has come to the round.
func (j *Judge) attempt(ctx context.Context, tr *trial, on talk.Call, variant string) (verdict.Attempt, error) {
	a, c, aim := verdict.Attempt{Variant: variant}, &on, tr.aim
	for _, s := range tr.Steps[1 : len(tr.Steps)-1] {
		if _, err := j.Attack(ctx, c, s, "", c.Canary); err != nil {
			return a, err
		}
	}
	text := j.Canary()
	only := j.broughtIn(c, aim, text)
	if tr.target != tr.victim {
		c = graft(c, tr.target)
	}
	reply, err := j.Attack(ctx, c, aim, variant, text)
	if err != nil {
		return a, err
	}
	if aim.State == "forge" {
		only = c.Brought
	}
	a.Reply = reply
	a.Steps = c.Steps
	if !a.Reply.Like(tr.control.valid) && slices.ContainsFunc(c.Replies, a.Reply.Repeats) {
		a.Reply.Class = talk.Again
	}
	if !j.mayShow(tr.Probe, aim, c, a.Reply, tr.control.valid) {
		only = ""
	}
	unlike := !slices.ContainsFunc(tr.control.negatives, a.Reply.Like)
	a.Taken = a.Reply.Progresses() && unlike && (tr.Family != "answers" || a.Reply.Class == tr.control.valid.Class)
	if variant == attack.Wholly || variant == attack.NeverAsked {
		a.Proof = tr.proveUnbegun(a, text)
	} else {
		a.Proof = j.prove(tr, c, a, text, only)
	}
	if tr.Verdicts[a.Proof] == "" {
		a.Proof = ""
	}
	if (aim.Answers == "unasked" || aim.At == "replica") && a.Proof == "" && a.Reply.Like(tr.control.valid) {
		a.Taken = false // what is honest in it was
	}
	return a, nil
}

// broughtIn returns the text by which the effect of an attack is known. What the attack sends itself has another text
// than what the state may hold.
func (j *Judge) broughtIn(c *talk.Call, aim corpus.Step, text string) (only string) {
	switch {
	case aim.Answers != "":
		return text
	case aim.Arguments == "other":
		return c.Text
	case aim.As == "second" || aim.At != "" || aim.Target != "":
		only, c.Canary = c.Canary, text
	}
	return only
}

// graft makes a call of one target with the state and the answers of another one's.
func graft(c *talk.Call, t *talk.Target) *talk.Call {
	g := *c
	if g.Target, g.Arguments = t, nil; t.Make != nil {
		g.Arguments = t.Make(c.Text)
	}
	if c.Row != nil {
		maps.Copy(g.Arguments, c.Row.Values)
	}
	last := *c.Last()
	last.Questions = t.Rounds[0].Questions
	g.Replies = append(g.Replies[:len(g.Replies)-1:len(g.Replies)-1], &last)
	return &g
}

// OtherTarget returns another target, of the same method or of another one.
func OtherTarget(targets []*talk.Target, t *talk.Target, which string) *talk.Target {
	for _, o := range targets {
		if o != t && o.StateRound() > 0 && o.Rounds[0].State != nil && (o.Method == t.Method) == (which == "other-target") {
			return o
		}
	}
	return nil
}
