package attack

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/check/internal/redact"
	"github.com/askback-mcp/askback/check/internal/talk"
	"github.com/askback-mcp/askback/check/internal/transport"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Nothing that a check sends consents to a URL, gives a root, or lets a server choose what a model says.
func TestAnswersAreTheLeast(t *testing.T) {
	t.Parallel()
	l := expect.Must(transport.New(transport.Options{URL: "http://127.0.0.1:1/mcp"}))(t)
	defer l.Close()
	k := &Attacker{talk.New(l, redact.New())}
	questions := []talk.Question{{Key: "u", Method: "elicitation/create", Mode: "url", URL: "https://example.com"},
		{Key: "s", Method: "sampling/createMessage"}, {Key: "r", Method: "roots/list"}}
	c := &talk.Call{Target: &talk.Target{}, Canary: "canaryabcdefg", Replies: []*talk.Reply{{Class: talk.Advanced,
		Questions: questions}}}
	for _, how := range []string{
		"", "none", "decline", "cancel", "action", "schema", "key", "unasked", "fit-again", "kind",
	} {
		for key, answer := range k.alterAnswers(c, how, "", "canaryabcdefg") {
			text := expect.Must(json.Marshal(answer))(t)
			switch {
			case how == "kind":
				if strings.HasPrefix(key, "u") && strings.Contains(string(text), "accept") {
					t.Errorf("%s %s: %s", how, key, text)
				}
			case key[0] == 'u' && string(text) != `{"action":"decline"}`,
				key[0] == 'r' && string(text) != `{"roots":[]}`,
				key[0] == 's' && !strings.Contains(string(text), "This is the constant answer of a check."):
				t.Errorf("%s %s: %s", how, key, text)
			}
		}
	}
}
