package desk

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/excerpt"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/task"
)

// Person is somebody who answers questions. A desk believes what a program says of a person: the program must have made
// sure of it, at the time of each answer.
type Person struct {
	// Name is the one that Options.Principal of package askback gives the same person as a caller: 1 to 256 bytes. It is
	// compared byte by byte, so a program must write it as Options.Principal does. No space is around it.
	Name string
	// Groups are those that the person belongs to: at most 64, each written like a name.
	Groups []string
}

// Question is a question of a task to people.
type Question struct {
	Name string `json:"name"` // of its task: see [task.Name]
	// Question has the message and the form. Its Key names the question within its task. It has no Server.
	input.Question
	AuthorKey string    `json:"authorKey"` // the key of the ask in the handler
	Target    string    `json:"target"`    // such as the name of the tool
	Principal string    `json:"principal"` // whose call it is; "" is the anonymous principal
	For       []string  `json:"for"`       // who may answer, such as "user:alice" and "group:release"
	Votes     int       `json:"votes"`     // how many must accept with equal contents
	Asked     time.Time `json:"asked"`
	// Deadline is when the question ends without an answer. Zero means that the question has no deadline.
	Deadline time.Time           `json:"deadline,omitzero"`
	Status   task.QuestionStatus `json:"status"`
	// Fallback is set if the question is for its caller, whose host could not ask it.
	Fallback bool `json:"fallback,omitempty"`
	// Markdown is set if Message and Preview are Markdown. A page may render a safe subset of it. Otherwise they are plain
	// text.
	Markdown bool `json:"markdown,omitempty"`

	Count    []Vote          `json:"count,omitempty"`    // the accepts that count, whose contents are equal, or the veto
	Proposal json.RawMessage `json:"proposal,omitempty"` // the content of Count
	Earlier  []Vote          `json:"earlier,omitempty"`  // votes that no longer count
	Events   []Event         `json:"events,omitempty"`   // claims and extensions
	// Claim is set while somebody has said that they are about to answer. Others may answer all the same.
	Claim    *Claim    `json:"claim,omitempty"`
	Decision *Decision `json:"decision,omitempty"` // of a question that is decided

	// The fields below belong to one question. A list leaves them out.

	// Call is the call's ID, as Call.ID of package askback returns it in the task's handler.
	Call string `json:"call,omitempty"`
	// Preview is the author's text about the call, which is shown beside the arguments. Empty means none.
	Preview string `json:"preview,omitempty"`
	// Arguments are the call's, in the form of RFC 8785. A number that no float64 has exactly keeps its digits.
	// Nil means that the call has no arguments, or more than 32 KB of them: then Excerpt is set.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Excerpt   *Excerpt        `json:"excerpt,omitempty"`
	// Shown is the SHA-256, in hexadecimal digits, of what people were shown when the question was put: of one
	// JSON object in the form of Arguments, with these members:
	//
	//	method, params, preview, markdown, for, votes    as in the JSON of the question; each is there
	//	arguments                                        all of them, or {} if the call has none
	//	tool                                             name, description, inputSchema and annotations, as in tools/list
	//
	// Params has the message and the form. Tool is missing if the server did not know it. Shown is empty if an older
	// release has put the question.
	Shown string `json:"shown,omitempty"`
	// Changed is set for a person if the tool's definition (its description, schema or annotations) is another one than
	// in the call that they accepted last, of their last 100 answers.
	Changed bool `json:"changed,omitempty"`
	// Progress is the task's own report while it runs, after the question is decided. Empty means none.
	Progress string `json:"progress,omitempty"`
	// Equal are the names of other tasks, up to 20, that ask the same for an equal call at this time.
	Equal []string `json:"equal,omitempty"`
}

// Excerpt stands for the arguments of a call that are larger than 32 KB. [Desk.Arguments] returns all of them.
type Excerpt struct {
	Begin  string `json:"begin"`  // the first 4 KB, up to the end of a character
	Size   int    `json:"size"`   // of all, in bytes
	SHA256 string `json:"sha256"` // of all, in hexadecimal digits
}

// What a question has of the arguments of its call, in bytes. A page can need twelve times as much, where it names each
// character that shows nothing.
const (
	mostArguments = 32 << 10
	mostExcerpt   = 4 << 10
)

// Summary says in one line how the question stands, such as "accepted by bob and carol". It has the names of people as
// they are stored.
func (q *Question) Summary() string {
	switch d := q.Decision; {
	case d != nil && len(d.By) == 0:
		return "unanswered: the deadline has passed"
	case d != nil:
		ended := map[string]string{"accept": "accepted", "decline": "declined", "cancel": "dismissed"}
		who := make([]string, len(d.By))
		for i, by := range d.By {
			who[i] = by.Who
		}
		return ended[d.Action] + " by " + strings.Join(who, " and ")
	case q.Status != task.QuestionOpen:
		return "withdrawn: the call has ended, or no longer asks"
	}
	return fmt.Sprintf("open: %d of %d votes", len(q.Count), q.Votes)
}

// Vote is the answer of one person.
type Vote struct {
	Who     string    `json:"who"`
	Groups  []string  `json:"groups,omitempty"` // the groups that allowed the person to vote
	When    time.Time `json:"when"`
	Channel string    `json:"channel"`
	Why     string    `json:"why,omitempty"`
	Action  string    `json:"action"` // "accept", "decline" or "cancel"
	// Content is the accepted content of the form. Of the votes that count together only the first has it.
	Content json.RawMessage `json:"content,omitempty"`
}

// Event is something other than a vote that has happened to a question.
type Event struct {
	Kind string    `json:"kind"` // "claimed", "released", "handed over" or "extended"
	Who  string    `json:"who"`
	When time.Time `json:"when"`
	Text string    `json:"text,omitempty"` // until when, to whom, and why
}

// Claim names who is about to answer a question, and until when others believe it.
type Claim struct {
	By    string    `json:"by"`
	Until time.Time `json:"until"`
}

// Decision is the end of a question.
type Decision struct {
	Action  string             `json:"action"`            // "accept", "decline", "cancel" or "unanswered"
	Content json.RawMessage    `json:"content,omitempty"` // of an accept
	By      []input.Provenance `json:"by,omitempty"`      // in the order of their votes; nobody if it is unanswered
	When    time.Time          `json:"when"`
}

// Questions reads all that a task has asked people, in the order in which it was asked: what concerns the person (see
// [Question.Concerns]) or, with nil, everything. It takes the same name and returns the same errors as [Desk.Question];
// there is at least one question if there is no error.
func (d *Desk) Questions(ctx context.Context, name string, as *Person) ([]*Question, error) {
	rows, err := d.questions(ctx, name, as)
	if err != nil {
		return nil, fmt.Errorf("desk: read questions: %w", err)
	}
	var (
		shown []*Question
		errs  []error
	)
	for _, r := range rows {
		if !r.concerns(as) {
			continue
		}
		q, err := d.show(ctx, r, as)
		shown, errs = append(shown, q), append(errs, err)
	}
	if shown == nil {
		errs = append(errs, errUnknown)
	}
	if err := errors.Join(errs...); err != nil {
		return shown, fmt.Errorf("desk: read questions: %w", err)
	}
	return shown, nil
}

// Question reads one question. Name is the [task.Name] of its task, or at least the first six characters of it: without
// a person of any task, and for a person of those that wait for them. Key is the Key of the question. As is the person
// who reads it, or nil.
//
// The error is a [task.ErrNotFound] if there is no such question, and the same if it does not concern the person: see
// [Question.Concerns]. An error with a question says that not all of it can be read.
func (d *Desk) Question(ctx context.Context, name, key string, as *Person) (*Question, error) {
	r, err := d.question(ctx, name, key, as)
	if err == nil && !r.concerns(as) {
		err = errUnknown
	}
	var q *Question
	if err == nil {
		q, err = d.show(ctx, r, as)
	}
	if err != nil {
		return q, fmt.Errorf("desk: read a question: %w", err)
	}
	return q, nil
}

// Arguments returns the arguments of the call that asks a question, whole and in the form of [Question.Arguments], or
// {} if it has none. It takes the same arguments and returns the same errors as [Desk.Question].
func (d *Desk) Arguments(ctx context.Context, name, key string, as *Person) (json.RawMessage, error) {
	r, err := d.question(ctx, name, key, as)
	if err == nil && !r.concerns(as) {
		err = errUnknown
	}
	var arguments json.RawMessage
	if err == nil {
		arguments, err = d.arguments(ctx, r)
	}
	if arguments == nil {
		arguments = json.RawMessage("{}")
	}
	if err != nil {
		return nil, fmt.Errorf("desk: read the arguments of a call: %w", err)
	}
	return arguments, nil
}

// arguments reads the arguments of the call that asks a question.
func (d *Desk) arguments(ctx context.Context, r *row) (json.RawMessage, error) {
	call, _, err := d.engine.Journal(ctx, r.Task, 0)
	if err != nil {
		return nil, fmt.Errorf("the arguments of the call: %w", err)
	}
	began, err := stored.DecodeCall(call)
	if err != nil {
		return nil, err
	}
	return strictjson.AppendJCS(nil, strictjson.Get(began.Params, "arguments")), nil
}

// changedTool reports whether the definition of a question's tool is another one than in the call of it that a person
// accepted last. It looks at a page of questions.
func (d *Desk) changedTool(ctx context.Context, r *row, as Person) (changed bool, err error) {
	n := 0
	var accepted time.Time
	for one, err := range d.history(ctx, as, task.QuestionHistory{Voter: as.Name}) {
		if n++; err != nil || n > questionPage {
			return changed, err
		}
		if one.unreadable != nil || one.Target != r.Target || one.asking.Tool == nil || r.asking.Tool == nil ||
			one.Task == r.Task {
			continue
		}
		for _, v := range one.ballot.Votes[one.ballot.From:] {
			if v.Who == as.Name && v.Action == accept && v.When.After(accepted) {
				changed, accepted = !bytes.Equal(one.asking.Tool, r.asking.Tool), v.When
			}
		}
	}
	return changed, nil
}

// ErrOwnCall reports that a person may not answer a question, because the call that asks it is their own.
var ErrOwnCall = errors.New("the call is your own: somebody else must answer")

// errUnknown is the error for every question that a person is not to know of, and for those that do not exist.
var errUnknown = fmt.Errorf("%w: there is no such question, or it is not for this person", task.ErrNotFound)

// question reads a question, whether it concerns the person or not.
func (d *Desk) question(ctx context.Context, name, key string, as *Person) (*row, error) {
	rows, err := d.questions(ctx, name, as)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(rows, func(r *row) bool { return r.Key == key })
	if i < 0 {
		return nil, errUnknown
	}
	return rows[i], nil
}

// questions reads the questions of a task, whether they concern the person or not. The beginning of a name finds only
// questions that wait for the person, so that neither the result nor the error reveals questions of others.
func (d *Desk) questions(ctx context.Context, name string, as *Person) ([]*row, error) {
	if as != nil {
		if err := as.check(); err != nil {
			return nil, err
		}
	}
	switch {
	case len(name) > nameLength:
		return nil, errUnknown
	case len(name) < enough:
		return nil, fmt.Errorf("%w: at least %d characters of its name are needed", task.ErrNotFound, enough)
	}
	questions, err := d.engine.Questions(ctx, name)
	if err != nil {
		return nil, err
	}
	var rows []*row
	for _, q := range questions {
		rows = append(rows, newRow(q))
	}
	if len(name) == nameLength {
		return rows, nil
	}
	found := ""
	for _, r := range rows {
		switch {
		case r.may(as) != nil || as != nil && r.Status != task.QuestionOpen || r.Task == found:
		case found != "":
			return nil, invalid("several tasks have names that begin with %q: give more of it", name)
		default:
			found = r.Task
		}
	}
	switch {
	case found == "" && as != nil:
		return nil, fmt.Errorf("%w; for what is no longer open the whole name is needed", errUnknown)
	case found == "":
		return nil, errUnknown
	}
	return slices.DeleteFunc(rows, func(r *row) bool { return r.Task != found }), nil
}

// nameLength is the length of a [task.Name].
var nameLength = len(task.Name(""))

// mostEqual bounds the other tasks that are named because they ask the same.
const mostEqual = 20

// show returns all that a row tells a person, with what else the store has of its call. With an error some of it is
// missing.
func (d *Desk) show(ctx context.Context, r *row, as *Person) (*Question, error) {
	now, err := d.engine.Now(ctx)
	q := r.show(now)
	if err != nil {
		return q, err
	}
	if r.unreadable != nil {
		return q, r.unreadable
	}
	q.Call, q.Preview, q.Shown = r.asking.Call, r.asking.Preview, hex.EncodeToString(r.asking.Shown)
	arguments, err := d.arguments(ctx, r)
	if err != nil {
		return q, err
	}
	if len(arguments) > mostArguments {
		digest := sha256.Sum256(arguments)
		begin := excerpt.Of(string(arguments[:mostExcerpt+1]), mostExcerpt)
		q.Excerpt = &Excerpt{begin, len(arguments), hex.EncodeToString(digest[:])}
	} else {
		q.Arguments = arguments
	}
	if r.decision != nil {
		t, err := d.engine.Row(ctx, r.Task)
		if err != nil {
			return q, fmt.Errorf("the task of the question: %w", err)
		}
		if t.Status == task.Working && !strings.HasPrefix(t.Message, question.Waits) {
			q.Progress = t.Message
		}
	}
	if as != nil && r.Status == task.QuestionOpen {
		if q.Changed, err = d.changedTool(ctx, r, *as); err != nil {
			return q, fmt.Errorf("what the person accepted last: %w", err)
		}
	}
	if r.Equal == "" {
		return q, nil
	}
	f := task.QuestionFilter{Equal: r.Equal}
	if as != nil {
		as.narrow(&f)
	}
	equal, err := d.engine.Waiting(ctx, f, nil, 2*mostEqual)
	if err != nil {
		return q, fmt.Errorf("equal calls: %w", err)
	}
	for _, e := range equal {
		name := task.Name(e.Task)
		if name != q.Name && newRow(e).may(as) == nil && !slices.Contains(q.Equal, name) && len(q.Equal) < mostEqual {
			q.Equal = append(q.Equal, name)
		}
	}
	return q, nil
}
