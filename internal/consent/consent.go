// Package consent says under which policy a call may pass: nobody is asked, people are, or the call is denied. A policy
// belongs to the call. It is recorded as a gate before the call has an effect, and every run keeps to all gates of the
// call, whichever process made them.
package consent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/excerpt"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/task"
)

// The actions of a verdict.
const (
	Deny  = "deny"
	Ask   = "ask"
	Allow = "allow"
)

// ToolCall has the meaning of askback.ToolCall.
type ToolCall struct {
	Server      string               `json:"server"`
	Tool        string               `json:"tool"`
	Definition  string               `json:"definition,omitempty"`
	Annotations *mcp.ToolAnnotations `json:"annotations,omitempty"`
	Arguments   json.RawMessage      `json:"arguments,omitempty"`
	Caller      string               `json:"caller"`
}

// Verdict has the meaning of askback.Verdict.
type Verdict struct {
	Action   string
	Rule     string
	Reason   string
	For      []string
	Votes    int
	Within   time.Duration
	Edit     bool
	Remember time.Duration
	Uses     int
	Digest   string
	Rules    string
	Failed   []string
}

// Policy says which approval a process demands before a call passes. The zero value demands none.
type Policy struct {
	For   []string `json:"for,omitempty"` // who approves, in order
	Votes int      `json:"votes,omitempty"`
	Edit  bool     `json:"edit,omitempty"`
	// Within bounds the wait for them. The deadline of a question stays as it was first put.
	Within time.Duration `json:"within,omitempty"`
	Deny   string        `json:"deny,omitempty"` // why the call does not pass
	Rule   string        `json:"rule,omitempty"` // that has decided
	// Remember is how long an approval lets equal calls of the caller pass, Uses how many, and Digest tells the rule that
	// says so from others. Zero means that nothing is remembered.
	Remember time.Duration `json:"remember,omitempty"`
	Uses     int           `json:"uses,omitempty"`
	Digest   string        `json:"digest,omitempty"`
}

// Decide returns the policy of rules for a call, the digest of all rules, and the errors of rules. Rules that panic, or
// that say nothing which can be kept to, deny the call.
func Decide(ctx context.Context, rules func(context.Context, *ToolCall) *Verdict, c *ToolCall) (
	p Policy, digest string, failed []string) {
	var v *Verdict
	if err := fault.Safely(func() error { v = rules(ctx, c); return nil }); err != nil {
		return Policy{Deny: "the rules have failed"}, "", []string{err.Error()}
	}
	if v == nil {
		return Policy{Deny: "the rules say nothing"}, "", nil
	}
	switch {
	case v.Action == Allow:
		return Policy{Rule: v.Rule}, v.Rules, v.Failed
	case v.Action != Ask:
		return Policy{Deny: v.Reason, Rule: v.Rule}.denying(), v.Rules, v.Failed
	case c.Caller == "":
		return Policy{Deny: "nobody can be asked, because the caller has no name", Rule: v.Rule}, v.Rules, v.Failed
	}
	p = Policy{For: slices.Compact(slices.Sorted(slices.Values(v.For))), Votes: max(v.Votes, 1), Edit: v.Edit,
		Within: v.Within, Rule: v.Rule}
	self := question.UserPrefix + c.Caller
	if len(p.For) == 0 {
		p.For = []string{self}
	}
	// A caller whom the rule itself names could approve the own call, and is not to be remembered for it.
	if v.Remember > 0 && v.Uses > 0 && v.Digest != "" && !v.Edit && !slices.Contains(p.For, self) {
		p.Remember, p.Uses, p.Digest = v.Remember, v.Uses, v.Digest
	}
	return p, v.Rules, v.Failed
}

// denying is the policy with a reason.
func (p Policy) denying() Policy {
	if p.Deny == "" {
		p.Deny = "no reason is given"
	}
	return p
}

// Asks reports whether people are asked.
func (p Policy) Asks() bool { return len(p.For) > 0 }

// Covers reports whether who met p has met the other policy, too.
func (p Policy) Covers(other Policy) bool {
	return !other.Asks() || slices.Equal(p.For, other.For) && p.Votes >= other.Votes && (other.Edit || !p.Edit)
}

// Decider names what has decided.
func (p Policy) Decider() string {
	if p.Rule == "" {
		return "the default of the rules"
	}
	return fmt.Sprintf("the rule %q", p.Rule)
}

// Denied says who denies the call, and why.
func (p Policy) Denied() string {
	return fmt.Sprintf("%s denies it: %s", p.Decider(), strings.TrimSuffix(p.Deny, "."))
}

func (p Policy) String() string {
	if !p.Asks() {
		return "asks nobody to approve it"
	}
	text := "asks " + question.Awaited(p.For, p.Votes, time.Time{}) + " to approve it"
	if p.Edit {
		text += ", with edits"
	}
	return text
}

// Message is what people are asked: a question, who says that it is asked, and what their approval lets pass besides.
func (p Policy) Message(question, caller string) string {
	question += fmt.Sprintf("\n\nAsked by %s.", p.Decider())
	if p.Remember > 0 {
		question += fmt.Sprintf("\n\nAn approval is remembered: the same call of %s passes for %s, up to %d more times.",
			caller, Words(p.Remember), p.Uses)
	}
	return question
}

// Words writes a time without units that are zero.
func Words(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = strings.TrimSuffix(text, zero[1:])
		}
	}
	return text
}

// Key names the decisions that let calls like this one pass under a policy, or is empty if nothing is remembered. It is
// the same for equal arguments only, of one caller, for one definition of the tool and one rule.
func (p Policy) Key(c *ToolCall, identity string) string {
	if p.Remember <= 0 {
		return ""
	}
	arguments, err := canonical(c.Arguments)
	if err != nil {
		return ""
	}
	data, err := json.Marshal([]any{"askback remembered", identity, c.Tool, sha256.Sum256([]byte(c.Definition)),
		sha256.Sum256(arguments), c.Caller, p.Digest, p.For, p.Votes})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// mostDepth bounds the nesting of arguments that are compared.
const mostDepth = 64

func canonical(arguments []byte) ([]byte, error) {
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	if err := strictjson.Check(arguments, mostDepth); err != nil {
		return nil, err
	}
	return strictjson.AppendJCS(nil, arguments), nil
}

// Gate is the record of a policy under which a call passes, and of what it asks. It is the first record of a call.
type Gate struct {
	Server string `json:"server,omitempty"` // what tells the server that the call is for from others
	Tool   string `json:"tool"`             // the tool's name there
	Policy Policy `json:"policy"`
	// Message is what is asked. What servers say of themselves may change while the call lives.
	Message string `json:"message,omitempty"`
	Rules   string `json:"rules,omitempty"` // the digest of the rules that have decided, or empty
	Form    bool   `json:"form,omitempty"`  // the arguments can be edited
	// Key names the decisions that let calls like this one pass: see [Policy.Key]. It is made of the tool as it was then:
	// the definition that people see, and not what it has become when they answer.
	Key string `json:"key,omitempty"`
	// Pass is set if people have decided an equal call before, so that nobody is asked.
	Pass *Pass `json:"pass,omitempty"`
}

// Asks reports whether people are asked.
func (g *Gate) Asks() bool { return g.Policy.Asks() && g.Pass == nil }

// Covered reports whether a gate covers a policy for a call with this key. A gate that passes by a remembered decision
// covers only the same call under a rule that remembers it, and not what people have made of its arguments.
func Covered(gates []*Gate, p Policy, key string) bool {
	return !p.Asks() || slices.ContainsFunc(gates, func(g *Gate) bool {
		return g.Policy.Covers(p) && (g.Pass == nil || g.Key == key)
	})
}

// Pass is who has decided an equal call before.
type Pass struct {
	By []input.Provenance `json:"by"`
}

// Memory is what a store keeps of a decision that lets later calls pass: the Content of a task.Remembered.
type Memory struct {
	Server    string             `json:"server"` // for people
	Tool      string             `json:"tool"`
	Rule      string             `json:"rule,omitempty"`
	Caller    string             `json:"caller"`
	Arguments string             `json:"arguments"` // the beginning of them, in the form of RFC 8785
	Size      int                `json:"size"`      // of all, in bytes
	SHA256    []byte             `json:"sha256"`    // of all
	Uses      int                `json:"uses"`
	By        []input.Provenance `json:"by"`
	Task      string             `json:"task"` // the name of the task whose question was decided
	Receipt   string             `json:"receipt,omitempty"`
}

// mostExcerpt bounds the arguments that people are shown of a remembered decision, in bytes.
const mostExcerpt = 4 << 10

// NewMemory returns what is kept of the decision of people to let a call pass under a policy, and when they made it. It
// is nil if nobody else than the caller's client has decided.
func NewMemory(p Policy, c *ToolCall, by []input.Provenance) (*Memory, time.Time) {
	m := &Memory{Server: c.Server, Tool: c.Tool, Rule: p.Rule, Caller: c.Caller, Uses: p.Uses, By: by}
	var decided time.Time
	for _, one := range by {
		if one.Channel == input.ChannelHost || one.Who == c.Caller {
			return nil, decided
		}
		if one.When.After(decided) {
			decided = one.When
		}
	}
	arguments, err := canonical(c.Arguments)
	if err != nil || decided.IsZero() {
		return nil, decided
	}
	sum := sha256.Sum256(arguments)
	m.Arguments, m.Size, m.SHA256 = excerpt.Of(string(arguments), mostExcerpt), len(arguments), sum[:]
	return m, decided
}

// Row is the row that a store keeps.
func (m *Memory) Row(key string, p Policy, decided time.Time) (*task.Remembered, error) {
	content, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	who := append(slices.Clone(p.For), question.UserPrefix+m.Caller)
	for _, by := range m.By {
		who = append(who, question.UserPrefix+by.Who)
	}
	slices.Sort(who)
	return &task.Remembered{Key: key, Who: slices.Compact(who), Content: content, Decided: decided,
		Until: decided.Add(p.Remember), Left: p.Uses}, nil
}

// DecodeMemory reads the Content of a task.Remembered.
func DecodeMemory(content []byte) (*Memory, error) {
	m := new(Memory)
	err := strictjson.Check(content, mostDepth)
	if err == nil {
		err = json.Unmarshal(content, m)
	}
	if err == nil && len(m.By) == 0 {
		err = errors.New("nobody has made it")
	}
	if err != nil {
		return nil, fmt.Errorf("the stored decision: %w", err)
	}
	return m, nil
}

// Passing lets calls pass by decisions that people have made before.
type Passing interface {
	// Recall returns the decision under a key that lets this call pass. Nil says that people have to be asked.
	Recall(ctx context.Context, key string) *Pass
	// Remember keeps the decision of the question with this key of the call.
	Remember(ctx context.Context, key string, p Policy, c *ToolCall, question string)
}

// Of returns the Passing of an *askback.Call.
var Of func(call any) Passing
