package askbacktest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/bound"
	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/task"
)

// parked is a question that a round has left open, and that waits for people or for a time.
type parked struct {
	*question.Question
	pending journal.Question
}

// sleeps reports whether nobody answers the question.
func (w *parked) sleeps() bool { return w.Method == "" }

// rehearsal is the home of a call in a test. A call that waits for people or for a time stays with its client, who has
// nothing to answer, and goes on with the decisions of the probe.
type rehearsal struct {
	call.Home
	p *probe
}

// Home implements call.Probe. A call of a tool that may run as a task counts as one, because it may sleep, and so does
// one that has waited for people.
func (p *probe) Home(r *call.Request, h call.Home) call.Home {
	if r.Handler.Tasks != nil || p.isTask {
		r.Task = task.Name(theTask)
	}
	return &rehearsal{h, p}
}

// theTask is the ID of the only task of its store.
const theTask = "a task in a test"

func (h *rehearsal) Open(ctx context.Context) (call.Opened, error) {
	opened, err := h.Home.Open(ctx)
	opened.Sleeps, opened.Wait = opened.Wait != nil || opened.Sleeps, nil
	return opened, err
}

func (h *rehearsal) Begin(run *journal.Run, j *journal.Journal, answers call.Answers, limits *bound.Limits) {
	h.Home.Begin(run, j, answers, limits)
	run.Decided = func(_, row string, _ journal.Digest) (*journal.Entry, error) { return h.p.decisions[row], nil }
}

func (h *rehearsal) Suspend(
	ctx context.Context, j *journal.Journal, out *call.Outcome,
) (answers call.Answers, again bool, err error) {
	for i, q := range out.Questions {
		if q.Within > 0 {
			h.put(j, q, &j.Pending[i])
			j.Pending[i].Within = 0 // the deadline passes when the test says so
		}
	}
	if len(out.Questions) > 0 || len(out.Apart) == 0 {
		return h.Home.Suspend(ctx, j, out)
	}
	for i, q := range out.Apart {
		h.put(j, q, &j.Apart[i])
	}
	if j.Asleep {
		j.Entries = append(j.Entries, journal.Entry{Kind: journal.Slept})
	}
	carried, ok := h.Home.(interface {
		Seal(ctx context.Context, j *journal.Journal) (string, time.Time, error)
	})
	if !ok {
		return answers, false, errors.New("askbacktest: people answer calls over HTTP only")
	}
	out.State, out.Expires, err = carried.Seal(ctx, j)
	return answers, false, err
}

// put records that a question waits.
func (h *rehearsal) put(j *journal.Journal, q *question.Question, p *journal.Question) {
	if !p.Known {
		j.Entries = append(j.Entries, p.Put())
	}
	h.p.mu.Lock()
	defer h.p.mu.Unlock()
	h.p.parked = append(h.p.parked, parked{q, *p})
}

// addParked adds to a reply the questions that its client does not see.
func (r *reply) addParked(all []parked) error {
	for _, w := range all {
		if !w.pending.Apart {
			continue
		}
		shown, err := json.Marshal(map[string]any{
			"method": w.Method, "params": json.RawMessage(cmp.Or(string(w.Params()), "null")), "for": w.For, "votes": w.Votes,
		})
		if err != nil {
			return fmt.Errorf("the question %q: %w", w.pending.Key, err)
		}
		if r.outcome.Requests == nil {
			r.outcome.Requests = make(map[string]json.RawMessage)
		}
		r.outcome.Requests[w.pending.Wire] = shown
	}
	r.parked = all
	return nil
}

// asked returns the sorted keys of the questions of a reply; a sleep is not a question.
func (r *reply) asked() []string {
	keys := []string{} // not nil after a checkpoint
	for key := range r.outcome.Requests {
		if w := r.find(key); w == nil || !w.sleeps() {
			if own := authorKey(key); len(key) == len(own)+len("#")+2*len(journal.Digest{}) {
				key = own // another question of this key was asked before
			}
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// becomesTask reports whether a server would make a task of the call that has this reply.
func (r *reply) becomesTask() bool {
	return slices.ContainsFunc(r.parked, func(w parked) bool { return w.pending.Apart })
}

// find returns the question with a wire key that waits for people or for a time, or nil.
func (r *reply) find(wireKey string) *parked {
	for i := range r.parked {
		if r.parked[i].pending.Wire == wireKey {
			return &r.parked[i]
		}
	}
	return nil
}

// place is a desk on which people answer the questions of one round, on a store that has them as a server stores them.
type place struct {
	store task.MemoryStore
	desk  *desk.Desk
	name  string
}

func (d *driver) newPlace(all []parked) (*place, error) {
	p := &place{name: task.Name(theTask)}
	params, err := json.Marshal(d.params)
	if err != nil {
		return nil, fmt.Errorf("the arguments cannot be encoded: %w", err)
	}
	began := stored.Call{ID: theTask, Params: params}
	t := &task.Task{
		ID: theTask, Principal: d.call.Principal, Method: wire.CallTool, Target: d.target,
		Status: task.Working,
	}
	ctx := context.Background()
	if err := p.store.Create(ctx, t, ages, time.Hour, began.Append(nil), nil, task.Quota{}); err != nil {
		return nil, err
	}
	u := task.Update{Leased: true, Due: -1}
	for _, w := range all {
		content, err := stored.Encode(&stored.Asking{
			Key: w.pending.Key, Digest: w.pending.Digest[:], Method: w.Method, Params: w.Params(), Votes: w.Votes,
			Preview: w.Preview, Markdown: w.Markdown, Fallback: w.Fallback,
		})
		if err != nil {
			return nil, err
		}
		u.Ask = append(u.Ask, &task.Question{
			Task: theTask, Key: w.pending.Row, Principal: t.Principal, Target: t.Target, For: w.For, Content: content,
			Within: w.Within,
		})
	}
	t.Status = task.InputRequired
	if err := p.store.Update(ctx, t, u); err != nil {
		return nil, err
	}
	p.desk, err = desk.Open(&p.store, nil)
	return p, err
}

// row reads a question.
func (p *place) row(w *parked) (*task.Question, error) {
	rows, err := p.store.Questions(context.Background(), p.name)
	for _, q := range rows {
		if q.Key == w.pending.Row {
			return q, err
		}
	}
	return nil, errors.Join(err, task.ErrNotFound)
}

// expire lets the deadline of a question pass, by moving it to when it was asked for as long as that takes.
func (p *place) expire(w *parked) error {
	q, err := p.row(w)
	if err != nil {
		return err
	}
	deadline := q.Deadline
	q.Deadline = q.Asked
	if err := p.store.ChangeQuestion(context.Background(), q, false); err != nil {
		return err
	}
	q.Deadline = deadline
	if q.Decision, err = stored.Encode(&stored.Decision{Action: stored.Unanswered, When: deadline}); err != nil {
		return err
	}
	return p.store.ChangeQuestion(context.Background(), q, true)
}

// decide has people do with the questions of a round what the script says, and returns the decisions by the keys of
// their rows.
func (d *driver) decide(res *Result, r *reply) map[string]*journal.Entry {
	d.t.Helper()
	decisions := make(map[string]*journal.Entry)
	if len(r.parked) == 0 {
		return decisions
	}
	p, err := d.newPlace(r.parked)
	if err != nil {
		d.t.Fatalf("askbacktest: %v", err)
	}
	for i := range r.parked {
		w := &r.parked[i]
		asked := r.outcome.Requests[w.pending.Wire]
		switch {
		case w.pending.Apart && !w.sleeps():
			err = d.vote(res, p, w, asked)
		case w.sleeps() || d.isUnanswered(w.pending.Wire, asked):
			err = p.expire(w)
		default: // the client answers
			continue
		}
		var q *task.Question
		if err == nil {
			q, err = p.row(w)
		}
		if err == nil && q.Status != task.QuestionDecided {
			d.t.Fatalf("askbacktest: the question %q has too few votes: add them to Call.Answers[%[1]q], or Unanswered()",
				w.pending.Key)
		}
		var made *stored.Decision
		if err == nil {
			made, err = stored.DecodeDecision(q.Decision)
		}
		if err != nil {
			d.t.Fatalf("askbacktest: the question %q: %v", w.pending.Key, err)
		}
		decisions[w.pending.Row] = home.Settled(w.pending.Key, w.pending.Digest, q, made)
	}
	return decisions
}

// vote gives the answers of people to a question.
func (d *driver) vote(res *Result, p *place, w *parked, asked json.RawMessage) error {
	d.t.Helper()
	key := w.pending.Key
	name, all := d.answersTo(w.pending.Wire, asked)
	if len(all) == 0 {
		d.t.Fatalf("askbacktest: no answer for the question %q (%q), which is for %s: add one to Call.Answers", key,
			cut(message(asked)), strings.Join(w.For, ", "))
	}
	turn := min(d.turns[name], len(all)-1)
	d.turns[name] = len(all)
	for _, g := range all[turn:] {
		if g.unanswered {
			if w.Within == 0 {
				d.t.Fatalf("askbacktest: the question %q has no deadline that could pass: set its Within", key)
			}
			if err := p.expire(w); err != nil {
				return err
			}
			continue
		}
		if g.by == nil {
			d.t.Fatalf("askbacktest: the question %q is for %s: name with By who answers", key, strings.Join(w.For, ", "))
		}
		var said struct {
			Action  string
			Content json.RawMessage
		}
		if err := json.Unmarshal(g.result, &said); err != nil {
			return err
		}
		_, err := p.desk.Answer(context.Background(), p.name, w.pending.Row, desk.Answer{
			By: *g.by, Action: said.Action, Content: said.Content, Reason: g.why,
		})
		if invalid, ok := errors.AsType[*desk.InvalidError](err); ok {
			d.t.Fatalf("askbacktest: the answer of %s to the question %q: %s: correct Call.Answers[%q]", g.by.Name, key,
				invalid.Reason, name)
		}
		if err != nil {
			res.Refused = append(res.Refused, fmt.Errorf("the answer of %s to the question %q: %w", g.by.Name, key, err))
		}
	}
	return nil
}
