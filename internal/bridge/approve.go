package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/taskrun"
)

// approve asks what the gates of the call ask, and returns the arguments with which the call is passed on. The card has
// the exact arguments of the call.
func (p *passage) approve(ctx context.Context, arguments []byte) ([]byte, error) {
	if err := p.admit(ctx); err != nil {
		return nil, err
	}
	asks := false
	for _, g := range p.gates {
		if !g.Policy.asks() {
			continue
		}
		asks = true
		var err error
		if arguments, err = p.ask(ctx, g, arguments); err != nil {
			return nil, err
		}
	}
	if refused, err := p.refused(ctx, asks); err != nil {
		return nil, err
	} else if refused {
		return nil, p.notCalled("an approval of this call was not given")
	}
	return arguments, nil
}

// ask asks what a gate asks, and returns the arguments that were approved.
func (p *passage) ask(ctx context.Context, g *gate, arguments []byte) ([]byte, error) {
	q := askback.Question{Message: g.Message, For: g.Policy.For, Votes: g.Policy.Votes}
	var err error
	if g.Form {
		arguments, err = p.edit(ctx, q, arguments)
	} else {
		err = askback.Approve(p.call, p.approvalKey(), q)
	}
	declined, ok := errors.AsType[*askback.DeclinedError](err)
	_, late := errors.AsType[*askback.UnansweredError](err)
	switch {
	case ok:
		err = p.notCalled("the call was not approved" + p.because(declined.Key))
	case late:
		err = p.notCalled("nobody approved the call in time")
	}
	return arguments, err
}

// keyApprove begins the keys of the questions whether a call is passed on. No question of a server has such a key.
const keyApprove = "bridge_approve"

// approvalKey is the key of the next of these questions.
func (p *passage) approvalKey() string { return p.asks.next(keyApprove) }

// because says who declined a question, and why.
func (p *passage) because(key string) (text string) {
	for _, by := range p.call.Answers(key) {
		text = ", says " + by.Who
		if by.Why != "" {
			text += ": " + strings.TrimSuffix(by.Why, ".")
		}
	}
	return text
}

// refused reports whether an approval of the call was not accepted, whatever it asked. With asks it also looks at the
// decisions that no run has found yet.
func (p *passage) refused(ctx context.Context, asks bool) (bool, error) {
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
// schema. Whether it did is recorded: the schema may be another one in a later run.
func (p *passage) edit(ctx context.Context, q askback.Question, arguments []byte) ([]byte, error) {
	message := q.Message
	for n := range mostEdits {
		q.Schema = map[string]any{
			"type": "object", "required": []string{"arguments"},
			"properties": map[string]any{"arguments": map[string]any{
				"type": "string", "title": "Arguments", "description": "As JSON", "default": string(arguments),
			}},
		}
		edited, err := askback.ElicitWith[struct {
			Arguments string `json:"arguments"`
		}](p.call, p.approvalKey(), q)
		if err != nil {
			return nil, err
		}
		arguments = []byte(edited.Arguments)
		misfit, err := askback.Do(ctx, p.call, fmt.Sprintf("edit %d", n+1), func(context.Context) (string, error) {
			if err := fits(p.schema, arguments); err != nil {
				return err.Error(), nil
			}
			return "", nil
		})
		if err != nil {
			return nil, err
		}
		if misfit == "" {
			return arguments, nil
		}
		q.Message = fmt.Sprintf("%s\n\nThe arguments cannot be used: %s", message, misfit)
	}
	return nil, p.notCalled(fmt.Sprintf("in %d attempts nobody gave arguments that fit it", mostEdits))
}

// fits returns the reason why arguments do not fit a tool's input schema.
func fits(schema *jsonschema.Resolved, arguments []byte) error {
	if err := strictjson.Check(arguments, depth); err != nil {
		return err
	}
	if strictjson.TypeOf(arguments) != strictjson.TypeObject {
		return errors.New("they are not a JSON object")
	}
	if schema == nil {
		return errors.New("the tool's input schema can no longer be applied")
	}
	var instance map[string]any
	if err := json.Unmarshal(arguments, &instance); err != nil {
		return err
	}
	return schema.Validate(instance)
}

// resolved returns a tool's input schema for checks of edited arguments, or nil if it cannot be applied here.
func resolved(schema any) *jsonschema.Resolved {
	data, err := json.Marshal(schema)
	if err != nil {
		return nil
	}
	own := new(jsonschema.Schema)
	if err := json.Unmarshal(data, own); err != nil {
		return nil
	}
	applied, err := own.Resolve(nil)
	if err != nil {
		return nil
	}
	return applied
}
