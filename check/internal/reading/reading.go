// Package reading judges what a server says of itself: its questions, and what anybody can read in its states.
package reading

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/check/internal/verdict"
)

// A Judge reads what a server asks, and what its states show. Most of its probes send nothing.
type Judge struct {
	*talk.Client
	OtherAsked string // a request that must not ask, and did
	Listed     bool   // a list has a result
}

// Run runs a probe that reads, or one that calls with fewer capabilities.
func (r *Judge) Run(ctx context.Context, p corpus.Probe, t *talk.Target, v *findings.Verdict) error {
	if p.Reads != "" {
		return r.judgeByReading(p, t, v)
	}
	return r.judgeQuestions(ctx, p, t, v)
}

// judgeByReading judges a probe that sends nothing: it reads the rounds of the target.
func (r *Judge) judgeByReading(p corpus.Probe, t *talk.Target, v *findings.Verdict) error {
	var all []verdict.Seen
	rounds := 0
	if p.Reads == "gone" {
		return r.judgeGone(p, t, v)
	}
	if p.Reads == "other-request" {
		if !r.Listed {
			return talk.NoVerdict("nothing was listed", "a server that speaks 2026-07-28")
		}
		if r.OtherAsked != "" {
			all = append(all, verdict.Observation(r.OtherAsked+" was answered with input_required"))
		}
	} else {
		rounds = len(t.Rounds)
		for i, round := range t.Rounds {
			if !round.Asks() {
				continue
			}
			for _, s := range readers[p.Reads](r, t, round) {
				all = append(all, verdict.Seen{Proof: s.Proof, What: fmt.Sprintf("round %d: %s", i+1, s.What)})
			}
		}
	}
	for _, proof := range []string{"observation", "suspicion"} {
		// The graver of the two comes first, wherever the corpus puts it.
		if p.Verdicts["suspicion"] == findings.Warn && p.Verdicts["observation"] == findings.Note {
			proof = map[string]string{"observation": "suspicion", "suspicion": "observation"}[proof]
		}
		for _, s := range all {
			if s.Proof == proof {
				return verdict.Found(p, v, proof, nil, "%s", s.What)
			}
		}
	}
	return verdict.Pass(v, "nothing of the kind in %d rounds", max(1, rounds))
}

// judgeGone looks whether the server has ended under a request of the target.
func (r *Judge) judgeGone(p corpus.Probe, t *talk.Target, v *findings.Verdict) error {
	switch {
	case r.Line.Gone && r.Unanswered.Target == t:
		return verdict.Found(p, v, "observation", r.Unanswered.Steps,
			"after a request without a response, the server accepts no connections any more")
	case r.Line.Stopped != "":
		return transport.ErrStopped
	}
	return verdict.Pass(v, "the server was there to the end")
}

// judgeQuestions calls with fewer capabilities, and looks at what is asked nevertheless.
func (r *Judge) judgeQuestions(ctx context.Context, p corpus.Probe, t *talk.Target, v *findings.Verdict) error {
	missing := map[string]bool{}
	var shown *talk.Call
	for range verdict.Repeats {
		c, err := transport.RetryLost(func() (*talk.Call, error) { return r.Call(ctx, t, p.Steps[0]) })
		if err != nil {
			return err
		}
		for _, q := range c.Last().Questions {
			if undeclared(q, c.Capabilities) {
				missing[q.Method+" "+q.Mode] = true
			}
		}
		shown = c
	}
	if len(missing) == 0 {
		return verdict.Pass(v, "the client that did not declare it was not asked, %d times", verdict.Repeats)
	}
	return verdict.Found(p, v, "observation", shown.Steps, "a client with the capabilities %s was asked by %s",
		shown.Capabilities,
		strings.Join(sortedKeys(missing), ", "))
}

// undeclared reports whether a client with these capabilities must not be asked this.
func undeclared(q talk.Question, capabilities string) bool {
	var has struct {
		Elicitation     map[string]json.RawMessage
		Sampling, Roots json.RawMessage
	}
	_ = json.Unmarshal([]byte(capabilities), &has) // the JSON is ours
	switch q.Method {
	case "elicitation/create":
		_, form := has.Elicitation["form"]
		_, url := has.Elicitation["url"]
		return has.Elicitation == nil || q.Mode == "url" && !url || q.Mode == "form" && url && !form
	case "sampling/createMessage":
		return has.Sampling == nil
	case "roots/list":
		return has.Roots == nil
	}
	return false
}

func sortedKeys(m map[string]bool) []string {
	keys := slices.Sorted(maps.Keys(m))
	for i := range keys {
		keys[i] = strings.TrimSpace(keys[i])
	}
	return keys
}
