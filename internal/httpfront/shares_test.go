package httpfront_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// These tests check that no caller keeps out another one: each has somebody else who is served.

const huge = 512 << 10 // the limit of a message; eight of them use up all memory, as by default

// besieged is a server on a socket, beside callers who hold what they can.
type besieged struct {
	t       *testing.T
	url     string
	client  *http.Client
	working chan struct{} // gets something from each call of the tool work
	done    chan struct{} // ends these calls
}

func besiege(t *testing.T, limits askback.Limits) *besieged {
	if limits.MessageBytes == 0 {
		limits.MessageBytes, limits.BodyBytes = huge, askback.Share{Total: 8 * huge}
	}
	b := &besieged{t: t, client: &http.Client{Transport: &http.Transport{}}, working: make(chan struct{}, 4096),
		done: make(chan struct{})}
	addTools := func(srv *askback.Server) {
		ask := func(_ context.Context, call *askback.Call, _ map[string]any) (string, error) {
			l, err := askback.Elicit[harness.Login](call, "login", "Who are you?")
			return "Hello " + l.Name, err
		}
		askback.AddTool(srv, &mcp.Tool{Name: "ask"}, ask)
		slow := func(ctx context.Context, _ *askback.Call, _ struct{}) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}
		askback.AddTaskTool(srv, &mcp.Tool{Name: "slow"}, nil, slow)
		askback.AddTool(srv, &mcp.Tool{Name: "length"}, func(_ context.Context, _ *askback.Call, in struct {
			X string `json:"x"`
		}) (string, error) {
			return fmt.Sprint(len(in.X)), nil
		})
		askback.AddTool(srv, &mcp.Tool{Name: "large"}, func(context.Context, *askback.Call, struct{}) (string, error) {
			return strings.Repeat("x", 12<<20), nil
		})
		work := func(ctx context.Context, _ *askback.Call, _ map[string]any) (string, error) {
			b.working <- struct{}{}
			select {
			case <-b.done:
				return "done", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}
		askback.AddTool(srv, &mcp.Tool{Name: "work"}, work)
		prompt := func(_ context.Context, call *askback.Call, _ map[string]string) (*mcp.GetPromptResult, error) {
			_, err := askback.Elicit[harness.Login](call, "login", "Who are you?")
			return new(mcp.GetPromptResult), err
		}
		srv.AddPrompt(&mcp.Prompt{Name: "ask", Arguments: []*mcp.PromptArgument{{Name: "x"}}}, prompt)
	}
	opts := &askback.Options{Principal: harness.UserHeader, Limits: limits,
		Tasks: &askback.Tasks{Store: new(task.MemoryStore)}}
	srv := harness.NewServer(t, opts, harness.AddGreet, addTools)
	server := httptest.NewUnstartedServer(srv.HTTPHandler(nil))
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.Start()
	b.url = server.URL
	t.Cleanup(func() {
		close(b.done)
		server.CloseClientConnections()
		server.Close()
	})
	return b
}

// dial sends a request with the first bytes of its body, and keeps the connection open.
func (b *besieged) dial(r *http.Request, size int, begins string) net.Conn {
	b.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.url, "http://"))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	var head strings.Builder
	fmt.Fprintf(&head, "%s / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n", r.Method, size)
	_ = r.Header.Write(&head)
	head.WriteString("\r\n")
	// In the background: the server need not read it.
	go func() { _, _ = io.WriteString(conn, head.String()+begins) }()
	return conn
}

// dialMany sends n requests, of which only some may wait, and returns when all others have given way, so that no
// request is under way any more.
func (b *besieged) dialMany(n, wait int, r func() *http.Request, size int, begins string) {
	b.t.Helper()
	var answered atomic.Int32
	for range n {
		conn := b.dial(r(), size, begins)
		go func() {
			got := make([]byte, len("HTTP/1.1 429"))
			if _, err := io.ReadFull(conn, got); err == nil && string(got) == "HTTP/1.1 429" {
				answered.Add(1)
			}
		}()
	}
	harness.Eventually(b.t, "room", func() bool { return int(answered.Load()) >= n-wait })
}

// do sends a request and returns its response, whose body is open.
func (b *besieged) do(ctx context.Context, r *http.Request, user string) *http.Response {
	b.t.Helper()
	r = r.WithContext(ctx)
	r.RequestURI = ""
	r.URL.Scheme, r.URL.Host, r.Host = "http", strings.TrimPrefix(b.url, "http://"), ""
	if user != "" {
		r.Header.Set("X-User", user)
	}
	res, err := b.client.Do(r)
	if err != nil {
		b.t.Fatalf("%s %s: %v", user, r.Method, err)
	}
	b.t.Cleanup(func() { res.Body.Close() })
	return res
}

// until reads a response until it has text.
func (b *besieged) until(res *http.Response, text string) {
	b.t.Helper()
	if got, err := b.reads(res, text); err != nil {
		b.t.Fatalf("no %q: %d %.500s %v", text, res.StatusCode, got, err)
	}
}

// reads reads a response until it has text. It returns what it has read, and an error if that is all.
func (b *besieged) reads(res *http.Response, text string) (string, error) {
	var got bytes.Buffer
	for r := bufio.NewReader(res.Body); ; {
		line, err := r.ReadString('\n')
		got.WriteString(line)
		if strings.Contains(line, text) {
			return got.String(), nil
		}
		if err != nil {
			return got.String(), err
		}
	}
}

// legacyRequest is a request of a session before 2026-07-28.
func legacyRequest(method, session, body string) *http.Request {
	r := httptest.NewRequest(method, "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
		r.Header.Set("MCP-Protocol-Version", "2025-11-25")
	}
	return r
}

// session opens a session.
func (b *besieged) session(ctx context.Context, user string) (id string) {
	b.t.Helper()
	res := b.do(ctx, legacyRequest("POST", "",
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{`+harness.Initialize+`}}`),
		user)
	b.until(res, `"serverInfo"`)
	id = res.Header.Get("Mcp-Session-Id")
	b.do(ctx, legacyRequest("POST", id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`), user)
	return id
}

// serves checks that another caller is served, whatever they send.
func (b *besieged) serves(user string) {
	b.t.Helper()
	begun := time.Now()
	defer func() { b.t.Logf("served after %v", time.Since(begun)) }()
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	defer cancel()
	b.until(b.do(ctx, harness.Request{Target: "greet", Arguments: `{"place":"x"}`}.HTTP(b.t), user), "input_required")
	length := harness.Request{Target: "length", Arguments: `{"x":"` + strings.Repeat("x", huge/4) + `"}`}
	b.until(b.do(ctx, length.HTTP(b.t), user), fmt.Sprint(huge/4))
	id := b.session(ctx, user)
	asked := b.do(ctx, legacyRequest("POST", id, fmt.Sprintf(
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"x":%q}}}`,
		strings.Repeat("x", huge/4))), user)
	b.until(asked, "elicitation/create")
	b.until(b.do(ctx, listenRequest(b.t, ""), user), "acknowledged")
}

func listenRequest(t *testing.T, more string) *http.Request {
	const toolsChanged = `"notifications":{"toolsListChanged":true}`
	listen := harness.Message(1, "subscriptions/listen", toolsChanged, harness.AllCapabilities)
	return harness.Request{Method: "subscriptions/listen", Header: http.Header{"Mcp-Name": nil},
		Body: strings.TrimSuffix(listen, "}") + more + "}"}.HTTP(t)
}

// abandon makes calls in a session that ask, and leaves them: and their connections.
func (b *besieged) abandon(user, method, params string, n int) (session string) {
	b.t.Helper()
	session = b.session(b.t.Context(), user)
	for i := range n {
		ctx, cancel := context.WithCancel(b.t.Context())
		res := b.do(ctx, legacyRequest("POST", session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`,
			i+10, method, params)), user)
		b.until(res, "elicitation/create")
		cancel()
	}
	return session
}

func TestNobodyIsKeptOut(t *testing.T) {
	t.Parallel()
	x := strings.Repeat("x", huge-1000)
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","arguments":{"place":"` + x + `"}}}`
	few := askback.Share{Total: 16, PerPrincipal: 4, Anonymous: 8}
	both := askback.Limits{Requests: few, Streams: few}
	for name, c := range map[string]struct {
		limits askback.Limits
		attack func(b *besieged)
	}{
		"idle sockets": {limits: askback.Limits{MessageBytes: 4 << 20}, attack: func(b *besieged) {
			for range 6 {
				b.dial(harness.Request{Target: "greet"}.HTTP(t), 4<<20, "{")
			}
		}},
		"bodies that lack the last byte": {attack: func(b *besieged) {
			for range 6 {
				b.dial(harness.Request{Target: "greet"}.HTTP(t), len(body), body[:len(body)-1])
			}
		}},
		"as many idle sockets as there may be requests": {limits: askback.Limits{Requests: few}, attack: func(b *besieged) {
			b.dialMany(20, 8, func() *http.Request { return harness.Request{Target: "greet"}.HTTP(t) }, 100, "{")
		}},
		"idle sockets of sessions": {limits: askback.Limits{Requests: few}, attack: func(b *besieged) {
			id := b.session(t.Context(), "")
			b.dialMany(20, 8, func() *http.Request { return legacyRequest("POST", id, "") }, huge, "{")
		}},
		"subscriptions with spaces": {attack: func(b *besieged) {
			for range 6 {
				b.until(b.do(t.Context(), listenRequest(t, strings.Repeat(" ", huge-1000)), ""), "acknowledged")
			}
		}},
		"subscriptions with more than that": {attack: func(b *besieged) {
			for range 6 {
				b.until(b.do(t.Context(), listenRequest(t, `,"x":"`+x[:len(x)-1000]+`"`), ""), "acknowledged")
			}
		}},
		"as many subscriptions as there may be": {limits: askback.Limits{Streams: few}, attack: func(b *besieged) {
			for range 20 {
				b.until(b.do(t.Context(), listenRequest(t, ""), ""), "acknowledged")
			}
		}},
		"questions with a large _meta": {attack: func(b *besieged) {
			b.abandon("", "tools/call", `"name":"ask","_meta":{"x":"`+x+`"}`, 6)
		}},
		"questions with large arguments": {attack: func(b *besieged) {
			b.abandon("", "tools/call", `"name":"ask","arguments":{"x":"`+x+`"}`, 6)
		}},
		"prompts with large arguments": {attack: func(b *besieged) {
			b.abandon("", "prompts/get", `"name":"ask","arguments":{"x":"`+x+`"}`, 6)
		}},
		"as many questions as there may be": {limits: askback.Limits{Streams: few}, attack: func(b *besieged) {
			b.abandon("", "tools/call", `"name":"ask"`, 20)
		}},
		"a batch that opens a session and asks": {limits: both, attack: func(b *besieged) {
			for range 20 {
				batch := `[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26",` +
					`"capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}}},` +
					`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask"}}]`
				b.until(b.do(t.Context(), legacyRequest("POST", "", batch), ""), "elicitation/create")
			}
		}},
		"as many results of tasks as may be waited for": {limits: both, attack: func(b *besieged) {
			members := `"name":"slow","task":{}`
			create := harness.Request{Method: "tools/call", Target: "slow",
				Body: harness.Message(1, "tools/call", members, harness.ProposalOnly)}
			body, err := io.ReadAll(b.do(t.Context(), create.HTTP(t), "").Body)
			_, id, found := strings.Cut(string(body), `"taskId":"`)
			if err != nil || !found {
				b.t.Fatalf("no task: %s %v", body, err)
			}
			id, _, _ = strings.Cut(id, `"`)
			await := harness.Message(1, "tasks/result", `"taskId":"`+id+`"`, harness.ProposalOnly) + strings.Repeat(" ", huge/4)
			r := harness.Request{Method: "tasks/result", Header: http.Header{"Mcp-Name": nil}, Body: await}
			b.dialMany(20, 8, func() *http.Request { return r.HTTP(t) }, len(await), await)
		}},
		"streams of idle sessions": {limits: askback.Limits{Sessions: few, Streams: few}, attack: func(b *besieged) {
			for range 20 {
				b.dial(legacyRequest("GET", b.session(t.Context(), ""), ""), 0, "")
			}
		}},
		"responses that are not read": {limits: askback.Limits{Requests: few}, attack: func(b *besieged) {
			for range 12 {
				r := harness.Request{Target: "large"}.HTTP(t)
				sent, _ := io.ReadAll(r.Body)
				conn := b.dial(r, len(sent), string(sent))
				if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil { // it has begun
					b.t.Fatal(err)
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := besiege(t, c.limits)
			c.attack(b)
			for range 2 {
				b.serves("")
			}
			b.serves("somebody")
		})
	}
}

// A subscription does not keep the body of its request, however large it was: none of many gives way.
func TestASubscriptionKeepsNoBody(t *testing.T) {
	t.Parallel()
	b := besiege(t, askback.Limits{})
	ctx, cancel := context.WithCancel(t.Context())
	var open []*http.Response
	for range 20 {
		res := b.do(ctx, listenRequest(t, strings.Repeat(" ", huge-1000)), "")
		b.until(res, "acknowledged")
		open = append(open, res)
	}
	b.serves("")
	cancel()
	for _, res := range open {
		if _, err := io.ReadAll(res.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("a subscription has ended: %v", err)
		}
	}
}

// Where four principals work as much as they may, and hold as much as they may, a fifth is served.
func TestAFifthPrincipalIsServed(t *testing.T) {
	t.Parallel()
	share := askback.Share{Total: 32}
	full := askback.Limits{Requests: share, Calls: askback.Share{Total: 32, PerPrincipal: 32}, Streams: share,
		Sessions: share}
	for name, hold := range map[string]func(b *besieged, user string){
		"requests": func(b *besieged, user string) {
			for range 8 {
				if !b.works(harness.Request{Target: "work"}.HTTP(t), user) {
					return
				}
			}
		},
		"bytes": func(b *besieged, user string) {
			for range 3 {
				large := harness.Request{Target: "work", Arguments: `{"x":"` + strings.Repeat("x", huge-1000) + `"}`}
				if !b.works(large.HTTP(t), user) {
					return
				}
			}
		},
		"sessions": func(b *besieged, user string) {
			for range 9 {
				b.session(t.Context(), user)
			}
		},
		"streams": func(b *besieged, user string) {
			for range 9 {
				b.until(b.do(t.Context(), listenRequest(t, ""), user), "acknowledged")
			}
		},
		"calls of sessions": func(b *besieged, user string) {
			id := b.session(t.Context(), user)
			for i := range 8 {
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"work"}}`, i+10)
				if !b.works(legacyRequest("POST", id, body), user) {
					return
				}
			}
		},
		"questions of sessions": func(b *besieged, user string) { b.abandon(user, "tools/call", `"name":"ask"`, 9) },
		"bytes of questions": func(b *besieged, user string) {
			b.abandon(user, "tools/call", `"name":"ask","arguments":{"x":"`+strings.Repeat("x", huge-1000)+`"}`, 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := besiege(t, full)
			for _, user := range []string{"alice", "bob", "carol", "dave"} {
				hold(b, user)
			}
			b.serves("eve")
			b.serves("")
		})
	}
}

// works reports whether a call of the tool work is let in, as soon as it works or is refused.
func (b *besieged) works(r *http.Request, user string) bool {
	b.t.Helper()
	refused := make(chan string, 1)
	ctx := b.t.Context()
	r = r.WithContext(ctx)
	r.RequestURI = ""
	r.URL.Scheme, r.URL.Host, r.Host = "http", strings.TrimPrefix(b.url, "http://"), ""
	r.Header.Set("X-User", user)
	go func() {
		res, err := b.client.Do(r)
		if err != nil {
			return // the test is over
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		refused <- string(body)
	}()
	select {
	case <-b.working:
		return true
	case body := <-refused:
		expect.Contains(b.t, user, body, "limit of")
		return false
	case <-time.After(2 * time.Minute):
		b.t.Fatalf("%s: a call neither works nor is refused", user)
		return false
	}
}

// DELETE of a session ends its calls, answers at once, and gives back what they held, whatever they wait for.
func TestDeleteEndsTheCallsOfASession(t *testing.T) {
	t.Parallel()
	one := askback.Share{Total: 4, PerPrincipal: 1, Anonymous: 1}
	b := besiege(t, askback.Limits{Sessions: one, Streams: one})
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		id := b.session(ctx, "")
		asked := b.do(ctx,
			legacyRequest("POST", id, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask"}}`), "")
		b.until(asked, "elicitation/create")
		if res := b.do(ctx, legacyRequest("DELETE", id, ""), ""); res.StatusCode != http.StatusNoContent {
			t.Errorf("DELETE: %d", res.StatusCode)
		}
		if res := b.do(ctx, legacyRequest("DELETE", id, ""), ""); res.StatusCode != http.StatusNotFound {
			t.Errorf("DELETE of what has ended: %d", res.StatusCode)
		}
		if _, err := io.ReadAll(asked.Body); err != nil {
			t.Fatalf("the call of a session that has ended goes on: %v", err)
		}
		cancel()
	}
	// The same, where the client of the DELETE goes away, and so does not learn when the call has ended. Each call is let
	// in because the one before has given back what it held.
	for range 6 {
		harness.Eventually(t, "room for a call", func() bool {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			id := b.session(ctx, "")
			got, err := b.reads(b.do(ctx, legacyRequest("POST", id,
				`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask"}}`), ""), "elicitation/create")
			if err != nil && !strings.Contains(got, "limit of 1 open requests") {
				t.Fatalf("%v after %.500s", err, got)
			}
			b.dial(legacyRequest("DELETE", id, ""), 0, "").Close()
			return err == nil
		})
	}
}

// The DELETE of a session does not wait for a handler that does not look at its context.
func TestDeleteDoesNotWaitForAHandler(t *testing.T) {
	synctest.Test(t, testDeleteDoesNotWaitForAHandler)
}

func testDeleteDoesNotWaitForAHandler(t *testing.T) {
	release := make(chan struct{})
	working := make(chan struct{})
	srv := harness.NewServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "deaf"}, func(context.Context, *askback.Call, struct{}) (string, error) {
			close(working)
			<-release
			return "done", nil
		})
	})
	l, _ := openLegacy(t, srv.HTTPHandler(nil), "")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.post("2025-11-25", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"deaf"}}`)
	}()
	<-working
	for range 2 { // a second one neither
		w := httptest.NewRecorder()
		l.h.ServeHTTP(w, l.request(t.Context(), http.MethodDelete, "2025-11-25", ""))
		if w.Code != http.StatusNoContent {
			t.Errorf("DELETE: %d %s", w.Code, w.Body)
		}
	}
	close(release)
	<-ended
}
