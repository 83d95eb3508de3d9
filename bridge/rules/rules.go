// Package rules decides by a file what is done with the call of a tool before it is passed on: it is allowed, it is
// denied, or people are asked.
//
//	default:
//	  ask: {}                       # the caller
//	rules:
//	  - name: reading
//	    when: server == "docs" && annotations.readOnlyHint
//	    allow: true
//	  - name: production
//	    when: tool.startsWith("delete_") && arguments.cluster == "production"
//	    deny: Nobody deletes in production.
//	  - name: payments
//	    when: tool == "pay" && arguments.amount > 1000
//	    ask: {for: [group:finance], votes: 2, within: 4h}
//
// The first rule that holds decides. A condition is an expression in CEL, the Common Expression Language, which cannot
// loop for ever, change anything or reach anything outside of the call. Where no rule holds, the default decides.
//
// A rule fails if its condition cannot be evaluated, for example because the call lacks the argument. A failing rule
// lets nothing pass: see [Rules.Decide].
package rules

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"cel.dev/cel-go/cel"

	"github.com/askback-mcp/askback"
)

// Rules are the rules of a file. They are safe for concurrent use. The zero value denies every call.
type Rules struct {
	digest   string
	list     []rule
	fallback askback.Verdict
}

// rule is one rule of a file, with what it decides.
type rule struct {
	program cel.Program
	verdict askback.Verdict
}

// mostFile bounds a file of rules, in bytes.
const mostFile = 1 << 20

// Read reads rules from a file. Its error names the line and the column of the mistake.
func Read(path string) (*Rules, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the rules: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, mostFile+1))
	if err != nil {
		return nil, fmt.Errorf("the rules: %w", err)
	}
	return Parse(path, data)
}

// Parse reads rules from the text of a file. The name stands in errors.
func Parse(name string, data []byte) (*Rules, error) {
	if len(data) > mostFile {
		return nil, fmt.Errorf("%s: a file of rules has at most %d bytes", name, mostFile)
	}
	p := &parser{name: name}
	r, err := p.parse(data)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(data)
	r.digest = hex.EncodeToString(digest[:])
	return r, nil
}

// Digest is the SHA-256 of the file, as hexadecimal digits.
func (r *Rules) Digest() string { return r.digest }

// Edits reports whether a rule lets people edit arguments, which only a bridge can.
func (r *Rules) Edits() bool {
	return r.fallback.Edit || slices.ContainsFunc(r.list, func(each rule) bool { return each.verdict.Edit })
}

// Decide returns the verdict for a call: what the first rule that holds says, or the default.
//
// A rule that cannot be evaluated may or may not have held. If it denies, the call is denied. Otherwise the verdict is
// the stricter one of this rule's and the verdict of the rules behind it. If that one asks nobody, the call is denied.
//
// Denying is stricter than asking, and asking than allowing. Of two rules that ask, the stricter one wants more votes;
// or else asks other people than the caller; or else lets nobody edit; or else stands first.
func (r *Rules) Decide(ctx context.Context, call *askback.ToolCall) *askback.Verdict {
	v := r.decide(ctx, call)
	if v.Action == askback.RuleAsk && call.Caller == "" {
		v = askback.Verdict{Action: askback.RuleDeny, Rule: v.Rule, Failed: v.Failed,
			Reason: "nobody can be asked, because the caller has no name"}
	}
	return &v
}

func (r *Rules) decide(ctx context.Context, call *askback.ToolCall) askback.Verdict {
	in, err := newInput(call)
	if err != nil {
		return askback.Verdict{Action: askback.RuleDeny, Reason: "the rules cannot judge the arguments: " + err.Error()}
	}
	var failed []rule
	var said []string
	result := r.fallback
	for _, each := range r.list {
		holds, err := each.holds(ctx, in)
		if err != nil {
			said = append(said, fmt.Sprintf("%s: %v", each.verdict.Rule, err))
			failed = append(failed, each)
			continue
		}
		if holds {
			result = each.verdict
			break
		}
	}
	if result.Action == "" { // of the zero value
		result = askback.Verdict{Action: askback.RuleDeny, Reason: "there are no rules"}
	}
	for i := len(failed) - 1; i >= 0; i-- {
		if v := failed[i].verdict; compare(v, result) >= 0 {
			result = v
		}
		if result.Action == askback.RuleAllow {
			result = askback.Verdict{Action: askback.RuleDeny, Rule: failed[i].verdict.Rule,
				Reason: "a rule could not be evaluated, and names nobody to ask"}
		}
	}
	if result.Failed = said; len(failed) > 0 { // another rule may have decided about an equal call
		result.Remember, result.Uses = 0, 0
	}
	result.Rules = r.digest
	return result
}

// compare orders verdicts: the stricter one is greater.
func compare(a, b askback.Verdict) int {
	rank := func(v askback.Verdict) int {
		return map[string]int{askback.RuleAllow: 0, askback.RuleAsk: 1, askback.RuleDeny: 2}[v.Action]
	}
	truth := func(b bool) int {
		if b {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Votes, b.Votes),
		cmp.Compare(truth(len(a.For) > 0), truth(len(b.For) > 0)), cmp.Compare(truth(!a.Edit), truth(!b.Edit)))
}

// holds evaluates the rule's condition.
func (r *rule) holds(ctx context.Context, in map[string]any) (holds bool, err error) {
	defer func() {
		if p := recover(); p != nil { // in the library
			holds, err = false, errors.New("its evaluation panics")
		}
	}()
	out, _, err := r.program.ContextEval(ctx, in)
	if err != nil {
		return false, plain(err)
	}
	holds, ok := out.Value().(bool)
	if !ok {
		return false, errors.New("its condition is not true or false")
	}
	return holds, nil
}
