package client_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestRoundsAreObserved(t *testing.T) {
	for name, transport := range map[string]mcp.Transport{"http": web(t, newServer(t, askback.Options{})),
		"memory": memory(t, newServer(t, askback.Options{}))} {
		opts := answers()
		var seen []string
		var states []int
		var raw string
		opts.OnRound = func(_ context.Context, r *client.Round) error {
			var asked []string
			for _, q := range r.Questions {
				asked = append(asked, q.Key)
			}
			seen = append(seen, fmt.Sprint(r.Number, r.Target, len(r.Answers), asked, r.Pause > 0, r.Final))
			states = append(states, r.StateSent, r.StateReceived)
			raw = string(r.Result)
			return nil
		}
		session := connect(t, opts, transport, "")
		expect.Must(called(t, session, "everything"))(t)
		// Rounds are counted, and questions are in the order in which they were asked.
		want := []string{
			"1everything0 [who roots page] false false", "2everything3 [] true false", "3everything0 [] true false",
			"4everything0 [model] false false", "5everything1 [] false true",
		}
		expect.Diff(t, name+": rounds", want, seen)
		if states[0] != 0 || states[1] == 0 || states[2] != states[1] {
			t.Errorf("%s: states sent and received: %v", name, states)
		}
		expect.Contains(t, name+": the result as it came", raw, `"resultType":"complete"`)
	}
}
