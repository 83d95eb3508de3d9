package drafts_test

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
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
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
	res := harness.Open(t, url, `{"jsonrpc":"2.0","id":0,"method":"initialize",`+
		`"params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"c","version":"1"}}}`)
	c.id = res.Header.Get("Mcp-Session-Id")
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	c.post(url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *oldSession) post(url, body string) (int, map[string]any) {
	c.t.Helper()
	return harness.Post(c.t, url, body, "Mcp-Session-Id", c.id, "MCP-Protocol-Version", "2025-11-25")
}

// call begins a call, whose stream stays open.
func (c *oldSession) call(tool, arguments string) {
	c.t.Helper()
	res := harness.Open(c.t, c.url,
		`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`,
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
			return harness.AsJSON(c.t, data).(map[string]any)
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
	t.Parallel()
	url := newDraftServer(t, harness.NewRing(t), true)
	c := newSession(t, url+"?draft=state", url)
	c.call("both", "{}")
	for n := range 3 {
		q := c.event()
		state, _ := q["state"].(string)
		if state == "" || q["method"] != "elicitation/create" || strings.Contains(c.last, "askback-mcp/state") {
			t.Fatalf("question %d: %s", n, c.last)
		}
		if status, m := c.respond(q, state+"x", named("x")); status != 400 ||
			harness.At(m, "error", "message") != "Invalid or expired requestState" {
			t.Errorf("a wrong state: status %d, %v", status, m)
		}
		if n == 1 {
			state = "" // as from a client that does not know it
		}
		answer := map[any]string{"The first?": "a", "The second?": "b", "The third?": "c"}[harness.At(q, "params",
			"message")]
		if status, m := c.respond(q, state, named(answer)); status != 202 || m != nil {
			t.Errorf("status %d, %v", status, m)
		}
		if status, _ := c.respond(q, state, named("again")); status != 202 {
			t.Errorf("a second time: status %d", status)
		}
	}
	if got := harness.At(c.event(), "result", "content", 0, "text"); got != "abc" {
		t.Errorf("got %s", c.last)
	}
}

// Requests of every kind carry the state, including those without parameters.
func TestQuestionsOfEveryKindCarryAState(t *testing.T) {
	t.Parallel()
	url := newDraftServer(t, harness.NewRing(t), true,
		harness.AddText("kinds", nil, func(ctx context.Context, call *askback.Call) (string, error) {
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
	if got := harness.At(c.event(), "result", "content", 0, "text"); got != "octocatmfile:///home" {
		t.Errorf("got %s", c.last)
	}
}

// In a process that does not hold the session, the call continues from the state. The response is
// the next message of the server.
func TestAnEchoGoesOnOnAnotherServer(t *testing.T) {
	t.Parallel()
	ring := harness.NewRing(t)
	here, there := newDraftServer(t, ring, true), newDraftServer(t, ring, true)
	c := newSession(t, here+"?draft=state", there)
	c.call("both", "{}")
	q := c.event()
	answers := map[any]string{"The first?": "a", "The second?": "b", "The third?": "c"}
	for n := range 3 {
		status, next := c.respond(q, q["state"].(string), named(answers[harness.At(q, "params", "message")]))
		if status != 200 {
			t.Fatalf("status %d: %v", status, next)
		}
		if n < 2 {
			if next["method"] != "elicitation/create" || next["state"] == q["state"] || next["id"] == q["id"] ||
				next["result"] != nil {
				t.Fatalf("question %d: %v", n, next)
			}
			q = next
			continue
		}
		want := harness.AsJSON(t, `{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":"abc"}],`+
			`"isError":false}}`)
		expect.Diff(t, "result", want, any(next))
	}
	// The state is bound, as always, to the call that it was made for and to its questions.
	bound := newSession(t, here+"?draft=state", there)
	bound.call("get_weather", `{"location":"New York"}`)
	q = bound.event()
	if status, m := c.respond(q, altered(t, q["state"].(string), "New York", "Cairo"), named("octocat")); status != 400 ||
		harness.At(m, "error", "code") != -32602.0 {
		t.Errorf("other arguments: status %d, %v", status, m)
	}
	// A key that is not the question's.
	if _, m := c.respond(q, altered(t, q["state"].(string), `"github_login"`, `"google_login"`),
		named("octocat")); m["method"] != "elicitation/create" {
		t.Errorf("another key: %v", m)
	}
	if _, m := c.respond(q, q["state"].(string), named("octocat")); harness.At(m, "result", "content", 0,
		"text") != weatherText {
		t.Errorf("got %v", m)
	}
}

// With single use, a state that was used in its session cannot be used elsewhere.
func TestAStateOfASessionIsUsedOnce(t *testing.T) {
	t.Parallel()
	ran := make(chan string, 9)
	srv := harness.NewServer(t, &askback.Options{ReplayGuard: new(state.MemoryGuard),
		Logger: slog.New(slog.DiscardHandler)}, func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "redeem"}, func(ctx context.Context, call *askback.Call,
			in struct{}) (string, error) {
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
		_, m := harness.Post(t, ts.URL,
			`{"jsonrpc":"2.0","id":1,"state":`+harness.Quote(q["state"].(string))+`,"result":`+named("b")+`}`)
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
	expect.Equal(t, "ran", len(ran), 2)
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

// Only a request begins a call. A response does not, whatever its state says, for what stands in front of the server
// looks at the method and the name of requests.
func TestAResponseBeginsNoCall(t *testing.T) {
	t.Parallel()
	var ran atomic.Int32
	for _, opts := range []askback.Options{
		{},
		{BareFirstRound: true},
		{States: &state.Options{Store: new(state.MemoryStore), Mode: state.Dual}, Principal: callerInHeader},
		{States: &state.Options{Store: new(state.MemoryStore), Mode: state.StatelessFirst}, Principal: callerInHeader},
	} {
		opts.Logger = slog.New(slog.DiscardHandler)
		m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		m.AddTool(&mcp.Tool{Name: "foreign", InputSchema: map[string]any{"type": "object"}}, harness.CountedTool(&ran))
		opts.Keys = harness.NewRing(t)
		srv, err := askback.New(m, &opts)
		expect.Check(t, err)
		harness.AddText("own", nil, func(context.Context, *askback.Call) (string, error) {
			ran.Add(1)
			return "ran", nil
		})(srv)
		srv.AddPrompt(&mcp.Prompt{Name: "own"}, harness.CountedPrompt(&ran))
		srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "own", URITemplate: "x://{id}"}, harness.CountedResource(&ran))
		ts := httptest.NewServer(srv.HTTPHandler(&askback.HTTPOptions{Drafts: true}))
		defer ts.Close()
		for _, call := range []string{
			`"m":"tools/call","p":{"name":"own","arguments":{}}`, `"m":"tools/call","p":{"name":"foreign","arguments":{}}`,
			`"m":"prompts/get","p":{"name":"own"}`, `"m":"resources/read","p":{"uri":"x://1"}`,
		} {
			for _, sealed := range []string{"", `"s":"",`, `"s":"x",`, `"s":null,`} {
				for _, url := range []string{"", "?draft=state", "?draft=mrtr-1"} {
					envelope := `{` + sealed + `"k":["a"],"c":{"n":"","i":1,` + call + `,"o":{}}}`
					made := base64.RawURLEncoding.EncodeToString([]byte(envelope))
					for _, outcome := range []string{`"result":{}`, `"result":{"action":"accept"}`} {
						body := `{"jsonrpc":"2.0","id":7,"state":"` + made + `",` + outcome + `}`
						status, m := harness.Post(t, ts.URL+url, body, "X-Caller", "alice")
						// The SDK decodes the answers to its own tool first.
						refused := harness.At(m, "error", "message") == harness.StateRefused || strings.Contains(call, "foreign")
						if status != 400 || !refused {
							t.Errorf("%s%s%s: status %d, %v", url, sealed, call, status, m)
						}
					}
				}
			}
		}
	}
	expect.Equal(t, "handlers ran", ran.Load(), 0)
}

func callerInHeader(_ context.Context, extra *mcp.RequestExtra) (string, error) {
	return extra.Header.Get("X-Caller"), nil
}

// Another caller who knows the ID of a session and of a question can neither answer it nor take its state away.
func TestAnEchoOfAnotherCaller(t *testing.T) {
	t.Parallel()
	srv := harness.NewServer(t, &askback.Options{Principal: callerInHeader}, addBoth)
	ts := httptest.NewServer(srv.HTTPHandler(&askback.HTTPOptions{Drafts: true}))
	t.Cleanup(func() { ts.CloseClientConnections(); ts.Close() })
	c := newSession(t, ts.URL+"?draft=state", ts.URL)
	c.call("both", "{}")
	for _, answer := range []string{"a", "b"} {
		q := c.event()
		id, err := json.Marshal(q["id"])
		expect.Check(t, err)
		for _, echoed := range []string{"", `,"state":"x"`, `,"state":` + harness.Quote(q["state"].(string))} {
			body := `{"jsonrpc":"2.0","id":` + string(id) + echoed + `,"result":` + named("mallory") + `}`
			header := []string{"Mcp-Session-Id", c.id, "MCP-Protocol-Version", "2025-11-25", "X-Caller", "mallory"}
			if status, m := harness.Post(t, ts.URL, body, header...); status != 403 {
				t.Errorf("another caller%s: status %d, %v", echoed, status, m)
			}
		}
		// The state is still compared.
		if status, m := c.respond(q, "wrong", named(answer)); status != 400 {
			t.Errorf("a wrong state after another caller: status %d, %v", status, m)
		}
		if status, m := c.respond(q, q["state"].(string), named(answer)); status != 202 {
			t.Errorf("status %d, %v", status, m)
		}
	}
}

// A call that continues from an echo takes its caller's share of calls once, for all its rounds, or is refused before
// its state is used. The caller sends the echo again.
func TestAnEchoTakesItsShareOfCalls(t *testing.T) {
	t.Parallel()
	var ran atomic.Int32
	busy, begun := make(chan struct{}), make(chan struct{})
	register := func(s *askback.Server) {
		harness.AddText("busy", nil, func(ctx context.Context, _ *askback.Call) (string, error) {
			close(begun)
			<-busy
			return "done", nil
		})(s)
		harness.AddText("asks", nil, func(ctx context.Context, call *askback.Call) (string, error) {
			if _, err := askback.Elicit[harness.Login](call, "login", "?"); err != nil {
				return "", err
			}
			ran.Add(1)
			for i := range 3 {
				if err := call.Checkpoint(ctx, fmt.Sprint("checkpoint ", i)); err != nil {
					return "", err
				}
			}
			return "asked", nil
		})(s)
	}
	ring := harness.NewRing(t)
	here := newDraftServer(t, ring, true, register)
	one := askback.Limits{Calls: askback.Share{Total: 2, PerPrincipal: 1, Anonymous: 1}}
	opts := &askback.Options{Keys: ring, Limits: one, ReplayGuard: new(state.MemoryGuard), Principal: callerInHeader}
	srv := harness.NewServer(t, opts, register)
	there := httptest.NewServer(srv.HTTPHandler(&askback.HTTPOptions{Drafts: true}))
	defer there.Close()

	c := newSession(t, here+"?draft=state", there.URL)
	c.call("asks", "{}")
	q := c.event()
	ended := make(chan map[string]any, 1)
	go func() {
		_, m := harness.Post(t, there.URL, harness.Message(1, "tools/call", `"name":"busy","arguments":{}`, ""))
		ended <- m
	}()
	select {
	case <-begun:
	case m := <-ended:
		t.Fatalf("the busy call: %v", m)
	}
	if status, m := c.respond(q, q["state"].(string), named("octocat")); status != 429 || ran.Load() != 0 {
		t.Errorf("at the limit: status %d, ran %d times, %v", status, ran.Load(), m)
	}
	// Another caller is served.
	asks := harness.Message(1, "tools/call", `"name":"asks","arguments":{}`, "")
	if _, m := harness.Post(t, there.URL, asks, "X-Caller", "bob"); harness.At(m, "result", "inputRequests") == nil {
		t.Errorf("another caller: %v", m)
	}
	close(busy)
	<-ended
	status, m := c.respond(q, q["state"].(string), named("octocat"))
	if status != 200 || harness.At(m, "result", "content", 0, "text") != "asked" || ran.Load() != 4 {
		t.Errorf("when there is room: status %d, ran %d times, %v", status, ran.Load(), m)
	}
}
