// Package desk is where people answer what the tasks of a server ask them, and where the operator looks after the
// tasks.
//
// A program lists what waits for a person, and hands on what the person answers:
//
//	d, err := desk.Open(store, nil) // the store of askback.Tasks
//	alice := desk.Person{Name: "alice", Groups: []string{"release"}}
//	for q, err := range d.Waiting(ctx, desk.Waiting{As: &alice}) {
//		… // q.Name, q.Key, q.Message, q.Schema
//	}
//	q, err := d.Answer(ctx, q.Name, q.Key, desk.Answer{By: alice, Action: "accept", Reason: "tested on staging"})
//
// An operator lists the tasks of everybody, and cancels one:
//
//	for t, err := range d.List(ctx, task.Filter{Statuses: []task.Status{task.InputRequired}}) {
//		… // t.Name, t.Principal, t.Questions
//	}
//	t, err := d.Cancel(ctx, "23WGRG", desk.Cancellation{By: "alice", Reason: "the host is being replaced"})
//
// A task is named as in logs, audit events and spans: see [task.Name]. Its ID is not shown, because the ID can be all
// that protects the task of an anonymous caller.
//
// A desk has the rights of the store. A [Person] is who the program says that it is: a program that lets others use a
// desk must find out who they are and which groups they belong to, each time that they answer. The desk itself sees to
// it that people answer only what they are asked, and not what their own call asks, unless it asks them by name. What
// is called without a person is for operators.
package desk

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/excerpt"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// Options configure a [Desk]. The zero value is ready to use.
type Options struct {
	// StoreTimeout bounds a call of the store; default 5 seconds.
	StoreTimeout time.Duration
}

// Desk shows the tasks of a store and what they ask, takes answers, and cancels tasks. It is safe for concurrent use.
// It holds nothing, and is not closed.
type Desk struct{ engine *taskrun.Engine }

// Open returns a desk on a store, which stays the caller's: it must stay open as long as the desk is used. Nil options
// are the zero Options. The error is for options that cannot be used.
func Open(store task.Store, opts *Options) (*Desk, error) {
	if store == nil {
		return nil, errors.New("desk: open a desk: there is no store")
	}
	var o taskrun.Options
	if opts != nil {
		o.StoreTimeout = opts.StoreTimeout
	}
	o.Logger = slog.New(slog.DiscardHandler) // every error is returned
	engine, err := taskrun.NewEngine(store, &o)
	if err != nil {
		return nil, fmt.Errorf("desk: open a desk: %w", err)
	}
	return &Desk{engine}, nil
}

// Task is a task as its operator sees it.
type Task struct {
	Name string `json:"name"` // see [task.Name]
	// Call is the call's ID, as Call.ID of package askback returns it in the task's handler. It is empty in a list, and
	// if another release has stored the task in a form that this one cannot read.
	Call      string      `json:"call,omitempty"`
	Principal string      `json:"principal"` // the owner; "" is the anonymous principal
	Method    string      `json:"method"`    // such as "tools/call"
	Target    string      `json:"target"`    // such as the name of the tool
	Status    task.Status `json:"status"`
	Message   string      `json:"statusMessage,omitempty"` // as the client sees it
	Created   time.Time   `json:"createdAt"`
	Updated   time.Time   `json:"lastUpdatedAt"`
	Expires   time.Time   `json:"expiresAt"`          // when its time to live ends
	Attempts  int         `json:"attempts,omitempty"` // claims since the task last recorded anything

	// Questions are open, and the task waits for them. Their keys are the keys that the handler chose.
	Questions []input.Question `json:"waitsFor,omitempty"`
	// Cancellation is set if a desk has cancelled the task. A list may leave it out.
	Cancellation *Cancellation `json:"cancellation,omitempty"`
}

// Cancellation is who cancelled a task in place of its client, and why. It is stored with the task, where every process
// that has the store can read it, and the instance that cleans up tells it to Options.Audit of package askback. The
// client does not see it.
type Cancellation struct {
	By     string    `json:"by"`     // who decided it, at most 256 bytes
	Reason string    `json:"reason"` // for people, at most 4096 bytes
	At     time.Time `json:"at"`     // by the clock of the store; the desk sets it
}

func (c *Cancellation) check() error {
	for _, f := range []struct {
		name, text string
		most       int
	}{{"By", c.By, question.MaxName}, {"Reason", c.Reason, mostReason}} {
		switch {
		case strings.TrimSpace(f.text) == "":
			return fmt.Errorf("its %s is empty: an audit needs to know who cancelled a task, and why", f.name)
		case len(f.text) > f.most:
			return fmt.Errorf("its %s has %d bytes: at most %d are kept", f.name, len(f.text), f.most)
		case !utf8.ValidString(f.text):
			return fmt.Errorf("its %s is not UTF-8", f.name)
		}
	}
	return nil
}

// page is the number of rows that a list reads from the store at once.
const page = 500

// List yields the tasks of all principals that the filter lets pass, in no particular order. It reads the store as it
// goes, so a task that is created meanwhile may be missing. An error with a task says that the task's questions cannot
// be read, and the list goes on; an error without a task ends it.
func (d *Desk) List(ctx context.Context, f task.Filter) iter.Seq2[*Task, error] {
	return func(yield func(*Task, error) bool) {
		for t, err := range d.rows(ctx, f) {
			var shown *Task
			if err == nil {
				shown, err = show(t)
			}
			if !yield(shown, err) {
				return
			}
		}
	}
}

func (d *Desk) rows(ctx context.Context, f task.Filter) iter.Seq2[*task.Task, error] {
	return func(yield func(*task.Task, error) bool) {
		for after := ""; ; {
			rows, err := d.engine.Select(ctx, f, after, page)
			if err != nil {
				yield(nil, fmt.Errorf("desk: list the tasks: %w", err))
				return
			}
			for _, t := range rows {
				if !yield(t, nil) {
					return
				}
			}
			if len(rows) == 0 {
				return
			}
			after = rows[len(rows)-1].ID
		}
	}
}

// Show reads one task. Name is its name, at least the first six characters of it, or its ID. The error is a
// [task.ErrNotFound] if no task has the name. An error with a task says that the task's questions cannot be read.
func (d *Desk) Show(ctx context.Context, name string) (*Task, error) {
	t, err := d.find(ctx, name, nil)
	if err != nil {
		return nil, fmt.Errorf("desk: show a task: %w", err)
	}
	id := t.ID
	if t, err = d.engine.Row(ctx, id); err != nil { // the row of a list may lack the outcome
		return nil, fmt.Errorf("desk: show the task %s: %w", task.Name(id), err)
	}
	shown, err := show(t)
	if err != nil {
		return shown, err
	}
	call, _, err := d.engine.Journal(ctx, t.ID, 0)
	if err != nil {
		return nil, fmt.Errorf("desk: show the task %s: %w", shown.Name, err)
	}
	if began, err := stored.DecodeCall(call); err == nil {
		shown.Call = journal.Derived("call", began.ID)
	}
	return shown, nil
}

// Cancel ends a task of any principal: its status is [task.Cancelled] when Cancel returns, and an instance that runs
// such tasks cleans up. Name is as in [Desk.Show]. By and Reason of the cancellation are required. The error is a
// [task.ErrEnded] if the task has ended before, and a [task.ErrNotFound] if no task that has not ended has the name.
func (d *Desk) Cancel(ctx context.Context, name string, c Cancellation) (*Task, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("desk: cancel a task: the cancellation: %w", err)
	}
	t, err := d.find(ctx, name, []task.Status{task.Working, task.InputRequired})
	if err != nil {
		return nil, fmt.Errorf("desk: cancel a task: %w", err)
	}
	var outcome []byte
	if c.At, err = d.engine.Now(ctx); err == nil {
		outcome, err = stored.EncodeCancellation(stored.Cancellation(c))
	}
	if err != nil {
		return nil, fmt.Errorf("desk: cancel the task %s: %w", task.Name(t.ID), err)
	}
	id := t.ID
	t, err = d.engine.Change(ctx, t.Principal, id, func(t *task.Task) (*task.Update, error) {
		if t.Status.Terminal() {
			return nil, fmt.Errorf("%w: it is %s", task.ErrEnded, t.Status)
		}
		return taskrun.Stop(t, task.Cancelled, "The task was cancelled by the operator of the server.", outcome), nil
	})
	if err != nil {
		return nil, fmt.Errorf("desk: cancel the task %s: %w", task.Name(id), err)
	}
	return show(t)
}

// enough is the number of characters of a name that tell one task from the others of a store.
const enough = 6

// find finds the task of a name, of the beginning of a name, or of an ID, among those with these statuses.
func (d *Desk) find(ctx context.Context, name string, statuses []task.Status) (*task.Task, error) {
	t, err := d.engine.Row(ctx, name)
	if err == nil || !errors.Is(err, task.ErrNotFound) {
		return t, err
	}
	if len(name) == nameLength { // the names of tasks that have asked people are in an index
		questions, err := d.engine.Questions(ctx, name)
		if err != nil {
			return nil, err
		}
		if len(questions) > 0 {
			t, err := d.engine.Row(ctx, questions[0].Task)
			if err != nil || statuses == nil || slices.Contains(statuses, t.Status) {
				return t, err
			}
		}
	}
	if len(name) < enough {
		return nil, fmt.Errorf("%w: at least %d characters of its name are needed", task.ErrNotFound, enough)
	}
	var found *task.Task
	begins := excerpt.Of(name, enough) + "…" // it may be an ID, which is a secret
	for t, err := range d.rows(ctx, task.Filter{Statuses: statuses}) {
		switch {
		case err != nil:
			return nil, err
		case !strings.HasPrefix(task.Name(t.ID), name):
		case found != nil:
			return nil, fmt.Errorf("several tasks have names that begin with %q: give more of it", begins)
		default:
			found = t
		}
	}
	switch {
	case found != nil:
		return found, nil
	case statuses != nil:
		return nil, fmt.Errorf("%w: none that has not ended has a name that begins with %q", task.ErrNotFound, begins)
	}
	return nil, fmt.Errorf("%w: none has a name that begins with %q", task.ErrNotFound, begins)
}

// show returns a task as an operator sees it. With an error its questions cannot be read.
func show(t *task.Task) (*Task, error) {
	questions, err := stored.Asked(t.Pending)
	shown := &Task{
		Name: task.Name(t.ID), Principal: t.Principal, Method: t.Method, Target: t.Target,
		Status: t.Status, Message: t.Message,
		Created: t.Created, Updated: t.Updated, Expires: t.Expires, Attempts: t.Attempts, Questions: questions,
	}
	if t.Status == task.Cancelled {
		if c, ok := stored.DecodeCancellation(t.Outcome); ok {
			shown.Cancellation = (*Cancellation)(&c)
		}
	}
	if err != nil {
		return shown, fmt.Errorf("desk: the task %s: %w", shown.Name, err)
	}
	return shown, nil
}
