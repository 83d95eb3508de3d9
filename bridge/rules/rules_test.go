package rules_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge/rules"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// parse reads rules that have no mistake.
func parse(t testing.TB, text string) *rules.Rules {
	t.Helper()
	r := expect.Must(rules.Parse("rules.yaml", []byte(text)))(t)
	return r
}

type (
	ToolCall = askback.ToolCall
	Verdict  = askback.Verdict
)

const (
	ask   = askback.RuleAsk
	allow = askback.RuleAllow
	deny  = askback.RuleDeny
)

// apart leaves out the digests, which have tests of their own.
var apart = cmpopts.IgnoreFields(Verdict{}, "Digest", "Rules")

const example = `
default:
  ask: {}
rules:
  - name: reading
    when: server == "docs" && annotations.readOnlyHint
    allow: true
  - name: production
    when: tool.startsWith("delete_") && arguments.cluster == "production"
    deny: Nobody deletes in production.
  - name: payments
    when: tool == "pay" && arguments.amount > 1000
    ask: {for: [group:finance, user:zoe], votes: 2, within: 4h, edit: true}
  - name: friends
    when: caller in ["ada", "bob"] && tool == "greet"
    allow: true
`

func TestDecide(t *testing.T) {
	r := parse(t, example)
	readOnly := &mcp.ToolAnnotations{ReadOnlyHint: true}
	finance := []string{"group:finance", "user:zoe"}
	for _, c := range []struct {
		name string
		call ToolCall
		want Verdict
	}{
		{"first", ToolCall{Server: "docs", Tool: "read", Annotations: readOnly, Caller: "ada"},
			Verdict{Action: allow, Rule: "reading"}},
		{"default", ToolCall{Server: "docs", Tool: "write", Caller: "ada"}, Verdict{Action: ask, Votes: 1}},
		{"denied", ToolCall{Tool: "delete_pod", Caller: "ada", Arguments: []byte(`{"cluster":"production"}`)},
			Verdict{Action: deny, Rule: "production", Reason: "Nobody deletes in production."}},
		{"an erring deny denies", ToolCall{Tool: "delete_pod", Caller: "ada", Arguments: []byte(`{"Cluster":"staging"}`)},
			Verdict{Action: deny, Rule: "production", Reason: "Nobody deletes in production.",
				Failed: []string{"production: the call lacks an argument that its condition needs; " +
					"try has(arguments.NAME) before"}}},
		{"numbers of another kind", ToolCall{Tool: "pay", Caller: "ada", Arguments: []byte(`{"amount":1e4}`)},
			Verdict{Action: ask, Rule: "payments", For: finance, Votes: 2, Within: 4 * time.Hour, Edit: true}},
		{"an erring ask asks", ToolCall{Tool: "pay", Caller: "ada", Arguments: []byte(`{"amount":"9 s3cret"}`)},
			Verdict{Action: ask, Rule: "payments", For: finance, Votes: 2, Within: 4 * time.Hour, Edit: true,
				Failed: []string{"payments: an argument has a type that its condition does not expect"}}},
		{"the caller", ToolCall{Tool: "greet", Caller: "bob"}, Verdict{Action: allow, Rule: "friends"}},
		{"another caller", ToolCall{Tool: "greet", Caller: "eve"}, Verdict{Action: ask, Votes: 1}},
		{"nobody to ask", ToolCall{Tool: "greet"},
			Verdict{Action: deny, Reason: "nobody can be asked, because the caller has no name"}},
		{"no object", ToolCall{Tool: "greet", Caller: "ada", Arguments: []byte(`["s3cret"]`)},
			Verdict{Action: deny, Reason: "the rules cannot judge the arguments: they are not a JSON object"}},
		{"a member twice", ToolCall{Tool: "greet", Caller: "ada", Arguments: []byte(`{"a":1,"a":2}`)},
			Verdict{Action: deny, Reason: "the rules cannot judge the arguments: they are not JSON, have a member " +
				"twice, or are deeper than 64"}},
		{"beyond any number", ToolCall{Tool: "greet", Caller: "ada", Arguments: []byte(`{"a":1e999}`)},
			Verdict{Action: deny, Reason: "the rules cannot judge the arguments: a number in them is out of range"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect.Diff(t, "the value", &c.want, r.Decide(t.Context(), &c.call), apart)
		})
	}
	if v := new(rules.Rules).Decide(t.Context(), &ToolCall{Tool: "greet", Caller: "ada"}); v.Action != deny {
		t.Errorf("no rules decide %+v", v)
	}
}

// Whole numbers are compared exactly as far as 64 bits go, and the digest of a definition is the one that a person
// computes.
func TestValuesAreExact(t *testing.T) {
	r := parse(t, `
default: {deny: none holds}
rules:
  - name: big
    when: has(arguments.n) && arguments.n == 9007199254740993
    allow: true
  - name: unsigned
    when: has(arguments.n) && arguments.n == 18446744073709551615u
    allow: true
  - name: pinned
    when: definition == "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    allow: true
`)
	for arguments, want := range map[string]string{
		`{"n":9007199254740993}`: "big", `{"n":9007199254740992}`: "", `{"n":18446744073709551615}`: "unsigned",
		`{"n":18446744073709551614}`: "",
	} {
		if v := r.Decide(t.Context(), &ToolCall{Caller: "ada", Arguments: []byte(arguments)}); v.Rule != want {
			t.Errorf("%s: %+v, want %q", arguments, v, want)
		}
	}
	if v := r.Decide(t.Context(), &ToolCall{Caller: "ada", Definition: "{}"}); v.Rule != "pinned" {
		t.Errorf("the definition: %+v", v)
	}
}

// A condition that takes too long, or whose call has ended, fails.
func TestEvaluationIsBounded(t *testing.T) {
	r := parse(t, `
default: {ask: {}}
rules:
  - name: square
    when: arguments.a.all(x, arguments.a.all(y, x + y > 0))
    deny: never
`)
	many := expect.Must(json.Marshal(map[string]any{"a": slices.Repeat([]int{1}, 100_000)}))(t)
	call := &ToolCall{Caller: "ada", Arguments: many}
	want := []string{"square: its condition takes too long"}
	if v := r.Decide(t.Context(), call); v.Action != deny || !slices.Equal(v.Failed, want) {
		t.Errorf("it decides %+v", v)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if v := r.Decide(ctx, call); v.Action != deny || !slices.Equal(v.Failed, want) {
		t.Errorf("after its end it decides %+v", v)
	}
}

// A mistake is refused, with its place and what to write.
func TestMistakes(t *testing.T) {
	rule := "default: {ask: {}}\nrules:\n  - name: a\n    when: %s\n    allow: true\n"
	for _, c := range []struct{ text, want string }{
		{"", "rules.yaml:1:1: the file is empty"},
		{"# nothing\n", "rules.yaml:1:1: the file is empty"},
		{"rules: []", "rules.yaml:1:1: the default is missing"},
		{"default: ask", "rules.yaml:1:10: want a mapping with ask, allow, deny"},
		{"default: {ask: {}}\nruels: []", `rules.yaml:2:1: "ruels" is unknown here`},
		{"default: {ask: {}}\ndefault: {allow: true}", "rules.yaml:2:1: default stands here twice"},
		{"default: {allow: yes please}", "rules.yaml:1:18: want 'allow: true'"},
		{"default: {allow: false}", "rules.yaml:1:18: want 'allow: true'"},
		{"default: {deny: }", "deny: the reason as a text"},
		{"default: {deny: ''}", "rules.yaml:1:17: deny: the reason: want 1 to 500 characters"},
		{"default: {}", "rules.yaml:1:10: the action is missing"},
		{"default: {ask: {}, allow: true}", "ask and allow stand in one place"},
		{"default: {ask: {for: []}}", "for: want a list of 1 to 100"},
		{"default: {ask: {for: [ada]}}", `rules.yaml:1:23: "ada": want user:NAME or group:NAME`},
		{"default: {ask: {for: ['user:ada'], votes: 2}}", "votes: want 1 to 1"},
		{"default: {ask: {votes: many}}", "votes as a number"},
		{"default: {ask: {for: ['user:ada'], remember: {for: 8h, uses: often}}}", "uses as a number"},
		{"default: {ask: {for: ['user:ada'], remember: {for: 8h, uses: 0}}}", "uses: want 1 to 1000"},
		{"default: {ask: {for: ['user:ada'], remember: {for: 900h, uses: 2}}}", "remember: for: want a time of 1s to 720h"},
		{"default: {ask: {for: ['user:ada'], remember: {for: 8h}}}", "want both"},
		{"default: {ask: {for: ['user:ada'], remember: 8h}}", "want a mapping with for, uses"},
		{"default: {ask: {for: ['user:ada'], edit: true, remember: {for: 8h, uses: 2}}}", "exclude each other"},
		{"default: {ask: {remember: {for: 8h, uses: 2}}}", "remember needs for"},
		{"default: {ask: {within: 4}}", "within as a text"},
		{"default: {ask: {within: 4 hours}}", "within: want a time of 1s to 720h0m0s"},
		{"default: {ask: {within: 800h}}", "within: want a time of 1s to 720h0m0s"},
		{"default: {ask: {edit: 1}}", "edit as true or false"},
		{"default: &a {ask: {}}\nrules: *a", "aliases are not supported"},
		{"default: {ask: {}}\nrules: 3", "rules: want a list"},
		{"default: {ask: {}}\nrules: [{name: a, allow: true}]", "when is missing"},
		{"default: {ask: {}}\nrules: [{when: 'true', allow: true}]", "name is missing"},
		{"default: {ask: {}}\nrules: [{name: a, when: 'true'}]", "the action is missing"},
		{"default: {ask: {}}\nrules:\n- {name: a, when: 'true', allow: true}\n- {name: a, when: 'true', allow: true}",
			`rules.yaml:4:10: the rule of line 3 has the name "a", too`},
		{"default: {ask: {}}\n---\n{}", "second document"},
		{"default: {ask: {}", "rules.yaml: yaml:"},
		{fmt.Sprintf(rule, "tool = 'x'"), "rules.yaml:4:16: when: Syntax error"},
		{fmt.Sprintf(rule, "annotations.readOnly"), "rules.yaml:4:22: when: undeclared reference to 'annotations.readOnly'"},
		{fmt.Sprintf(rule, "tool == 3"), "rules.yaml:4:16: when: found no matching overload for '_==_'"},
		{fmt.Sprintf(rule, "arguments.force"), "the condition is of the type dyn, and must be true or false"},
		{fmt.Sprintf(rule, "now() > 3"), "undeclared reference to 'now'"},
		{fmt.Sprintf(rule, "tool.matches('(')"), "when: invalid matches argument"},
		{fmt.Sprintf(rule, strings.Repeat("(", 200)+"true"+strings.Repeat(")", 200)), "when: "},
		{fmt.Sprintf(rule, "'"+strings.Repeat("x", 9000)+"' == tool"), "rules.yaml: yaml: "},
		{fmt.Sprintf(rule, "\"'"+strings.Repeat("x", 9000)+"' == tool\""), "a condition has at most 8192 bytes"},
		{fmt.Sprintf(rule, "'[1].all(a, [1].all(b, [1].all(c, true)))'"), "comprehension exceeds nesting limit"},
		{strings.Repeat("#", 1<<20) + "\n", "a file of rules has at most"},
	} {
		_, err := rules.Parse("rules.yaml", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.100s\n%v, want %q", c.text, err, c.want)
		}
	}
	if _, err := rules.Read(filepath.Join(t.TempDir(), "none.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
}

// drawn is a rule that the test evaluates by itself, slowly.
type drawn struct {
	tool, server string // empty is any
	above        int    // that the argument "n" has to be, which not every call has; -1 is none
	readOnly     bool
	verdict      Verdict
}

// holds says whether the rule holds, and whether it cannot be evaluated. A condition that is false before its broken
// part needs no such part.
func (d *drawn) holds(c *ToolCall, n *int) (holds, errs bool) {
	switch {
	case d.tool != "" && d.tool != c.Tool, d.server != "" && d.server != c.Server:
		return false, false
	case d.readOnly && (c.Annotations == nil || !c.Annotations.ReadOnlyHint):
		return false, false
	case d.above < 0:
		return true, false
	case n == nil:
		return false, true
	}
	return *n > d.above, false
}

func (d *drawn) condition() string {
	all := []string{"true"}
	if d.tool != "" {
		all = append(all, fmt.Sprintf("tool == %q", d.tool))
	}
	if d.server != "" {
		all = append(all, fmt.Sprintf("server == %q", d.server))
	}
	if d.readOnly {
		all = append(all, "annotations.readOnlyHint")
	}
	text := strings.Join(all, " && ")
	if d.above >= 0 { // CEL may look at both sides of &&
		text = fmt.Sprintf("(%s) ? arguments.n > %d : false", text, d.above)
	}
	return text
}

// plainly decides as the documents say it, from the last rule to the first: without CEL, and without our code.
func plainly(list []drawn, fallback Verdict, c *ToolCall, n *int) Verdict {
	if len(list) == 0 {
		return fallback
	}
	first, rest := list[0], list[1:]
	holds, errs := first.holds(c, n)
	switch {
	case holds, errs && first.verdict.Action == "deny":
		return first.verdict
	case !errs:
		return plainly(rest, fallback, c, n)
	}
	other := plainly(rest, fallback, c, n)
	if other.Action == "deny" {
		return other
	}
	if other.Action == "allow" && first.verdict.Action == "allow" {
		return Verdict{Action: "deny"}
	}
	if other.Action == "allow" {
		return first.verdict
	}
	if first.verdict.Action == "allow" {
		return other
	}
	a, b := first.verdict, other
	switch {
	case a.Votes != b.Votes:
		if b.Votes > a.Votes {
			return b
		}
	case (len(a.For) == 0) != (len(b.For) == 0):
		if len(a.For) == 0 {
			return b
		}
	case a.Edit && !b.Edit:
		return b
	}
	return a
}

// Of 10,000 calls, each against 50 rules, every verdict is the one of a plain evaluator. A tenth of them make a rule
// fail, and of these none is allowed by a rule behind the failing one.
func TestTheSameAsAPlainEvaluator(t *testing.T) {
	draw := rand.New(rand.NewPCG(36, 4))
	one := func(of ...string) string { return of[draw.IntN(len(of))] }
	verdict := func(i int) Verdict {
		switch draw.IntN(5) {
		case 0:
			return Verdict{Action: "deny", Reason: fmt.Sprint("reason ", i)}
		case 1, 2:
			return Verdict{Action: "allow"}
		}
		v := Verdict{Action: "ask", Votes: 1, Edit: draw.IntN(2) == 0}
		if draw.IntN(3) > 0 {
			v.For, v.Votes = []string{"group:" + one("release", "finance")}, 1+draw.IntN(3)
		}
		return v
	}
	text := func(v Verdict) string {
		switch v.Action {
		case "deny":
			return fmt.Sprintf("deny: %s", v.Reason)
		case "allow":
			return "allow: true"
		case "ask":
			if len(v.For) == 0 {
				return fmt.Sprintf("ask: {edit: %v}", v.Edit)
			}
			return fmt.Sprintf("ask: {for: [%q], votes: %d, edit: %v}", v.For[0], v.Votes, v.Edit)
		}
		panic(v.Action)
	}
	erred, passed, asked, denied := 0, 0, 0, 0
	for range 20 {
		list, fallback := make([]drawn, 50), verdict(0)
		file := fmt.Sprintf("default: {%s}\nrules:\n", text(fallback))
		for i := range list {
			d := drawn{tool: one("", "a", "b", "c", "d", "e", "f", "g", "h"), server: one("x", "y", "z", "v", "w"), above: -1,
				readOnly: draw.IntN(2) == 0, verdict: verdict(i + 1)}
			if draw.IntN(3) == 0 {
				d.above = draw.IntN(100)
			}
			d.verdict.Rule = fmt.Sprint("rule ", i)
			list[i] = d
			file += fmt.Sprintf("  - {name: %q, when: %q, %s}\n", d.verdict.Rule, d.condition(), text(d.verdict))
		}
		r := parse(t, file)
		for range 500 {
			c := &ToolCall{Server: one("x", "y", "z", "v", "w"), Tool: one("a", "b", "c", "d", "e", "f", "g", "h"),
				Caller: "ada", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: draw.IntN(2) == 0}}
			n := new(draw.IntN(100))
			if draw.IntN(2) == 0 {
				n, c.Arguments = nil, []byte(one(`{}`, `{"n":"text"}`, `{"n":null}`, `{"m":1}`, `{"n":[1]}`))
			} else {
				c.Arguments = fmt.Appendf(nil, `{"n":%d}`, *n)
			}
			got, want := r.Decide(t.Context(), c), plainly(list, fallback, c, n)
			if len(got.Failed) > 0 {
				erred++
			}
			switch got.Action {
			case "allow":
				passed++
				if len(got.Failed) > 0 {
					t.Errorf("%+v passes %s, although rules failed: %q", got, c.Arguments, got.Failed)
				}
			case "ask":
				asked++
			case "deny":
				denied++
			}
			got.Failed = nil
			if got.Action == "deny" && want.Action == "deny" && want.Reason == "" { // nobody to ask, in words of its own
				continue
			}
			if diff := cmp.Diff(&want, got, apart); diff != "" {
				t.Fatalf("%+v %s:\n%s\n%s", c, c.Arguments, diff, file)
			}
		}
	}
	t.Logf("%d calls failed rules; %d passed, %d were asked, %d were denied", erred, passed, asked, denied)
	if erred < 1000 || passed < 1000 || asked < 1000 || denied < 1000 {
		t.Errorf("the draws are too much alike: %d failed, %d passed, %d asked, %d denied", erred, passed, asked, denied)
	}
}

// FuzzParse lets somebody write any file, and any arguments of a call.
func FuzzParse(f *testing.F) {
	f.Add([]byte(example), []byte(`{"amount":5}`))
	f.Add([]byte("default: {allow: true}"), []byte(`{"a":{"b":[1,2.5,-0,1e3]}}`))
	f.Add([]byte("# only\n---\n"), []byte(``))
	f.Add([]byte("default: &a {ask: {for: *a}}"), []byte(`null`))
	f.Fuzz(func(t *testing.T, text, arguments []byte) {
		r, err := rules.Parse("f", text)
		if err != nil {
			return
		}
		v := r.Decide(t.Context(), &ToolCall{Server: "s", Tool: "pay", Caller: "ada", Arguments: arguments})
		switch {
		case v.Action != allow && v.Action != ask && v.Action != deny,
			v.Action == ask && v.Votes < 1, v.Action == deny && v.Reason == "",
			v.Action == allow && len(v.Failed) > 0:
			t.Errorf("%s decides %+v", text, v)
		}
	})
}

func BenchmarkDecide(b *testing.B) {
	r := parse(b, example)
	call := &ToolCall{Server: "bank", Tool: "pay", Caller: "ada", Arguments: []byte(`{"amount":5,"to":"bob"}`)}
	b.ReportAllocs()
	for b.Loop() {
		r.Decide(b.Context(), call)
	}
}

// The digest of a verdict changes with the rule that has decided, and with no other one.
func TestDigestsOfRules(t *testing.T) {
	const text = `
default: {ask: {for: [user:zoe]}}
rules:
  - {name: none, when: tool == "none", deny: no}
  - {name: pay, when: tool == "pay", ask: {for: [user:ada], within: 1h, remember: {for: 8h, uses: 20}}}
`
	decide := func(text, tool string) *Verdict {
		return parse(t, text).Decide(t.Context(), &ToolCall{Tool: tool, Caller: "bob"})
	}
	was, fallback := decide(text, "pay"), decide(text, "other")
	if was.Remember != 8*time.Hour || was.Uses != 20 || len(was.Digest) != 64 || len(was.Rules) != 64 ||
		was.Digest == fallback.Digest || was.Rules != fallback.Rules {
		t.Errorf("%+v, and the default %+v", was, fallback)
	}
	for _, other := range [][2]string{{`"none", deny: no}`, `"nobody", deny: never}`}, {"[user:zoe]", "[user:eve]"}} {
		if v := decide(strings.Replace(text, other[0], other[1], 1), "pay"); v.Digest != was.Digest || v.Rules == was.Rules {
			t.Errorf("with %s: %+v", other[1], v)
		}
	}
	for _, own := range [][2]string{{`tool == "pay"`, `tool+"" == "pay"`}, {"user:ada", "user:eve"},
		{"within: 1h", "within: 2h"}, {"for: 8h", "for: 9h"}, {"uses: 20", "uses: 21"}, {"name: pay", "name: pays"},
		{"[user:ada]", "[user:ada], edit: false"}} {
		v := decide(strings.Replace(text, own[0], own[1], 1), "pay")
		if same := v.Digest == was.Digest; same != (own[1] == "[user:ada], edit: false") {
			t.Errorf("with %s the digest stays the same: %v", own[1], same)
		}
	}
	fails := strings.Replace(text, "rules:\n", "rules:\n  - {name: fails, when: arguments.n > 1, allow: true}\n", 1)
	if v := decide(fails, "pay"); v.Rule != "pay" || v.Remember != 0 || v.Uses != 0 {
		t.Errorf("behind a rule that fails: %+v", v)
	}
}
