package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
)

// row is a task as the database has it.
type row struct {
	name, order string
	bridge      bool
	status      task.Status
	text        string // its outcome
	questions   []*question
}

// question is a question as the database has it.
type question struct {
	*task.Question
	ballot  *stored.Ballot
	author  string // its key in the handler
	need    int    // how many must accept
	verdict string // its decision; empty without one
	decided time.Time
	page    string // its decision on the page
}

// settle waits until everything has ended as it should, or a bound has passed, and returns what has not.
func (w *world) settle(ctx context.Context) (violations []string, err error) {
	for until := time.Now().Add(noticeBound); ; {
		var rows []*row
		for _, name := range []string{"postgres", bridge} {
			if rows, err = w.readRows(ctx, name, rows); err != nil {
				return nil, fmt.Errorf("reading the tasks: %w", err)
			}
		}
		w.record.change(func() { w.record.rows = rows })
		violations = w.record.account()
		if len(violations) == 0 || time.Now().After(until) || !pause(ctx, time.Second) {
			return violations, ctx.Err()
		}
	}
}

// readRows reads the tasks of a database.
func (w *world) readRows(ctx context.Context, database string, all []*row) ([]*row, error) {
	store, err := postgres.Open(ctx, w.database.url(database))
	if err != nil {
		return nil, err
	}
	defer store.Close()
	for after := ""; ; {
		page, err := store.Select(ctx, task.Filter{}, after, 100)
		if err != nil || len(page) == 0 {
			return all, err
		}
		for _, t := range page {
			r := &row{name: task.Name(t.ID), bridge: database == bridge}
			if err := w.read(ctx, store, t.ID, r); err != nil {
				return nil, fmt.Errorf("%s: %w", r.name, err)
			}
			all = append(all, r)
		}
		after = page[len(page)-1].ID
	}
}

func (w *world) read(ctx context.Context, store task.Store, id string, r *row) error {
	data, _, err1 := store.Journal(ctx, id, -1)
	t, err2 := store.Get(ctx, id)
	questions, err3 := store.Questions(ctx, r.name)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	var call struct {
		Params struct{ Arguments struct{ ID string } }
	}
	if err := json.Unmarshal(data, &call); err != nil {
		return err
	}
	r.order, r.status = call.Params.Arguments.ID, t.Status
	var outcome rawclient.Result
	if t.Status == task.Completed && json.Unmarshal(t.Outcome, &outcome) == nil { // otherwise it is no result
		r.text = outcome.Text()
	}
	for _, row := range questions {
		q := &question{Question: row}
		asking, err1 := stored.DecodeAsking(row.Content)
		ballot, err2 := stored.DecodeBallot(row.Votes)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		q.ballot, q.author, q.need = ballot, asking.Key, asking.Votes
		if len(row.Decision) > 0 {
			d, err := stored.DecodeDecision(row.Decision)
			if err != nil {
				return err
			}
			q.verdict, q.decided, q.page = verdict(d.Action, d.By), d.When, w.readPage(ctx, r, q)
		}
		r.questions = append(r.questions, q)
	}
	return nil
}

// readPage reads the decision of a question on the page, once.
func (w *world) readPage(ctx context.Context, r *row, q *question) (decision string) {
	of, who := r.name+" "+q.Key, &person{w.record, "bob", w.inboxURL} // who is in both groups
	if r.bridge {
		who = &person{w.record, carol, w.bridgePageURL}
	}
	if decision = w.pages[of]; decision != "" || len(q.For) == 0 {
		return decision
	}
	var shown desk.Question
	status := who.ask(ctx, http.MethodGet, "/api/questions/"+r.name+"/"+url.PathEscape(q.Key), nil, &shown)
	if status != http.StatusOK || shown.Decision == nil {
		return "" // it is asked again
	}
	w.pages[of] = verdict(shown.Decision.Action, shown.Decision.By)
	return w.pages[of]
}
