package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/task"
)

// inertLine encodes a value as JSON on one line in which nothing acts on a terminal.
func inertLine(v any) string { return endLine(inert([]byte(compact(v)))) }

func inboxTable(rows []string) string {
	if rows == nil {
		return "nothing waits\n"
	}
	return table(append([]string{"TASK\tKEY\tTOOL\tCALLER\tFOR\tVOTES\tWAITS\tDEADLINE\tQUESTION"}, rows...))
}

func inboxRow(q *desk.Question, now time.Time) string {
	return strings.Join([]string{
		q.Name, harmlessLine(q.Key, 30), harmlessLine(q.Target, 30), harmlessLine(callerName(q), 30),
		harmlessLine(keys(q.For), 40), fmt.Sprintf("%d of %d", len(q.Count), q.Votes), span(now.Sub(q.Asked)),
		deadlineText(q, now), harmlessLine(q.Message, 60),
	}, "\t")
}

// historyTable shows what became of questions.
func historyTable(rows []string) string {
	if rows == nil {
		return "there is nothing\n"
	}
	return table(append([]string{"TASK\tKEY\tTOOL\tCALLER\tASKED\tSTATUS\tQUESTION"}, rows...))
}

func historyRow(q *desk.Question, now time.Time) string {
	return strings.Join([]string{
		q.Name, harmlessLine(q.Key, 30), harmlessLine(q.Target, 30), harmlessLine(callerName(q), 30),
		span(now.Sub(q.Asked)) + " ago", harmlessLine(standing(q), 60), harmlessLine(q.Message, 60),
	}, "\t")
}

func callerName(q *desk.Question) string { return cmp.Or(q.Principal, "(anonymous)") }

func deadlineText(q *desk.Question, now time.Time) string {
	switch {
	case q.Deadline.IsZero():
		return "none"
	case q.Deadline.After(now):
		return "in " + span(q.Deadline.Sub(now))
	}
	return "passed"
}

// standing says how a question stands, in a few words.
func standing(q *desk.Question) string {
	switch {
	case q.Decision != nil && len(q.Decision.By) == 0:
		return "unanswered: the deadline has passed"
	case q.Decision != nil:
		var who []string
		for _, by := range q.Decision.By {
			who = append(who, harmlessLine(by.Who, 60))
		}
		return fmt.Sprintf("decided: %s by %s", q.Decision.Action, strings.Join(who, " and "))
	case q.Status == task.QuestionOpen:
		return fmt.Sprintf("open: %d of %d votes", len(q.Count), q.Votes)
	}
	return "withdrawn: the call has ended, or no longer asks"
}

// inboxFacts shows all of a question except what is asked.
func inboxFacts(q *desk.Question, now time.Time) string {
	rows := []string{
		"task\t" + q.Name, "key\t" + harmlessLine(q.Key, 200), "status\t" + standing(q),
		"tool\t" + harmlessLine(q.Target, 100), "caller\t" + harmlessLine(callerName(q), 100),
		"for\t" + harmlessLine(keys(q.For), 200), "asked\t" + span(now.Sub(q.Asked)) + " ago",
	}
	add := func(name, format string, args ...any) { rows = append(rows, name+"\t"+fmt.Sprintf(format, args...)) }
	if !q.Deadline.IsZero() {
		add("deadline", "%s", moment(q.Deadline, now, "passed "))
	}
	if q.Claim != nil {
		add("claimed", "by %s for %s", harmlessLine(q.Claim.By, 60), span(q.Claim.Until.Sub(now)))
	}
	if q.Decision == nil && len(q.Proposal) > len("{}") {
		add("proposal", "%s", harmlessLine(string(q.Proposal), 2000))
	}
	for _, v := range q.Earlier {
		add("earlier", "%s", voteText(&v, now))
	}
	for _, v := range q.Count {
		add("vote", "%s", voteText(&v, now))
	}
	for _, e := range q.Events {
		add("history", "%s ago %s %s %s", span(now.Sub(e.When)), harmlessLine(e.Who, 60), e.Kind, harmlessLine(e.Text, 500))
	}
	if q.Progress != "" {
		add("call", "%s", harmlessLine(q.Progress, 500))
	}
	for _, name := range q.Equal {
		add("equal", "%s asks the same for an equal call", name)
	}
	facts := table(rows)
	switch { // in full, since what is left out may be what matters
	case q.Preview != "":
		facts += "\nThe call:\n\n" + wrap(harmless(q.Preview), "    ")
	case q.Arguments != nil:
		facts += "\nThe call has the arguments\n\n    " + indentedRaw(q.Arguments) + "\n"
	}
	return facts
}

func voteText(v *desk.Vote, now time.Time) string {
	text := fmt.Sprintf("%s by %s, %s ago, %s", v.Action, harmlessLine(v.Who, 60), span(now.Sub(v.When)),
		harmlessLine(v.Channel, 60))
	if v.Why != "" {
		text += ": " + harmlessLine(v.Why, 500)
	}
	return text
}

// inboxCard shows a question, and how to answer it while it is open. Where is how a command line names its store.
func inboxCard(q *desk.Question, where string, now time.Time) string {
	b := new(strings.Builder)
	b.WriteString(inboxFacts(q, now) + "\n" + wrap(harmless(q.Message), ""))
	example := "{}"
	switch {
	case q.URL != "":
		fmt.Fprintf(b, "The page: %s\n", harmlessLine(q.URL, 2000))
	case q.Schema != nil:
		if example = sampleContent(q.Schema); example != "{}" {
			b.WriteString("\n" + formRows(q.Schema))
		}
	}
	if q.Status == task.QuestionOpen {
		command := strings.TrimSpace("askback inbox answer " + where)
		fmt.Fprintf(b, "\n    %s %s %s --accept %s\n", command, q.Name, harmless(foreignQuote(q.Key)),
			harmless(shellQuote(example)))
	}
	return b.String()
}
