package inboxcmd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/desk"
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
