package calls

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge/internal/names"
	"github.com/askback-mcp/askback/bridge/internal/outcome"
	"github.com/askback-mcp/askback/internal/consent"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/taskrun"
)

// ask asks what a gate asks, and returns the arguments that were approved.
func (c *Call) ask(ctx context.Context, g *consent.Gate, arguments []byte) ([]byte, error) {
	q := askback.Question{Message: g.Message, For: g.Policy.For, Votes: g.Policy.Votes,
		Within: g.Policy.Within}
	var err error
	if g.Form {
		arguments, err = c.edit(ctx, q, arguments)
	} else {
		key := c.approvalKey()
		if err = askback.Approve(c.Host, key, q); err == nil {
			err = c.remember(ctx, g, key)
		}
	}
	declined, ok := errors.AsType[*askback.DeclinedError](err)
	_, late := errors.AsType[*askback.UnansweredError](err)
	switch {
	case ok:
		err = c.notCalled("the call was not approved" + c.because(declined.Key))
	case late:
		err = c.notCalled("nobody approved the call in time")
	}
	return arguments, err
}

// remember keeps the approval under this key for later calls, if the rules want that.
func (c *Call) remember(ctx context.Context, g *consent.Gate, key string) error {
	if g.Key == "" {
		return nil
	}
	return c.Host.Do(ctx, key+" remembered", func(ctx context.Context) error {
		consent.Of(c.Host).Remember(ctx, g.Key, g.Policy, c.about(c.arguments), key)
		return nil
	})
}

// keyApprove begins the keys of the questions whether a call is passed on. No question of a server has such a key.
const keyApprove = "bridge_approve"

// approvalKey is the key of the next of these questions.
func (c *Call) approvalKey() string { return c.Asks.Next(keyApprove) }

// because says who declined a question, and why.
func (c *Call) because(key string) (text string) {
	for _, by := range c.Host.Answers(key) {
		text = ", says " + by.Who
		if by.Why != "" {
			text += ": " + strings.TrimSuffix(by.Why, ".")
		}
	}
	return text
}

// refused reports whether an approval of the call was not accepted, whatever it asked. With asks it also looks at the
// decisions that no run has found yet.
func (c *Call) refused(ctx context.Context, asks bool) (bool, error) {
	h := taskrun.HolderOf(ctx)
	if h == nil { // only stored calls are approved
		return false, nil
	}
	for _, data := range h.Entries() {
		e, err := journal.DecodeEntry(data)
		if err != nil {
			return false, err
		}
		if !strings.HasPrefix(e.Key, keyApprove) {
			continue
		}
		action, _ := question.Action(e.Value)
		if e.Kind == journal.Unanswered || e.Kind == journal.Answer && action != "accept" {
			return true, nil
		}
	}
	if !asks {
		return false, nil
	}
	rows, err := h.Questions(ctx)
	for _, q := range rows {
		if len(q.Decision) == 0 {
			continue
		}
		asked, err := stored.DecodeAsking(q.Content)
		if err != nil {
			return false, err
		}
		made, err := stored.DecodeDecision(q.Decision)
		if err != nil {
			return false, err
		}
		if strings.HasPrefix(asked.Key, keyApprove) && made.Action != "accept" {
			return true, nil
		}
	}
	return false, err
}

// mostEdits bounds how often edited arguments are asked for that fit the tool's schema.
const mostEdits = 5

// edit asks for the arguments as a text, which begins with the arguments of the call, until it fits the tool's input
// schema. What was found is recorded: the schema may be another one in a later run. The arguments of the call itself
// are passed on as they came: the server judges them.
func (c *Call) edit(ctx context.Context, q askback.Question, arguments []byte) ([]byte, error) {
	message, original := q.Message, arguments
	for n := range mostEdits {
		q.Schema = map[string]any{
			"type": "object", "required": []string{"arguments"},
			"properties": map[string]any{"arguments": map[string]any{
				"type": "string", "title": "Arguments", "description": "As JSON", "default": string(arguments),
			}},
		}
		edited, err := askback.ElicitWith[struct {
			Arguments string `json:"arguments"`
		}](c.Host, c.approvalKey(), q)
		if err != nil {
			return nil, err
		}
		if arguments = []byte(edited.Arguments); sameText(arguments, original) {
			return original, nil
		}
		found, err := askback.Do(ctx, c.Host, fmt.Sprintf("edit %d", n+1), func(ctx context.Context) (*finding, error) {
			if misfit := c.objection(ctx, arguments); misfit != "" {
				return &finding{Misfit: misfit}, nil
			}
			return c.judge(ctx, arguments)
		})
		switch {
		case err != nil:
			return nil, err
		case found.Unable != "":
			arguments = original
			q.Message = fmt.Sprintf("%s\n\nThe edited arguments cannot be used, because they cannot be checked: %s. "+
				"The form has the arguments of the call again, which can be accepted as they are.", message,
				names.OneLine(found.Unable, 300))
		case found.Misfit != "":
			q.Message = fmt.Sprintf("%s\n\nThe arguments cannot be used: %s", message, names.OneLine(found.Misfit, 300))
		default:
			return arguments, nil
		}
	}
	return nil, c.notCalled(fmt.Sprintf("in %d attempts nobody gave arguments that fit it", mostEdits))
}

// notCalled ends the call with the reason why it is not passed on. More gates than one say that some of it was.
func (c *Call) notCalled(reason string) error {
	if len(c.gates) > 1 {
		return c.notContinued(reason)
	}
	return outcome.Words(fmt.Sprintf("The tool %q was not called: %s.", c.Name, reason))
}

// notContinued ends a call of which something may have been sent.
func (c *Call) notContinued(reason string) error {
	return outcome.Words(fmt.Sprintf("The call of the tool %q had begun, and was not continued: %s.", c.Name, reason))
}

// sameText reports whether two texts are the same JSON, except for its spaces.
func sameText(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
