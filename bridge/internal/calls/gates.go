package calls

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge/internal/names"
	"github.com/askback-mcp/askback/internal/consent"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/taskrun"
)

// Whether a call is approved before it is passed on belongs to the call, and not to the process that happens to run it:
//
//  1. The first record of each call is a gate, with the policy under which it began. It is there before anything is
//     sent. Flags decide the policy by the tool's name, and a file of rules by all that is known of the call.
//  2. A process continues a call only if its own policy for the tool is the same, or stricter. A stricter one adds a
//     gate of its own before it sends anything more. Any other process leaves the call. A process with rules leaves no
//     call for its policy: it adds a gate if none so far covers its policy, and sends nothing more if it denies.
//  3. Every run asks what all gates ask, in the words that they have recorded. So a decision is found again whatever
//     has changed since: the flags, the server's title or the tool's schema.

// approve asks what the gates of the call ask, and returns the arguments with which the call is passed on. The card has
// the exact arguments of the call.
func (c *Call) approve(ctx context.Context, arguments []byte) ([]byte, error) {
	c.arguments = arguments
	if err := c.admit(ctx); err != nil {
		return nil, err
	}
	asks, original := false, arguments
	for _, g := range c.gates {
		if !g.Asks() {
			continue
		}
		asks = true
		var err error
		if arguments, err = c.ask(ctx, g, arguments); err != nil {
			return nil, cmp.Or(c.denial, err) // nobody is asked in vain
		}
	}
	if !bytes.Equal(arguments, original) && c.denial == nil {
		if reason := c.objection(ctx, arguments); reason != "" {
			c.denial = c.notContinued(reason)
		}
	}
	if refused, err := c.refused(ctx, asks); err != nil {
		return nil, err
	} else if refused {
		return nil, c.notCalled("an approval of this call was not given")
	}
	return arguments, nil
}

// policy is the policy of this process for the call.
func (c *Call) policy(ctx context.Context) consent.Policy {
	if c.Rules == nil {
		return c.ofFlags()
	}
	if c.decided == nil {
		p, digest, failed := consent.Decide(ctx, c.Rules, c.about(c.arguments))
		if len(failed) > 0 && c.left.First("rules\n"+strings.Join(failed, "\n"), time.Hour) {
			c.Log.WarnContext(ctx, "bridge: rules cannot be evaluated", "tool", c.Name, "call", c.Host.ID(), "failed", failed)
		}
		c.decided, c.digest = &p, digest
	}
	return *c.decided
}

// about is the call with these arguments, as rules see it.
func (c *Call) about(arguments []byte) *consent.ToolCall {
	return &consent.ToolCall{Server: c.Named, Tool: c.Name, Definition: c.Definition, Annotations: c.Annotations,
		Arguments: arguments, Caller: c.Host.Principal()}
}

// objection says why the rules of this process do not let edited arguments pass with the approvals of the call, or
// nothing. The cards of later approvals would show the arguments as they were.
func (c *Call) objection(ctx context.Context, arguments []byte) string {
	if c.Rules == nil {
		return ""
	}
	about := c.about(arguments)
	switch p, _, _ := consent.Decide(ctx, c.Rules, about); {
	case p.Deny != "":
		return "with these arguments " + p.Denied()
	case !consent.Covered(c.gates, p, p.Key(about, c.Identity)):
		return fmt.Sprintf("with these arguments %s %s; call the tool again with them", p.Decider(), p)
	}
	return ""
}

// ofFlags is the policy of the operator's patterns.
func (c *Call) ofFlags() consent.Policy {
	a := c.Approval
	if a == nil {
		return consent.Policy{}
	}
	own := consent.Policy{For: slices.Compact(slices.Sorted(slices.Values(a.For))), Votes: max(a.Votes, 1), Edit: a.Edit}
	if len(own.For) == 0 {
		own.For = []string{askback.User(c.Host.Principal())}
	}
	return own
}

// newGate makes a gate of the policy of this process. With edits, people get a form for the arguments, if these can be
// checked.
func (c *Call) newGate(ctx context.Context, edits bool) (*consent.Gate, error) {
	g := &consent.Gate{Server: c.Identity, Tool: c.Name, Policy: c.policy(ctx), Rules: c.digest}
	if g.Policy.Asks() {
		g.Message = fmt.Sprintf("Call the tool %q of the server %q?", c.Name, c.Title)
		if c.Rules != nil {
			g.Message = g.Policy.Message(g.Message, c.Host.Principal())
		}
	}
	if g.Key = g.Policy.Key(c.about(c.arguments), c.Identity); g.Key != "" {
		g.Pass = consent.Of(c.Host).Recall(ctx, g.Key)
	}
	if !edits {
		return g, nil
	}
	found, err := c.judge(ctx, nil)
	if err != nil {
		return nil, err
	}
	if g.Form = found.Unable == ""; !g.Form {
		g.Message += fmt.Sprintf("\n\nThe arguments cannot be edited: %s.", names.OneLine(found.Unable, 300))
	}
	return g, nil
}

// errRaise says that a stricter policy than the one under which the call began has to be met before more is sent.
var errRaise = errors.New("the call has to be approved before more is sent")

// admit records the policy of a call that begins, and finds out whether this process continues one that has begun.
func (c *Call) admit(ctx context.Context) error {
	if err := c.Guard.Reviewed(ctx); err != nil {
		return err
	}
	h := taskrun.HolderOf(ctx) // nil if nobody has stored the call
	var entries [][]byte
	if h != nil {
		entries = h.Entries()
	}
	began, begins := c.Host.Round() > 1 || len(entries) > 0, false
	out := c.Gone.Load() || c.Hidden.Load() // a handler without a tool is there for the calls that have begun
	if out && !began {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", c.As)}
	}
	var first *consent.Gate
	recorded, err := askback.Do(ctx, c.Host, gateName(1), func(ctx context.Context) (_ json.RawMessage, err error) {
		if began {
			return nil, c.notCalled("its journal does not say whether it has to be approved; call the tool again")
		}
		if err := c.Guard.Refuses(c.Server); err != nil {
			return nil, c.notCalled(err.Error())
		}
		begins = true
		if first, err = c.newGate(ctx, c.policy(ctx).Edit); err != nil {
			return nil, err
		}
		return json.Marshal(first)
	})
	if err != nil || begins {
		c.gates = []*consent.Gate{first}
		if err == nil && first.Policy.Deny != "" {
			c.Log.InfoContext(ctx, "bridge: a rule denies a call", "tool", c.Name, "rule", first.Policy.Rule)
			return c.notCalled(first.Policy.Denied())
		}
		return err
	}
	later, err := laterGates(entries)
	if err != nil || json.Unmarshal(recorded, &first) != nil || first == nil {
		return c.notCalled("what its journal says of approvals cannot be read; call the tool again")
	}
	c.gates = append([]*consent.Gate{first}, later...)
	if h != nil && h.Stopped() { // what was begun is cleaned up, and nothing else is done
		return nil
	}
	for _, g := range c.gates {
		if g.Policy.Deny != "" {
			return c.notCalled(g.Policy.Denied())
		}
	}
	last := c.gates[len(c.gates)-1]
	if out || last.Server != c.Identity || last.Tool != c.Name {
		meant := c.Guard.MadeFor(last.Server, last.Tool)
		if meant == nil {
			return c.leave(ctx, "it waits for a bridge in front of the server that it is for")
		}
		c.Target = meant
	}
	return c.settle(ctx, last)
}

// settle compares the policy of this process with the gates of a call that has begun.
func (c *Call) settle(ctx context.Context, last *consent.Gate) error {
	own := c.policy(ctx)
	if c.Rules != nil {
		if own.Deny != "" {
			c.denial = c.notContinued(own.Denied())
		}
		c.raises = !consent.Covered(c.gates, own, own.Key(c.about(c.arguments), c.Identity))
		return nil
	}
	c.raises = stricter(own, last.Policy)
	if !c.raises && !equal(own, last.Policy) {
		return c.leave(ctx, fmt.Sprintf("it waits for a bridge that %v; the bridge that has looked at it %v",
			last.Policy, own))
	}
	if err := c.Guard.Refuses(c.Server); err != nil {
		return c.leave(ctx, fmt.Sprintf("it waits for a bridge whose approvals fit its tools: %v", err))
	}
	return nil
}

// laterGates reads the gates behind the first one from the entries of a journal.
func laterGates(entries [][]byte) (gates []*consent.Gate, err error) {
	for _, data := range entries {
		e, err := journal.DecodeEntry(data)
		if err != nil {
			return nil, err
		}
		if e.Kind != journal.Step || e.Key != gateName(len(gates)+2) {
			continue
		}
		g := new(consent.Gate)
		if err := json.Unmarshal(e.Value, g); err != nil {
			return nil, err
		}
		gates = append(gates, g)
	}
	return gates, nil
}

// Noted reports whether the journal of a stored call had this about a step when the run began. What a server says of
// its tool may have changed since.
func (c *Call) Noted(ctx context.Context, kind journal.Kind, step string) bool {
	h := taskrun.HolderOf(ctx)
	return h != nil && slices.ContainsFunc(h.Entries(), func(data []byte) bool {
		e, err := journal.DecodeEntry(data)
		return err == nil && e.Kind == kind && e.Key == step
	})
}

// gateName is the name of the step that records the gate with a number.
func gateName(n int) string { return fmt.Sprint("gate ", n) }

// MaySend returns an error if the call has to pass one more gate first. What is recorded needs none, so steps look here
// before they send something, and end with this error.
func (c *Call) MaySend() error {
	if c.raises || c.denial != nil {
		return errRaise
	}
	return nil
}

// Raise has the call pass that gate if err says that it has to. Otherwise it returns err.
func (c *Call) Raise(ctx context.Context, err error) error {
	if errors.Is(err, errRaise) {
		if c.denial != nil {
			return c.denial
		}
		return c.raise(ctx)
	}
	return err
}

// raise adds a gate with the policy of this process, which is stricter, and asks what it asks. What was sent has fixed
// the arguments, so that nobody can edit them.
func (c *Call) raise(ctx context.Context) error {
	g, err := askback.Do(ctx, c.Host, gateName(len(c.gates)+1), func(ctx context.Context) (*consent.Gate, error) {
		return c.newGate(ctx, false)
	})
	if err != nil {
		return err
	}
	c.raises = false
	c.gates = append(c.gates, g)
	if g.Asks() {
		_, err = c.ask(ctx, g, nil)
	}
	return cmp.Or(err, askback.ErrInputRequired) // the next run goes through all gates
}

// leave leaves a call to another process, for the reason that its caller is told.
func (c *Call) leave(ctx context.Context, why string) error {
	if c.Host.Nonce() == "" {
		return c.notCalled(why)
	}
	if c.left.First(c.Host.ID()+why, time.Hour) {
		c.Log.WarnContext(ctx, "bridge: leaving a call to another bridge", "tool", c.Name, "call", c.Host.ID(), "reason", why)
	}
	return taskrun.Held(strings.ToUpper(why[:1]) + why[1:] + ".")
}
