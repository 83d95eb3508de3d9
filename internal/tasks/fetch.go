package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// ResultTool is the name of the tool that fetches the outcome of a call that waits.
const ResultTool = "askback_result"

// Fetch serves a call c of the tool that fetches the outcome of another call. It waits as that call did, and asks what
// that call asks its client. Without a name it lists the calls of its caller.
func (s *Service) Fetch(ctx context.Context, c *call.Call, name string) (*mcp.CallToolResult, error) {
	own := &ownCalls{s, c.Principal}
	if name == "" {
		return own.list(ctx)
	}
	t, err := own.named(ctx, name)
	if err != nil {
		return nil, err
	}
	f := &fetching{Service: s, call: c, task: t, again: true, asked: make(map[string]bool)}
	return f.run(ctx)
}

// follower returns the handler that serves the client of a call of h in place of the task which the call has become,
// and which the client cannot take: it waits for the outcome, and asks the client what the task asks it. When the
// client has waited as long as [Desk.Wait] allows, or cannot be asked, it is told in words how to get the outcome.
func (s *Service) follower(h *call.Handler, t *task.Task) *call.Handler {
	return &call.Handler{
		Method: h.Method, Structured: h.Structured, Fetches: true,
		Invoke: func(ctx context.Context, c *call.Call, _ *wire.Params) (mcp.Result, error) {
			f := &fetching{Service: s, call: c, task: t, asked: make(map[string]bool)}
			result, err := f.run(ctx)
			if err != nil {
				return nil, err
			}
			return result, nil
		},
	}
}

// fetching is one round of a call that fetches the outcome of a task.
type fetching struct {
	*Service
	call  *call.Call
	task  *task.Task
	again bool            // the client is asked also what waits at the desk, because it could not show it before
	asked map[string]bool // the keys of the questions that were asked, and need not be asked again
	note  string          // for the client: why an answer does not count
}

func (f *fetching) run(ctx context.Context) (*mcp.CallToolResult, error) {
	for {
		open, err := f.questions(ctx, f.task)
		if err != nil {
			return nil, err
		}
		answered, err := f.ask(open)
		if err != nil {
			return nil, err
		}
		if err := f.give(ctx, answered); err != nil {
			return nil, err
		}
		if f.call.Suspended() {
			return nil, journal.ErrInputRequired
		}
		if len(answered) > 0 {
			continue
		}
		f.task = f.wait(ctx, func(t *task.Task) bool {
			open, err := f.questions(ctx, t)
			return len(open) > 0 || err != nil || asksClient(t) && !canAnswer(f.call.Request, t)
		})
		if f.task.Status.Terminal() {
			return callResult(f.task)
		}
		if open, err := f.questions(ctx, f.task); len(open) == 0 || err != nil || ctx.Err() != nil {
			return f.words(context.WithoutCancel(ctx)), nil
		}
	}
}

// ownQuestion is an open question of a task that its caller may answer through this call.
type ownQuestion struct {
	*question.Question
	key string // in the task, and in this call
	row bool   // it waits at the desk, because the client could not show it before
}

// questions returns what a task asks its caller, as far as the client can be asked, and was not asked in this round.
func (f *fetching) questions(ctx context.Context, t *task.Task) (own []ownQuestion, err error) {
	add := func(q *question.Question, key string, row bool) {
		if f.call.Can&q.Need == q.Need && !f.asked[key] {
			own = append(own, ownQuestion{q, key, row})
		}
	}
	open, err := stored.DecodeQuestions(t.Pending)
	for _, q := range open {
		asked, invalid := question.Stored(q.Method, q.Params, false)
		if invalid != nil {
			return nil, f.unreadable(ctx, fmt.Errorf("a stored question: %w", invalid))
		}
		add(asked, q.Wire, false)
	}
	if err != nil {
		return nil, f.unreadable(ctx, err)
	}
	if !f.again || t.Status != task.InputRequired || len(open) > 0 || t.Principal == "" {
		return own, nil
	}
	rows, err := f.Engine.Questions(ctx, task.Name(t.ID))
	if err != nil {
		return nil, f.failed(ctx, "reading what a task waits for", err)
	}
	for _, q := range rows {
		asking, err := stored.DecodeAsking(q.Content)
		if q.Status != task.QuestionOpen || err != nil || !asking.Fallback {
			continue // a newer release may have asked it, which its people can answer at its desk
		}
		if asked, err := question.Stored(asking.Method, asking.Params, true); err == nil {
			fits := asked.Accept
			asked.Optional, asked.Accept = true, func(raw []byte) ([]byte, error) {
				if saysNothing(raw) { // as the client could not show it the first time
					return raw, nil
				}
				return fits(raw)
			}
			add(asked, q.Key, true)
		}
	}
	return own, nil
}

// ownAnswer is what the client said to a question.
type ownAnswer struct {
	ownQuestion
	raw []byte
}

// ask asks the client, and returns what it has answered.
func (f *fetching) ask(open []ownQuestion) (answered []ownAnswer, err error) {
	for _, q := range open {
		raw, err := f.call.Ask(q.key, q.Question)
		switch {
		case err == nil:
			answered = append(answered, ownAnswer{q, raw})
		case !errors.Is(err, journal.ErrInputRequired):
			return nil, err
		}
	}
	return answered, nil
}

// give gives the task what its client has answered, and reads it again.
func (f *fetching) give(ctx context.Context, answered []ownAnswer) error {
	if len(answered) == 0 {
		return nil
	}
	responses := make(map[string][]byte)
	for _, a := range answered {
		f.asked[a.key] = true
		if !a.row {
			responses[a.key] = a.raw
		} else if err := f.vote(ctx, a); err != nil {
			return err
		}
	}
	if len(responses) > 0 {
		all := func(*task.Task) error { return nil }
		late, err := f.answer(ctx, f.task.Principal, f.task.ID, all, responses, true)
		if err != nil {
			return f.failed(ctx, "answering a task", err)
		}
		if len(late) > 0 {
			f.note = fmt.Sprintf("The answer does not count: too late: the deadline of the question %q has passed.", late[0])
		}
	}
	t, err := f.Engine.Get(ctx, f.task.Principal, f.task.ID)
	if err != nil {
		return f.failed(ctx, "retrieving a task", err)
	}
	f.task = t
	return nil
}

// saysNothing reports whether an answer has no action.
func saysNothing(raw []byte) bool { return strictjson.Get(raw, "action") == nil }

// vote answers a question at the desk, unless the client has shown it to nobody.
func (f *fetching) vote(ctx context.Context, a ownAnswer) error {
	if _, shown, measured := question.After(a.raw); measured && !shown || saysNothing(a.raw) {
		return nil
	}
	action, err := question.Action(a.raw)
	if err != nil {
		return err
	}
	vote := desk.Answer{By: desk.Person{Name: f.task.Principal}, Action: action, Channel: input.ChannelHost}
	if action == "accept" {
		vote.Content = strictjson.Get(a.raw, "content")
	}
	_, err = f.Desk.People.Answer(ctx, task.Name(f.task.ID), a.key, vote)
	f.Engine.Changed(f.task.ID)
	if closed, ok := errors.AsType[*desk.ClosedError](err); ok { // somebody was quicker, perhaps this client
		f.note, err = "The answer does not count: "+closed.Error()+".", nil
	}
	if err != nil {
		return f.failed(ctx, "answering at the desk", err)
	}
	return nil
}

// errNoCall is the error for every name that is not one of a call of its caller.
var errNoCall = errors.New("no such call: give the name from the message of the call that waits")

// The bounds of a search for the calls of a principal.
const (
	leastName   = 6 // characters of a name that are enough
	searchPage  = 500
	mostSearch  = 10_000
	listedCalls = 20
)

// dialects are the dialects of all tasks.
var dialects = []string{"", home.DialectExtension, home.DialectProposal}

// ownCalls are the calls of a principal that are tasks.
type ownCalls struct {
	*Service
	principal string
}

// named finds the call of a principal by the beginning of its name, or the call of an anonymous caller by its ID.
func (o *ownCalls) named(ctx context.Context, name string) (t *task.Task, err error) {
	name = strings.TrimSpace(name)
	if o.principal != "" {
		name = strings.ToUpper(name)
		if name, err = o.find(ctx, name); err != nil {
			return nil, err
		}
	}
	t, err = o.Engine.Get(ctx, o.principal, name)
	if errors.Is(err, task.ErrNotFound) {
		return nil, errNoCall
	}
	if err != nil {
		return nil, o.failed(ctx, "retrieving a task", err)
	}
	return t, nil
}

// find returns the ID of the one task of a principal whose name begins like this.
func (o *ownCalls) find(ctx context.Context, name string) (id string, err error) {
	whole := len(task.Name(""))
	if len(name) < leastName || len(name) > whole {
		return "", errNoCall
	}
	if len(name) == whole {
		questions, err := o.Engine.Questions(ctx, name)
		if err != nil {
			return "", o.failed(ctx, "retrieving a task", err)
		}
		if len(questions) > 0 && questions[0].Principal == o.principal {
			return questions[0].Task, nil
		}
	}
	found := 0
	err = o.each(ctx, mostSearch, func(t *task.Task) {
		if strings.HasPrefix(task.Name(t.ID), name) {
			id = t.ID
			found++
		}
	})
	if err == nil && found != 1 {
		err = errNoCall
	}
	return id, err
}

// each calls do with the tasks of the principal, at most so many of each dialect, the newest first.
func (o *ownCalls) each(ctx context.Context, most int, do func(*task.Task)) error {
	for _, dialect := range dialects {
		var after *task.Task
		for n := 0; n < most; {
			page, err := o.Engine.List(ctx, o.principal, dialect, after, min(searchPage, most-n))
			if err != nil {
				return o.failed(ctx, "listing tasks", err)
			}
			if len(page) == 0 {
				break
			}
			for _, t := range page {
				do(t)
			}
			n, after = n+len(page), page[len(page)-1]
		}
	}
	return nil
}

// list lists the calls of the principal: those that have not ended, and then the others, each the newest first.
func (o *ownCalls) list(ctx context.Context) (*mcp.CallToolResult, error) {
	if o.principal == "" {
		return nil, errors.New("the name of a call is missing: give the name from the message of the call that waits")
	}
	var all []*task.Task
	if err := o.each(ctx, searchPage, func(t *task.Task) { all = append(all, t) }); err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b *task.Task) int {
		switch {
		case a.Status.Terminal() == b.Status.Terminal():
			return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(a.ID, b.ID))
		case b.Status.Terminal():
			return -1
		}
		return 1
	})
	lines := []string{"Your calls:"}
	if len(all) == 0 {
		lines = []string{"There are no calls of yours."}
	}
	for i, t := range all {
		if i == listedCalls {
			lines = append(lines, fmt.Sprintf("There are more: %d calls in all.", len(all)))
			break
		}
		line, err := o.line(ctx, t)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Join(lines, "\n")}}}, nil
}

// line is the line of a task in a list.
func (o *ownCalls) line(ctx context.Context, t *task.Task) (string, error) {
	how := string(t.Status)
	if t.Status == task.InputRequired { // of which a list may leave out the questions
		now, err := o.Engine.Get(ctx, t.Principal, t.ID)
		if err != nil && !errors.Is(err, task.ErrNotFound) {
			return "", o.failed(ctx, "retrieving a task", err)
		}
		if err == nil {
			t = now
		}
	}
	if !t.Status.Terminal() {
		how, _ = o.awaited(ctx, t)
	}
	since := t.Created.UTC().Format(question.TimeFormat)
	return fmt.Sprintf("- %s: %s, since %s: %s", task.Name(t.ID), t.Target, since, how), nil
}
