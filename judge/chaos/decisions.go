package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/task"
)

// question is a question of deploy with all that is known of it.
type question struct {
	*task.Question
	asking   *stored.Asking
	ballot   *stored.Ballot
	decision *stored.Decision // nil if there is none
}

// judge checks that each call of deploy has ended as people have decided: that no vote is lost, counted twice or late,
// that each decision is in the journal once, and that deadlines are decided in time. Over says that all calls should
// have ended.
func (p *people) judge(ctx context.Context, over bool) error {
	tasks, err := p.tasks(ctx)
	if err != nil {
		return err
	}
	changes, _, err := p.observer.changes(ctx)
	if err != nil {
		return err
	}
	found := make(map[string]bool)
	var all []*question
	for _, t := range tasks {
		call, entries, err := p.store.Journal(ctx, t.ID, -1)
		if err != nil {
			return err
		}
		found[version(call)] = true
		rows, err := p.store.Questions(ctx, task.Name(t.ID))
		if err != nil {
			return err
		}
		questions := make(map[string]*question)
		for _, row := range rows {
			q, err := p.read(row)
			if err != nil {
				return err
			}
			questions[q.asking.Key], all = q, append(all, q)
			p.checkVotes(q)
			p.checkJournal(t, q, entries)
			p.checkDeadline(q, changes)
		}
		full, err := p.store.Get(ctx, t.ID) // with its outcome
		if err != nil {
			return err
		}
		if over || t.Status.Terminal() {
			p.checkEnd(full, version(call), questions)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checkTaken(ctx)
	if !over {
		return nil
	}
	p.count(all)
	p.ledger.count(deployments, len(tasks))
	p.ledger.count(unacknowledged, -len(tasks)) // which the customers of machines do not know of
	for _, v := range p.versions {
		if !found[v] {
			p.ledger.violate(kindLost, "deploy %s: its call was acknowledged, and there is no task", v)
		}
	}
	return nil
}

// count counts what has become of all questions, at the end.
func (p *people) count(questions []*question) {
	for _, q := range questions {
		switch {
		case q.decision == nil:
		case q.decision.Action == stored.Unanswered:
			p.ledger.count(unanswered, 1)
		default:
			p.ledger.count(decisions, 1)
		}
	}
}

func (p *people) read(row *task.Question) (q *question, err error) {
	q = &question{Question: row}
	if q.asking, err = stored.DecodeAsking(row.Content); err == nil {
		q.ballot, err = stored.DecodeBallot(row.Votes)
	}
	if err == nil && len(row.Decision) > 0 {
		q.decision, err = stored.DecodeDecision(row.Decision)
	}
	return q, err
}

func (q *question) String() string {
	return fmt.Sprintf("the question %q of the task %s", q.Key, task.Name(q.Task))
}

// checkVotes checks the votes of a question, and that its decision is theirs.
func (p *people) checkVotes(q *question) {
	counted := make(map[string]bool)
	var who []string
	for i, v := range q.ballot.Votes {
		p.mu.Lock()
		tried, known := p.votes[v.Why]
		p.mu.Unlock()
		if !known || tried.who != v.Who || tried.action != v.Action || tried.key != q.Key {
			p.ledger.violate(kindWrong, "%s has a vote of %s that nobody has given", q, v.Who)
		}
		if !q.Deadline.IsZero() && !v.When.Before(q.Deadline) {
			p.ledger.violate(kindChanged, "%s has a vote of %s %v after its deadline", q, v.Who, v.When.Sub(q.Deadline))
		}
		if i < q.ballot.From {
			continue
		}
		if counted[v.Who] {
			p.ledger.violate(kindRepeated, "%s counts %s twice", q, v.Who)
		}
		counted[v.Who], who = true, append(who, v.Who)
	}
	want := ""
	switch n := len(q.ballot.Votes); {
	case n > 0 && q.ballot.Votes[n-1].Action != "accept":
		want = q.ballot.Votes[n-1].Action
	case len(who) >= q.asking.Votes:
		want = "accept"
	}
	switch d := q.decision; {
	case d == nil && want != "":
		p.ledger.violate(kindLost, "%s has enough votes, and no decision", q)
	case d == nil:
	case want == "" && d.Action != stored.Unanswered, want != "" && d.Action != want:
		p.ledger.violate(kindChanged, "%s was decided as %q, and its votes say %q", q, d.Action, want)
	case d.Action != stored.Unanswered && !slices.Equal(names(d), who):
		p.ledger.violate(kindChanged, "%s was decided by %v, and the votes are of %v", q, names(d), who)
	}
}

func names(d *stored.Decision) (who []string) {
	for _, by := range d.By {
		who = append(who, by.Who)
	}
	return who
}

// checkTaken checks that no vote is lost that was acknowledged. The mutex is locked.
func (p *people) checkTaken(ctx context.Context) {
	for reason, v := range p.votes {
		if !v.taken {
			continue
		}
		rows, err := p.store.Questions(ctx, v.task)
		there := err == nil && slices.ContainsFunc(rows, func(row *task.Question) bool {
			return row.Key == v.key && strings.Contains(string(row.Votes), `"`+reason+`"`)
		})
		again := err == nil && slices.ContainsFunc(rows, func(row *task.Question) bool { // the same vote with another reason
			return row.Key == v.key && strings.Contains(string(row.Votes), fmt.Sprintf(`{"who":%q`, v.who))
		})
		if !there && !again {
			p.ledger.violate(kindLost, "the vote of %s on %q of the task %s was acknowledged, and is not there", v.who, v.key,
				v.task)
		}
	}
}

// checkJournal checks that the journal of a task has what a question has become, once.
func (p *people) checkJournal(t *task.Task, q *question, entries [][]byte) {
	copies := 0
	for _, data := range entries {
		e, err := journal.DecodeEntry(data)
		settles := e.Kind == journal.Answer || e.Kind == journal.Unread || e.Kind == journal.Unanswered
		if err != nil || !settles || e.Key != q.asking.Key {
			continue
		}
		copies++
		late := q.decision != nil && q.decision.Action == stored.Unanswered
		if q.decision == nil || (e.Kind == journal.Unanswered) != late {
			p.ledger.violate(kindWrong, "%s is settled in the journal, with the decision %+v", q, q.decision)
		}
	}
	if copies > 1 {
		p.ledger.violate(kindRepeated, "%s is settled %d times in the journal", q, copies)
	}
	if copies == 0 && t.Status == task.Completed {
		p.ledger.violate(kindLost, "%s is not settled in the journal of a task that is completed", q)
	}
}

// checkDeadline checks that a question which nobody answered was decided in time: within a second of its deadline, or
// of the time from which a server listens again. If servers are stopped, or cut off from their database, it is a little
// longer than a lease after the end of that.
func (p *people) checkDeadline(q *question, changes []change) {
	if q.decision == nil || q.decision.Action != stored.Unanswered {
		return
	}
	i := slices.IndexFunc(changes, func(c change) bool {
		return c.task == q.Task && c.oldStatus == "input_required" && c.status == "working"
	})
	if i < 0 {
		return // the task was not parked at that time
	}
	from := q.Deadline
	p.mu.Lock()
	for _, s := range p.down {
		if s.from.Before(changes[i].at) && s.to.After(from) {
			from = s.to
		}
	}
	p.mu.Unlock()
	most := time.Second + slack
	if slices.ContainsFunc(p.faults, func(f string) bool { return f != faultKill }) {
		most += longerThanALease // a person who decides may be waiting for what was sent before
		from = p.ledger.untroubled(from, changes[i].at)
	}
	after := changes[i].at.Sub(from)
	p.ledger.longest(after)
	if after > most {
		p.ledger.violate(kindLost, "%s was decided %v after its deadline", q, after.Round(time.Millisecond))
	}
}

// checkEnd checks that a call has ended as was decided.
func (p *people) checkEnd(t *task.Task, version string, questions map[string]*question) {
	if t.Status != task.Completed {
		p.ledger.violate(kindLost, "deploy %s is %s %v after the last fault", version, t.Status, drain)
		return
	}
	var result struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(t.Outcome, &result); err != nil || len(result.Content) != 1 {
		p.ledger.violate(kindWrong, "deploy %s: its outcome is %s", version, t.Outcome)
		return
	}
	if got, want := result.Content[0].Text, expect(version, questions); got != want {
		p.ledger.violate(kindWrong, "deploy %s: %q, and people have decided %q", version, got, want)
	}
}

// expect is what deploy says when it runs once, with all decisions at hand.
func expect(version string, questions map[string]*question) string {
	q := questions["approve"]
	if q != nil && q.decision != nil && q.decision.Action == stored.Unanswered {
		q = questions["escalate"]
	}
	if q == nil || q.decision == nil {
		return "nothing"
	}
	if d := q.decision; d.Action != "accept" {
		return fmt.Sprintf("Version %s is not deployed: %s declined, because: %s.", version, d.By[0].Who, d.By[0].Why)
	}
	return fmt.Sprintf("Version %s is deployed, approved by %s.", version, strings.Join(names(q.decision), " and "))
}
