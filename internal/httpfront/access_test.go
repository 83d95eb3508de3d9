package httpfront_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// These tests check that every front brings its requests to the gate, with what the gate has to know of them.

// Every front asks the operator once about each request, and refuses with the status of the transport.
func TestAuthorize(t *testing.T) {
	var asked atomic.Int32
	srv := harness.Everything(t, askback.Options{
		Logger:    slog.New(slog.DiscardHandler),
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
		Authorize: func(_ context.Context, a askback.Access) error {
			asked.Add(1)
			whole := a.Method == "tasks/list" || a.Method == "subscriptions/listen"
			if a.Principal != "alice" || a.Method == "" || a.Target == "" && !whole {
				t.Errorf("asked about %+v", a)
			}
			return &jsonrpc.Error{Code: -32099, Message: "not today"}
		},
	})
	harness.EachRequest(t, srv, nil, func(t *testing.T, f harness.Front, response map[string]any) {
		if harness.At(response, "error", "code") != -32099.0 || harness.At(response, "error", "message") != "not today" {
			t.Errorf("got %v", response)
		}
		expect.Equal(t, "it was not asked once", asked.Swap(0), 1)
	})
	for _, request := range [][2]string{
		{"tools/call", `"name":"quiet"`}, {"tasks/get", `"taskId":"x"`},
		{"subscriptions/listen", `"notifications":{"taskIds":["x"]}`},
	} {
		if response := harness.Fronts[0].Dial(t, srv, nil)(request[0], request[1]); response["status"] != 403 {
			t.Errorf("over HTTP %s has the status %v", request[0], response["status"])
		}
	}
}

// A caller who knows the ID of a session but did not open it cannot call in it, listen to it, end
// it, or answer its server's questions.
func TestASessionBelongsToWhoOpenedIt(t *testing.T) {
	answered := make(chan string, 1)
	var refused []askback.AuditEvent
	audit := func(_ context.Context, e askback.AuditEvent) {
		if e.Kind == askback.AuditRefused {
			refused = append(refused, e)
		}
	}
	opts := &askback.Options{Principal: harness.UserHeader, Audit: audit}
	srv := harness.NewServer(t, opts, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "ask"}, func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
			l, err := askback.Elicit[harness.Login](call, "login", "Who are you?")
			if err == nil {
				answered <- l.Name
			}
			return l.Name, err
		})
	})
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // what is wrongly served may have no end
	defer cancel()
	session := ""
	send := func(user, method, body string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, web.URL, strings.NewReader(body))
		expect.Check(t, err)
		for name, value := range map[string]string{"X-User": user, "Content-Type": "application/json",
			"Mcp-Session-Id": session,
			"Accept":         "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"} {
			r.Header.Set(name, value)
		}
		res, err := http.DefaultClient.Do(r)
		expect.Check(t, err)
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	session = send("alice", http.MethodPost,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+harness.Initialize+`}}`).Header.Get("Mcp-Session-Id")
	send("alice", http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	question := ""
	events := bufio.NewScanner(send("alice", http.MethodPost,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask"}}`).Body)
	for events.Scan() && !strings.Contains(question, "elicitation/create") {
		question = events.Text()
	}
	var asked struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(question, "data: ")), &asked); err != nil {
		t.Fatalf("no question: %q, %v", question, err)
	}
	answer := func(name string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"accept","content":{"name":%q}}}`, asked.ID, name)
	}
	for _, c := range []struct{ says, user, method, body string }{
		{"an answer", "bob", http.MethodPost, answer("mallory")},
		{"a call", "bob", http.MethodPost, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ask"}}`},
		{"a list", "bob", http.MethodPost, `{"jsonrpc":"2.0","id":3,"method":"tools/list"}`},
		{"listening", "bob", http.MethodGet, ""},
		{"the end", "bob", http.MethodDelete, ""},
		{"nobody", "", http.MethodDelete, ""},
	} {
		refused = nil
		res := send(c.user, c.method, c.body)
		body, _ := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusForbidden || !strings.Contains(string(body), "another caller") {
			t.Errorf("%s: status %d, %s", c.says, res.StatusCode, body)
		}
		want := askback.AuditEvent{Kind: askback.AuditRefused, Principal: c.user, Reason: "session"}
		if len(refused) != 1 || refused[0] != want {
			t.Errorf("%s: audited %+v, want %+v", c.says, refused, want)
		}
	}
	if res := send("alice", http.MethodPost, answer("octocat")); res.StatusCode != http.StatusAccepted {
		t.Errorf("alice's own answer: status %d", res.StatusCode)
	}
	select {
	case name := <-answered:
		expect.Equal(t, "the handler got the answer", name, "octocat")
	case <-time.After(2 * time.Minute):
		t.Error("the handler gets no answer")
	}
}

// The gate also applies when the SDK's own handler serves a server's sessions.
func TestASessionOfTheSDKsHandlerBelongsToWhoOpenedIt(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Principal: harness.UserHeader, Logger: slog.New(slog.DiscardHandler)})
	expect.Check(t, err)
	askback.AddTool(srv, &mcp.Tool{Name: "t"}, func(context.Context, *askback.Call, struct{}) (string,
		error) {
		return "done", nil
	})
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, nil)
	send := func(user, session, body string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
		for name, value := range map[string]string{"X-User": user, "Content-Type": "application/json",
			"Mcp-Session-Id": session,
			"Accept":         "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"} {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	session := send("alice", "",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+harness.Initialize+`}}`).Header().Get("Mcp-Session-Id")
	send("alice", session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	const call = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"t"}}`
	if w := send("bob", session, call); !strings.Contains(w.Body.String(), "another caller") {
		t.Errorf("bob: %s", w.Body)
	}
	if w := send("alice", session, call); !strings.Contains(w.Body.String(), "done") {
		t.Errorf("alice: %s", w.Body)
	}
}

// A removed handler is removed on every front.
func TestRemoving(t *testing.T) {
	srv := harness.Everything(t, askback.Options{})
	srv.RemoveTools("quiet")
	srv.RemovePrompts("p")
	srv.RemoveResources("test:r")
	srv.RemoveResourceTemplates("shadow:{x}")
	for _, f := range harness.Fronts {
		for method, params := range map[string]string{"tools/call": `"name":"quiet"`, "prompts/get": `"name":"p"`,
			"resources/read": `"uri":"test:r"`, "resources/read ": `"uri":"shadow:any"`} {
			if response := f.Dial(t, srv, nil)(strings.TrimSpace(method), params); harness.At(response, "error", "code") == nil {
				t.Errorf("%s, %s: %v", f.Name, params, response)
			}
		}
	}
}

// If a client does not answer a question in its session, the time to live ends the call and frees
// its resources, for every style of handler.
func TestTimesToLiveHoldInSessions(t *testing.T) {
	for name, c := range map[string]struct {
		limits askback.Limits
		limit  string
	}{
		"of a round": {askback.Limits{RoundTTL: 2 * time.Second}, "seconds per round"},
		"of a call":  {askback.Limits{RoundTTL: time.Hour, CallTTL: 2 * time.Second}, "seconds per call"},
	} {
		for _, f := range harness.Fronts {
			if !f.Session {
				continue
			}
			for _, r := range [][2]string{
				{"tools/call", `"name":"tool"`}, {"tools/call", `"name":"inline"`}, {"tools/call", `"name":"manual"`},
				{"prompts/get", `"name":"prompt"`}, {"resources/read", `"uri":"test:r"`},
			} {
				t.Run(name+" "+f.Name+" "+r[1], func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						srv := asking(t, c.limits)
						began := time.Now()
						if response := f.Dial(t, srv, nil)(r[0], r[1]); !strings.Contains(fmt.Sprint(response), c.limit) {
							t.Errorf("got %v, want an error that names the limit %q", response, c.limit)
						}
						expect.Equal(t, "it took", time.Since(began), 2*time.Second)
					})
				})
			}
		}
	}
}

// asking returns a server whose handlers ask, in every style.
func asking(t *testing.T, limits askback.Limits) *askback.Server {
	t.Helper()
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	manual := func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if len(req.Params.InputResponses) > 0 {
			return harness.Text("done"), nil
		}
		return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"q": &mcp.ElicitParams{Message: "?"}}}, nil
	}
	m.AddTool(&mcp.Tool{Name: "manual", InputSchema: map[string]any{"type": "object"}}, manual)
	srv, err := askback.New(m, &askback.Options{Limits: limits, Logger: slog.New(slog.DiscardHandler)})
	expect.Check(t, err)
	ask := func(call *askback.Call) error {
		_, err := askback.Elicit[harness.Login](call, "login", "Who are you?")
		return err
	}
	askback.AddTool(srv, &mcp.Tool{Name: "tool"}, func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
		return "", ask(call)
	})
	prompt := func(_ context.Context, call *askback.Call, _ map[string]string) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{}, ask(call)
	}
	srv.AddPrompt(&mcp.Prompt{Name: "prompt"}, prompt)
	resource := func(_ context.Context, call *askback.Call, _ string) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{}, ask(call)
	}
	srv.AddResource(&mcp.Resource{Name: "r", URI: "test:r"}, resource)
	inline := func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		_, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "?",
			RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
		return harness.Text("done"), nil, err
	}
	askback.AddInlineTool(srv, &mcp.Tool{Name: "inline"}, inline)
	t.Cleanup(func() {
		for session := range m.Sessions() {
			session.Close()
		}
	})
	return srv
}
