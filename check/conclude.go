package check

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/rawclient/alter"
)

const (
	// neverAsked sends answers without a state, in a call that was never begun.
	neverAsked = "never asked"

	leastOnly = 5 // characters of a text that occurs nowhere by chance
	repeats   = 3
	maxLosses = 6 // attempts at one thing whose responses are lost
)

// controls are what honest calls come to, and calls that must not work. Probes share them, because requests are scarce:
// the honest call after one attack is the one before the next.
type controls struct {
	valid     *reply // the honest answer
	second    *reply // of the second identity, or of the target, the server that the attack goes to
	negatives []*reply
	random    *reply // the negative with random characters as its state, if there is one
}

// A controlKey says which control a target has had: as whom, where, in which round, and what is wrong with it.
type controlKey struct {
	as, at         string
	round          int
	state, answers string // of a request that must not work; both are empty for the honest call
}

// retried does something again while responses are lost.
func retried[T any](do func() (T, error)) (value T, err error) {
	for range maxLosses {
		if value, err = do(); !errors.Is(err, errLost) {
			return value, err
		}
	}
	return value, err
}

// control is what the last request of a call comes to, the one after that many rounds: the honest one, or one that must
// not have its effect. It is measured once.
func (r *run) control(ctx context.Context, t *target, to, wrong step, round int) (*reply, error) {
	key := controlKey{to.As, to.At, round, wrong.State, wrong.Answers}
	if p := t.controls[key]; p != nil {
		return p, nil
	}
	p, err := retried(func() (*reply, error) {
		c, err := r.advance(ctx, t, to, round)
		if err != nil {
			return nil, err
		}
		if !c.last().asks() {
			return c.last(), nil
		}
		if wrong.State == "" && wrong.Answers == "" {
			asked := c.last()
			p, err := r.answer(ctx, c, to)
			if err == nil && p.repeats(asked) {
				p.class, p.why = again, "the same questions come again"
			}
			return p, err
		}
		wrong.As, wrong.At = to.As, to.At
		return r.attack(ctx, c, wrong, "", c.canary)
	})
	if err != nil {
		return nil, err
	}
	if t.controls == nil {
		t.controls = map[controlKey]*reply{}
	}
	t.controls[key] = p
	return p, nil
}

// attempt is what one run of an attack came to.
type attempt struct {
	variant string
	reply   *reply
	proof   string // canary, difference, suspicion, refused; empty is none
	taken   bool   // it had an effect that the negative controls do not have
	steps   []recorded
}

// hasEffect reports whether the server went on, or showed what the attack has brought.
func (a attempt) hasEffect() bool { return a.proof != "" && a.proof != "refused" || a.taken }

// errInapplicable says that the state of a call does not have the part that an alteration changes.
var errInapplicable = errors.New("the alteration does not apply")

// A notJudged is the reason why nothing is proved, and what would help.
type notJudged struct{ why, remedy string }

func (n *notJudged) Error() string { return n.why }

// verdict runs a probe on a target.
func (r *run) verdict(ctx context.Context, p corpus.Probe, t *target) findings.Verdict {
	v := findings.Verdict{Probe: p.ID, Target: t.String(), Dimension: p.Dimension, Title: p.Title, Clause: p.Clause,
		Keyword: p.Keyword, Harm: p.Harm, Mend: p.Mend, Level: findings.NotJudged}
	err := r.judge(ctx, p, t, &v)
	if err == nil {
		return v
	}
	v.Level = findings.NotJudged
	v.Reason = cause(err, r.line)
	if n, ok := errors.AsType[*notJudged](err); ok {
		v.Remedy = n.remedy
	} else if errors.Is(err, errStopped) {
		v.Remedy = "run it again when the server answers, with more --requests or a longer --timeout"
	}
	return v
}

func (r *run) judge(ctx context.Context, p corpus.Probe, t *target, v *findings.Verdict) error {
	if p.Family == "endpoint" || p.Family == "load" {
		t, v.Target = r.suited(p), ""
	}
	if err := r.unmet(p, t); err != nil {
		return err
	}
	switch {
	case p.Family == "tasks":
		return r.judgeTasks(ctx, p, t, v)
	case p.Family == "endpoint":
		return r.judgeEndpoint(ctx, p, t, v)
	case p.Family == "load":
		return r.judgeLoad(ctx, p, t, v)
	case p.Reads != "":
		return r.judgeByReading(p, t, v)
	case p.Family == "questions":
		return r.judgeQuestions(ctx, p, t, v)
	case p.Family == "state" || p.Family == "answers":
		return r.judgeAttack(ctx, p, t, v)
	}
	return &notJudged{"this check has no way to run it", "a newer version of the command"}
}

// judgeQuestions calls with fewer capabilities, and looks at what is asked nevertheless.
func (r *run) judgeQuestions(ctx context.Context, p corpus.Probe, t *target, v *findings.Verdict) error {
	missing := map[string]bool{}
	var shown *call
	for range repeats {
		c, err := retried(func() (*call, error) { return r.call(ctx, t, p.Steps[0]) })
		if err != nil {
			return err
		}
		for _, q := range c.last().questions {
			if q.undeclared(c.able) {
				missing[q.method+" "+q.mode] = true
			}
		}
		shown = c
	}
	if len(missing) == 0 {
		return pass(v, "the client that did not declare it was not asked, %d times", repeats)
	}
	return r.found(p, v, "observation", shown.steps, "a client with the capabilities %s was asked by %s", shown.able,
		strings.Join(sortedKeys(missing), ", "))
}

func pass(v *findings.Verdict, format string, args ...any) error {
	v.Level, v.Reason = findings.Pass, fmt.Sprintf(format, args...)
	return nil
}

// found writes a finding, at the level that the corpus gives to its proof.
func (r *run) found(
	p corpus.Probe, v *findings.Verdict, proof string, steps []recorded, format string, args ...any,
) error {
	level, ok := p.Verdicts[proof]
	if !ok {
		return pass(v, "nothing was seen that counts")
	}
	v.Level, v.Proof, v.Reason = level, proof, fmt.Sprintf(format, args...)
	if steps != nil {
		v.Transcript = r.transcript(p, steps)
	}
	return nil
}

// A trial is one attack on one target.
type trial struct {
	corpus.Probe
	aim     step    // the step that is judged
	target  *target // where the attack goes
	victim  *target // whose state it takes, which is often the same
	round   int
	control *controls
}

// judgeAttack runs an attack between its controls.
func (r *run) judgeAttack(ctx context.Context, p corpus.Probe, t *target, v *findings.Verdict) error {
	a := &trial{Probe: p, aim: p.Steps[len(p.Steps)-1], target: t, victim: t, round: t.askRound()}
	if p.Family == "state" {
		a.round = t.stateRound()
	}
	if a.aim.Target != "" {
		if a.victim = r.other(t, a.aim.Target); a.victim == nil {
			return &notJudged{"nothing else asks that may be called to its end", "--allow it"}
		}
		a.round = 1
	}
	if found, err := r.judgeDefaults(ctx, a, v); found || err != nil {
		return err
	}
	var err error
	if a.control, err = r.controls(ctx, a); err != nil {
		return err
	}
	variants := r.variants(a)
	if len(variants) == 0 && a.aim.Round != "" {
		return &notJudged{"its calls have no earlier round with a state", ""}
	}
	if len(variants) == 0 {
		return &notJudged{"this state has nothing that the attack could change", ""}
	}
	// Of several answers a server may keep those that fit, so that the call is not as it was.
	share := a.victim == t && len(p.Steps) == 2 && a.aim.Wait == "" && len(t.rounds[a.round-1].questions) == 1
	attempts, err := r.attempts(ctx, a, variants, share)
	if errors.Is(err, errSpent) {
		attempts, err = r.attempts(ctx, a, variants, false)
	}
	if err != nil {
		return err
	}
	if slices.ContainsFunc(attempts, attempt.hasEffect) {
		clear(t.controls) // so that all controls are measured after it as well
	}
	after, err := r.controls(ctx, a)
	if err != nil {
		return err
	}
	if !after.like(a.control) {
		clear(t.controls)
		return &notJudged{"the honest call, or one that must not work, ended in another way after the attack than before it",
			"a target that does the same each time"}
	}
	return r.conclude(a, v, attempts)
}

// judgeDefaults looks whether a form that nobody has accepted counts as accepted with its defaults.
func (r *run) judgeDefaults(ctx context.Context, a *trial, v *findings.Verdict) (found bool, err error) {
	action := a.aim.Answers
	if action != "decline" && action != "cancel" {
		return false, nil
	}
	with, others, some := map[string]any{}, map[string]any{}, false
	unaccepted := map[string]any{}
	for _, q := range a.target.rounds[a.round-1].questions {
		answer, _ := r.honest(a.target, q, r.argument).(map[string]any)
		fits, isForm := answer["content"].(map[string]any)
		with[q.key], others[q.key], unaccepted[q.key] = answer, answer, answer
		if w, o := defaults(q.schema, fits); isForm && w != nil {
			with[q.key] = map[string]any{"action": "accept", "content": w}
			others[q.key] = map[string]any{"action": "accept", "content": o}
			unaccepted[q.key], some = map[string]any{"action": action}, true
		}
	}
	if !some {
		return false, nil
	}
	var last *call
	send := func(answers map[string]any) (*reply, error) {
		return retried(func() (*reply, error) {
			if last, err = r.advance(ctx, a.target, step{}, a.round); err != nil {
				return nil, err
			}
			if !last.last().asks() {
				return last.last(), nil
			}
			return r.sendCall(ctx, last, step{}, answers, last.last().state)
		})
	}
	for n := range repeats {
		declined, err := send(unaccepted)
		if err != nil || !declined.progresses() {
			return false, err
		}
		shown := last.steps
		for i, answers := range []map[string]any{with, others} {
			accepted, err := send(answers)
			if err != nil || accepted.like(declined) != (i == 0) {
				return false, err
			}
		}
		if n == repeats-1 {
			return true, r.found(a.Probe, v, "observation", shown, "a form that was answered with %q ended like one that was "+
				"accepted with its defaults, and unlike one with other values, %d times of %d", action, repeats, repeats)
		}
	}
	return false, nil
}

// errSpent says that a call which several attempts have shared cannot be ended honestly any more.
var errSpent = errors.New("the state of the call is spent")

// attempts runs an attack in each of its variants. Attempts without an effect may share one call, which is ended
// honestly: that shows that its state was valid all the time, and is the honest call after the attack.
func (r *run) attempts(ctx context.Context, a *trial, variants []string, share bool) (list []attempt, err error) {
	var shared *call
	for _, variant := range variants {
		for n := range repeats {
			one, err := retried(func() (attempt, error) {
				c := shared
				if c == nil {
					if c, err = r.victimCall(ctx, a, n); err != nil {
						return attempt{}, err
					}
				}
				if share {
					shared = c
				}
				return r.attempt(ctx, a, *c, variant)
			})
			if errors.Is(err, errInapplicable) {
				break
			} else if err != nil {
				return nil, err
			}
			list = append(list, one)
			if one.hasEffect() {
				shared = nil
			} else if n == 0 && len(variants) > 1 {
				break // an attack of many variants repeats those that have an effect
			}
		}
	}
	return list, r.endHonestly(ctx, a, shared)
}

// endHonestly ends the call that attempts have shared, if they did.
func (r *run) endHonestly(ctx context.Context, a *trial, shared *call) error {
	key := controlKey{as: a.aim.As, at: a.aim.At, round: a.round}
	delete(a.target.controls, key)
	if shared == nil {
		return nil
	}
	end, err := retried(func() (*reply, error) { return r.answer(ctx, shared, step{}) })
	switch {
	case err != nil:
		return err
	case !end.like(a.control.valid):
		return errSpent
	case key.as == "" && key.at == "":
		a.target.controls[key] = end
	}
	return nil
}

// like reports that two sets of controls say the same.
func (c *controls) like(other *controls) bool {
	return c.second.like(other.second) && slices.EqualFunc(c.negatives, other.negatives, (*reply).like)
}

// controls runs the honest calls and those that must not work.
func (r *run) controls(ctx context.Context, a *trial) (*controls, error) {
	p, t, aim, round := a.Probe, a.target, a.aim, a.round
	valid, err := r.control(ctx, t, step{}, step{}, round)
	if err != nil {
		return nil, err
	}
	if !valid.progresses() {
		n := &notJudged{"the honest answer is not taken either: " + string(valid.class) + " " + valid.why,
			"arguments and answers that fit, in the file of 'askback check init'"}
		if ends := len(t.rounds); t.rounds[ends-1].class == done {
			n = &notJudged{"the honest call came to its end before, and does not any more: " + valid.why + ". It may act once",
				"useUp in the file of 'askback check init': values of an argument that serve one call each"}
		}
		return nil, n
	}
	c := &controls{valid: valid, second: valid}
	to := honest(aim)
	if to.As != "" || to.At != "" {
		if c.second, err = r.control(ctx, t, to, step{}, round); err != nil {
			return nil, err
		}
		if !c.second.progresses() {
			return nil, &notJudged{"the call itself is refused there: " + c.second.why,
				"a second identity, or a second server, that may call it"}
		}
	}
	negatives := []step{{State: "none"}, {State: "random"}}
	if aim.State == "none" {
		negatives = negatives[1:] // the attack is no control of itself
	} else if p.Family == "answers" {
		negatives = []step{{Answers: "none"}, {Answers: "honest-decline"}}
		if aim.Answers == "none" {
			negatives = negatives[1:] // the attack is no control of itself
		}
	} else if aim.State == "random" {
		negatives = negatives[:1]
	}
	for _, s := range negatives {
		n, err := r.control(ctx, t, to, s, round)
		if err != nil {
			return nil, err
		}
		if n.like(c.second) && p.Verdicts["refused"] == "" {
			if p.Family == "answers" {
				return nil, &notJudged{"the result is the same without the answer, or when it is declined",
					"a target whose result shows what was answered"}
			}
			continue // the other one may be refused
		}
		c.negatives = append(c.negatives, n)
		if s.State == "random" {
			c.random = n
		}
	}
	if len(c.negatives) == 0 && p.Verdicts["refused"] == "" {
		return nil, &notJudged{"the result is the same without the state, or with a random one: it decides nothing",
			"a target that keeps something in its state"}
	}
	return c, nil
}

// other returns another target, of the same method or of another one.
func (r *run) other(t *target, which string) *target {
	for _, o := range r.targets {
		if o != t && o.stateRound() > 0 && o.rounds[0].state != nil && (o.method == t.method) == (which == "other-target") {
			return o
		}
	}
	return nil
}

// variants returns the alterations of an attack, of which most have one.
func (r *run) variants(a *trial) []string {
	state, aim := "", a.aim
	if a.round > 0 && a.round <= len(a.victim.rounds) && a.victim.rounds[a.round-1].state != nil {
		state = *a.victim.rounds[a.round-1].state
	}
	switch {
	case aim.State == "flip":
		return alter.Flips(state, 5)
	case aim.State == "cut":
		return alter.Cuts(state)
	case aim.State == "random":
		return []string{"random"}
	case aim.State == "forge":
		return r.forgeries(a.victim, state)
	case aim.State == "none":
		if a.victim.rounds[0].state == nil { // answers to its first question come without one
			return []string{"left out"}
		}
		return []string{"left out", neverAsked}
	case aim.Answers == "schema":
		return r.misfits(a.victim, a.round)
	case aim.Round != "":
		return a.victim.statesBefore(a.round)
	}
	return []string{""}
}

func (r *run) misfits(t *target, round int) (variants []string) {
	for _, q := range t.rounds[round-1].questions {
		if q.method != "elicitation/create" || q.mode != "form" {
			continue
		}
		answer, _ := r.honest(t, q, "x").(map[string]any)
		fits, _ := answer["content"].(map[string]any)
		wrong, _ := misfits(q.schema, fits, "x")
		for i := range wrong {
			variants = append(variants, fmt.Sprintf("%s %d", q.key, i))
		}
	}
	return variants[:min(len(variants), 6)]
}

// attempt runs an attack once, on a call that has come to the round.
func (r *run) attempt(ctx context.Context, tr *trial, on call, variant string) (attempt, error) {
	a, c, aim := attempt{variant: variant}, &on, tr.aim
	for _, s := range tr.Steps[1 : len(tr.Steps)-1] {
		if _, err := r.attack(ctx, c, s, "", c.canary); err != nil {
			return a, err
		}
	}
	text := r.canary()
	only := r.broughtIn(c, aim, text)
	if tr.target != tr.victim {
		c = graft(c, tr.target)
	}
	reply, err := r.attack(ctx, c, aim, variant, text)
	if err != nil {
		return a, err
	}
	if aim.State == "forge" {
		only = c.brought
	}
	a.reply = reply
	a.steps = c.steps
	if !a.reply.like(tr.control.valid) && slices.ContainsFunc(c.replies, a.reply.repeats) {
		a.reply.class = again
	}
	if !r.mayShow(tr.Probe, aim, c, a.reply, tr.control.valid) {
		only = ""
	}
	unlike := !slices.ContainsFunc(tr.control.negatives, a.reply.like)
	a.taken = a.reply.progresses() && unlike && (tr.Family != "answers" || a.reply.class == tr.control.valid.class)
	if variant == wholly || variant == neverAsked {
		a.proof = tr.proveUnbegun(a, text)
	} else {
		a.proof = r.prove(tr, c, a, text, only)
	}
	if tr.Verdicts[a.proof] == "" {
		a.proof = ""
	}
	if (aim.Answers == "unasked" || aim.At == "replica") && a.proof == "" && a.reply.like(tr.control.valid) {
		a.taken = false // what is honest in it was
	}
	return a, nil
}

// prove is the proof of an attempt. The text is the attack's own, and only what nothing else has brought in.
func (r *run) prove(tr *trial, c *call, a attempt, text, only string) string {
	aim, valid := tr.aim, tr.control.valid
	alike := a.reply.like(valid)
	switch {
	case a.reply.class != refused && tr.shows(a.reply, only):
		return "canary"
	case aim.State == "forge" && a.taken && a.reply.echoed && alike:
		return "canary" // the state itself is what the result tells
	case aim.Answers == "fit-again" && r.kept(valid, a, text):
		return ""
	case a.taken && (alike || a.reply.like(tr.control.second) || aim.State == "forge"):
		return "difference"
	case a.taken && r.mayShow(tr.Probe, aim, c, a.reply, valid):
		return "suspicion"
	case !a.reply.progresses() && a.reply.class == refused:
		return "refused"
	}
	return ""
}

// proveUnbegun is the proof of an attempt on a call that was never begun, which has an argument of its own. Only what
// ends like the honest call counts.
func (tr *trial) proveUnbegun(a attempt, text string) string {
	switch {
	case !a.taken || !a.reply.like(tr.control.valid):
		return ""
	case a.variant == wholly:
		return "selection"
	case strings.Contains(a.reply.raw, text) || a.reply.own != "":
		return "canary"
	}
	return "difference"
}

// shows reports that a reply has a text that no control has. A short one has to stand alone, in a reply that is like
// the honest one.
func (tr *trial) shows(came *reply, only string) bool {
	if only == "" || !strings.Contains(came.raw, only) || strings.Contains(tr.control.valid.raw, only) {
		return false
	}
	for _, n := range tr.control.negatives {
		if strings.Contains(n.raw, only) || tr.aim.Arguments == "other" && n.own != "" {
			return false
		}
	}
	return len(only) >= leastOnly ||
		came.like(tr.control.valid) && regexp.MustCompile(`\b`+regexp.QuoteMeta(only)+`\b`).MatchString(came.raw)
}

// broughtIn returns the text by which the effect of an attack is known. What the attack sends itself has another text
// than what the state may hold.
func (r *run) broughtIn(c *call, aim step, text string) (only string) {
	switch {
	case aim.Answers != "":
		return text
	case aim.Arguments == "other":
		return c.text
	case aim.As == "second" || aim.At != "" || aim.Target != "":
		only, c.canary = c.canary, text
	}
	return only
}

// mayShow reports whether a text of the attack is an effect where it came back. A server may quote the answer that it
// refuses, in a question, or in a result that says so.
func (r *run) mayShow(p corpus.Probe, aim step, c *call, came, valid *reply) bool {
	switch {
	case p.Family == "answers":
		return r.hasOtherValue(aim, c, came, valid)
	case aim.Answers == "fit-again":
		return came.class == done // another question is not what must not come twice
	}
	return true
}

// kept reports that a call which ends once more may have the result of its first end, which a server may keep for those
// who lost the response: the other answers would have shown in a new one.
func (r *run) kept(valid *reply, again attempt, text string) bool {
	sent, _ := json.Marshal(again.steps[len(again.steps)-1].request.params) // it was sent
	answers := slices.ContainsFunc(r.canaries, func(canary string) bool {
		return canary != valid.own && strings.Contains(valid.raw, canary)
	})
	return answers && strings.Contains(string(sent), text) && !strings.Contains(again.reply.raw, text)
}

// graft makes a call of one target with the state and the answers of another one's.
func graft(c *call, t *target) *call {
	g := *c
	if g.target, g.arguments = t, nil; t.make != nil {
		g.arguments = t.make(c.text)
	}
	if c.row != nil {
		maps.Copy(g.arguments, c.row.values)
	}
	last := *c.last()
	last.questions = t.rounds[0].questions
	g.replies = append(g.replies[:len(g.replies)-1:len(g.replies)-1], &last)
	return &g
}

// conclude makes a verdict from the attempts. What is not seen each time is a suspicion.
func (r *run) conclude(a *trial, v *findings.Verdict, attempts []attempt) error {
	p, random := a.Probe, a.control.random
	if a.aim.State == "forge" {
		markSelections(attempts)
	}
	for _, proof := range []string{"canary", "selection", "difference", "suspicion", "refused"} {
		n, of, last := strongest(attempts, proof)
		if n == 0 {
			continue
		}
		err := r.found(p, v, proof, last.steps, "%s, %d times of %d", describe(p, proof, last.variant, last.reply), n, of)
		if n < repeats && v.Level == findings.Fail {
			v.Level = findings.Warn
		}
		return err
	}
	var taken, not int
	var shown attempt // whose alteration is taken most often: a short MAC may fit by chance
	times := map[string]int{}
	for _, a := range attempts {
		switch {
		case a.taken:
			taken++
			if times[a.variant]++; times[a.variant] >= times[shown.variant] {
				shown = a
			}
		case a.reply.class == refused || a.reply.class == again:
			not++
		}
	}
	if random != nil && !random.progresses() {
		not++
	}
	switch {
	case p.Verdicts["selection"] != "" && taken > 0 && not > 0:
		return r.found(p, v, "selection", shown.steps, "%d of %d altered states were taken, as with %q, and others refused",
			taken, len(attempts), shown.variant)
	case taken > 0:
		return &notJudged{fmt.Sprintf("the server went on %d times of %d, but with another result than the honest call: "+
			"its cause cannot be told", taken, len(attempts)), "a target whose result shows what it was given"}
	case len(attempts) == 0:
		return &notJudged{"the attack could not be made", ""}
	}
	aim := a.aim.State
	if (aim == "forge" || aim == "flip" || aim == "cut") && a.victim.unsigned(a.victim.rounds[a.round-1].state) {
		a.victim.resists = a.victim.resists || aim == "forge"
		return &notJudged{fmt.Sprintf("the state can be read, and nothing in it looks like a signature. %d changes of it "+
			"were refused: the server may compare it with a record of its own", len(attempts)), ""}
	}
	return pass(v, "%s, %d times of %d", attempts[0].reply.outcome(), len(attempts), len(attempts))
}

// markSelections notes which values of a state have a replacement that was taken and another one that was not: the
// server looks at the value, and believes it.
func markSelections(attempts []attempt) {
	path := func(a attempt) string {
		path, _, _ := strings.Cut(a.variant, " ")
		return path
	}
	for i, a := range attempts {
		if a.proof == "difference" && slices.ContainsFunc(attempts, func(o attempt) bool {
			return path(o) == path(a) && !o.reply.progresses()
		}) {
			attempts[i].proof = "selection"
		}
	}
}

// strongest returns how often the first variant with a proof has it, in how many attempts, and the last that has it.
func strongest(attempts []attempt, proof string) (n, of int, last attempt) {
	first := slices.IndexFunc(attempts, func(a attempt) bool { return a.proof == proof })
	if first < 0 {
		return 0, 0, attempt{}
	}
	for _, a := range attempts {
		if a.variant != attempts[first].variant {
			continue
		}
		of++
		if a.proof == proof {
			n, last = n+1, a
		}
	}
	return n, of, last
}

func (p *reply) outcome() string {
	if p.why != "" {
		return string(p.class) + " (" + p.why + ")"
	}
	return string(p.class)
}

// describe says what was seen.
func describe(p corpus.Probe, proof, variant string, came *reply) string {
	with := ""
	if p.Steps[len(p.Steps)-1].State == "forge" {
		with = " (" + variant + ")"
	}
	switch proof {
	case "selection":
		if variant == wholly {
			return "a state that was made for a call which was never begun was taken, and a random one was not"
		}
		return "a value was replaced in its own format and taken, and another replacement was not" + with
	case "canary":
		aim := p.Steps[len(p.Steps)-1]
		if variant == neverAsked {
			return "answers to questions that nobody was asked were taken without a state, and a wrong state was refused"
		}
		if aim.Answers == "fit-again" {
			return "the call ended once more, with other answers"
		}
		if p.Family == "state" && aim.State == "" {
			return "a text of the call that the state is from came back in what the server says"
		}
		return "a text that only the attack has brought in came back in what the server says" + with
	case "difference":
		return "the server went on as with the honest request, and not as with one that must not work" + with
	case "suspicion":
		return "the server went on, unlike with the honest request, and unlike with one that must not work" + with
	}
	return "the server refused it: " + came.why
}
