package trial

import (
	"fmt"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/internal/attack"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/verdict"
)

// conclude makes a verdict from the attempts. What is not seen each time is a suspicion.
func (j *Judge) conclude(a *trial, v *findings.Verdict, attempts []verdict.Attempt) error {
	p, random := a.Probe, a.control.random
	if a.aim.State == "forge" {
		markSelections(attempts)
	}
	for _, proof := range []string{"canary", "selection", "difference", "suspicion", "refused"} {
		n, of, last := verdict.Strongest(attempts, proof)
		if n == 0 {
			continue
		}
		return verdict.FoundTimes(p, v, proof, last.Steps, n, "%s, %d times of %d",
			describe(p, proof, last.Variant, last.Reply), n, of)
	}
	var taken, not int
	var shown verdict.Attempt // whose alteration is taken most often: a short MAC may fit by chance
	times := map[string]int{}
	for _, a := range attempts {
		switch {
		case a.Taken:
			taken++
			if times[a.Variant]++; times[a.Variant] >= times[shown.Variant] {
				shown = a
			}
		case a.Reply.Class == talk.Refused || a.Reply.Class == talk.Again:
			not++
		}
	}
	if random != nil && !random.Progresses() {
		not++
	}
	switch {
	case p.Verdicts["selection"] != "" && taken > 0 && not > 0:
		return verdict.Found(p, v, "selection", shown.Steps,
			"%d of %d altered states were taken, as with %q, and others refused", taken, len(attempts), shown.Variant)
	case taken > 0:
		return talk.NoVerdict(fmt.Sprintf("the server went on %d times of %d, but with another result than the honest call: "+
			"its cause cannot be told", taken, len(attempts)), "a target whose result shows what it was given")
	case len(attempts) == 0:
		return talk.NoVerdict("the attack could not be made", "")
	}
	aim := a.aim.State
	if (aim == "forge" || aim == "flip" || aim == "cut") && a.victim.Unsigned(a.victim.Rounds[a.round-1].State) {
		a.victim.Resists = a.victim.Resists || aim == "forge"
		return talk.NoVerdict(fmt.Sprintf("the state can be read, and nothing in it looks like a signature. "+
			"%d changes of it were refused: the server may compare it with a record of its own", len(attempts)), "")
	}
	return verdict.Pass(v, "%s, %d times of %d", attempts[0].Reply.Outcome(), len(attempts), len(attempts))
}

// markSelections notes which values of a state have a replacement that was taken and another one that was not: the
// server looks at the value, and believes it.
func markSelections(attempts []verdict.Attempt) {
	path := func(a verdict.Attempt) string {
		path, _, _ := strings.Cut(a.Variant, " ")
		return path
	}
	for i, a := range attempts {
		if a.Proof == "difference" && slices.ContainsFunc(attempts, func(o verdict.Attempt) bool {
			return path(o) == path(a) && !o.Reply.Progresses()
		}) {
			attempts[i].Proof = "selection"
		}
	}
}

// describe says what was seen.
func describe(p corpus.Probe, proof, variant string, came *talk.Reply) string {
	with := ""
	if p.Steps[len(p.Steps)-1].State == "forge" {
		with = " (" + variant + ")"
	}
	switch proof {
	case "selection":
		if variant == attack.Wholly {
			return "a state that was made for a call which was never begun was taken, and a random one was not"
		}
		return "a value was replaced in its own format and taken, and another replacement was not" + with
	case "canary":
		aim := p.Steps[len(p.Steps)-1]
		if variant == attack.NeverAsked {
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
	return "the server refused it: " + came.Why
}
