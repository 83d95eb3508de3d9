package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/task"
)

// Approval says which calls a person approves before they are passed on to the server.
type Approval struct {
	// Tools are patterns of the names of tools, as path.Match has them.
	Tools []string
	// For says who may approve, each made by askback.User or askback.Group. Empty means the caller.
	For []string
	// Edit lets them edit the arguments, as far as the tool's input schema allows it.
	Edit bool
}

// Check returns an error for a pattern that is malformed.
func (a *Approval) Check() error {
	for _, pattern := range a.Tools {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("the pattern %q: %w", pattern, err)
		}
	}
	return nil
}

// of returns the approval that a tool needs, or nil.
func (a *Approval) of(tool string) *Approval {
	if a == nil {
		return nil
	}
	for _, pattern := range a.Tools {
		if match, _ := path.Match(pattern, tool); match {
			return a
		}
	}
	return nil
}

// approve asks a person before the call is passed on, and returns the arguments with which it is. The card has the
// exact arguments of the call.
func (p *passage) approve(ctx context.Context, arguments []byte) ([]byte, error) {
	if p.approval == nil {
		return arguments, nil
	}
	if err := p.belongsHere(ctx); err != nil {
		return nil, err
	}
	q := askback.Question{Message: fmt.Sprintf("Call the tool %q of the server %s?", p.name, p.title), For: p.approval.For}
	if len(q.For) == 0 {
		q.For = []string{askback.User(p.call.Principal())}
	}
	var err error
	if p.approval.Edit && p.schema != nil {
		arguments, err = p.edit(q, arguments)
	} else {
		err = askback.Approve(p.call, p.asks.key(keyApprove), q)
	}
	if declined, ok := errors.AsType[*askback.DeclinedError](err); ok {
		err = words(fmt.Sprintf("The tool %q was not called: the call was not approved%s.", p.name, p.because(declined.Key)))
	}
	return arguments, err
}

// keyApprove is the key of the question whether a call is passed on.
const keyApprove = "bridge_approve"

// because says who declined a question, and why.
func (p *passage) because(key string) (text string) {
	for _, by := range p.call.Answers(key) {
		text = ", says " + by.Who
		if by.Why != "" {
			text += ": " + by.Why
		}
	}
	return text
}

// mostEdits bounds how often edited arguments are asked for that fit the tool's schema.
const mostEdits = 5

// edit asks for the arguments as a text, which begins with the arguments of the call, until it fits the tool's input
// schema.
func (p *passage) edit(q askback.Question, arguments []byte) ([]byte, error) {
	message := q.Message
	for range mostEdits {
		q.Schema = map[string]any{
			"type": "object", "required": []string{"arguments"},
			"properties": map[string]any{"arguments": map[string]any{
				"type": "string", "title": "Arguments", "description": "As JSON", "default": string(arguments),
			}},
		}
		edited, err := askback.ElicitWith[struct {
			Arguments string `json:"arguments"`
		}](p.call, p.asks.key(keyApprove), q)
		if err != nil {
			return nil, err
		}
		arguments = []byte(edited.Arguments)
		misfit := fits(p.schema, arguments)
		if misfit == nil {
			return arguments, nil
		}
		q.Message = fmt.Sprintf("%s\n\nThe arguments cannot be used: %v", message, misfit)
	}
	return nil, words(fmt.Sprintf("The tool %q was not called: in %d attempts nobody gave arguments that fit it.", p.name,
		mostEdits))
}

// fits returns the reason why arguments do not fit a tool's input schema.
func fits(schema *jsonschema.Resolved, arguments []byte) error {
	if err := strictjson.Check(arguments, depth); err != nil {
		return err
	}
	if strictjson.TypeOf(arguments) != strictjson.TypeObject {
		return errors.New("they are not a JSON object")
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

// errElsewhere leaves a call to the bridge in front of the server that it was made for. It stands in the same store.
var errElsewhere = fmt.Errorf("the call belongs to a bridge in front of another server: %w", task.ErrLeaseLost)

// belongsHere returns errElsewhere for a call that waits for another server.
func (p *passage) belongsHere(ctx context.Context) error {
	began, err := askback.Do(ctx, p.call, "bridge_server", func(context.Context) (string, error) {
		return p.identity, nil
	})
	if err == nil && began != p.identity {
		err = errElsewhere
	}
	return err
}
