package rig

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/task"
)

// A Person answers at the inbox, through its API, what calls of [Caller] ask.
type Person struct {
	// Answers are the contents that are accepted, by the keys of the questions. What has no content here is filled in as
	// [Fill] does.
	Answers map[string]any

	// Declines says which questions are declined; nil declines none.
	Declines func(*desk.Question) bool

	// Answered is told of each question that was answered, if it is not nil.
	Answered func(*desk.Question)
}

// Answer answers what waits now and later, until ctx is done.
func (p *Person) Answer(ctx context.Context, store task.Store) error {
	d, err := desk.Open(store, nil)
	if err != nil {
		return err
	}
	page, err := inbox.New(d, &inbox.Options{Logger: slog.New(slog.DiscardHandler),
		Identity: inbox.IdentityFunc(func(*http.Request) (desk.Person, error) { return desk.Person{Name: Caller}, nil })})
	if err != nil {
		return err
	}
	for {
		if err := p.answerAll(ctx, d, page); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// answerAll answers what waits now.
func (p *Person) answerAll(ctx context.Context, d *desk.Desk, page http.Handler) error {
	by := desk.Person{Name: Caller}
	var waiting []*desk.Question
	for q, err := range d.Waiting(ctx, desk.Waiting{As: &by}) {
		if err != nil {
			return err
		}
		waiting = append(waiting, q)
	}
	for _, q := range waiting {
		answer := map[string]any{"action": "decline"}
		if p.Declines == nil || !p.Declines(q) {
			content, err := p.content(q)
			if err != nil {
				return err
			}
			if answer["action"] = "accept"; content != nil {
				answer["content"] = content
			}
		}
		body, err := json.Marshal(answer)
		if err != nil {
			return err
		}
		path := "/api/questions/" + q.Name + "/" + url.PathEscape(q.Key) + "/answer"
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, path, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		page.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusOK:
			if p.Answered != nil {
				p.Answered(q)
			}
		case http.StatusConflict, http.StatusNotFound: // the call has ended meanwhile
		case http.StatusTooManyRequests, http.StatusServiceUnavailable: // a moment later
		default:
			return fmt.Errorf("answering %q of %s with %s: %d %s", q.AuthorKey, q.Target, body, w.Code, w.Body)
		}
	}
	return nil
}

func (p *Person) content(q *desk.Question) (json.RawMessage, error) {
	if content, ok := p.Answers[q.AuthorKey]; ok {
		return json.Marshal(content)
	}
	if q.Schema == nil { // it is asked by URL
		return nil, nil
	}
	return Fill(q.Schema)
}

// Fill fills in every field of a form: with its default, or its first choice, or else with what fits.
func Fill(schema json.RawMessage) (json.RawMessage, error) {
	var form struct {
		Properties map[string]field
	}
	if err := json.Unmarshal(schema, &form); err != nil {
		return nil, fmt.Errorf("the form %s: %w", schema, err)
	}
	content := make(map[string]any)
	for name, f := range form.Properties {
		content[name] = f.value()
	}
	return json.Marshal(content)
}

type field struct {
	Type      string
	Format    string
	Default   json.RawMessage
	Minimum   *float64
	MaxLength *int
	Enum      []any
	OneOf     []struct{ Const any }
	AnyOf     []struct{ Const any }
	Items     *field
}

func (f *field) value() any {
	switch {
	case f.Default != nil:
		return f.Default
	case len(f.Enum) > 0:
		return f.Enum[0]
	case len(f.OneOf) > 0:
		return f.OneOf[0].Const
	case len(f.AnyOf) > 0:
		return f.AnyOf[0].Const
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
