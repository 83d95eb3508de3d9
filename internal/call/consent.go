package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/consent"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/report"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// Memory keeps decisions that let later calls pass: see [task.Store].
type Memory interface {
	Remember(ctx context.Context, r *task.Remembered) error
	Recall(ctx context.Context, key, call string) (*task.Remembered, error)
}

// gateName is the name of the step that records a gate of the rules, and the key of what it asks.
func gateName(n int) string {
	if n == 1 {
		return "askback_rules"
	}
	return fmt.Sprintf("askback_rules_%d", n)
}

// admit lets the call of a tool pass as the rules of this process say, and as the gates say that other processes have
// recorded. It returns the result of a call that does not pass. A call that was recorded under rules keeps to them in a
// process that has none.
func (e *Engine) admit(ctx context.Context, c *Call) (refusal mcp.Result, err error) {
	if c.Handler.Method != wire.CallTool || c.Handler.Fetches || e.Desk == nil ||
		e.Desk.Rules == nil && !c.run.Recorded(gateName(1)) {
		return nil, nil
	}
	began := c.run.Recorded(gateName(1))
	about, own, digest := e.verdict(ctx, c)
	gates, err := c.gates(ctx, about, own, digest)
	if err != nil {
		return nil, err
	}
	if own.Deny != "" && !(len(gates) == 1 && gates[0].Policy.Deny != "") {
		return c.refuse(own.Denied(), began || len(gates) > 1), nil
	}
	for i, g := range gates {
		if g.Policy.Deny != "" {
			return c.refuse(g.Policy.Denied(), i > 0), nil
		}
		if !g.Asks() {
			continue
		}
		if refusal, err := c.passGate(ctx, i, g, about); refusal != nil || err != nil {
			return refusal, err
		}
	}
	return nil, nil
}

// verdict returns the call as rules see it, and what the rules of this process say.
func (e *Engine) verdict(ctx context.Context, c *Call) (about *consent.ToolCall, own consent.Policy, digest string) {
	about = &consent.ToolCall{Server: e.Desk.Server, Tool: c.Params.Target, Definition: c.Handler.definition(),
		Arguments: c.Params.Arguments, Caller: c.Principal}
	if c.Handler.Tool != nil {
		about.Annotations = c.Handler.Tool.Annotations
	}
	if e.Desk.Rules == nil {
		return about, own, ""
	}
	own, digest, failed := consent.Decide(ctx, e.Desk.Rules, about)
	if len(failed) > 0 {
		e.Log.WarnContext(ctx, "askback: rules cannot be evaluated", "tool", about.Tool, "call", c.PublicID(),
			"failed", failed)
	}
	if own.Edit {
		own = consent.Policy{Rule: own.Rule, Deny: "it lets people edit the arguments, which only a bridge can"}
	}
	return about, own, digest
}

// gates returns the gates of the call, and adds one if none covers the policy of this process.
func (c *Call) gates(
	ctx context.Context, about *consent.ToolCall, own consent.Policy, digest string,
) (gates []*consent.Gate, err error) {
	key := own.Key(about, about.Server)
	for n := 1; n == 1 || c.run.Recorded(gateName(n)) || !consent.Covered(gates, own, key); n++ {
		recorded, err := c.step(ctx, gateName(n), false, func(ctx context.Context) ([]byte, error) {
			g := &consent.Gate{Tool: about.Tool, Policy: own, Rules: digest}
			if own.Asks() {
				g.Message = own.Message(fmt.Sprintf("Call the tool %q?", about.Tool), about.Caller)
				g.Key, g.Pass = key, c.Recall(ctx, key)
			}
			return json.Marshal(g)
		})
		if err != nil {
			return nil, err
		}
		g := new(consent.Gate)
		if err := json.Unmarshal(recorded, g); err != nil {
			return nil, fmt.Errorf("what the journal says of approvals cannot be read: %w", err)
		}
		gates = append(gates, g)
	}
	return gates, nil
}

// passGate asks what a gate asks, behind so many others. It returns the result of a call that does not pass.
func (c *Call) passGate(
	ctx context.Context, behind int, g *consent.Gate, about *consent.ToolCall,
) (refusal mcp.Result, err error) {
	key, began := gateName(behind+1), behind > 0
	if c.As != nil {
		_ = c.Mistaken(fault.Mistakef("rules have people asked about a tool that was added to the SDK's server, and such a " +
			"call cannot wait for them: add the tool with askback.AddTool"))
		return c.refuse(notHere, began), nil
	}
	q, err := question.FormOf(g.Message, reflect.TypeFor[struct{}]())
	if err != nil {
		return nil, err
	}
	q.Within, q.Votes = g.Policy.Within, g.Policy.Votes
	q.Address(g.Policy.For, g.Policy.Votes)
	value, err := c.AskInline(ctx, key, q)
	_, late := errors.AsType[*journal.UnansweredError](err)
	_, unable := errors.AsType[*fault.Mistake](err)
	switch {
	case late:
		return c.refuse("nobody approved the call in time", began), nil
	case unable: // the operator was told why
		return c.refuse(notHere, began), nil
	case err != nil:
		return nil, err
	}
	if action, _ := question.Action(value); action != "accept" {
		reason := "the call was not approved"
		for _, by := range c.Answers(key) {
			reason += ", says " + by.Who
			if by.Why != "" {
				reason += ": " + strings.TrimSuffix(by.Why, ".")
			}
		}
		return c.refuse(reason, began), nil
	}
	if g.Key != "" {
		_, err = c.step(ctx, key+" remembered", false, func(ctx context.Context) ([]byte, error) {
			c.Remember(ctx, g.Key, g.Policy, about, key)
			return []byte("null"), nil
		})
	}
	return nil, err
}

const notHere = "it has to be approved, and people cannot be asked here"

// refuse returns the result of a call that does not pass, and that may have had an effect if it began before.
func (c *Call) refuse(reason string, began bool) mcp.Result {
	text := fmt.Sprintf("The tool %q was not called: %s.", c.Params.Target, reason)
	if began {
		text = fmt.Sprintf("The call of the tool %q had begun, and was not continued: %s.", c.Params.Target, reason)
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// Recall implements [consent.Passing].
func (c *Call) Recall(ctx context.Context, key string) *consent.Pass {
	if key == "" || c.desk == nil || c.desk.Memory == nil {
		return nil
	}
	r, err := c.desk.Memory.Recall(ctx, key, c.PublicID())
	var m *consent.Memory
	if err == nil {
		m, err = consent.DecodeMemory(r.Content)
	}
	switch {
	case errors.Is(err, task.ErrNotFound):
		return nil
	case err != nil:
		c.log.WarnContext(ctx, "askback: a remembered decision cannot be read; people are asked", "call", c.PublicID(),
			"error", err)
		return nil
	}
	for _, by := range m.By {
		c.tell(ctx, report.AuditEvent{Kind: report.AuditRecalled, By: by.Who, Channel: by.Channel})
	}
	return &consent.Pass{By: m.By}
}

// Remember implements [consent.Passing]. A decision that cannot be kept is not remembered, and counts for its own call
// all the same.
func (c *Call) Remember(ctx context.Context, key string, p consent.Policy, about *consent.ToolCall, question string) {
	m, decided := consent.NewMemory(p, about, c.Answers(question))
	if m == nil || c.desk == nil || c.desk.Memory == nil {
		return
	}
	m.Task, m.Receipt = c.Task, c.Receipt(question)
	r, err := m.Row(key, p, decided)
	if err == nil {
		err = c.desk.Memory.Remember(ctx, r)
	}
	if err != nil {
		c.log.WarnContext(ctx, "askback: an approval was not remembered; the next call is asked for", "call", c.PublicID(),
			"error", err)
	}
}

var _ consent.Passing = (*Call)(nil)

// definition is the definition of a tool as JSON, or empty if it is not known.
func (h *Handler) definition() string {
	h.defined.Do(func() {
		if h.Tool != nil {
			data, _ := json.Marshal(h.Tool) // it was registered, so it can be listed
			h.listed = string(data)
		}
	})
	return h.listed
}
