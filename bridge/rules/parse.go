package rules

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"cel.dev/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/askback-mcp/askback"
)

// The bounds of a file.
const (
	mostRules = 1000
	mostName  = 100 // characters
	mostText  = 500 // characters of a reason
	mostVotes = 100
	mostUses  = 1000
	// mostWithin is the greatest time that people can be given, and that an approval can be remembered.
	mostWithin = 30 * 24 * time.Hour
)

// parser reads a file of rules, and says where a mistake is.
type parser struct {
	name string
	env  *cel.Env
}

// fault is a mistake at a node of the file.
func (p *parser) fault(n *yaml.Node, format string, args ...any) error {
	return p.at(n.Line, n.Column, format, args...)
}

func (p *parser) at(line, column int, format string, args ...any) error {
	return fmt.Errorf("%s:%d:%d: %w", p.name, line, column, fmt.Errorf(format, args...))
}

func (p *parser) parse(data []byte) (_ *Rules, err error) {
	if p.env, err = newEnv(); err != nil {
		return nil, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := decoder.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, p.at(1, 1, "the file is empty: it needs a default, such as 'default: {ask: {}}'")
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	if err := decoder.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: the file has a second document after '---'", p.name)
	}
	members, err := p.mapping(doc.Content[0], "default", "rules")
	if err != nil {
		return nil, err
	}
	if members["default"] == nil {
		return nil, p.fault(doc.Content[0], "the default is missing: it says what is done where no rule holds, such as "+
			"'default: {ask: {}}'")
	}
	r := new(Rules)
	actions, err := p.mapping(members["default"], askback.RuleAsk, askback.RuleAllow, askback.RuleDeny)
	if err == nil {
		r.fallback, err = p.verdict(members["default"], actions)
		r.fallback.Digest = digest(r.fallback, "")
	}
	if err != nil {
		return nil, err
	}
	if list := members["rules"]; list != nil {
		err = p.rules(list, r)
	}
	return r, err
}

func (p *parser) rules(list *yaml.Node, r *Rules) error {
	if list.Kind != yaml.SequenceNode {
		return p.fault(list, "rules: want a list")
	}
	if len(list.Content) > mostRules {
		return p.fault(list, "a file has at most %d rules", mostRules)
	}
	seen := make(map[string]int)
	for _, n := range list.Content {
		members, err := p.mapping(n, "name", "when", askback.RuleAsk, askback.RuleAllow, askback.RuleDeny)
		if err != nil {
			return err
		}
		name, err := p.text(n, members["name"], "name", mostName)
		if err != nil {
			return err
		}
		if line := seen[name]; line != 0 {
			return p.fault(members["name"], "the rule of line %d has the name %q, too", line, name)
		}
		seen[name] = members["name"].Line
		v, err := p.verdict(n, members)
		if err != nil {
			return err
		}
		v.Rule = name
		program, err := p.condition(n, members["when"])
		if err != nil {
			return err
		}
		v.Digest = digest(v, members["when"].Value)
		r.list = append(r.list, rule{program, v})
	}
	return nil
}

// mapping returns the members of a mapping, which may have these names.
func (p *parser) mapping(n *yaml.Node, names ...string) (map[string]*yaml.Node, error) {
	if n.Kind != yaml.MappingNode {
		return nil, p.fault(n, "want a mapping with %s", strings.Join(names, ", "))
	}
	members := make(map[string]*yaml.Node)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || !slices.Contains(names, key.Value) {
			return nil, p.fault(key, "%.100q is unknown here: want one of %s", key.Value, strings.Join(names, ", "))
		}
		if members[key.Value] != nil {
			return nil, p.fault(key, "%s stands here twice", key.Value)
		}
		if value.Kind == yaml.AliasNode {
			return nil, p.fault(value, "aliases are not supported: write the value out")
		}
		members[key.Value] = value
	}
	return members, nil
}

// scalar returns the text of a scalar of a type.
func (p *parser) scalar(n *yaml.Node, tag, want string) (string, error) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != tag {
		return "", p.fault(n, "want %s", want)
	}
	return n.Value, nil
}

// text returns a required text of one line.
func (p *parser) text(in, n *yaml.Node, name string, most int) (string, error) {
	if n == nil {
		return "", p.fault(in, "%s is missing", name)
	}
	text, err := p.scalar(n, "!!str", name+" as a text; put it into quotes")
	if err != nil {
		return "", err
	}
	if text = strings.TrimSpace(text); text == "" || len([]rune(text)) > most ||
		strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return "", p.fault(n, "%s: want 1 to %d characters in one line", name, most)
	}
	return text, nil
}

// verdict reads the one action among the members.
func (p *parser) verdict(in *yaml.Node, members map[string]*yaml.Node) (v askback.Verdict, err error) {
	var action *yaml.Node
	for _, name := range []string{askback.RuleAsk, askback.RuleAllow, askback.RuleDeny} {
		if n := members[name]; n != nil {
			if action != nil {
				return v, p.fault(n, "%s and %s stand in one place: want one of them", v.Action, name)
			}
			v.Action, action = name, n
		}
	}
	switch v.Action {
	case "":
		return v, p.fault(in, "the action is missing: want one of ask, allow, deny")
	case askback.RuleAllow:
		if text, err := p.scalar(action, "!!bool", "'allow: true'"); err != nil || text != "true" {
			return v, p.fault(action, "want 'allow: true'")
		}
	case askback.RuleDeny:
		v.Reason, err = p.text(in, action, "deny: the reason", mostText)
	case askback.RuleAsk:
		err = p.ask(action, &v)
	}
	return v, err
}

func (p *parser) ask(n *yaml.Node, v *askback.Verdict) error {
	members, err := p.mapping(n, "for", "votes", "within", "edit", "remember")
	if err != nil {
		return err
	}
	v.Votes = 1
	groups, err := p.people(members["for"], v)
	if err != nil {
		return err
	}
	if n := members["votes"]; n != nil {
		text, err := p.scalar(n, "!!int", "votes as a number")
		if err != nil {
			return err
		}
		most := mostVotes
		if !groups {
			most = max(len(v.For), 1)
		}
		if v.Votes, err = strconv.Atoi(text); err != nil || v.Votes < 1 || v.Votes > most {
			return p.fault(n, "votes: want 1 to %d, the number of people who are asked", most)
		}
	}
	if n := members["within"]; n != nil {
		if v.Within, err = p.time(n, "within"); err != nil {
			return err
		}
	}
	if n := members["edit"]; n != nil {
		text, err := p.scalar(n, "!!bool", "edit as true or false")
		if err != nil {
			return err
		}
		if text != "true" && text != "false" {
			return p.fault(n, "want edit as true or false")
		}
		v.Edit = text == "true"
	}
	if n := members["remember"]; n != nil {
		return p.remember(n, v)
	}
	return nil
}

// remember reads how long and how often an approval lets equal calls pass.
func (p *parser) remember(n *yaml.Node, v *askback.Verdict) error {
	switch {
	case len(v.For) == 0:
		return p.fault(n, "remember needs for: callers' approvals of their own calls are not remembered")
	case v.Edit:
		return p.fault(n, "remember and edit exclude each other: an edited call is not the call that comes again")
	}
	members, err := p.mapping(n, "for", "uses")
	if err != nil {
		return err
	}
	if members["for"] == nil || members["uses"] == nil {
		return p.fault(n, "want both, such as remember: {for: 8h, uses: 20}")
	}
	if v.Remember, err = p.time(members["for"], "remember: for"); err != nil {
		return err
	}
	text, err := p.scalar(members["uses"], "!!int", "uses as a number")
	if err != nil {
		return err
	}
	if v.Uses, err = strconv.Atoi(text); err != nil || v.Uses < 1 || v.Uses > mostUses {
		return p.fault(members["uses"], "uses: want 1 to %d calls that pass without a question", mostUses)
	}
	return nil
}

func (p *parser) time(n *yaml.Node, name string) (time.Duration, error) {
	text, err := p.text(n, n, name, 50)
	if err != nil {
		return 0, err
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second || d > mostWithin {
		return 0, p.fault(n, "%s: want a time of 1s to %v, such as 90m or 4h", name, mostWithin)
	}
	return d, nil
}

// people reads who is asked, and reports whether groups are among them.
func (p *parser) people(list *yaml.Node, v *askback.Verdict) (groups bool, err error) {
	if list == nil {
		return false, nil
	}
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 || len(list.Content) > 100 {
		return false, p.fault(list,
			"for: want a list of 1 to 100 such as [user:ada, group:release]; leave it out for the caller")
	}
	for _, who := range list.Content {
		text, err := p.text(list, who, "who is asked", 200)
		if err != nil {
			return false, err
		}
		kind, name, _ := strings.Cut(text, ":")
		if kind != "user" && kind != "group" || name == "" {
			return false, p.fault(who, "%q: want user:NAME or group:NAME", text)
		}
		groups = groups || kind == "group"
		v.For = append(v.For, text)
	}
	slices.Sort(v.For)
	v.For = slices.Compact(v.For)
	return groups, nil
}

// condition compiles the condition of a rule.
func (p *parser) condition(in, n *yaml.Node) (cel.Program, error) {
	if n == nil {
		return nil, p.fault(in, "when is missing: the condition under which the rule decides")
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!bool" { // when: true
		n.Tag = "!!str"
	}
	text, err := p.scalar(n, "!!str", "when as an expression")
	if err != nil {
		return nil, err
	}
	if len(text) > mostCondition {
		return nil, p.fault(n, "when: a condition has at most %d bytes", mostCondition)
	}
	ast, issues := p.env.Compile(text)
	if err := issues.Err(); err != nil {
		for _, e := range issues.Errors() {
			line, column := p.place(n, e.Location.Line(), e.Location.Column())
			return nil, p.at(line, column, "when: %s", e.Message)
		}
		return nil, p.fault(n, "when: %w", err)
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, p.fault(n, "when: the condition is of the type %s, and must be true or false: compare it, as in "+
			"arguments.force == true", ast.OutputType())
	}
	program, err := p.env.Program(ast, cel.CostLimit(mostCost), cel.InterruptCheckFrequency(1000))
	if err != nil {
		return nil, p.fault(n, "when: %w", err)
	}
	return program, nil
}

// place is where a line and a column of an expression stand in the file. A text over several lines begins below its
// mark, and its indentation is unknown.
func (p *parser) place(n *yaml.Node, line, column int) (int, int) {
	switch n.Style {
	case yaml.LiteralStyle:
		return n.Line + line, 1
	case yaml.FoldedStyle:
		return n.Line, n.Column
	case yaml.SingleQuotedStyle, yaml.DoubleQuotedStyle:
		column++
	}
	if line > 1 {
		return n.Line + line - 1, 1
	}
	return n.Line, n.Column + column
}

// digest tells a rule from others, and from itself after a change.
func digest(v askback.Verdict, condition string) string {
	data, _ := json.Marshal([]any{v, condition}) // texts and numbers
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
