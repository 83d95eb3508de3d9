package trivia_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/cmd/askback/examples/trivia"
)

var octocat = askbacktest.Accept(map[string]string{"name": "octocat"})

// paris is the answer that the proposal has.
func paris(content ...mcp.Content) askbacktest.Answer {
	return askbacktest.Sampled(&mcp.CreateMessageWithToolsResult{
		Role: "assistant", Model: "claude-3-sonnet-20240307", StopReason: "endTurn", Content: content,
	})
}

var words = &mcp.TextContent{Text: "The capital of France is Paris."}

// The same result however the call is cut: restarted in every round, and with every response lost once.
func TestRestartsAndLostResponsesChangeNothing(t *testing.T) {
	res := askbacktest.Run(t, trivia.Register, askbacktest.Call{
		Tool:    "github_trivia",
		Answers: map[string]askbacktest.Answer{"github_login": octocat, "capital_of_france": paris(words)},
	})
	if want := "octocat asked, claude-3-sonnet-20240307 answered: The capital of France is Paris."; res.Text() != want {
		t.Errorf("got %q, want %q", res.Text(), want)
	}
	if diff := cmp.Diff([][]string{{"capital_of_france", "github_login"}}, res.Asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	const (
		noLogin = "a GitHub username is needed; please call github_trivia again and provide one"
		noText  = "the client's model gave no answer in words; please call github_trivia again"
	)
	image := &mcp.ImageContent{Data: []byte("png"), MIMEType: "image/png"}
	for _, tt := range []struct {
		login, capital askbacktest.Answer
		want           string
	}{
		{askbacktest.Decline(), paris(words), noLogin},
		{askbacktest.Accept(map[string]string{"name": " "}), paris(words), noLogin},
		{octocat, paris(image), noText},
	} {
		res := askbacktest.Run(t, trivia.Register, askbacktest.Call{
			Tool:    "github_trivia",
			Answers: map[string]askbacktest.Answer{"github_login": tt.login, "capital_of_france": tt.capital},
		})
		if res.Tool == nil || !res.Tool.IsError || res.Text() != tt.want {
			t.Errorf("got %q, want the tool error %q", res.Text(), tt.want)
		}
	}
}

func TestAClientWithoutAModelIsAskedNothing(t *testing.T) {
	res := askbacktest.Run(t, trivia.Register, askbacktest.Call{
		Tool: "github_trivia", Cannot: askback.CapabilitySampling,
	})
	if res.Err == nil || res.Err.Code != -32021 || len(res.Asked) > 0 {
		t.Errorf("got %q after asking %q, want the error for a missing capability", res.Text(), res.Asked)
	}
}
