package bridge_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// approving has a bridge ask before it passes on calls of these tools.
func approving(a bridge.Approval) func(*bridge.Options) {
	return func(o *bridge.Options) { o.Approve = &a }
}

// A call that has to be approved reaches the server only after that, whatever the host can do: the question goes to
// the desk.
func TestACallIsApprovedBeforeItIsPassedOn(t *testing.T) {
	behind := newBehind(t)
	front := newFront(t, behind.url, patient, approving(bridge.Approval{Tools: []string{"ec*"}}))
	for _, c := range []struct {
		action, reason, want string
		calls                int
	}{
		{"accept", "", "map[a:1]", 1},
		{"decline", "not on a Friday",
			`The tool "echo" was not called: the call was not approved, says ada: not on a Friday.`, 1},
	} {
		s := host(t, front.url, "", able())
		words := calling(t, s, "echo", map[string]any{"a": 1})
		q := front.answer(t, "ada", desk.Answer{Action: c.action, Reason: c.reason})
		card, err := front.desk.Question(t.Context(), q.Name, q.Key, nil)
		if err != nil || string(card.Arguments) != `{"a":1}` || card.Message != `Call the tool "echo" of the server "shop"?` {
			t.Errorf("the card: %+v, %v", card, err)
		}
		if got := <-words; got != c.want || behind.count("echo") != c.calls {
			t.Errorf("after %s: %q, and %d calls", c.action, got, behind.count("echo"))
		}
	}
	expect.Contains(t, "the text", textOf(t, host(t, front.url, "", able()), "capabilities", nil), "elicitation")
}

// Who approves may edit the arguments. Those that do not fit the tool's input schema are asked for again, and the
// server never gets them.
func TestArgumentsAreEdited(t *testing.T) {
	behind := newBehind(t)
	front := newFront(t, behind.url, patient, approving(bridge.Approval{
		Tools: []string{"order"}, For: []string{askback.User("bob")}, Edit: true,
	}))
	s := host(t, front.url, "", able())
	words := calling(t, s, "order", map[string]any{"item": "hat"})
	for _, arguments := range []string{`{"item":7}`, `[]`, `{"item":"cap"}`} {
		content := expect.Must(json.Marshal(map[string]string{"arguments": arguments}))(t)
		q := front.answer(t, "bob", desk.Answer{Action: "accept", Content: content})
		params := string(q.Params)
		if !strings.Contains(params, `"default":"{\"item\":`) && !strings.Contains(params, `"default":"[]"`) {
			t.Errorf("the form begins with %s", q.Params)
		}
	}
	expect.Equal(t, "the result", <-words, "red cap ordered")
}

// A host without tasks that waits for an approval is told in words.
func TestAnApprovalForAHostThatCannotWait(t *testing.T) {
	front := newFront(t, newBehind(t).url, approving(bridge.Approval{Tools: []string{"echo"}}))
	for _, version := range revisions {
		s := host(t, front.url, version, client.Options{Tasks: client.TasksOff})
		expect.Contains(t, version, waits(t, s, "echo", nil), "of user:ada")
		q := front.answer(t, "ada", desk.Answer{Action: "accept"})
		expect.Equal(t, version, fetch(t, s, q.Name), "map[]")
	}
}
