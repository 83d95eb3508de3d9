package httpfront_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// named counts how often the operator names a caller.
type named struct{ atomic.Int64 }

func (n *named) principal(context.Context, *mcp.RequestExtra) (string, error) {
	n.Add(1)
	return "alice", nil
}

// during returns how often a caller is named while do runs.
func (n *named) during(do func()) int64 {
	before := n.Load()
	do()
	return n.Load() - before
}

// middlewares are the ways for an operator to see each request, which decide the path that a request takes.
var middlewares = []struct {
	name string
	add  func(m *mcp.Server, srv *askback.Server)
}{
	{"without middleware", func(*mcp.Server, *askback.Server) {}},
	{"with middleware", func(_ *mcp.Server, srv *askback.Server) { srv.AddReceivingMiddleware(harness.PassOn) }},
	{"with middleware of the SDK's server", func(m *mcp.Server,
		_ *askback.Server) {
		m.AddReceivingMiddleware(harness.PassOn)
	}},
}

// A function that names a caller may ask a database: it is called once for each request that identifies its caller.
func TestACallerIsNamedOnce(t *testing.T) {
	t.Parallel()
	for _, middleware := range middlewares {
		for _, f := range slices.Concat(harness.Fronts, harness.LineFronts) {
			n := new(named)
			var m *mcp.Server
			srv := harness.Everything(t, askback.Options{Principal: n.principal}, func(own *mcp.Server) { m = own })
			middleware.add(m, srv)
			for method, params := range f.Identifies("nonesuch") {
				t.Run(f.Name+" "+method+" "+middleware.name, func(t *testing.T) {
					ask := f.Dial(t, srv, nil)
					if got := n.during(func() { ask(strings.Fields(method)[0], params) }); got != 1 {
						t.Errorf("the caller is named %d times", got)
					}
				})
			}
		}
	}
}

// Requests that identify no caller to a handler share a connection, or a stream, with those that do.
func TestACallerIsNamedOnceForAnHTTPRequest(t *testing.T) {
	t.Parallel()
	for _, middleware := range middlewares {
		t.Run(middleware.name, func(t *testing.T) {
			t.Parallel()
			n := new(named)
			var m *mcp.Server
			srv := harness.Everything(t, askback.Options{Principal: n.principal}, func(own *mcp.Server) { m = own })
			middleware.add(m, srv)
			harness.AddGreet(srv)
			web := httptest.NewServer(srv.HTTPHandler(&askback.HTTPOptions{Drafts: true}))
			t.Cleanup(web.Close)
			once := func(what, method, body string, headers ...string) (res *http.Response) {
				t.Helper()
				if got := n.during(func() {
					res = begin(t.Context(), t, web.URL, method, body, headers...)
					if _, err := io.Copy(io.Discard, res.Body); err != nil {
						t.Error(err)
					}
				}); got != 1 {
					t.Errorf("%s: the caller is named %d times", what, got)
				}
				return res
			}
			for _, method := range []string{"tools/list", "server/discover", "ping", "resources/subscribe", "none"} {
				once(method, http.MethodPost, harness.Modern(1, method, ""), "Mcp-Protocol-Version", "2026-07-28",
					"Mcp-Method", method)
			}
			listen := `"notifications":{"taskIds":["nonesuch"],"toolsListChanged":true}`
			ctx, cancel := context.WithCancel(t.Context())
			if got := n.during(func() {
				res := begin(ctx, t, web.URL, http.MethodPost, harness.Modern(1, "subscriptions/listen", listen),
					"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
				first := make([]byte, 1)
				if _, err := res.Body.Read(first); err != nil { // the acknowledgment
					t.Error(err)
				}
			}); got != 1 {
				t.Errorf("subscriptions/listen to more than tasks: the caller is named %d times", got)
			}
			cancel()

			address := web.URL
			for _, draft := range []string{"", "mrtr-1", "tasks-1", "state-1"} {
				web.URL = address + "?draft=" + draft
				once("a call of the draft "+draft, http.MethodPost, harness.Message(1, "tools/call", `"name":"quiet"`, ""))
				once("a task of the draft "+draft, http.MethodPost, harness.Message(1, "tasks/get", `"taskId":"x"`, ""))
			}
			web.URL = address
			res := once("initialize", http.MethodPost, harness.Message(1, "initialize", harness.Initialize, ""))
			session := res.Header.Get("Mcp-Session-Id")
			headers := []string{"Mcp-Session-Id", session, "Mcp-Protocol-Version", "2025-11-25"}
			once("initialized", http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...)
			for _, method := range []string{"tools/list", "ping", "none"} {
				once(method+" in a session", http.MethodPost, harness.Message(2, method, "", ""), headers...)
			}
			ctx, cancel = context.WithCancel(t.Context())
			if got := n.during(func() { begin(ctx, t, web.URL, http.MethodGet, "", headers...) }); got != 1 {
				t.Errorf("the stream of a session: the caller is named %d times", got)
			}
			cancel()
			once("the end of a session", http.MethodDelete, "", headers...)

			batch := fmt.Sprintf("[%s,%s,%s]", harness.Message(1, "tools/call", `"name":"quiet"`, ""),
				harness.Message(2, "tools/call", `"name":"plain"`, ""), harness.Message(3, "tasks/get", `"taskId":"x"`, ""))
			res = once("initialize", http.MethodPost,
				harness.Message(1, "initialize", strings.Replace(harness.Initialize, "2025-11-25", "2025-03-26", 1), ""))
			headers = []string{"Mcp-Session-Id", res.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-03-26"}
			once("initialized", http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...)
			once("a batch", http.MethodPost, batch, headers...)
		})
	}
}

// begin sends a request, and returns its response, whose body may be a stream that ends with ctx.
func begin(ctx context.Context, t *testing.T, url, method, body string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	expect.Check(t, err)
	headers = append(headers, "Content-Type", "application/json", "Accept", "application/json, text/event-stream")
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	res, err := http.DefaultClient.Do(r)
	expect.Check(t, err)
	t.Cleanup(func() { res.Body.Close() })
	return res
}

// A handler may call another server of its process with its own context. That server names its caller itself, and asks
// its own operator whether the call may pass.
func TestAServerInsideAHandlerHasItsOwnGate(t *testing.T) {
	t.Parallel()
	for _, middleware := range middlewares {
		t.Run(middleware.name, func(t *testing.T) {
			t.Parallel()
			server := func(o askback.Options, register func(*askback.Server)) http.Handler {
				var m *mcp.Server
				srv := harness.Everything(t, o, func(own *mcp.Server) { m = own })
				middleware.add(m, srv)
				register(srv)
				return srv.HTTPHandler(nil)
			}
			n := new(named)
			inner := server(askback.Options{Principal: n.principal, Authorize: func(context.Context, askback.Access) error {
				return errors.New("not here")
			}}, harness.AddGreet)
			outer := server(askback.Options{}, harness.AddText("calls", nil,
				func(ctx context.Context, _ *askback.Call) (string, error) {
					r := harness.Request{Target: "greet", Arguments: `{"place":"Oslo"}`}
					r.Context = func(req *http.Request) *http.Request { return req.WithContext(ctx) }
					var res *harness.Response
					expect.Equal(t, "the inner caller is named", n.during(func() { res = r.Send(t, inner) }), 1)
					return fmt.Sprint(res.Status), nil
				}))
			expect.Equal(t, "the inner server", (harness.Request{Target: "calls"}).Send(t, outer).Text(t), "403")
		})
	}
}
