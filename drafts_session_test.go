package askback_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/harness"
	"github.com/askback-mcp/askback/state"
)

// oldSession is a client of 2025-11-25, whose POSTs may go to different servers.
type oldSession struct {
	t      *testing.T
	url    string // of the requests
	answer string // of the responses
	id     string
	events *bufio.Scanner
	last   string
}

func newSession(t *testing.T, url, answer string) *oldSession {
	t.Helper()
	return newSessionThatCan(t, url, answer, `{"elicitation":{}}`)
}

func newSessionThatCan(t *testing.T, url, answer, capabilities string) *oldSession {
	t.Helper()
	c := &oldSession{t: t, url: url, answer: answer}
	res := open(t, url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"c","version":"1"}}}`)
	c.id = res.Header.Get("Mcp-Session-Id")
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	c.post(url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *oldSession) post(url, body string) (int, map[string]any) {
	c.t.Helper()
	return post(c.t, url, body, "Mcp-Session-Id", c.id, "MCP-Protocol-Version", "2025-11-25")
}

// call begins a call, whose stream stays open.
func (c *oldSession) call(tool, arguments string) {
	c.t.Helper()
	res := open(c.t, c.url, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`,
		"Mcp-Session-Id", c.id, "MCP-Protocol-Version", "2025-11-25")
	c.t.Cleanup(func() { res.Body.Close() })
	c.events = bufio.NewScanner(res.Body)
	c.events.Buffer(nil, 1<<20)
}

// event returns the next message of the call's stream.
func (c *oldSession) event() map[string]any {
	c.t.Helper()
	for c.events.Scan() {
		if data, ok := strings.CutPrefix(c.events.Text(), "data: "); ok && data != "" {
			c.last = data
			return asJSON(c.t, data).(map[string]any)
		}
	}
	c.t.Fatalf("the stream ended: %v", c.events.Err())
	return nil
}

// respond answers a request of the server. The member state is sent unless it is empty.
func (c *oldSession) respond(request map[string]any, state, result string) (int, map[string]any) {
	c.t.Helper()
	id, err := json.Marshal(request["id"])
	if err != nil {
		c.t.Fatal(err)
	}
	if state != "" {
		state = `,"state":` + harness.Quote(state)
	}
	return c.post(c.answer, `{"jsonrpc":"2.0","id":`+string(id)+state+`,"result":`+result+`}`)
}

func named(name string) string { return `{"action":"accept","content":{"name":"` + name + `"}}` }

// In the process that holds the session, a call continues with or without an echoed state. A wrong
// state is refused, and the question stays open.
func TestAStateIsEchoedInASession(t *testing.T) {
	url := newDraftServer(t, harness.NewRing(t), true)
	c := newSession(t, url+"?draft=state", url)
	c.call("both", "{}")
	for n := range 3 {
		q := c.event()
		state, _ := q["state"].(string)
		if state == "" || q["method"] != "elicitation/create" || strings.Contains(c.last, "askback-mcp/state") {
			t.Fatalf("question %d: %s", n, c.last)
		}
		if status, m := c.respond(q, state+"x", named("x")); status != 400 || member(m, "error", "message") != "Invalid or expired requestState" {
			t.Errorf("a wrong state: status %d, %v", status, m)
		}
		if n == 1 {
			state = "" // as from a client that does not know it
		}
		answer := map[any]string{"The first?": "a", "The second?": "b", "The third?": "c"}[member(q, "params", "message")]
		if status, m := c.respond(q, state, named(answer)); status != 202 || m != nil {
			t.Errorf("status %d, %v", status, m)
		}
		if status, _ := c.respond(q, state, named("again")); status != 202 {
			t.Errorf("a second time: status %d", status)
		}
	}
	if got := member(c.event(), "result", "content", 0, "text"); got != "abc" {
		t.Errorf("got %s", c.last)
	}
}

// Requests of every kind carry the state, including those without parameters.
func TestQuestionsOfEveryKindCarryAState(t *testing.T) {
	url := newDraftServer(t, harness.NewRing(t), true, harness.AddText("kinds", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		who, err1 := askback.Elicit[harness.Login](call, "login", "?")
		model, err2 := askback.Sample(call, "capital", harness.Sampling("?"))
		roots, err3 := askback.Roots(call, "roots")
		if err := errors.Join(err1, err2, err3); err != nil {
			return "", err
		}
		return fmt.Sprint(who.Name, model.Model, roots[0].URI), nil
	}))
	c := newSessionThatCan(t, url+"?draft=state", url, `{"elicitation":{},"sampling":{},"roots":{}}`)
	c.call("kinds", "{}")
	answers := map[any]string{
		"elicitation/create":     named("octocat"),
		"sampling/createMessage": `{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"}`,
		"roots/list":             `{"roots":[{"uri":"file:///home"}]}`,
	}
	for len(answers) > 0 {
		q := c.event()
		state, _ := q["state"].(string)
		if state == "" || answers[q["method"]] == "" {
			t.Fatalf("got %s, with %d to come", c.last, len(answers))
		}
		if status, m := c.respond(q, state, answers[q["method"]]); status != 202 {
			t.Errorf("%s: status %d, %v", q["method"], status, m)
		}
		delete(answers, q["method"])
	}
	if got := member(c.event(), "result", "content", 0, "text"); got != "octocatmfile:///home" {
		t.Errorf("got %s", c.last)
	}
}

// In a process that does not hold the session, the call continues from the state. The response is
// the next message of the server.
func TestAnEchoGoesOnOnAnotherServer(t *testing.T) {
	ring := harness.NewRing(t)
	here, there := newDraftServer(t, ring, true), newDraftServer(t, ring, true)
	c := newSession(t, here+"?draft=state", there)
	c.call("both", "{}")
	q := c.event()
	answers := map[any]string{"The first?": "a", "The second?": "b", "The third?": "c"}
	for n := range 3 {
		status, next := c.respond(q, q["state"].(string), named(answers[member(q, "params", "message")]))
		if status != 200 {
			t.Fatalf("status %d: %v", status, next)
		}
		if n < 2 {
			if next["method"] != "elicitation/create" || next["state"] == q["state"] || next["id"] == q["id"] || next["result"] != nil {
				t.Fatalf("question %d: %v", n, next)
			}
			q = next
			continue
		}
		want := asJSON(t, `{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":"abc"}],"isError":false}}`)
		if diff := cmp.Diff(want, any(next)); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
	}
	// The state is bound, as always, to the call that it was made for and to its questions.
	bound := newSession(t, here+"?draft=state", there)
	bound.call("get_weather", `{"location":"New York"}`)
	q = bound.event()
	if status, m := c.respond(q, altered(t, q["state"].(string), "New York", "Cairo"), named("octocat")); status != 400 || member(m, "error", "code") != -32602.0 {
		t.Errorf("other arguments: status %d, %v", status, m)
	}
	// A key that is not the question's.
	if _, m := c.respond(q, altered(t, q["state"].(string), `"github_login"`, `"google_login"`), named("octocat")); m["method"] != "elicitation/create" {
		t.Errorf("another key: %v", m)
	}
	if _, m := c.respond(q, q["state"].(string), named("octocat")); member(m, "result", "content", 0, "text") != weatherText {
		t.Errorf("got %v", m)
	}
}

// With single use, a state that was used in its session cannot be used elsewhere.
func TestAStateOfASessionIsUsedOnce(t *testing.T) {
	ran := make(chan string, 9)
	srv := harness.NewServer(t, &askback.Options{ReplayGuard: new(state.MemoryGuard), Logger: slog.New(slog.DiscardHandler)}, func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "redeem"}, func(ctx context.Context, call *askback.Call, in struct{}) (string, error) {
			who, err := askback.Elicit[struct {
				Name string `json:"name"`
			}](call, "name", "Who?")
			if err == nil {
				ran <- who.Name
			}
			return "redeemed", err
		})
	})
	ts := httptest.NewServer(srv.HTTPHandler(&askback.HTTPOptions{Drafts: true}))
	defer func() {
		ts.CloseClientConnections()
		ts.Close()
	}()
	elsewhere := func(q map[string]any, want string) {
		t.Helper()
		_, m := post(t, ts.URL, `{"jsonrpc":"2.0","id":1,"state":`+harness.Quote(q["state"].(string))+`,"result":`+named("b")+`}`)
		if !strings.Contains(fmt.Sprint(m), want) {
			t.Errorf("want %s, got %v", want, m)
		}
	}
	// First in the session, then elsewhere.
	c := newSession(t, ts.URL+"?draft=state", ts.URL)
	c.call("redeem", "{}")
	q := c.event()
	c.respond(q, "", named("a"))
	if m := c.event(); !strings.Contains(c.last, "redeemed") {
		t.Errorf("in the session: %v", m)
	}
	elsewhere(q, "Invalid or expired requestState")
	// First elsewhere, then in the session.
	c.call("redeem", "{}")
	q = c.event()
	elsewhere(q, "redeemed")
	c.respond(q, "", named("a"))
	if m := c.event(); !strings.Contains(c.last, "Invalid or expired requestState") {
		t.Errorf("in the session: %v", m)
	}
	if len(ran) != 2 {
		t.Errorf("ran %d times", len(ran))
	}
}

// altered changes the content of a state in a session.
func altered(t *testing.T, state, from, to string) string {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil || !strings.Contains(string(data), from) {
		t.Fatalf("%q is not in %s, %v", from, data, err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(data), from, to, 1)))
}
