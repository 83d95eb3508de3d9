package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/judge/process"
	"github.com/askback-mcp/askback/task"
)

// Answer is a person who answers what calls of [Caller] ask, now and later, until ctx is done. A question is accepted
// with the content that its key has among the answers. Other forms are filled in.
func Answer(ctx context.Context, store task.Store, answers map[string]any) error {
	d, err := desk.Open(store, nil)
	if err != nil {
		return err
	}
	by := desk.Person{Name: Caller}
	for {
		for q, err := range d.Waiting(ctx, desk.Waiting{As: &by}) {
			a := desk.Answer{By: by, Action: "accept"}
			if err == nil && q.Schema != nil { // else it is asked by URL
				a.Content, err = content(q, answers)
			}
			if err == nil {
				_, err = d.Answer(ctx, q.Name, q.Key, a)
			}
			ended := errors.Is(err, task.ErrClosed) || errors.Is(err, task.ErrNotFound) || errors.Is(err, task.ErrEnded)
			if err != nil && !ended && ctx.Err() == nil {
				return fmt.Errorf("answering %+v with %s: %w", q, a.Content, err)
			}
		}
		if process.Sleep(ctx, 20*time.Millisecond) != nil {
			return nil
		}
	}
}

// content returns the answer to a question. Without one it fills in every field of the form: with its default, or its
// first choice, or else with what fits.
func content(q *desk.Question, answers map[string]any) (json.RawMessage, error) {
	if content, ok := answers[q.AuthorKey]; ok {
		return json.Marshal(content)
	}
	var form struct {
		Properties map[string]field
	}
	err := json.Unmarshal(q.Schema, &form)
	content := make(map[string]any)
	for name, f := range form.Properties {
		content[name] = f.value()
	}
	data, _ := json.Marshal(content) // it was decoded
	return data, err
}

type field struct {
	Type, Format string
	Default      json.RawMessage
	Minimum      *float64
	MaxLength    *int
	Enum         []any
	OneOf, AnyOf []struct{ Const any }
	Items        *field
}

func (f *field) value() any {
	switch {
	case f.Default != nil:
		return f.Default
	case len(f.Enum) > 0:
		return f.Enum[0]
	case len(f.OneOf)+len(f.AnyOf) > 0:
		return append(f.OneOf, f.AnyOf...)[0].Const
	}
	switch f.Type {
	case "boolean":
		return true
	case "integer", "number":
		if f.Minimum != nil {
			return *f.Minimum
		}
		return 7
	case "array":
		return []any{f.Items.value()}
	}
	if text, ok := formatted[f.Format]; ok {
		return text
	}
	const anything = "octocats"
	if f.MaxLength != nil {
		return anything[:min(*f.MaxLength, len(anything))]
	}
	return anything
}

var formatted = map[string]string{
	"email": "octocat@example.com", "uri": "https://example.com/octocat",
	"date": "2026-11-24", "date-time": "2026-11-24T10:00:00Z",
}
