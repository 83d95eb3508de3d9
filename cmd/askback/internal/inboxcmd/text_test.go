package inboxcmd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A terminal shows the arguments beside the author's preview, as text that does not act on it.
func TestFactsHaveTheArguments(t *testing.T) {
	for _, tt := range []struct {
		q    desk.Question
		want []string
	}{
		{desk.Question{Preview: "Pays bob.", Arguments: json.RawMessage("{\"to\":\"<eve>\u202e\x7f\"}")},
			[]string{"    Pays bob.", `"to": "<eve>\u202e\u007f"`}},
		{desk.Question{Preview: "Pays bob.", Excerpt: &desk.Excerpt{Begin: "{\"to\":\"<\x7f", Size: 70_000, SHA256: "d1ce"}},
			[]string{"    Pays bob.", "70000 bytes", "--arguments", "d1ce", `    {"to":"<\u007f`}},
	} {
		got := facts(&tt.q, time.Now())
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in\n%s", want, got)
			}
		}
		if strings.ContainsAny(got, "\u202e\x7f") {
			t.Errorf("it acts on a terminal:\n%s", got)
		}
	}
}

// A list fits a terminal, however wide its letters are. Elsewhere each question is one line with all columns.
func TestAListFitsATerminal(t *testing.T) {
	asked := time.Date(2026, 11, 28, 9, 0, 0, 0, time.UTC)
	q := &desk.Question{Name: "LFE5BTOGAAAAAAAAAAAAAAAAAA", Target: "deploy", Principal: "carol",
		For: []string{"group:release", "user:alice"}, Votes: 2, Asked: asked, Deadline: asked.Add(4 * time.Hour)}
	q.Key, q.Message = "approve", "Deploy 4.2 to production?"
	wide := *q
	wide.Key, wide.Message, wide.Target = strings.Repeat("鍵", 40), strings.Repeat("質問", 40), strings.Repeat("道", 40)
	rows := []row{waitingRow(q, asked.Add(time.Minute)), waitingRow(&wide, asked.Add(time.Hour))}
	standing := []string{"VOTES", "WAITS", "DEADLINE", "FOR"}
	for columns := range 300 {
		text := table(standing, rows, columns)
		for line := range strings.Lines(text) {
			if got := ansi.StringWidth(line); columns > 0 && got > columns {
				t.Fatalf("with %d columns a line has %d:\n%s", columns, got, line)
			}
		}
	}
	want := `TASK                        KEY      VOTES   WAITS  DEADLINE  FOR
  CALLER, TOOL: QUESTION
LFE5BTOGAAAAAAAAAAAAAAAAAA  approve  0 of 2  1m     in 3h59m  group:release, us…
  carol, deploy: Deploy 4.2 to production?
`
	expect.Diff(t, "the value", want, table(standing, rows[:1], 80))
	want = `TASK                        KEY      TOOL    CALLER  VOTES   WAITS  DEADLINE  FOR                        QUESTION
LFE5BTOGAAAAAAAAAAAAAAAAAA  approve  deploy  carol   0 of 2  1m     in 3h59m  group:release, user:alice  ` +
		"Deploy 4.2 to production?\n"
	for _, columns := range []int{0, 200} {
		expect.Diff(t, "the value", want, table(standing, rows[:1], columns))
	}
}
