package accounts_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/examples/accounts"
)

const (
	github    = `"github_login": {"action": "accept", "content": {"name": "octocat"}}`
	microsoft = `"microsoft_login": {"action": "accept", "content": {"name": "bill"}}`
)

func TestTheQuestions(t *testing.T) {
	form := func(message, property string) string {
		return `{"method": "elicitation/create", "params": {"mode": "form", "message": "` + message + `", "requestedSchema": {
			"type": "object", "properties": {"name": ` + property + `}, "required": ["name"]}}}`
	}
	question := func(message string) string { return form(message, `{"type": "string"}`) }
	for i, want := range []string{
		`{"github_login": ` + question("Please provide your GitHub username") + `,
		  "google_login": ` + question("Please provide your Google username") + `}`,
		`{"github_login": ` + question("Please provide your GitHub username") + `,
		  "microsoft_login": ` + question("Please provide your Microsoft username") + `}`,
		`{"github_login": ` + question("Which GitHub account shall be linked? Please provide its username") + `,
		  "microsoft_login": ` +
			form("Please provide your Microsoft username", `{"type": "string", "format": "email"}`) + `}`,
	} {
		var questions any
		if err := json.Unmarshal([]byte(want), &questions); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(questions, post(t, serve(t, i+1), "").InputRequests); diff != "" {
			t.Errorf("release %d (-want +got):\n%s", i+1, diff)
		}
	}
}

// The step stands where every round reaches it. What it links shows that it ran in the last one alone.
func TestNothingIsLinkedWhileAQuestionIsOpen(t *testing.T) {
	h := serve(t, 2)
	first := post(t, h, "")
	second := post(t, h, answer(first, github))
	if first.RequestState == "" || second.RequestState == "" {
		t.Fatalf("got %+v and %+v, want questions", first, second)
	}
	// The response is lost, so the client sends the round again, and is told the same.
	for range 2 {
		last := post(t, h, answer(second, microsoft))
		want := "Linked octocat (GitHub) and bill (Microsoft). This server has linked 1 set of " +
			"accounts."
		if last.text() != want {
			t.Errorf("got %q, want %q", last.text(), want)
		}
	}
}

// A client that can be asked in one round may not be in the next one, which then ends with the protocol's error.
func TestHalfASetIsNotLinked(t *testing.T) {
	h := serve(t, 2)
	first := post(t, h, "")
	if _, failed := send(t, h, answer(first, github), ""); failed == nil || failed.Code != -32021 {
		t.Errorf("got the error %v, want that for a missing capability", failed)
	}
	last := post(t, h, answer(first, github+", "+microsoft))
	want := "Linked octocat (GitHub) and bill (Microsoft). This server has linked 1 set of " +
		"accounts."
	if last.text() != want {
		t.Errorf("got %q, want %q", last.text(), want)
	}
}

func TestEveryCallLinksASet(t *testing.T) {
	h := serve(t, 2)
	for _, want := range []string{"1 set of accounts.", "2 sets of accounts.", "3 sets of accounts."} {
		got := post(t, h, answer(post(t, h, ""), github+", "+microsoft))
		if !strings.HasSuffix(got.text(), want) {
			t.Errorf("got %q, want %q", got.text(), want)
		}
	}
	const declined = `"github_login": {"action": "decline"}, "microsoft_login": {"action": "cancel"}`
	got := post(t, h, answer(post(t, h, ""), declined))
	if want := "Linked no account. This server has linked 3 sets of accounts."; got.text() != want {
		t.Errorf("got %q, want %q", got.text(), want)
	}
}

// result is what the tests read of a result of tools/call.
type result struct {
	InputRequests any
	RequestState  string
	Content       []struct{ Text string }
}

func (r result) text() string {
	if len(r.Content) != 2 {
		return ""
	}
	return r.Content[0].Text + " " + r.Content[1].Text
}

func answer(asked result, responses string) string {
	return `"inputResponses": {` + responses + `}, "requestState": "` + asked.RequestState + `",`
}

func serve(t *testing.T, release int) http.Handler {
	t.Helper()
	s, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "accounts", Version: "1.0.0"}, nil), &askback.Options{
		Logger: slog.New(slog.DiscardHandler), // it warns that no keys are configured
	})
	if err != nil {
		t.Fatal(err)
	}
	accounts.Register(s, release)
	return s.HTTPHandler(nil)
}

// post calls link_accounts once with the given params, which must not fail.
func post(t *testing.T, h http.Handler, params string) result {
	t.Helper()
	got, failed := send(t, h, params, `"elicitation": {}`)
	if failed != nil {
		t.Fatal(failed)
	}
	return got
}

// send sends a client's request as it is on the wire, and returns its result or its error.
func send(t *testing.T, h http.Handler, params, capabilities string) (result, *jsonrpc.Error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": {"name": "link_accounts", `+params+` "_meta": {
			"io.modelcontextprotocol/protocolVersion": "2026-07-28",
			"io.modelcontextprotocol/clientCapabilities": {`+capabilities+`}
		}}
	}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	r.Header.Set("Mcp-Method", "tools/call")
	r.Header.Set("Mcp-Name", "link_accounts")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)

	var response struct {
		Result result
		Error  *jsonrpc.Error
	}
	if err := json.Unmarshal(w.Body.Bytes(), &response); err != nil {
		t.Fatalf("%d %s (%v)", w.Code, w.Body, err)
	}
	return response.Result, response.Error
}
