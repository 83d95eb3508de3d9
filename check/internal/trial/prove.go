package trial

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/internal/attack"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/verdict"
)

const leastOnly = 5 // characters of a text that occurs nowhere by chance

// prove returns the proof of an attempt. The text is the attack's own, and only what nothing else has brought in.
func (j *Judge) prove(tr *trial, c *talk.Call, a verdict.Attempt, text, only string) string {
	aim, valid := tr.aim, tr.control.valid
	alike := a.Reply.Like(valid)
	switch {
	case a.Reply.Class != talk.Refused && tr.shows(a.Reply, only):
		return "canary"
	case aim.State == "forge" && a.Taken && a.Reply.Echoed && alike:
		return "canary" // the result quotes the state itself
	case aim.Answers == "fit-again" && j.kept(valid, a, text):
		return ""
	case a.Taken && (alike || a.Reply.Like(tr.control.second) || aim.State == "forge"):
		return "difference"
	case a.Taken && j.mayShow(tr.Probe, aim, c, a.Reply, valid):
		return "suspicion"
	case !a.Reply.Progresses() && a.Reply.Class == talk.Refused:
		return "refused"
	}
	return ""
}

// proveUnbegun returns the proof of an attempt on a call that was never begun, which has an argument of its own. Only
// what ends like the honest call counts.
func (tr *trial) proveUnbegun(a verdict.Attempt, text string) string {
	switch {
	case !a.Taken || !a.Reply.Like(tr.control.valid):
		return ""
	case a.Variant == attack.Wholly:
		return "selection"
	case strings.Contains(a.Reply.Raw, text) || a.Reply.Own != "":
		return "canary"
	}
	return "difference"
}

// shows reports that a reply has a text that no control has. A short one has to stand alone, in a reply that is like
// the honest one.
func (tr *trial) shows(came *talk.Reply, only string) bool {
	if only == "" || !strings.Contains(came.Raw, only) || strings.Contains(tr.control.valid.Raw, only) {
		return false
	}
	for _, n := range tr.control.negatives {
		if strings.Contains(n.Raw, only) || tr.aim.Arguments == "other" && n.Own != "" {
			return false
		}
	}
	return len(only) >= leastOnly ||
		came.Like(tr.control.valid) && regexp.MustCompile(`\b`+regexp.QuoteMeta(only)+`\b`).MatchString(came.Raw)
}

// mayShow reports whether a text of the attack is an effect where it came back. A server may quote the answer that it
// refuses, in a question, or in a result that says so.
func (j *Judge) mayShow(p corpus.Probe, aim corpus.Step, c *talk.Call, came, valid *talk.Reply) bool {
	switch {
	case p.Family == "answers":
		return j.hasOtherValue(aim, c, came, valid)
	case aim.Answers == "fit-again":
		return came.Class == talk.Done // another question is not what must not come twice
	}
	return true
}

// wrongValue matches the value of an attack in a text, in one programming language or another.
var wrongValue = map[string]*regexp.Regexp{
	"schema": regexp.MustCompile(`^(?:…|x+|askback|map|[^a-zA-Z])*$`),
	"kind":   regexp.MustCompile(`^…?$`),
	"none":   regexp.MustCompile(`^\S*$`),
}

// hasOtherValue reports that a reply says what the valid one says, with another value in the place of the fitting one.
// Other replies may be refusals.
func (j *Judge) hasOtherValue(aim corpus.Step, c *talk.Call, came, valid *talk.Reply) bool {
	a, b := []rune(came.Text), []rune(valid.Text)
	begin := 0
	for begin < min(len(a), len(b)) && a[begin] == b[begin] {
		begin++
	}
	end := 0
	for end < min(len(a), len(b))-begin && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	other, fitting := string(a[begin:len(a)-end]), string(b[begin:len(b)-end])
	fits := ""
	for _, q := range c.Last().Questions {
		if answer, ok := j.Honest(c.Target, q, c.Canary).(map[string]any); ok {
			fits += j.Mask(fmt.Sprint(answer["content"]))
		}
	}
	looks := wrongValue[aim.Answers]
	return came.Class == valid.Class && strings.Contains(fits, fitting) && (looks == nil || looks.MatchString(other))
}

// kept reports that a call which ends once more may have the result of its first end, which a server may keep for those
// who lost the response: the other answers would have shown in a new one.
func (j *Judge) kept(valid *talk.Reply, again verdict.Attempt, text string) bool {
	sent, _ := json.Marshal(again.Steps[len(again.Steps)-1].Request.Params) // it was sent
	answers := slices.ContainsFunc(j.Canaries, func(canary string) bool {
		return canary != valid.Own && strings.Contains(valid.Raw, canary)
	})
	return answers && strings.Contains(string(sent), text) && !strings.Contains(again.Reply.Raw, text)
}
