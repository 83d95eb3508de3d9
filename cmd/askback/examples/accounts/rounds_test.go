package accounts_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/cmd/askback/examples/accounts"
	"github.com/askback-mcp/askback/internal/test/harness"
)

var (
	octocat   = askbacktest.Accept(map[string]string{"name": "octocat"})
	larry     = askbacktest.Accept(map[string]string{"name": "larry"})
	bill      = askbacktest.Accept(map[string]string{"name": "bill"})
	mona      = askbacktest.Accept(map[string]string{"name": "mona"})
	address   = askbacktest.Accept(map[string]string{"name": "bill@example.com"})
	decline   = askbacktest.Decline()
	dismissed = askbacktest.Cancel()
)

type answers map[string]askbacktest.Answer

// The same result however the call is cut, and the questions that each way through the releases costs.
func TestRestartsLostResponsesAndReleases(t *testing.T) {
	const first = "This server has linked 1 set of accounts."
	for _, tt := range []struct {
		name     string
		releases []int // that serve the rounds, the last one also those after it
		answers  answers
		asked    [][]string
		want     string
	}{
		{
			"release 1", []int{1}, answers{"github_login": octocat, "google_login": larry},
			[][]string{{"github_login", "google_login"}}, "Linked octocat (GitHub) and larry (Google)." + first,
		},
		{
			"release 2", []int{2}, answers{"github_login": octocat, "microsoft_login": bill},
			[][]string{{"github_login", "microsoft_login"}}, "Linked octocat (GitHub) and bill (Microsoft)." + first,
		},
		{
			"the upgrade of the proposal", []int{1, 2}, answers{"github_login": octocat, "google_login": larry,
				"microsoft_login": bill},
			[][]string{{"github_login", "google_login"}, {"microsoft_login"}}, "Linked octocat (GitHub) and bill (Microsoft)." +
				first,
		},
		{
			"there and back", []int{1, 2, 1}, answers{"github_login": octocat, "google_login": larry, "microsoft_login": bill},
			[][]string{{"github_login", "google_login"}, {"microsoft_login"}}, "Linked octocat (GitHub) and larry (Google)." +
				first,
		},
		{
			"one question in other words, the other in another form", []int{2, 3},
			answers{"github_login": askbacktest.InTurn(octocat, mona), "microsoft_login": askbacktest.InTurn(bill, address)},
			[][]string{{"github_login", "microsoft_login"}, {"github_login", "microsoft_login"}},
			"Linked mona (GitHub) and bill@example.com (Microsoft)." + first,
		},
		{
			"declined in another release", []int{1, 2}, answers{"github_login": decline, "google_login": larry,
				"microsoft_login": bill},
			[][]string{{"github_login", "google_login"}, {"microsoft_login"}}, "Linked bill (Microsoft)." + first,
		},
		{
			"one is dismissed", []int{2}, answers{"github_login": octocat, "microsoft_login": dismissed},
			[][]string{{"github_login", "microsoft_login"}}, "Linked octocat (GitHub)." + first,
		},
		{
			"a blank name", []int{2}, answers{"github_login": askbacktest.Accept(map[string]string{"name": " "}),
				"microsoft_login": bill},
			[][]string{{"github_login", "microsoft_login"}}, "Linked bill (Microsoft)." + first,
		},
		{
			"both are declined", []int{2}, answers{"github_login": decline, "microsoft_login": decline},
			[][]string{{"github_login", "microsoft_login"}}, "Linked no account.This server has linked 0 sets of accounts.",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			servers := 0
			res := askbacktest.Run(t, func(s *askback.Server) {
				// A round takes three servers: for its request, the request sent again, and the replay.
				accounts.Register(s, tt.releases[min(servers/3, len(tt.releases)-1)])
				servers++
			}, askbacktest.Call{Tool: "link_accounts", Answers: tt.answers})
			if res.Text() != tt.want {
				t.Errorf("got %q, want %q", res.Text(), tt.want)
			}
			if diff := cmp.Diff(tt.asked, res.Asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryCallLinksASet(t *testing.T) {
	h := harness.NewServer(t, nil, func(s *askback.Server) { accounts.Register(s, 2) }).HTTPHandler(nil)
	for _, want := range []string{"1 set of accounts.", "2 sets of accounts.", "3 sets of accounts."} {
		call := harness.Request{Target: "link_accounts"}
		call.State = call.Send(t, h).Asked(t, "github_login", "microsoft_login")
		call.Responses = `{"github_login": {"action": "accept", "content": {"name": "octocat"}},
			"microsoft_login": {"action": "decline"}}`
		if got := call.Send(t, h).Text(t); !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
