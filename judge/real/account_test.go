package main

import (
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/task"
)

// honest is the record of an order that two people have approved, and of a call that must not be repeated.
func honest() *record {
	at := time.Now()
	decided := "accept by ada and bob"
	r := &record{
		tried: []vote{{"TASK", "approve", "ada", "accept"}, {"TASK", "approve", "bob", "accept"}},
		rows: []*row{{name: "TASK", order: "a", status: task.Completed, text: "a: " + decided, questions: []*question{{
			Question: &task.Question{Key: "approve", For: []string{"group:finance"}, Deadline: at.Add(time.Hour), Changed: at},
			ballot: &stored.Ballot{Votes: []stored.Vote{
				{Who: "ada", Action: "accept", When: at}, {Who: "bob", Action: "accept", When: at},
			}},
			author: "approve", need: 2, verdict: decided, page: decided, decided: at,
		}}}},
		effects: []effect{{ID: "a", Key: "key", Verdict: decided, PID: 7, at: at}, {ID: "b", at: at}},
		calls: []*call{{id: "a", tool: "refund", way: "words", began: at, ended: at, end: done, text: "a: " + decided},
			{id: "b", tool: "once", way: bridge, began: at, ended: at, end: done, text: "done b"}},
	}
	r.taken = r.tried
	for _, kind := range []task.NoticeKind{task.NoticeAsked, task.NoticeDecided, task.NoticeEnded} {
		r.notices = append(r.notices, notice{desk.Notice{Name: "TASK", Key: "approve", Kind: kind, Time: at}, at})
	}
	return r
}

// The account finds each violation that is planted in an honest record, and none in the record itself.
func TestAccountFindsViolations(t *testing.T) {
	if found := honest().account(); len(found) > 0 {
		t.Errorf("an honest record: %q", found)
	}
	for want, plant := range map[string]func(r *record, q *question){
		"acknowledged, and is lost": func(_ *record, q *question) { q.ballot.Votes = q.ballot.Votes[:1] },
		"its votes say":             func(_ *record, q *question) { q.verdict, q.page = "decline by eve", "" },
		"that nobody gave":          func(r *record, _ *question) { r.tried = r.tried[:1] },
		"after its deadline":        func(_ *record, q *question) { q.Deadline = q.decided },
		"counts bob twice":          func(_ *record, q *question) { q.ballot.Votes[0].Who = "bob" },
		"the page says":             func(_ *record, q *question) { q.page = unanswered },
		"and people decided":        func(r *record, _ *question) { r.rows[0].text = "a: decline by bob" },
		"is paid because of":        func(r *record, _ *question) { r.effects[0].Verdict = "accept by eve" },
		"has 0 effects":             func(r *record, _ *question) { r.effects = r.effects[1:] },
		"has two tasks":             func(r *record, _ *question) { r.rows = append(r.rows, r.rows[0]) },
		"nothing kept":              func(r *record, _ *question) { r.effects = append(r.effects, r.effects[0]) },
		"with the keys":             func(r *record, _ *question) { r.effects = append(r.effects, effect{ID: "a"}) },
		"these notices arrived":     func(r *record, _ *question) { r.notices = r.notices[:2] },
		"from what happened":        func(r *record, _ *question) { r.notices[2].at = time.Now().Add(time.Hour) },
		"has not ended: it is":      func(r *record, _ *question) { r.rows[0].status = task.InputRequired },
		"has not ended: nothing":    func(r *record, _ *question) { r.calls[0].end, r.calls[0].text = "", "nothing" },
		`ended with "done"`:         func(r *record, _ *question) { r.calls[0].text = "done" },
		"done 2 times":              func(r *record, _ *question) { r.effects = append(r.effects, r.effects[1]) },
		"and has an effect":         func(r *record, _ *question) { r.calls[1].end = unsent },
		"decision to its result":    func(r *record, _ *question) { r.calls[0].ended = time.Now().Add(time.Hour) },
		"were only restarted":       func(r *record, _ *question) { r.calls[1].end, r.quiet = lost, time.Now().Add(1) },
		"a notice is not signed":    func(r *record, _ *question) { r.violate("a notice is not signed") },
	} {
		r := honest()
		plant(r, r.rows[0].questions[0])
		if found := strings.Join(r.account(), "\n"); !strings.Contains(found, want) {
			t.Errorf("want %q, and the account finds %q", want, found)
		}
	}
}
