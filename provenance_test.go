package askback_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/seal"
)

// named is a server whose callers are named by a header.
func named(t *testing.T, ring *seal.Ring) http.Handler {
	return harness.NewServer(t, &askback.Options{
		Keys: ring,
		Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
			return extra.Header.Get("X-User"), nil
		},
	}, harness.AddRounds).HTTPHandler(nil)
}

// Calls that were begun with states of this version continue in every later release. The states are of the tool of
// harness.AddRounds, sealed at the time that begins a bubble of synctest, each with the responses to its questions.
func TestStatesStayTheSame(t *testing.T) {
	data := expect.Must(os.ReadFile("testdata/states.json"))(t)
	var kept struct {
		Key    string
		States []struct{ Principal, State, Responses, Asks string }
	}
	expect.Check(t, json.Unmarshal(data, &kept))
	ring := expect.Must(seal.ParseRing(kept.Key))(t)
	expect.Equal(t, "states", len(kept.States), 6)
	synctest.Test(t, func(t *testing.T) {
		h := named(t, ring)
		for _, s := range kept.States {
			r := harness.Request{
				Target: "rounds", State: s.State, Responses: s.Responses, Header: http.Header{"X-User": {s.Principal}},
			}
			if res := r.Send(t, h); s.Asks != "" {
				res.Asked(t, s.Asks)
			} else if got := res.Text(t); !strings.HasPrefix(got, "octocat file:///src hi hubot 1") {
				t.Errorf("the result is %q", got)
			}
		}
	})
}
