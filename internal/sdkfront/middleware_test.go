package sdkfront_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// watcher is middleware that counts requests by method, and denies all but those that open a
// session.
type watcher struct {
	deny bool

	mu   sync.Mutex
	seen map[string]int
}

func (w *watcher) middleware(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		w.mu.Lock()
		w.seen[method]++
		w.mu.Unlock()
		if w.deny && method != "initialize" && method != "server/discover" && !strings.HasPrefix(method, "notifications/") {
			return nil, &jsonrpc.Error{Code: -32042, Message: "denied"}
		}
		return next(ctx, method, req)
	}
}

// watched lists the ways to add middleware.
var watched = map[string]func(t *testing.T, w *watcher) *askback.Server{
	"before New": func(t *testing.T, w *watcher) *askback.Server {
		return harness.Everything(t, askback.Options{}, func(m *mcp.Server) { m.AddReceivingMiddleware(w.middleware) })
	},
	"after New": func(t *testing.T, w *watcher) *askback.Server {
		var sdk *mcp.Server
		srv := harness.Everything(t, askback.Options{}, func(m *mcp.Server) { sdk = m })
		sdk.AddReceivingMiddleware(w.middleware)
		return srv
	},
	"on the Server": func(t *testing.T, w *watcher) *askback.Server {
		srv := harness.Everything(t, askback.Options{})
		srv.AddReceivingMiddleware(w.middleware)
		return srv
	},
}

// Every request on every front passes all middleware.
func TestMiddlewareThatDenies(t *testing.T) {
	t.Parallel()
	for name, add := range watched {
		t.Run(name, func(t *testing.T) {
			srv := add(t, &watcher{deny: true, seen: make(map[string]int)})
			harness.EachRequest(t, srv, nil, func(t *testing.T, f harness.Front, response map[string]any) {
				if harness.At(response, "error", "code") != -32042.0 || harness.At(response, "error", "message") != "denied" {
					t.Errorf("got %v, want what the middleware says", response)
				}
			})
		})
	}
}

// Middleware that passes requests on leaves the answers unchanged, and sees each request once.
func TestMiddlewareThatWatches(t *testing.T) {
	t.Parallel()
	plain := harness.Everything(t, askback.Options{})
	for name, add := range watched {
		t.Run(name, func(t *testing.T) {
			for _, f := range harness.Fronts {
				for method, params := range f.Identifies("nonesuch") {
					t.Run(f.Name+" "+method, func(t *testing.T) {
						w := &watcher{seen: make(map[string]int)}
						name := strings.Fields(method)[0]
						want := f.Dial(t, plain, nil)(name, params)
						got := f.Dial(t, add(t, w), nil)(name, params)
						expect.Equal(t, "seen", w.seen[name], 1)
						if fmt.Sprint(got) != fmt.Sprint(want) {
							t.Errorf("got %v, without middleware %v", got, want)
						}
					})
				}
			}
		})
	}
}

// Middleware may change requests and their results.
func TestMiddlewareThatChanges(t *testing.T) {
	t.Parallel()
	louder := func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			call, ok := req.(*mcp.CallToolRequest)
			if !ok {
				return next(ctx, method, req)
			}
			call.Params.Arguments = []byte(`{"place":"Bergen"}`)
			result, err := next(ctx, method, call)
			if res, ok := result.(*mcp.CallToolResult); ok && len(res.Content) > 0 {
				own := *res
				own.Content = []mcp.Content{&mcp.TextContent{Text: res.Content[0].(*mcp.TextContent).Text + "!"}}
				return &own, err
			}
			return result, err
		}
	}
	for name, add := range map[string]func(m *mcp.Server, srv *askback.Server){
		"on the SDK's server": func(m *mcp.Server, _ *askback.Server) { m.AddReceivingMiddleware(louder) },
		"on the Server":       func(_ *mcp.Server, srv *askback.Server) { srv.AddReceivingMiddleware(louder) },
	} {
		t.Run(name, func(t *testing.T) {
			m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
			srv, err := askback.New(m, &askback.Options{Logger: slog.New(slog.DiscardHandler)})
			expect.Check(t, err)
			harness.AddGreet(srv)
			add(m, srv)
			h := srv.HTTPHandler(nil)
			r := harness.Request{Target: "greet", Arguments: `{"place":"Oslo"}`}
			r.State = r.Send(t, h).Asked(t, "login")
			r.Responses = harness.Octocat
			if res := r.Send(t, h); !strings.Contains(res.Raw, "Bergen") || !strings.Contains(res.Raw, `!"`) {
				t.Errorf("got %s", res.Raw)
			}
		})
	}
}

// If requests take the SDK's path because of middleware, the operator is told once.
func TestMiddlewareOnTheSDKsServerIsMentioned(t *testing.T) {
	t.Parallel()
	log := new(harness.Log)
	srv := harness.Everything(t, askback.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}, func(m *mcp.Server) {
		m.AddReceivingMiddleware((&watcher{seen: make(map[string]int)}).middleware)
	})
	h := srv.HTTPHandler(nil)
	for range 2 {
		(harness.Request{Target: "quiet"}).Send(t, h)
	}
	expect.Equal(t, "mentioned", strings.Count(log.String(), "AddReceivingMiddleware"), 1)
}

// Without other middleware requests bypass the SDK. If an update of the SDK changes the field that
// shows whether there is any, requests take the slower path, and this test fails.
func TestRequestsTakeThePathPastTheSDK(t *testing.T) {
	t.Parallel()
	sessions := 0
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Logger: slog.New(slog.DiscardHandler)})
	expect.Check(t, err)
	askback.AddTool(srv, &mcp.Tool{Name: "t"}, func(context.Context, *askback.Call, struct{}) (string, error) {
		for range m.Sessions() {
			sessions++
		}
		return "", nil
	})
	srv.AddReceivingMiddleware((&watcher{seen: make(map[string]int)}).middleware)
	(harness.Request{Target: "t"}).Send(t, srv.HTTPHandler(nil))
	if sessions != 0 {
		t.Error("the SDK served the request: does mcp.Server still have the field receivingMethodHandler_?")
	}
	m.AddReceivingMiddleware((&watcher{seen: make(map[string]int)}).middleware)
	(harness.Request{Target: "t"}).Send(t, srv.HTTPHandler(nil))
	expect.Equal(t, "with middleware on the SDK's server there", sessions, 1)
}

func TestThereIsOneServerOnAnSDKsServer(t *testing.T) {
	t.Parallel()
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	opts := &askback.Options{Logger: slog.New(slog.DiscardHandler)}
	expect.Must(askback.New(m, opts))(t)
	if _, err := askback.New(m, opts); err == nil {
		t.Error("a second Server would not see the requests of the first")
	}
}

// Middleware that panics fails its request, and the process continues.
func TestMiddlewareThatPanics(t *testing.T) {
	t.Parallel()
	unlucky := func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method == "tools/call" {
				panic("no luck")
			}
			return next(ctx, method, req)
		}
	}
	harmless := (&watcher{seen: make(map[string]int)}).middleware
	for name, add := range map[string]func(opts askback.Options) *askback.Server{
		"on the Server": func(opts askback.Options) *askback.Server {
			srv := harness.Everything(t, opts)
			srv.AddReceivingMiddleware(harmless, unlucky)
			return srv
		},
		"on the Server, with other middleware on the SDK's": func(opts askback.Options) *askback.Server {
			srv := harness.Everything(t, opts, func(m *mcp.Server) { m.AddReceivingMiddleware(harmless) })
			srv.AddReceivingMiddleware(unlucky)
			return srv
		},
		"on the SDK's server, before New": func(opts askback.Options) *askback.Server {
			return harness.Everything(t, opts, func(m *mcp.Server) { m.AddReceivingMiddleware(unlucky) })
		},
	} {
		for _, f := range harness.Fronts {
			t.Run(name+" "+f.Name, func(t *testing.T) {
				log := new(harness.Log)
				ask := f.Dial(t, add(askback.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}), nil)
				for _, tool := range []string{"quiet", "plain"} { // ours, and one on the SDK's server
					response := ask("tools/call", `"name":"`+tool+`"`)
					if harness.At(response, "error", "message") != "internal error" ||
						harness.At(response, "error", "code") != -32603.0 {
						t.Errorf("%s: got %v", tool, response)
					}
				}
				if logged := log.String(); strings.Count(logged, "no luck") != 2 {
					t.Errorf("logged %s", logged)
				}
				if response := ask("prompts/get", `"name":"p"`); harness.At(response, "result") == nil {
					t.Errorf("the next request: %v", response)
				}
			})
		}
	}
}
