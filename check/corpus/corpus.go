// Package corpus has the attacks of 'askback check' as data. The file probes.jsonl has one attack in each line, and
// README.md explains its members, for programs in any language.
package corpus

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/askback-mcp/askback/check/findings"
)

// Lines is the file probes.jsonl: a probe in each line.
//
//go:embed probes.jsonl
var Lines []byte

// Schema is the JSON Schema of a line.
//
//go:embed probe.schema.json
var Schema []byte

// A Probe is one attack, and what must not come of it.
type Probe struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	Family    string `json:"family"` // state, answers, questions, tasks, endpoint, load or client
	Dimension string `json:"dimension"`
	Clause    string `json:"clause,omitempty"` // ID in docs/proof/clauses.tsv; empty means hardening
	Keyword   string `json:"keyword"`          // of the clause, such as MUST NOT, or hardening

	// AISVS are the requirements of OWASP AISVS that a server breaks as well.
	AISVS []string `json:"aisvs,omitempty"`

	// Needs are the conditions without which the attack is not judged; README.md lists them.
	Needs []string `json:"needs,omitempty"`

	// Steps are the requests of the attack. A probe without steps reads what the controls have shown.
	Steps []Step `json:"steps,omitempty"`

	// Reads names what a probe without steps reads; README.md lists the words.
	Reads string `json:"reads,omitempty"`

	// Serve are the responses to a client under test when it calls the tool, in turn. The last one repeats.
	Serve []Reply `json:"serve,omitempty"`

	// Verdicts are the levels by proof: canary, difference, selection, observation. Other proofs do not count.
	Verdicts map[string]findings.Level `json:"verdicts"`

	Harm string `json:"harm"`
	Mend string `json:"mend"`
}

// A Step is one request of an attack. A zero value is what an honest client does.
type Step struct {
	Do           string            `json:"do"`                     // "call", "answer", or an operation of README.md
	As           string            `json:"as,omitempty"`           // "second" is the other identity
	At           string            `json:"at,omitempty"`           // "replica" and "elsewhere" are other servers
	Of           string            `json:"of,omitempty"`           // the call whose state is sent; empty is the newest
	Save         string            `json:"save,omitempty"`         // a name for this call
	Target       string            `json:"target,omitempty"`       // "other-target" or "other-method"
	Arguments    string            `json:"arguments,omitempty"`    // "other"
	State        string            `json:"state,omitempty"`        // "none", "random", "flip", "cut", "forge"
	Answers      string            `json:"answers,omitempty"`      // an alteration: "none", "decline", …
	Round        string            `json:"round,omitempty"`        // "each": from each earlier round, to the end
	Capabilities string            `json:"capabilities,omitempty"` // "none", or what is not declared
	Wait         string            `json:"wait,omitempty"`         // "ttl": before the request
	Task         string            `json:"task,omitempty"`         // "unknown": an ID that no task has
	Send         string            `json:"send,omitempty"`         // "half": of the body only
	Times        int               `json:"times,omitempty"`        // how often; zero is once
	Headers      map[string]string `json:"headers,omitempty"`      // in place of the protocol's; an empty one is left out
	Body         string            `json:"body,omitempty"`         // the bytes, in place of a request
	Judged       bool              `json:"judged,omitempty"`       // the response of this step is the one that counts
}

// A Reply is one response of the server that judges a client. The zero value is the final result of the tool.
type Reply struct {
	Ask        string `json:"ask,omitempty"`        // the questions: "any", "each", "keys", …
	State      string `json:"state,omitempty"`      // the kind of requestState: "plain", "unicode", "long", …
	Fault      string `json:"fault,omitempty"`      // what is wrong with the response: "close", "redirect-307", …
	Task       string `json:"task,omitempty"`       // "created", or a status for the next tasks/get
	PollMillis int    `json:"pollMillis,omitempty"` // pollIntervalMs of a task
}

// Probes returns the attacks in their order. The caller may change the slice, but not what its elements refer to, which
// all callers share. It is safe for concurrent use.
func Probes() []Probe { return slices.Clone(probes()) }

var probes = sync.OnceValue(func() (all []Probe) {
	for line := range bytes.Lines(Lines) {
		var p Probe
		decoder := json.NewDecoder(bytes.NewReader(line))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&p); err != nil {
			panic(fmt.Sprintf("probes.jsonl: %v", err)) // a test decodes the embedded file
		}
		all = append(all, p)
	}
	return all
})
