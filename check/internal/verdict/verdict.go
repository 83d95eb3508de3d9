// Package verdict writes the verdicts of probes: what was found, at the level that the corpus gives to its proof.
package verdict

import (
	"fmt"
	"slices"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/internal/record"
	"github.com/askback-mcp/askback/check/internal/talk"
)

// Repeats is the number of attempts of each attack.
const Repeats = 3

// Pass writes that nothing was found.
func Pass(v *findings.Verdict, format string, args ...any) error {
	v.Level, v.Reason = findings.Pass, fmt.Sprintf(format, args...)
	return nil
}

// Found writes a finding, at the level that the corpus gives to its proof.
func Found(
	p corpus.Probe, v *findings.Verdict, proof string, steps []talk.Exchange, format string, args ...any,
) error {
	level, ok := p.Verdicts[proof]
	if !ok {
		return Pass(v, "nothing was seen that counts")
	}
	v.Level, v.Proof, v.Reason = level, proof, fmt.Sprintf(format, args...)
	if steps != nil {
		v.Transcript = record.Transcript(p, steps)
	}
	return nil
}

// FoundTimes is finding for an effect that n attempts of three have had. What is not seen each time is a suspicion.
func FoundTimes(
	p corpus.Probe, v *findings.Verdict, proof string, steps []talk.Exchange, n int, format string, args ...any,
) error {
	err := Found(p, v, proof, steps, format, args...)
	if n < Repeats && v.Level == findings.Fail {
		v.Level = findings.Warn
	}
	return err
}

// An Attempt is one run of an attack.
type Attempt struct {
	Variant string
	Reply   *talk.Reply
	Proof   string // canary, difference, suspicion, refused; empty proves nothing
	Taken   bool   // it had an effect that the negative controls do not have
	Steps   []talk.Exchange
}

// HasEffect reports whether the server went on, or showed what the attack has brought.
func (a Attempt) HasEffect() bool { return a.Proof != "" && a.Proof != "refused" || a.Taken }

// Strongest returns how often the first variant with a proof has it, in how many attempts, and the last that has it.
func Strongest(attempts []Attempt, proof string) (n, of int, last Attempt) {
	first := slices.IndexFunc(attempts, func(a Attempt) bool { return a.Proof == proof })
	if first < 0 {
		return 0, 0, Attempt{}
	}
	for _, a := range attempts {
		if a.Variant != attempts[first].Variant {
			continue
		}
		of++
		if a.Proof == proof {
			n, last = n+1, a
		}
	}
	return n, of, last
}

// Seen is a fact that was found by reading, and its proof: "observation" or the weaker "suspicion".
type Seen struct{ Proof, What string }

// Observation returns a fact that was seen.
func Observation(what string) Seen { return Seen{"observation", what} }

// Suspicion returns a fact that may have another reason.
func Suspicion(what string) Seen { return Seen{"suspicion", what} }
