package conversation

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestAnAnswerIsAFormsContentOrAWholeResult(t *testing.T) {
	t.Parallel()
	name := &client.Question{Key: "k",
		Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)}
	action := &client.Question{Key: "k",
		Schema: json.RawMessage(`{"type":"object","properties":{"action":{"type":"string"}}}`)}
	page := &client.Question{Key: "k", URL: "https://example.com"}
	for _, tt := range []struct {
		question *client.Question
		text     string
		want     string // empty is an error
	}{
		{name, `{"name":"x"}`, `{"action":"accept","content":{"name":"x"}}`},
		{name, ` {"action":"accept","content":{"name":"x"}} `, `{"action":"accept","content":{"name":"x"}}`},
		{name, `{"action":"decline"}`, `{"action":"decline"}`},
		{name, `decline`, `{"action":"decline"}`},
		{name, `"cancel"`, `{"action":"cancel"}`},
		{name, `accept`, `{"action":"accept"}`},
		{name, `{}`, `{"action":"accept"}`},
		{name, `x`, ``},
		{name, `["x"]`, ``},
		{name, `{"name":1}`, ``},
		{name, `{"name":"x","name":"y"}`, ``},
		{name, `{"action":"accept","content":[]}`, ``},
		{action, `{"action":"accept"}`, `{"action":"accept","content":{"action":"accept"}}`},
		{action, `decline`, `{"action":"decline"}`},
		{page, `accept`, `{"action":"accept"}`},
		{page, `{"action":"accept"}`, `{"action":"accept"}`},
		{page, `{"name":"x"}`, ``},
		{page, `yes`, ``},
	} {
		res, err := answer{tt.text, "--answer"}.elicit(tt.question)
		got := ""
		if err == nil {
			got = cli.Compact(res)
		}
		expect.Equal(t, fmt.Sprint(tt.text, ": ", err), got, tt.want)
	}
}

func TestAnAnswerToSamplingIsATextOrAResult(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`Paris`:                                  "Paris by m",
		`"Pa\nris"`:                              "Pa\nris by m",
		`{"a":1}`:                                `{"a":1} by m`, // a text that happens to be JSON
		` indented `:                             " indented  by m",
		`{"content":{"type":"text","text":"x"}}`: "x by m",
		`{"model":"big","role":"assistant","content":[{"type":"text","text":"x"}]}`: "x by big",
		`{"content":3}`: "",
	} {
		res, err := parseSample(text, "m")
		got := ""
		if err == nil {
			got = res.Content[0].(*mcp.TextContent).Text + " by " + res.Model
			expect.Equal(t, text+": role", res.Role, "assistant")
		}
		expect.Equal(t, fmt.Sprint(text, ": ", err), got, want)
	}
}

// The second answer under a key is for the second question that the author asks under it.
func TestAnswersUnderOneKey(t *testing.T) {
	t.Parallel()
	a := expect.Must(parseAnswers([]string{"k=1", "k=2", "k#5=5", "#=0"}, nil))(t)
	for _, c := range []struct{ key, want string }{{"k", "1"}, {"k#5", "5"}, {"k#02ab", "2"}, {"k#02ab", ""}, {"k", ""},
		{"#", "0"}} {
		if has := a.has(c.key); has != (c.want != "") {
			t.Errorf("has(%q) is %t", c.key, has)
		}
		if got, _ := a.take(c.key); got.text != c.want {
			t.Errorf("the answer to %q is %q, want %q", c.key, got.text, c.want)
		}
	}
	if left := a.neverAsked(); len(left) > 0 {
		t.Errorf("%q were never asked", left)
	}
}
