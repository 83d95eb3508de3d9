package sdkfront_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// listRequest is a request for a list with these members of params.
func listRequest(method, members string) harness.Request {
	return harness.Request{Method: method, Body: harness.Message(7, method, members, harness.AllCapabilities)}
}

// bySDK is the same request in a form that only the SDK serves.
func bySDK(r harness.Request) harness.Request {
	r.Header = http.Header{"Accept": {"application/*, text/*"}}
	return r
}

func newListed(t testing.TB, sdkOpts *mcp.ServerOptions, opts *askback.Options) (*mcp.Server, *askback.Server) {
	t.Helper()
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, sdkOpts)
	own := askback.Options{}
	if opts != nil {
		own = *opts
	}
	own.Keys, own.Logger = harness.NewRing(t), slog.New(slog.DiscardHandler)
	srv, err := askback.New(m, &own)
	expect.Check(t, err)
	return m, srv
}

func addListed(m *mcp.Server, names ...string) {
	for _, name := range names {
		m.AddTool(&mcp.Tool{Name: name, Description: "a <b> & \u2028 ü", InputSchema: json.RawMessage(`{"type":"object"}`)},
			nil)
	}
}

// toolNames returns the names in a list, whose response must be the SDK's.
func toolNames(t testing.TB, h http.Handler, members string) (names []string, next string) {
	t.Helper()
	r := listRequest("tools/list", members)
	got, want := r.Send(t, h), bySDK(r).Send(t, h)
	if got.Raw != want.Raw {
		t.Fatalf("got  %s\nwant %s", got.Raw, want.Raw)
	}
	return namesIn(t, got)
}

func namesIn(t testing.TB, res *harness.Response) (names []string, next string) {
	t.Helper()
	data := res.Raw[strings.Index(res.Raw, "{"):]
	var m struct {
		Result struct {
			Tools      []struct{ Name string }
			NextCursor string
		}
	}
	if err := json.Unmarshal([]byte(data), &m); err != nil {
		t.Fatalf("%v in %q", err, res.Raw)
	}
	for _, tool := range m.Result.Tools {
		names = append(names, tool.Name)
	}
	return names, m.Result.NextCursor
}

// Every response is byte for byte the SDK's, the first time and when it comes again.
func TestListsAreTheSDKs(t *testing.T) {
	t.Parallel()
	meta := func(capabilities, more string) string {
		return `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
			`"io.modelcontextprotocol/clientCapabilities":` + capabilities + more + `}`
	}
	for _, tc := range []struct {
		name       string
		sdk        mcp.ServerOptions
		streamable mcp.StreamableHTTPOptions
		tasks      bool
	}{
		{name: "events"},
		{name: "JSON", streamable: mcp.StreamableHTTPOptions{JSONResponse: true}},
		{name: "tasks", tasks: true},
		{name: "pages", sdk: mcp.ServerOptions{PageSize: 2, Instructions: "<ask>"}},
		{name: "cacheable", sdk: mcp.ServerOptions{SetCacheable: func(_ context.Context, req mcp.Request, c *mcp.Cacheable) {
			if client := req.GetSession().(*mcp.ServerSession).InitializeParams(); client != nil && client.ClientInfo != nil {
				c.TTLMs, c.CacheScope = len(client.ClientInfo.Name), "private"
			}
		}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			opts := new(askback.Options)
			if tc.tasks {
				opts.Tasks = &askback.Tasks{Store: new(task.MemoryStore)}
			}
			m, srv := newListed(t, &tc.sdk, opts)
			harness.AddGreet(srv)
			addListed(m, "b", "a", "c")
			m.AddPrompt(&mcp.Prompt{Name: "p", Arguments: []*mcp.PromptArgument{{Name: "x"}}}, nil)
			m.AddResource(&mcp.Resource{Name: "r", URI: "file:///r"}, nil)
			m.AddResourceTemplate(&mcp.ResourceTemplate{Name: "t", URITemplate: "file:///{t}"}, nil)
			h := srv.HTTPHandler(&askback.HTTPOptions{Streamable: tc.streamable})
			client := `,"io.modelcontextprotocol/clientInfo":{"name":"me","version":"1"}`
			members := map[string]string{
				"none":                 meta("{}", client),
				"empty cursor":         `"cursor":"",` + meta("{}", client),
				"null cursor":          `"cursor":null,` + meta("{}", client),
				"wrong cursor":         `"cursor":"?",` + meta("{}", client),
				"cursor of other type": `"cursor":1,` + meta("{}", client),
				"progress":             meta("{}", client+`,"progressToken":"x"`),
				"unknown member":       `"x":1,` + meta(harness.AllCapabilities, client),
				"bad capabilities":     meta(`{"elicitation":1}`, client),
				"bad roots":            meta(`{"roots":1}`, client),
				"bad client":           meta(`{}`, `,"io.modelcontextprotocol/clientInfo":{"name":1}`),
			}
			if first, next := toolNames(t, h, ""); tc.sdk.PageSize > 0 {
				if len(first) != 2 || next == "" {
					t.Fatalf("first page %v, next %q", first, next)
				}
				members["next cursor"] = `"cursor":"` + next + `",` + meta("{}", client)
			}
			for _, method := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list",
				"server/discover"} {
				for name, params := range members {
					r := harness.Request{Method: method, Body: `{"jsonrpc":"2.0","id":"<7>","method":"` + method + `","params":{` +
						params + `}}`}
					want := bySDK(r).Send(t, h)
					for range 2 {
						got := r.Send(t, h)
						if got.Status != want.Status || got.Raw != want.Raw || fmt.Sprint(got.Header) != fmt.Sprint(want.Header) {
							t.Errorf("%s, %s:\ngot  %d %v %s\nwant %d %v %s", method, name, got.Status, got.Header, got.Raw, want.Status,
								want.Header, want.Raw)
						}
					}
				}
			}
		})
	}
}

// A change is seen by the next request, whoever made it, and whatever was kept before.
func TestListsChangeAtOnce(t *testing.T) {
	t.Parallel()
	m, srv := newListed(t, &mcp.ServerOptions{PageSize: 3}, nil)
	h := srv.HTTPHandler(nil)
	all := func() (all []string) {
		for names, next := toolNames(t, h, ""); ; names, next = toolNames(t, h, `"cursor":`+harness.Quote(next)) {
			if all = append(all, names...); next == "" {
				return all
			}
		}
	}
	want := func(names ...string) {
		t.Helper()
		for range 2 {
			if got := all(); !slices.Equal(got, names) {
				t.Fatalf("got %v, want %v", got, names)
			}
		}
	}
	want()
	addListed(m, "a", "b", "c", "d", "e", "f", "g")
	want("a", "b", "c", "d", "e", "f", "g")
	harness.AddGreet(srv)
	want("a", "b", "c", "d", "e", "f", "g", "greet")
	m.RemoveTools("e") // on the second page
	want("a", "b", "c", "d", "f", "g", "greet")
	srv.RemoveTools("greet")
	m.RemoveTools("a")
	want("b", "c", "d", "f", "g")
	addListed(m, "c") // another tool with the name
	want("b", "c", "d", "f", "g")
	m.AddTool(&mcp.Tool{Name: "d", Description: "new", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	want("b", "c", "d", "f", "g")
	m.RemoveTools("b", "c", "d", "f", "g")
	want()

	prompt := &mcp.Prompt{Name: "p"}
	for _, description := range []string{"old", "new"} {
		prompt.Description = description // the same *mcp.Prompt
		m.AddPrompt(prompt, nil)
		if res := listRequest("prompts/list", "").Send(t, h); !strings.Contains(res.Raw, description) {
			t.Errorf("want %q in %s", description, res.Raw)
		}
	}
}

// Middleware of either server sees every request for a list, with its session, and may answer each caller differently.
func TestMiddlewareFiltersLists(t *testing.T) {
	t.Parallel()
	filter := func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, req)
			list, ok := result.(*mcp.ListToolsResult)
			if !ok || req.GetExtra().TokenInfo.UserID == "admin" {
				return result, err
			}
			if req.GetSession().(*mcp.ServerSession).InitializeParams() == nil {
				t.Error("a request is not in its own session")
			}
			list.Tools = slices.DeleteFunc(list.Tools, func(t *mcp.Tool) bool { return t.Name == "secret" })
			return list, err
		}
	}
	names := func(h http.Handler, user string) []string {
		r := listRequest("tools/list", "")
		r.Header = http.Header{"Authorization": {"Bearer " + user}}
		names, _ := namesIn(t, r.Send(t, h))
		return names
	}
	for _, tc := range []struct {
		name string
		add  func(m *mcp.Server, srv *askback.Server)
	}{
		{"of the SDK's server", func(m *mcp.Server, _ *askback.Server) { m.AddReceivingMiddleware(filter) }},
		{"of ours", func(_ *mcp.Server, srv *askback.Server) { srv.AddReceivingMiddleware(filter) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, srv := newListed(t, nil, nil)
			addListed(m, "open", "secret")
			h := auth.RequireBearerToken(func(_ context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
				return &auth.TokenInfo{UserID: token, Expiration: time.Now().Add(time.Hour)}, nil
			}, nil)(srv.HTTPHandler(nil))
			for _, user := range []string{"admin", "guest", "admin"} {
				if got := names(h, user); len(got) != 2 {
					t.Fatalf("without middleware %s sees %v", user, got)
				}
			}
			tc.add(m, srv)
			for range 2 {
				expect.Same(t, "admin sees", names(h, "admin"), []string{"open", "secret"})
				expect.Same(t, "guest sees", names(h, "guest"), []string{"open"})
			}
		})
	}
}

// While tools come and go, each list is one that there was between its request and its response: tools are added in
// the order of their names, so that a list is the first n of them.
func TestListsUnderConcurrentChanges(t *testing.T) {
	t.Parallel()
	m, srv := newListed(t, nil, nil)
	h := srv.HTTPHandler(nil)
	const last = 60
	name := func(i int) string { return fmt.Sprintf("t%03d", i) }
	var mu sync.Mutex // around added
	added := 0
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return added
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for count() < last {
				before := count()
				names, _ := namesIn(t, listRequest("tools/list", "").Send(t, h))
				after := count()
				if len(names) < before || len(names) > after+1 {
					t.Errorf("%d tools, where there were %d before and %d after", len(names), before, after)
					return
				}
				for i, got := range names {
					if got != name(i) {
						t.Errorf("tool %d is %q", i, got)
						return
					}
				}
			}
		})
	}
	for i := range last {
		addListed(m, name(i))
		mu.Lock()
		added++
		mu.Unlock()
		if names, _ := toolNames(t, h, ""); len(names) != i+1 {
			t.Errorf("%d tools after adding %d", len(names), i+1)
		}
	}
	wg.Wait()
}

// A page that is kept costs the SDK's walk through its tools, and not their encoding.
func TestListsAreKept(t *testing.T) {
	m, srv := newListed(t, nil, nil)
	for i := range 500 {
		addGreeting(m, fmt.Sprint(i))
	}
	h := srv.HTTPHandler(nil)
	template := listRequest("tools/list", "").HTTP(t)
	body, err := io.ReadAll(template.Body)
	expect.Check(t, err)
	w := &discarding{make(http.Header)}
	allocations := testing.AllocsPerRun(10, func() {
		r := template.WithContext(t.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		h.ServeHTTP(w, r)
	})
	if allocations > 300 {
		t.Errorf("a list of 500 tools takes %v allocations", allocations)
	}
}

// addGreeting adds a tool with a schema that the SDK infers.
func addGreeting(m *mcp.Server, name string) {
	mcp.AddTool(m, &mcp.Tool{Name: name, Description: "Greets."}, func(context.Context, *mcp.CallToolRequest,
		harness.Greeting) (*mcp.CallToolResult, any, error) {
		return nil, nil, nil
	})
}

// BenchmarkList is a page of a list through the HTTP handler.
func BenchmarkList(b *testing.B) {
	for _, method := range []string{"tools/list", "prompts/list", "resources/list", "server/discover"} {
		for _, n := range []int{1, 1000} {
			b.Run(fmt.Sprintf("%s/%d", method, n), func(b *testing.B) {
				m, srv := newListed(b, nil, nil)
				for i := range n {
					name := fmt.Sprintf("tool_%04d", i)
					addGreeting(m, name)
					m.AddPrompt(&mcp.Prompt{Name: name, Description: "Closes a bug."}, nil)
					m.AddResource(&mcp.Resource{Name: name, URI: "file:///" + name}, nil)
				}
				h := srv.HTTPHandler(nil)
				template := listRequest(method, "").HTTP(b)
				body, err := io.ReadAll(template.Body)
				expect.Check(b, err)
				w := &discarding{header: make(http.Header)}
				serve := func() {
					r := template.WithContext(b.Context())
					r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
					h.ServeHTTP(w, r)
				}
				serve() // which encodes the page
				b.ReportAllocs()
				for b.Loop() {
					serve()
				}
			})
		}
	}
}

// discarding is a client that reads as fast as it is written to.
type discarding struct{ header http.Header }

func (d *discarding) Header() http.Header         { return d.header }
func (d *discarding) WriteHeader(int)             {}
func (d *discarding) Write(p []byte) (int, error) { return len(p), nil }
