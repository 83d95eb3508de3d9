package desk

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/task"
)

// InvalidError reports an input that a desk cannot take, such as an answer that does not fit its form.
// Nothing was written.
type InvalidError struct {
	Reason string // the fault, in words; it repeats nothing of an answer
}

func (e *InvalidError) Error() string { return e.Reason }

func invalid(format string, args ...any) error { return &InvalidError{fmt.Sprintf(format, args...)} }

// The bounds of people's input.
const (
	mostReason = 4096 // bytes
	mostGroups = 64
)

func checkName(what, name string) error {
	if !question.IsName(name) {
		return invalid("%s has %d bytes: it needs 1 to %d of UTF-8, without control characters and space around it", what,
			len(name), question.MaxName)
	}
	return nil
}

// checkReason checks a reason, which may be empty and have several lines.
func checkReason(reason string) error {
	isControl := func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\n\r\t", r) }
	switch {
	case len(reason) > mostReason:
		return invalid("the reason has %d bytes, and at most %d are kept", len(reason), mostReason)
	case !utf8.ValidString(reason):
		return invalid("the reason is not UTF-8")
	case strings.ContainsFunc(reason, isControl):
		return invalid("the reason has control characters")
	}
	return nil
}

func (p *Person) check() error {
	if err := checkName("the name of the person", p.Name); err != nil {
		return err
	}
	if len(p.Groups) > mostGroups {
		return invalid("the person is in %d groups, and at most %d are looked at: "+
			"leave out those that are no longer asked", len(p.Groups), mostGroups)
	}
	for _, g := range p.Groups {
		if err := checkName("the name of a group", g); err != nil {
			return err
		}
	}
	return nil
}

// narrow restricts a filter to the questions that a person may answer.
func (p *Person) narrow(f *task.QuestionFilter) {
	f.For, f.Own = []string{question.UserPrefix + p.Name}, p.Name
	for _, g := range p.Groups {
		if e := question.GroupPrefix + g; !slices.Contains(f.ForOthers, e) {
			f.ForOthers = append(f.ForOthers, e)
		}
	}
}

// row is a stored question with its decoded parts. A newer release may have stored it: then unreadable has the reason,
// and the question is shown but cannot be answered here.
type row struct {
	*task.Question
	asking     *stored.Asking
	ballot     *stored.Ballot
	decision   *stored.Decision // nil if people have not decided
	unreadable error
}

func newRow(q *task.Question) *row {
	r := &row{Question: q}
	var err error
	if r.asking, err = stored.DecodeAsking(q.Content); err == nil {
		r.ballot, err = stored.DecodeBallot(q.Votes)
	}
	if err == nil && len(q.Decision) > 0 {
		r.decision, err = stored.DecodeDecision(q.Decision)
	}
	if err != nil {
		r.unreadable = fmt.Errorf("the task %s: %w", task.Name(q.Task), err)
	}
	return r
}

// may returns nil if a person may answer the question. Nil stands for the operator, who has the store.
func (r *row) may(p *Person) error {
	if r.isTimer() {
		return errUnknown
	}
	return mayAnswer(r.For, r.Principal, p)
}

// concerns reports whether a person may see the question.
func (r *row) concerns(p *Person) bool {
	return !r.isTimer() && (r.may(p) == nil || r.Principal == p.Name || slices.Contains(r.Voters, p.Name))
}

// isTimer reports whether the question only waits for its deadline.
func (r *row) isTimer() bool { return len(r.For) == 0 || r.unreadable == nil && r.asking.Votes < 1 }

// mayAnswer returns nil if a person may answer a question that a principal's call asks these. A person who is not asked
// gets errUnknown, as for a question that does not exist.
func mayAnswer(asked []string, principal string, p *Person) error {
	switch {
	case p == nil || slices.Contains(asked, question.UserPrefix+p.Name):
		return nil
	case len(p.asked(asked)) == 0:
		return errUnknown
	case principal == p.Name:
		return ErrOwnCall
	}
	return nil
}

// asked returns the groups of a person that are asked.
func (p *Person) asked(asked []string) (groups []string) {
	for _, g := range p.Groups {
		if slices.Contains(asked, question.GroupPrefix+g) && !slices.Contains(groups, g) {
			groups = append(groups, g)
		}
	}
	return groups
}

// has reports whether the question has a text, which is in lower case, where a search looks for it.
func (r *row) has(text string) bool {
	in := []string{r.Target, r.Principal, task.Name(r.Task)}
	if r.unreadable == nil {
		in = append(in, r.show(time.Time{}).Message, r.asking.Preview)
	}
	return slices.ContainsFunc(in, func(s string) bool { return strings.Contains(strings.ToLower(s), text) })
}

// show returns the question as people see it.
func (r *row) show(now time.Time) *Question {
	q := &Question{
		Name: task.Name(r.Task), Question: input.Question{Key: r.Key}, Target: r.Target, Principal: r.Principal,
		For: slices.Clone(r.For), Asked: r.Asked, Deadline: r.Deadline, Status: r.Status,
	}
	if r.unreadable != nil {
		return q
	}
	a, b := r.asking, r.ballot
	q.AuthorKey, q.Method, q.Params, q.Votes = a.Key, a.Method, a.Params, a.Votes
	q.Fallback, q.Markdown = a.Fallback, a.Markdown
	_ = q.Parse() // a malformed one has its method and parameters only
	for i, v := range b.Votes {
		if i < b.From {
			q.Earlier = append(q.Earlier, Vote(v))
		} else {
			q.Count = append(q.Count, Vote(v))
		}
	}
	q.Proposal = proposal(b)
	for _, e := range b.Events {
		q.Events = append(q.Events, Event(e))
	}
	if b.Claim != nil && r.Status == task.QuestionOpen && now.Before(b.Claim.Until) {
		q.Claim = (*Claim)(b.Claim)
	}
	q.Decision = (*Decision)(r.decision)
	return q
}
