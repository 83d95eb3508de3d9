// Package findings holds what a check has found, apart from how it is found and how it is shown.
package findings

import (
	"slices"
	"time"
)

// Level is the verdict on one probe.
type Level string

// The levels, the gravest first. What is not judged is no pass.
const (
	Fail      Level = "fail"       // a MUST is broken, and the effect is shown
	Warn      Level = "warn"       // a SHOULD is broken, or something is suspicious or easily hardened
	Note      Level = "note"       // worth knowing
	NotJudged Level = "not-judged" // nothing could be proved, with the reason
	Pass      Level = "pass"
)

// Levels are all levels, the gravest first.
var Levels = []Level{Fail, Warn, Note, NotJudged, Pass}

// AtLeast reports whether l is a finding that is at least as grave as the other level.
func (l Level) AtLeast(other Level) bool {
	return l != NotJudged && l != Pass && slices.Index(Levels, l) <= slices.Index(Levels, other)
}

// A Report is the outcome of one run. Nothing in it is secret: tokens, states, answers and queries of URLs are redacted
// by the run that makes it, unless a raw transcript was asked for.
type Report struct {
	Subject  string        `json:"subject"`            // the URL without its query, or the name of a program
	Kind     string        `json:"kind"`               // "server" or "client"
	Name     string        `json:"name,omitempty"`     // the name and version that the subject gives itself
	Revision string        `json:"revision,omitempty"` // of the protocol, as spoken in the run
	Started  time.Time     `json:"started"`
	Took     time.Duration `json:"tookNanoseconds"`
	Requests int           `json:"requests"`
	Targets  []Target      `json:"targets"`
	Stopped  string        `json:"stopped,omitempty"` // why the run ended early
	Verdicts []Verdict     `json:"verdicts"`
	Remarks  []string      `json:"remarks,omitempty"` // about the baseline: entries that cover nothing, or no longer
}

// A Target is something that asks: a tool, a prompt, a resource.
type Target struct {
	Method string   `json:"method"`
	Name   string   `json:"name"`
	Asks   []string `json:"asks"`          // the methods of its questions, sorted
	Rounds int      `json:"rounds"`        // how many rounds ask
	Ended  bool     `json:"ended"`         // it may be called to its end
	Why    string   `json:"why,omitempty"` // why it may not
}

// A Verdict is the outcome of one probe on one target.
type Verdict struct {
	Probe     string `json:"probe"`               // ID in the corpus
	Target    string `json:"target,omitempty"`    // such as "tools/call deploy"; empty for the endpoint as a whole
	Dimension string `json:"dimension,omitempty"` // what was varied, such as "principal"

	Level  Level  `json:"level"`
	Proof  string `json:"proof,omitempty"`  // "canary", "difference", "selection" or "observation"
	Reason string `json:"reason"`           // what was seen, or why nothing is proved
	Remedy string `json:"remedy,omitempty"` // what would make it judged

	Title   string `json:"title"`            // of the probe
	Clause  string `json:"clause,omitempty"` // ID in docs/proof/clauses.tsv; empty means hardening
	Keyword string `json:"keyword"`          // of the clause, such as MUST NOT, or hardening
	Harm    string `json:"harm,omitempty"`
	Mend    string `json:"mend,omitempty"`

	// Transcript shows the finding again with 'askback replay'. It is empty for what is no finding.
	Transcript string `json:"transcript,omitempty"`

	// Accepted is the reason of a baseline that covers the finding until Expires. It does not count then.
	Accepted string `json:"accepted,omitempty"`
	Expires  string `json:"expires,omitempty"` // a date, such as 2026-12-31
}

// Count returns the number of verdicts with a level that no baseline covers.
func (r *Report) Count(level Level) (n int) {
	for _, v := range r.Verdicts {
		if v.Level == level && v.Accepted == "" {
			n++
		}
	}
	return n
}

// Judged reports whether any probe was judged.
func (r *Report) Judged() bool {
	return slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return v.Level != NotJudged })
}
