package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/foreign"
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
// schema. What was found is recorded: the schema may be another one in a later run. The arguments of the call itself
// are passed on as they came: the server judges them.
func (p *passage) edit(ctx context.Context, q askback.Question, arguments []byte) ([]byte, error) {
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
		}](p.call, p.approvalKey(), q)
		if err != nil {
			return nil, err
		}
		if arguments = []byte(edited.Arguments); sameText(arguments, original) {
			return original, nil
		}
		found, err := askback.Do(ctx, p.call, fmt.Sprintf("edit %d", n+1), func(ctx context.Context) (*finding, error) {
			return p.judge(ctx, arguments)
		})
		switch {
		case err != nil:
			return nil, err
		case found.Unable != "":
			arguments = original
			q.Message = fmt.Sprintf("%s\n\nThe edited arguments cannot be used, because they cannot be checked: %s. "+
				"The form has the arguments of the call again, which can be accepted as they are.", message,
				oneLine(found.Unable, 300))
		case found.Misfit != "":
			q.Message = fmt.Sprintf("%s\n\nThe arguments cannot be used: %s", message, oneLine(found.Misfit, 300))
		default:
			return arguments, nil
		}
	}
	return nil, p.notCalled(fmt.Sprintf("in %d attempts nobody gave arguments that fit it", mostEdits))
}

// finding is what is known of arguments and the tool's input schema: both are empty if they fit.
type finding struct {
	Unable string `json:"unable,omitempty"` // why the schema cannot be applied
	Misfit string `json:"misfit,omitempty"` // why they do not fit
}

// judge compares arguments with the tool's input schema. Nil asks about the schema alone.
func (p *passage) judge(ctx context.Context, arguments []byte) (*finding, error) {
	select { // one at a time, so that the schemas of one server do not take the memory of the others
	case p.compiling <- struct{}{}:
		defer func() { <-p.compiling }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	err := p.fits(ctx, arguments)
	_, unable := errors.AsType[*foreign.BoundError](err)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case unable:
		p.log.WarnContext(ctx, "bridge: edited arguments of a tool cannot be checked", "server", p.title, "tool", p.name,
			"call", p.call.ID(), "error", err)
		return &finding{Unable: err.Error()}, nil
	case err != nil:
		return &finding{Misfit: err.Error()}, nil
	}
	return new(finding), nil
}

// fits returns the reason why arguments do not fit the tool's input schema, which is compiled for that and dropped.
func (p *passage) fits(ctx context.Context, arguments []byte) error {
	raw, err := json.Marshal(p.schema)
	if err != nil {
		return err
	}
	schema, err := foreign.Compile(ctx, raw)
	switch {
	case err != nil || arguments == nil:
		return err
	case strictjson.TypeOf(arguments) != strictjson.TypeObject:
		return errors.New("they are not a JSON object")
	}
	return schema.Fits(ctx, arguments)
}

// sameText reports whether two texts are the same JSON, except for its spaces.
func sameText(a, b []byte) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}
