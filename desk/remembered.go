package desk

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/consent"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/task"
)

// Remembered is an approval that lets further calls of the same caller with the same arguments pass without a question:
// see Verdict.Remember of package askback.
type Remembered struct {
	Name    string             `json:"name"`
	Server  string             `json:"server"` // as its operator names it
	Tool    string             `json:"tool"`
	Rule    string             `json:"rule,omitempty"` // empty means the default of the rules
	Caller  string             `json:"caller"`
	Excerpt Excerpt            `json:"arguments"` // up to 4 KB of them
	By      []input.Provenance `json:"by"`        // who has approved the first call
	Decided time.Time          `json:"decidedAt"`
	Until   time.Time          `json:"until"`
	Left    int                `json:"left"` // calls that still pass
	Uses    int                `json:"uses"` // calls that pass in all
	// Task is the name of the task whose question was approved. The task may have gone.
	Task string `json:"task"`
	// Receipt is the JWS of the approval: see [Receipt]. It may be empty.
	Receipt string `json:"receipt,omitempty"`
}

// Remembered yields the approvals that let further calls pass, the last one first: those that a person has given, may
// have given, or makes use of with own calls, or all of them without a person. After an error with an approval, which
// cannot be read as a whole, the list goes on; an error without one ends it.
func (d *Desk) Remembered(ctx context.Context, as *Person) iter.Seq2[*Remembered, error] {
	return func(yield func(*Remembered, error) bool) {
		for row, err := range d.remembered(ctx, as) {
			var r *Remembered
			if err == nil {
				r, err = newRemembered(row)
			}
			if err != nil {
				err = fmt.Errorf("desk: list what is remembered: %w", err)
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (d *Desk) remembered(ctx context.Context, as *Person) iter.Seq2[*task.Remembered, error] {
	return func(yield func(*task.Remembered, error) bool) {
		var who []string
		if as != nil {
			if err := as.check(); err != nil {
				yield(nil, err)
				return
			}
			who = append(who, question.UserPrefix+as.Name)
			for _, g := range as.Groups {
				who = append(who, question.GroupPrefix+g)
			}
		}
		for after := (*task.Remembered)(nil); ; {
			rows, err := d.engine.Remembered(ctx, who, after, questionPage)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, r := range rows {
				if !yield(r, nil) {
					return
				}
			}
			if len(rows) < questionPage {
				return
			}
			after = rows[len(rows)-1]
		}
	}
}

// newRemembered returns what a row says. With an error it has a name, and what the row itself knows.
func newRemembered(row *task.Remembered) (*Remembered, error) {
	r := &Remembered{Name: row.Key, Decided: row.Decided, Until: row.Until, Left: row.Left}
	m, err := consent.DecodeMemory(row.Content)
	if err != nil {
		return r, err
	}
	r.Server, r.Tool, r.Rule, r.Caller, r.Uses, r.By = m.Server, m.Tool, m.Rule, m.Caller, m.Uses, m.By
	r.Excerpt = Excerpt{m.Arguments, m.Size, fmt.Sprintf("%x", m.SHA256)}
	r.Task, r.Receipt = m.Task, m.Receipt
	return r, nil
}

// Forget ends what is remembered under a name, or under at least the first six characters of it: no further call
// passes. It takes a person who may see it (see [Desk.Remembered]), or nil for the operator. The error is a
// [task.ErrNotFound] if there is nothing of that name, or not for this person, and an [*InvalidError] if several names
// begin like this.
func (d *Desk) Forget(ctx context.Context, name string, as *Person) (*Remembered, error) {
	r, err := d.forget(ctx, name, as)
	if err != nil {
		return nil, fmt.Errorf("desk: forget an approval: %w", err)
	}
	return r, nil
}

func (d *Desk) forget(ctx context.Context, name string, as *Person) (*Remembered, error) {
	if len(name) < enough {
		return nil, fmt.Errorf("%w: at least %d characters of its name are needed", task.ErrNotFound, enough)
	}
	var found *task.Remembered
	for r, err := range d.remembered(ctx, as) {
		switch {
		case err != nil:
			return nil, err
		case !strings.HasPrefix(r.Key, name):
		case found != nil:
			return nil, invalid("several names begin with %q: give more of it", name)
		default:
			found = r
		}
	}
	if found == nil {
		return nil, fmt.Errorf("%w: nothing of this name is remembered, or it is not for this person", task.ErrNotFound)
	}
	r, _ := newRemembered(found) // what cannot be read can be ended
	return r, d.engine.Forget(ctx, found.Key)
}
