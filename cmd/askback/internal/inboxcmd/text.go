package inboxcmd

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/askback-mcp/askback/cmd/askback/internal/arguments"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/task"
)

// inertLine encodes a value as JSON on one line in which nothing acts on a terminal.
func inertLine(v any) string { return cli.EndLine(foreign.JSON([]byte(cli.Compact(v)))) }

func waitingTable(rows []string) string {
	if rows == nil {
		return "nothing waits\n"
	}
	return cli.Table(append([]string{"TASK\tKEY\tTOOL\tCALLER\tFOR\tVOTES\tWAITS\tDEADLINE\tQUESTION"}, rows...))
}

func waitingRow(q *desk.Question, now time.Time) string {
	return strings.Join([]string{
		q.Name, cli.HarmlessLine(q.Key, 30), cli.HarmlessLine(q.Target, 30), cli.HarmlessLine(callerName(q), 30),
		cli.HarmlessLine(cli.Keys(q.For), 40), fmt.Sprintf("%d of %d", len(q.Count), q.Votes), cli.Span(now.Sub(q.Asked)),
		deadlineText(q, now), cli.HarmlessLine(q.Message, 60),
	}, "\t")
}

// historyTable shows questions with their outcomes.
func historyTable(rows []string) string {
	if rows == nil {
		return "there is nothing\n"
	}
	return cli.Table(append([]string{"TASK\tKEY\tTOOL\tCALLER\tASKED\tSTATUS\tQUESTION"}, rows...))
}

func historyRow(q *desk.Question, now time.Time) string {
	return strings.Join([]string{
		q.Name, cli.HarmlessLine(q.Key, 30), cli.HarmlessLine(q.Target, 30), cli.HarmlessLine(callerName(q), 30),
		cli.Span(now.Sub(q.Asked)) + " ago", cli.HarmlessLine(q.Summary(), 60), cli.HarmlessLine(q.Message, 60),
	}, "\t")
}

func callerName(q *desk.Question) string { return cmp.Or(q.Principal, "(anonymous)") }

func deadlineText(q *desk.Question, now time.Time) string {
	switch {
	case q.Deadline.IsZero():
		return "none"
	case q.Deadline.After(now):
		return "in " + cli.Span(q.Deadline.Sub(now))
	}
	return "passed"
}

// facts shows all of a question except what is asked.
func facts(q *desk.Question, now time.Time) string {
	rows := []string{
		"task\t" + q.Name, "key\t" + cli.HarmlessLine(q.Key, 200), "status\t" + cli.HarmlessLine(q.Summary(), 500),
		"tool\t" + cli.HarmlessLine(q.Target, 100), "caller\t" + cli.HarmlessLine(callerName(q), 100),
		"for\t" + cli.HarmlessLine(cli.Keys(q.For), 200), "asked\t" + cli.Span(now.Sub(q.Asked)) + " ago",
	}
	add := func(name, format string, args ...any) { rows = append(rows, name+"\t"+fmt.Sprintf(format, args...)) }
	if !q.Deadline.IsZero() {
		add("deadline", "%s", cli.Moment(q.Deadline, now, "passed "))
	}
	if q.Claim != nil {
		add("claimed", "by %s for %s", cli.HarmlessLine(q.Claim.By, 60), cli.Span(q.Claim.Until.Sub(now)))
	}
	if q.Decision == nil && len(q.Proposal) > len("{}") {
		add("proposal", "%s", cli.HarmlessLine(foreign.JSON(q.Proposal), 2000))
	}
	for _, v := range q.Earlier {
		add("earlier", "%s", voteText(&v, now))
	}
	for _, v := range q.Count {
		add("vote", "%s", voteText(&v, now))
	}
	for _, e := range q.Events {
		add("history", "%s ago %s %s %s", cli.Span(now.Sub(e.When)), cli.HarmlessLine(e.Who, 60), e.Kind,
			cli.HarmlessLine(e.Text, 500))
	}
	if q.Progress != "" {
		add("call", "%s", cli.HarmlessLine(q.Progress, 500))
	}
	for _, name := range q.Equal {
		add("equal", "%s asks the same for an equal call", name)
	}
	facts := cli.Table(rows)
	if q.Preview != "" { // in full, since what is left out may be what matters
		facts += "\nThe call:\n\n" + cli.Wrap(cli.Harmless(q.Preview), "    ")
	}
	switch {
	case q.Excerpt != nil:
		facts += fmt.Sprintf("\nThe call has arguments of %d bytes, with the SHA-256\n%s.\n"+
			"'askback inbox show %s --arguments' prints all. They begin with\n\n    %s\n",
			q.Excerpt.Size, q.Excerpt.SHA256, q.Name, foreign.JSON([]byte(q.Excerpt.Begin)))
	case q.Arguments != nil:
		facts += "\nThe call has the arguments\n\n    " + cli.IndentedRaw(q.Arguments) + "\n"
	}
	return facts
}

func voteText(v *desk.Vote, now time.Time) string {
	text := fmt.Sprintf("%s by %s, %s ago, %s", v.Action, cli.HarmlessLine(v.Who, 60), cli.Span(now.Sub(v.When)),
		cli.HarmlessLine(v.Channel, 60))
	if v.Why != "" {
		text += ": " + cli.HarmlessLine(v.Why, 500)
	}
	return text
}

// card shows a question and, while it is open, the command that answers it. Where names its store in that command.
func card(q *desk.Question, where string, now time.Time) string {
	b := new(strings.Builder)
	b.WriteString(facts(q, now) + "\n" + cli.Wrap(cli.Harmless(q.Message), ""))
	example := "{}"
	switch {
	case q.URL != "":
		fmt.Fprintf(b, "The page: %s\n", cli.HarmlessLine(q.URL, 2000))
	case q.Schema != nil:
		if example = arguments.SampleContent(q.Schema); example != "{}" {
			b.WriteString("\n" + arguments.FormRows(q.Schema))
		}
	}
	if q.Status == task.QuestionOpen {
		command := strings.TrimSpace("askback inbox answer " + where)
		fmt.Fprintf(b, "\n    %s %s %s --accept %s\n", command, q.Name, cli.Harmless(cli.ForeignQuote(q.Key)),
			cli.Harmless(cli.ShellQuote(example)))
	}
	return b.String()
}
