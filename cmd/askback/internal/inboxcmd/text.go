package inboxcmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/askback-mcp/askback/cmd/askback/internal/arguments"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/task"
)

// inertLine encodes a value as JSON on one line in which nothing acts on a terminal.
func inertLine(v any) string { return cli.EndLine(foreign.JSON([]byte(cli.Compact(v)))) }

// row is a question in a list. It is one line. On a terminal where that does not fit it is two: some columns, and below
// them who calls which tool, and the question.
type row struct {
	task, key    string
	standing     []string // what the list is about; the last of them may be long
	caller, tool string
	question     string
}

func rowOf(q *desk.Question, standing ...string) row {
	return row{
		q.Name, cli.HarmlessLine(q.Key, 30), standing, cli.HarmlessLine(callerName(q), 30), cli.HarmlessLine(q.Target, 30),
		cli.HarmlessLine(q.Message, 60),
	}
}

func waitingRow(q *desk.Question, now time.Time) row {
	return rowOf(q, fmt.Sprintf("%d of %d", len(q.Count), q.Votes), cli.Span(now.Sub(q.Asked)), deadlineText(q, now),
		cli.HarmlessLine(cli.Keys(q.For), 40))
}

func historyRow(q *desk.Question, now time.Time) row {
	return rowOf(q, cli.Span(now.Sub(q.Asked))+" ago", cli.HarmlessLine(q.Summary(), 60))
}

// table shows rows below the names of their standing, in some columns of a terminal. Zero is no terminal.
func table(standing []string, rows []row, columns int) string {
	rows = append([]row{{"TASK", "KEY", standing, "CALLER", "TOOL", "QUESTION"}}, rows...)
	var lines []string
	for _, r := range rows {
		cells := slices.Concat([]string{r.task, r.key, r.tool, r.caller}, r.standing, []string{r.question})
		lines = append(lines, strings.Join(cells, "\t"))
	}
	if text := cli.Table(lines); columns == 0 || lipgloss.Width(text) <= columns {
		return text
	}
	for i, r := range rows {
		lines[i] = strings.Join(slices.Concat([]string{r.task, r.key}, r.standing), "\t")
	}
	b := new(strings.Builder)
	for i, line := range strings.Split(strings.TrimSuffix(cli.Table(lines), "\n"), "\n") {
		below := fmt.Sprintf("  %s, %s: %s", rows[i].caller, rows[i].tool, rows[i].question)
		b.WriteString(ansi.Truncate(line, columns, "…") + "\n" + ansi.Truncate(below, columns, "…") + "\n")
	}
	return b.String()
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
