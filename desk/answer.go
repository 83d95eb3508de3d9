package desk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/jitter"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/task"
)

// Answer is the answer of a person to a question.
type Answer struct {
	By Person
	// Action is "accept", "decline" or "cancel". An accept is one vote. A decline ends the question, however many have
	// accepted it, and so does a cancel, which dismisses the question without an answer.
	Action string
	// Content has the values of the form, as a JSON object of at most 1 MiB. Only an accept has it, and
	// none is needed where nothing is required.
	Content json.RawMessage
	// Reason is for people, at most 4096 bytes. It is kept with the answer.
	Reason string
	// Channel names the way of the answer, in at most 256 bytes. Empty means "desk".
	Channel string
}

// channelDesk is the channel of an answer that names none.
const channelDesk = "desk"

// The bounds of the content of an answer. A form is flat.
const (
	mostContent = 1 << 20
	mostDepth   = 64
)

// check checks all of an answer that can be checked without its question.
func (a *Answer) check() error {
	if err := a.By.check(); err != nil {
		return err
	}
	if err := checkReason(a.Reason); err != nil {
		return err
	}
	if a.Channel != "" {
		if err := checkName("the channel", a.Channel); err != nil {
			return err
		}
	}
	switch a.Action {
	case accept:
		if len(a.Content) > mostContent {
			return invalid("the content has %d bytes, and at most %d are taken", len(a.Content), mostContent)
		}
		if len(a.Content) > 0 {
			if err := strictjson.Check(a.Content, mostDepth); err != nil {
				return invalid("the content: %v", err)
			}
		}
	case decline, dismiss:
		if len(a.Content) > 0 {
			return invalid("only an accept has content")
		}
	default:
		return invalid("the action must be %q, %q or %q", accept, decline, dismiss)
	}
	return nil
}

// vote returns the vote that an answer is, with the content as the question records it.
func (a *Answer) vote(r *row, when time.Time) (*stored.Vote, error) {
	v := &stored.Vote{
		Who: a.By.Name, Groups: a.By.asked(r.For), When: when, Channel: a.Channel, Why: a.Reason, Action: a.Action,
	}
	if v.Channel == "" {
		v.Channel = channelDesk
	}
	if a.Action != accept {
		return v, nil
	}
	take, err := question.AcceptFor(r.asking.Method, r.asking.Params)
	if err != nil {
		return nil, fmt.Errorf("the stored question: %w", err)
	}
	raw := []byte(`{"action":"accept"}`)
	if len(a.Content) > 0 {
		raw = slices.Concat([]byte(`{"action":"accept","content":`), a.Content, []byte("}"))
	}
	record, err := take(raw)
	if err != nil {
		return nil, invalid("the answer does not fit: %v", err)
	}
	v.Content = strictjson.Get(record, "content")
	return v, nil
}

// ClosedError reports that a question can no longer be answered, and why. It is a [task.ErrLate] if its deadline has
// passed, and otherwise a [task.ErrClosed].
type ClosedError struct {
	// Deadline is the one that has passed. Zero means that the question ended otherwise.
	Deadline time.Time
	// Decision is the decision of people, without its content. Nil means that they have not decided: the deadline has
	// passed, or the call has ended or no longer asks.
	Decision *Decision
}

func (e *ClosedError) Error() string {
	switch {
	case e.Decision != nil:
		who := make([]string, len(e.Decision.By))
		for i, p := range e.Decision.By {
			who[i] = fmt.Sprintf("%q", p.Who)
		}
		return fmt.Sprintf("the question was decided at %s: %s by %s",
			e.Decision.When.UTC().Format(time.RFC3339), e.Decision.Action, strings.Join(who, " and "))
	case !e.Deadline.IsZero():
		return "too late: the deadline of the question was " + e.Deadline.UTC().Format(time.RFC3339)
	}
	return "the question is withdrawn: its call has ended or no longer asks"
}

// Is reports whether the target is the error of a store that this one explains.
func (e *ClosedError) Is(target error) bool {
	if e.Decision == nil && !e.Deadline.IsZero() {
		return target == task.ErrLate
	}
	return target == task.ErrClosed
}

// closed returns the reason why a question is closed.
func (r *row) closed() error {
	switch {
	case r.decision == nil:
		return new(ClosedError)
	case r.decision.Action == stored.Unanswered:
		return &ClosedError{Deadline: r.Deadline}
	}
	d := Decision(*r.decision)
	d.Content = nil
	return &ClosedError{Decision: &d}
}

// Answer records a person's answer to a question, and returns the question as it is then; its Decision is set if the
// answer decided it. Name and key are as in [Desk.Question]. The same answer again, which the same person gives to the
// same question, is no second vote and no error.
//
// It returns the errors that [Desk.Question] returns, and: a [task.ErrNotFound] also if the question is not for the
// person; an [ErrOwnCall] if the person could answer it if the call were not their own; an [*InvalidError] if the
// answer cannot be taken as it is, such as a content that does not fit the form, and then the question stays open; a
// [*ClosedError] if the question is no longer open. After any other error the answer may have been recorded: give it
// again.
func (d *Desk) Answer(ctx context.Context, name, key string, a Answer) (*Question, error) {
	err := a.check()
	var q *Question
	if err == nil {
		q, err = d.change(ctx, name, key, &a.By, func(r *row, when time.Time) (bool, error) {
			v, err := a.vote(r, when)
			switch {
			case err == nil && counts(r.ballot, v):
				return true, nil
			case r.Status != task.QuestionOpen:
				return false, r.closed()
			case err != nil:
				return false, err
			}
			r.decision = cast(r.ballot, r.asking.Votes, *v)
			return false, nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("desk: answer a question: %w", err)
	}
	return q, nil
}

// longestClaim bounds the time for which somebody can keep others from claiming.
const longestClaim = 24 * time.Hour

// Claim records that a person is about to answer a question, for at most 24 hours, so that others need not look at it.
// It keeps nobody from answering. Zero or less ends the person's claim. It returns the errors that [Desk.Answer]
// returns: an [*InvalidError] if somebody else has a claim.
func (d *Desk) Claim(ctx context.Context, name, key string, by Person, length time.Duration) (*Question, error) {
	q, err := d.claim(ctx, name, key, by, by.Name, length)
	if err != nil {
		return nil, fmt.Errorf("desk: claim a question: %w", err)
	}
	return q, nil
}

// HandOver claims a question for somebody else, as [Desk.Claim] does. It must be somebody who is
// asked: a user whom the question is for or, if it is for a group, anybody who may be in it.
func (d *Desk) HandOver(
	ctx context.Context, name, key string, by Person, to string, length time.Duration,
) (*Question, error) {
	err := checkName("the name of the person", to)
	if err == nil && length <= 0 {
		err = invalid("a question is handed over for a while: give a time of more than zero")
	}
	var q *Question
	if err == nil {
		q, err = d.claim(ctx, name, key, by, to, length)
	}
	if err != nil {
		return nil, fmt.Errorf("desk: hand over a question: %w", err)
	}
	return q, nil
}

func (d *Desk) claim(
	ctx context.Context, name, key string, by Person, to string, length time.Duration,
) (*Question, error) {
	if length > longestClaim {
		return nil, invalid("a claim lasts at most %v", longestClaim)
	}
	return d.change(ctx, name, key, &by, func(r *row, at time.Time) (bool, error) {
		if r.Status != task.QuestionOpen {
			return false, r.closed()
		}
		wanted := &stored.DeskClaim{By: to, Until: at.Add(length).Truncate(time.Millisecond)}
		c := r.ballot.Claim
		if c != nil && !at.Before(c.Until) {
			c = nil
		}
		event := stored.Event{Kind: "claimed", Who: by.Name, When: at, Text: "until " + wanted.Until.Format(time.RFC3339)}
		switch {
		case c == nil && length <= 0, c != nil && c.By == to && (to != by.Name || c.Until.Equal(wanted.Until)):
			return true, nil
		case c != nil && c.By != by.Name:
			return false, invalid("%q is about to answer it until %s: answer it all the same, or ask them to hand it over",
				c.By, c.Until.UTC().Format(time.RFC3339))
		case !r.mayBeAsked(to):
			return false, invalid("the question is not for %q", to)
		case length <= 0:
			r.ballot.Claim, event.Kind, event.Text = nil, "released", ""
		default:
			r.ballot.Claim = wanted
		}
		if to != by.Name {
			event.Kind, event.Text = "handed over", fmt.Sprintf("to %q %s", to, event.Text)
		}
		r.ballot.Events = append(r.ballot.Events, event)
		trim(r.ballot)
		return false, nil
	})
}

// mayBeAsked reports whether somebody of this name may be asked, as far as that can be known without their groups.
func (r *row) mayBeAsked(name string) bool {
	return slices.Contains(r.For, question.UserPrefix+name) || name != r.Principal &&
		slices.ContainsFunc(r.For, func(e string) bool { return strings.HasPrefix(e, question.GroupPrefix) })
}

// longestExtension bounds how long a question, and its task, can be kept open.
const longestExtension = 366 * 24 * time.Hour

// Extend moves the deadline of a question: to a later time, at most a year from now. Its task lives at least 10 minutes
// longer. The reason is for people, at most 4096 bytes; it may be empty. It returns the errors that [Desk.Answer]
// returns.
func (d *Desk) Extend(
	ctx context.Context, name, key string, by Person, deadline time.Time, reason string,
) (*Question, error) {
	var q *Question
	err := checkReason(reason)
	if err == nil {
		q, err = d.change(ctx, name, key, &by, extension(by, deadline.UTC().Truncate(time.Millisecond), reason))
	}
	if err != nil {
		return nil, fmt.Errorf("desk: extend a question: %w", err)
	}
	return q, nil
}

func extension(by Person, deadline time.Time, reason string) func(r *row, at time.Time) (done bool, err error) {
	return func(r *row, at time.Time) (bool, error) {
		switch {
		case !deadline.After(at) || deadline.After(at.Add(longestExtension)):
			return false, invalid("the deadline must be later than now, and within %d days", longestExtension/(24*time.Hour))
		case r.Status != task.QuestionOpen:
			return false, r.closed()
		case r.Deadline.IsZero():
			return false, invalid("the question has no deadline")
		case r.Deadline.Equal(deadline):
			return true, nil
		case deadline.Before(r.Deadline):
			return false, invalid("the deadline is %s, and can only be moved to a later time",
				r.Deadline.UTC().Format(time.RFC3339))
		}
		text := "until " + deadline.Format(time.RFC3339)
		if reason != "" {
			text += ": " + reason
		}
		r.ballot.Events = append(r.ballot.Events, stored.Event{Kind: "extended", Who: by.Name, When: at, Text: text})
		trim(r.ballot)
		r.Deadline = deadline
		return false, nil
	}
}

// change reads a question, calls edit with it and the time by the store's clock, and writes what edit has changed: its
// ballot, its deadline, its decision. Edit reports whether all is done already, and then nothing is written. When
// somebody else has changed the question meanwhile, change begins again.
func (d *Desk) change(
	ctx context.Context, name, key string, by *Person, edit func(r *row, at time.Time) (done bool, err error),
) (*Question, error) {
	at, err := d.engine.Now(ctx)
	if err != nil {
		return nil, err
	}
	editNow := func(r *row) (bool, error) { return edit(r, at) }
	for pause := time.Millisecond; ; pause = min(2*pause, 64*time.Millisecond) {
		r, done, deadline, err := d.edited(ctx, name, key, by, editNow)
		if err != nil {
			return nil, err
		}
		name = task.Name(r.Task) // by its beginning it may no longer be found
		if !done {
			err = d.write(ctx, r)
		}
		switch {
		case err == nil:
			return r.show(at), nil
		case errors.Is(err, task.ErrNotFound):
			return nil, errUnknown
		case errors.Is(err, task.ErrLate):
			return nil, &ClosedError{Deadline: deadline}
		case !errors.Is(err, task.ErrConflict) && !errors.Is(err, task.ErrClosed):
			// The response of the store was lost, and the write may or may not have happened. Edit finds out which: a
			// person must not be told to vote again when the vote counts.
			if r, done, _, again := d.edited(ctx, name, key, by, editNow); again == nil && done {
				return r.show(at), nil
			}
			return nil, fmt.Errorf("it is not known whether it was recorded; give it again: %w", err)
		}
		select {
		case <-time.After(jitter.N(pause)): // at random, so that many voters do not meet again and again
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// edited reads the question and calls edit with it. It also returns the stored deadline, which edit may change.
func (d *Desk) edited(
	ctx context.Context, name, key string, by *Person, edit func(r *row) (done bool, err error),
) (r *row, done bool, deadline time.Time, err error) {
	r, err = d.question(ctx, name, key, by)
	if err == nil {
		err = cmp.Or(r.may(by), r.unreadable)
	}
	if err != nil {
		return nil, false, deadline, err
	}
	deadline = r.Deadline
	done, err = edit(r)
	return r, done, deadline, err
}

// write writes an edited question.
func (d *Desk) write(ctx context.Context, r *row) (err error) {
	if r.Votes, err = stored.Encode(r.ballot); err != nil {
		return err
	}
	r.Voters = nil
	for _, v := range r.ballot.Votes {
		if !slices.Contains(r.Voters, v.Who) {
			r.Voters = append(r.Voters, v.Who)
		}
	}
	if r.decision != nil {
		if r.Decision, err = stored.Encode(r.decision); err != nil {
			return err
		}
	}
	return d.engine.ChangeQuestion(ctx, r.Question, false)
}
