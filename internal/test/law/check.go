package law

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/test/program"
	"github.com/askback-mcp/askback/task"
)

// check compares the end of a call with what the interpreter makes of what people have decided and the client has
// answered.
func (c *caller) check(ctx context.Context, content any) {
	text, _ := content.(string)
	var end result
	if err := json.Unmarshal([]byte(text), &end); err != nil {
		c.violate("call %d: the result is %q: %v", c.number, text, err)
		return
	}
	t, entries := c.find(ctx, c.number)
	outcomes := make(map[string]string)
	if t != nil {
		c.checkRows(ctx, t, entries, end, outcomes)
	}
	c.clientOutcomes(end, outcomes)
	want, err := c.program.Expect(outcomes)
	if err != nil {
		c.violate("call %d ended with %q, but %v", c.number, end.Trace, err)
		return
	}
	recorded := c.checkSteps(t, entries, end, want.Steps)
	runs := c.ran(c.number)
	for _, step := range want.Unrecorded {
		if len(runs.Numbers()[step]) == 0 {
			c.violate("call %d: the step %s was not tried", c.number, step)
		}
	}
	if ahead := runs.Ahead(); len(ahead) > 0 {
		c.violate("call %d: the steps %q ran while a question was open", c.number, ahead)
	}
	if trace := want.Trace(recorded); !slices.Equal(trace, end.Trace) {
		c.violate("call %d differs from the program run once:\n got %q\nwant %q", c.number, end.Trace, trace)
	}
	faults := c.faults(c.part.Name)
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, a := range asks {
		if a.host && !c.whole && faults > 0 {
			continue // a client that has lost a response carries the journal before it, and may come back after the deadline
		}
		for _, release := range []int{1, 2} {
			if seen := c.outcomes[fmt.Sprint(c.number, release, key)]; len(seen) > 1 {
				c.bad = append(c.bad, fmt.Sprintf("call %d: its runs saw %q become of the question %q in the words of release %d",
					c.number, seen, key, release))
			}
		}
	}
}

// checkFailure checks that a call that failed has waited too long for people: since it began, asked, or learned a
// decision it had its time to live, and no deadline has still to come.
func (c *caller) checkFailure(ctx context.Context, now map[string]any) error {
	t, _ := c.find(ctx, c.number)
	if t == nil || t.Status != task.Failed || c.TTL == 0 {
		if c.losses() > 0 {
			return errGone
		}
		c.violate("call %d is %v: %v of %s", c.number, now["status"], now, c.program)
		return nil
	}
	times := []time.Time{t.Created}
	rows, _ := c.Store.Questions(ctx, task.Name(t.ID))
	for _, row := range rows {
		times = append(times, row.Asked)
		if d, err := stored.DecodeDecision(row.Decision); err == nil {
			times = append(times, d.When)
		}
		if row.Deadline.After(t.Updated) {
			c.violate("call %d failed %v before the deadline of %q", c.number, row.Deadline.Sub(t.Updated), row.Key)
		}
	}
	if lived := t.Updated.Sub(slices.MaxFunc(times, time.Time.Compare)); lived < time.Duration(c.TTL)*c.Unit {
		c.violate("call %d failed %v after what it has learned or asked last: %s", c.number, lived, c.program)
	}
	return nil
}

// cleanedUp reports whether a call that was cancelled has cleaned up.
func (c *caller) cleanedUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cleaned[c.number] == 0 {
		return false
	}
	c.summary.Cancelled++
	return true
}

// faults counts what may have made a call run a step again: what came to the servers, or to its host.
func (l *law) faults(host string) (n int) {
	for _, e := range l.sim.Events() {
		who, _, _ := strings.Cut(e.What, ":")
		if who == "world" || who == host || strings.HasPrefix(who, "server ") {
			n++
		}
	}
	return n
}

// find returns the task of a call, or nil if it never became one, and its journal.
func (l *law) find(ctx context.Context, number int) (t *task.Task, entries []journal.Entry) {
	for _, candidate := range l.tasks(ctx) {
		call, raw, err := l.Store.Journal(ctx, candidate.ID, -1)
		if err != nil && !errors.Is(err, task.ErrNotFound) {
			l.violate("call %d: the journal of %s: %v", number, candidate.ID, err)
		}
		if !strings.Contains(string(call), fmt.Sprintf(`"call":%d}`, number)) {
			continue
		}
		for _, data := range raw {
			e, err := journal.DecodeEntry(data)
			if err != nil {
				l.violate("call %d: its journal: %v", number, err)
			}
			entries = append(entries, e)
		}
		return candidate, entries
	}
	return nil, nil
}

// checkRows checks the questions of a task, and adds what has become of those in the words of a release.
func (c *caller) checkRows(
	ctx context.Context, t *task.Task, entries []journal.Entry, end result, outcomes map[string]string,
) {
	rows, err := c.Store.Questions(ctx, task.Name(t.ID))
	if err != nil {
		c.violate("call %d: its questions: %v", c.number, err)
	}
	known := make(map[string]string)
	for _, row := range rows {
		asking, err := stored.DecodeAsking(row.Content)
		if err != nil {
			c.violate("call %d: %v", c.number, err)
			continue
		}
		id := fmt.Sprintf("%s %x", asking.Key, asking.Digest)
		if before, twice := known[id]; twice {
			c.violate("call %d: the rows %q and %q are of one question", c.number, before, row.Key)
		}
		known[id] = row.Key
		outcome := c.checkRow(row, asking)
		copies := c.checkCopies(row, asking, outcome, entries)
		if outcome == "" {
			continue
		}
		// What is asked of the client beside a deadline is in Pending only.
		if inWords := string(asking.Params) == "" && !asks[asking.Key].host ||
			strings.Contains(string(asking.Params), fmt.Sprintf("release %d?", end.Release)); inWords {
			outcomes[asking.Key] = outcome
			if copies == 0 && slices.Contains(end.Trace, asking.Key+"="+outcome) {
				c.violate("call %d: its journal lacks what has become of the question %q", c.number, row.Key)
			}
		}
	}
}

// checkRow checks the votes of a question, and returns its outcome.
func (c *caller) checkRow(row *task.Question, asking *stored.Asking) (outcome string) {
	name := fmt.Sprintf("call %d: the question %q", c.number, row.Key)
	ballot, err := stored.DecodeBallot(row.Votes)
	if err != nil {
		c.violate("%s: %v", name, err)
		return ""
	}
	counted := c.checkVotes(row, ballot, name)
	if row.Status != task.QuestionDecided {
		return ""
	}
	d, err := stored.DecodeDecision(row.Decision)
	if err != nil {
		c.violate("%s: %v", name, err)
		return ""
	}
	c.mu.Lock()
	c.summary.Decided++
	if d.Action == stored.Unanswered {
		c.summary.Unanswered++
	}
	c.mu.Unlock()
	var who []string
	for _, by := range d.By {
		who = append(who, by.Who)
	}
	switch {
	case d.Action == stored.Unanswered && (len(who) > 0 || row.Deadline.IsZero()):
		c.violate("%s: %v made it unanswered, with the deadline %v", name, who, row.Deadline)
	case d.Action == "accept" && len(who) != asking.Votes:
		c.violate("%s: %d votes accepted it, want %d", name, len(who), asking.Votes)
	case d.Action != stored.Unanswered && len(who) == 0:
		c.violate("%s: nobody decided it", name)
	}
	if d.Action == stored.Unanswered {
		return d.Action
	}
	if outcome = d.Action; d.Action == "accept" && asks[asking.Key].form {
		var n number
		_ = json.Unmarshal(d.Content, &n)
		outcome = fmt.Sprintf("accept %d", n.N)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, person := range who {
		if given := c.given[nameOf(row)+" "+person]; !counted[person] || !slices.Contains(given, outcome) {
			c.bad = append(c.bad, fmt.Sprintf("%s: %s decided it with %q, and has said %q", name, person, outcome, given))
		}
	}
	return outcome + " by " + strings.Join(who, "+")
}

// checkVotes checks that each vote is there once, if its person was told so, and returns who counts.
func (c *caller) checkVotes(row *task.Question, ballot *stored.Ballot, name string) (counted map[string]bool) {
	counted = make(map[string]bool)
	for i, v := range ballot.Votes {
		if i >= ballot.From && counted[v.Who] {
			c.violate("%s: %s is counted twice", name, v.Who)
		}
		counted[v.Who] = counted[v.Who] || i >= ballot.From
		if !row.Deadline.IsZero() && !v.When.Before(row.Deadline) {
			c.violate("%s: %s voted %v after its deadline", name, v.Who, v.When.Sub(row.Deadline))
		}
	}
	c.mu.Lock()
	cast, refused := c.cast[nameOf(row)], c.refused[nameOf(row)]
	c.mu.Unlock()
	for _, v := range refused {
		if counted[v.who] && !slices.ContainsFunc(slices.Concat(cast, refused), func(b vote) bool {
			return b.who == v.who && (b.action == "" || slices.Contains(cast, b))
		}) {
			c.violate("%s: %s was told that no vote of theirs is there", name, v.who)
		}
	}
	for _, v := range cast {
		if !slices.ContainsFunc(ballot.Votes, func(b stored.Vote) bool { return b.Who == v.who && b.Action == v.action }) {
			c.violate("%s: the vote of %s is lost", name, v.who)
		}
	}
	return counted
}

// checkCopies checks that the journal has what a question has become at most once, and returns how often.
func (c *caller) checkCopies(
	row *task.Question, asking *stored.Asking, outcome string, entries []journal.Entry,
) (n int) {
	for _, e := range entries {
		settles := e.Kind == journal.Answer || e.Kind == journal.Unread || e.Kind == journal.Unanswered
		if !settles || e.Key != asking.Key || !slices.Equal(e.Digest[:], asking.Digest) {
			continue
		}
		n++
		if signed := len(row.For) > 0 && e.Kind == journal.Answer; signed != (e.Receipt != nil) ||
			signed && !strings.Contains(string(e.Receipt), fmt.Sprintf(`"task":%q`, nameOf(row)[:26])) {
			c.violate("call %d: the answer to %q has the receipt %q", c.number, row.Key, e.Receipt)
		}
		for _, by := range e.By {
			if !row.Deadline.IsZero() && !by.When.Before(row.Deadline) {
				c.violate("call %d: the answer to %q came %v after its deadline", c.number, row.Key, by.When.Sub(row.Deadline))
			}
		}
		late := e.Kind == journal.Unanswered
		if host := len(row.For) == 0; !host && outcome == "" || late != (outcome == "unanswered") {
			c.violate("call %d: the question %q has become %q, and the journal has %q of it", c.number, row.Key, outcome, e.Kind)
		}
	}
	if n > 1 {
		c.violate("call %d: the journal has %d answers to %q", c.number, n, row.Key)
	}
	return n
}

// clientOutcomes adds the outcomes of the client's questions: of several answers the result says which one counted.
func (c *caller) clientOutcomes(end result, outcomes map[string]string) {
	for _, line := range end.Trace {
		key, outcome, _ := strings.Cut(line, "=")
		if !asks[key].host || outcome == "unanswered" {
			if asks[key].host {
				outcomes[key] = outcome
			}
			continue
		}
		c.mu.Lock()
		given := c.given[fmt.Sprint(c.number, words(key, end.Release))]
		c.mu.Unlock()
		if !slices.Contains(given, outcome) {
			c.violate("call %d: the answer to %q is %q, and those that were given are %q", c.number, key, outcome, given)
		}
		if before, known := outcomes[key]; known && before != outcome {
			c.violate("call %d: the answer to %q is %q and %q", c.number, key, before, outcome)
		}
		outcomes[key] = outcome
	}
}

// checkSteps checks what was recorded, and returns the number of the run of each step.
func (c *caller) checkSteps(t *task.Task, entries []journal.Entry, end result, steps []string) map[string]int64 {
	recorded := make(map[string]int64)
	for _, e := range entries {
		if e.Kind != journal.Step {
			continue
		}
		if _, twice := recorded[e.Key]; twice {
			c.violate("call %d: the step %s is recorded twice", c.number, e.Key)
		}
		recorded[e.Key] = program.Number(e.Value)
	}
	runs := c.ran(c.number).Numbers()
	lost, restored := c.faults(c.part.Name), c.losses() > 0
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, name := range steps {
		kept := slices.ContainsFunc(steps[i:], func(later string) bool { return recorded[later] != 0 })
		// The client carries the journal, and may carry an older one again; or the store has lost its end.
		if t == nil || restored && !kept {
			recorded[name] = end.number(name)
		}
		n, ok := recorded[name]
		if program.NeverTwice(name) {
			unknown := n == 0 && end.number(name) == 0 && lost > 0
			if recorded[name] = n; !unknown && !slices.Contains(runs[name], n) || len(runs[name]) > 1 && !restored {
				c.bad = append(c.bad, fmt.Sprintf("call %d: the step %s is recorded as %d, of the runs %v, and must not run twice",
					c.number, name, n, runs[name]))
			}
			if unknown {
				c.summary.Unknown++
			}
			continue
		}
		c.summary.Repeated += len(runs[name]) - 1
		if !ok || !slices.Contains(runs[name], n) || len(runs[name])-1 > lost {
			c.bad = append(c.bad, fmt.Sprintf("call %d: the step %s is recorded as %d, of the runs %v, with %d faults",
				c.number, name, n, runs[name], lost))
		}
	}
	return recorded
}
