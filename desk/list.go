package desk

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/askback-mcp/askback/task"
)

// Waiting selects questions of [Desk.Waiting]. A nil or zero field lets all pass.
type Waiting struct {
	As      *Person   // questions that this person may answer
	Targets []string  // of the tasks
	Before  time.Time // asked before this time
	// Search leaves only questions with this text, in upper or lower case, in their message, target, principal, name or
	// preview. It is a scan of what the other fields let pass, and ends after 10,000 questions.
	Search string
	// ByDeadline lists the nearest deadline first, and leaves out questions without one. Otherwise the oldest question is
	// first or, with Newest, the one that was asked last.
	ByDeadline bool
	Newest     bool
}

const (
	// questionPage is the number of questions that a list reads from the store at once. Each may be large.
	questionPage = 100
	// mostSearched is the number of questions that a search looks at.
	mostSearched = 10_000
)

// Waiting yields the open questions that the filter lets pass. It reads an index of the store as it goes, so that
// questions for others cost nothing; a question that is asked meanwhile may be missing. After an error with a question,
// which cannot be read as a whole, the list goes on; an error without a question ends it.
func (d *Desk) Waiting(ctx context.Context, w Waiting) iter.Seq2[*Question, error] {
	return d.listed(ctx, "list the questions", d.waiting(ctx, w))
}

// Answered yields the questions that a person has voted on, open or closed, the newest first. Questions whose tasks
// were deleted are gone, and so are votes that [Question.Earlier] has no more. It returns the errors that
// [Desk.Waiting] returns.
func (d *Desk) Answered(ctx context.Context, by Person) iter.Seq2[*Question, error] {
	return d.listed(ctx, "list what a person has answered", d.history(ctx, by, task.QuestionHistory{Voter: by.Name}))
}

// Began yields the questions that a person's own calls have asked people, open or closed, the newest first. Questions
// whose tasks were deleted are gone. It returns the errors that [Desk.Waiting] returns.
func (d *Desk) Began(ctx context.Context, by Person) iter.Seq2[*Question, error] {
	return d.listed(ctx, "list what a person has asked", d.history(ctx, by, task.QuestionHistory{Principal: by.Name}))
}

// listed yields the questions of rows for a list, as they are now by the clock of the store.
func (d *Desk) listed(ctx context.Context, doing string, rows iter.Seq2[*row, error]) iter.Seq2[*Question, error] {
	return func(yield func(*Question, error) bool) {
		now, err := d.engine.Now(ctx)
		if err != nil {
			yield(nil, fmt.Errorf("desk: %s: %w", doing, err))
			return
		}
		shown(doing, now, rows)(yield)
	}
}

// shown yields the questions of rows as they are at a time, or as they were when they changed if that is later.
func shown(doing string, at time.Time, rows iter.Seq2[*row, error]) iter.Seq2[*Question, error] {
	return func(yield func(*Question, error) bool) {
		for r, err := range rows {
			var q *Question
			if err == nil {
				now := at
				if r.Changed.After(at) {
					now = r.Changed
				}
				q, err = r.show(now), r.unreadable
			}
			if err != nil {
				err = fmt.Errorf("desk: %s: %w", doing, err)
			}
			if !yield(q, err) {
				return
			}
		}
	}
}

func (d *Desk) waiting(ctx context.Context, w Waiting) iter.Seq2[*row, error] {
	f := task.QuestionFilter{Targets: w.Targets, Before: w.Before, ByDeadline: w.ByDeadline, Newest: w.Newest}
	if w.As != nil {
		w.As.narrow(&f)
	}
	text := strings.ToLower(w.Search)
	return func(yield func(*row, error) bool) {
		searched := 0
		for r, err := range paged(w.As, func(after *task.Question) ([]*task.Question, error) {
			return d.engine.Waiting(ctx, f, after, questionPage)
		}) {
			if err == nil && r.may(w.As) != nil {
				continue
			}
			if searched++; text != "" && searched > mostSearched {
				return
			}
			if (err != nil || text == "" || r.has(text)) && !yield(r, err) {
				return
			}
		}
	}
}

func (d *Desk) history(ctx context.Context, by Person, of task.QuestionHistory) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		for r, err := range paged(&by, func(after *task.Question) ([]*task.Question, error) {
			return d.engine.History(ctx, of, after, questionPage)
		}) {
			if (err != nil || r.concerns(&by)) && !yield(r, err) {
				return
			}
		}
	}
}

// paged yields the questions of all pages, unless the person cannot be one. Each page begins after the last question of
// the one before. An error ends it.
func paged(
	p *Person, read func(after *task.Question) ([]*task.Question, error),
) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		if p != nil {
			if err := p.check(); err != nil {
				yield(nil, err)
				return
			}
		}
		for after := (*task.Question)(nil); ; {
			questions, err := read(after)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, q := range questions {
				if !yield(newRow(q), nil) {
					return
				}
			}
			if len(questions) == 0 {
				return
			}
			after = questions[len(questions)-1]
		}
	}
}
