package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// named is the server at a URL, under a name.
func named(name, url string) bridge.Server {
	s := at(url)
	s.Name, s.Prefix, s.Identity = name, name, name+" "+url
	return s
}

// inFront has a bridge stand in front of these servers.
func inFront(servers ...bridge.Server) func(*bridge.Options) {
	return func(o *bridge.Options) { o.Servers, o.Start = servers, 2*time.Second }
}

// small starts a server whose tool says whose it is.
func small(t testing.TB, name string, tools ...string) *httptest.Server {
	t.Helper()
	srv := expect.Must(askback.New(mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, &mcp.ServerOptions{
		Instructions: "Be kind to " + name + ".",
		CompletionHandler: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{name}}}, nil
		},
	}), &askback.Options{Logger: quiet}))(t)
	for _, tool := range tools {
		askback.AddTool(srv, &mcp.Tool{Name: tool}, func(context.Context, *askback.Call, struct{}) (string, error) {
			return tool + " of " + name, nil
		})
	}
	srv.AddPrompt(&mcp.Prompt{Name: "greet"},
		func(context.Context, *askback.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Description: "Hello from " + name}, nil
		})
	read := func(_ context.Context, _ *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, Text: name}}}, nil
	}
	srv.AddResource(&mcp.Resource{Name: "terms", URI: "doc://terms"}, read)
	srv.AddResource(&mcp.Resource{Name: name, URI: "doc://" + name}, read)
	srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "item", URITemplate: name + "://item/{id}"}, read)
	web := harness.Serve(t, srv.HTTPHandler(nil))
	return web
}

// Tools and prompts of several servers have the server's name before their own, and each call goes to its server. Of
// resources with one URI the first server's is offered.
func TestSeveralServers(t *testing.T) {
	a, b := small(t, "a", "create", "delete"), small(t, "b", "create", "list")
	front := newFront(t, "", inFront(named("a", a.URL), named("b", b.URL)))
	for _, version := range revisions {
		t.Run(version, func(t *testing.T) {
			s := host(t, front.url, version, client.Options{})
			want := []string{"a_create", "a_delete", "askback_result", "b_create", "b_list"}
			expect.Same(t, "the tools", toolNames(t, s), want)
			for tool, want := range map[string]string{
				"a_create": "create of a", "b_create": "create of b", "a_delete": "delete of a",
			} {
				returns(t, s, tool, nil, want)
			}
			expect.Equal(t, "the prompt",
				expect.Must(s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "b_greet"}))(t).Description, "Hello from b")
			for uri, want := range map[string]string{
				"doc://terms": "a", "doc://a": "a", "doc://b": "b", "a://item/7": "a", "b://item/7": "b",
			} {
				expect.Equal(t, uri,
					expect.Must(s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}))(t).Contents[0].Text, want)
			}
			for _, ref := range []*mcp.CompleteReference{
				{Type: "ref/prompt", Name: "b_greet"}, {Type: "ref/resource", URI: "b://item/{id}"},
			} {
				done, err := s.SDK().Complete(t.Context(), &mcp.CompleteParams{Ref: ref,
					Argument: mcp.CompleteParamsArgument{Name: "id", Value: ""}})
				if err != nil || !slices.Equal(done.Completion.Values, []string{"b"}) {
					t.Errorf("the completion of %+v: %+v, %v", ref, done, err)
				}
			}
			text := s.SDK().InitializeResult().Instructions
			for _, name := range []string{"a", "b"} {
				expect.Contains(t, "the instructions", text, "begin with "+name+"_:\nBe kind to "+name+".")
			}
		})
	}
}

// A name depends on its own server alone, so that another server in front of it or behind it changes nothing.
func TestAnotherServerRenamesNothing(t *testing.T) {
	a, b := named("a", small(t, "a", "create").URL), named("b", small(t, "b", "create").URL)
	for _, servers := range [][]bridge.Server{{a}, {a, b}, {b, a}} {
		front := newFront(t, "", inFront(servers...))
		returns(t, host(t, front.url, "", client.Options{}), "a_create", nil, "create of a")
	}
}

// switched is a server that can be made to hang and to fail.
type switched struct {
	*httptest.Server
	mode atomic.Int32
	held chan struct{} // gets something for each request that hangs
	end  func()        // of hanging

	closed chan struct{}
}

const (
	works = iota
	hangs
	fails
)

func newSwitched(t *testing.T, behind http.Handler, mode int32) *switched {
	t.Helper()
	s := &switched{held: make(chan struct{}, 1000), closed: make(chan struct{})}
	s.mode.Store(mode)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch s.mode.Load() {
		case hangs:
			_, _ = io.Copy(io.Discard, r.Body) // only then the end of the connection is seen
			s.held <- struct{}{}
			select {
			case <-r.Context().Done():
			case <-s.closed:
			}
		case fails:
			panic(http.ErrAbortHandler)
		default:
			behind.ServeHTTP(w, r)
		}
	}))
	s.end = sync.OnceFunc(func() { close(s.closed) })
	t.Cleanup(func() {
		s.end()
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// A server that is missing when the bridge starts, or hangs, does not keep the others away. Its tools appear later.
func TestAServerThatIsMissing(t *testing.T) {
	t.Parallel()
	for mode, name := range map[int32]string{hangs: "it hangs", fails: "it fails"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			late := newSwitched(t, small(t, "late", "create").Config.Handler, mode)
			front := newFront(t, "", inFront(named("late", late.URL), named("b", small(t, "b", "create").URL)))
			s := host(t, front.url, "", client.Options{})
			returns(t, s, "b_create", nil, "create of b")
			late.mode.Store(works)
			late.CloseClientConnections()
			eventually(t, "the missing server is listed", func() bool { return slices.Contains(toolNames(t, s), "late_create") })
			returns(t, s, "late_create", nil, "create of late")
		})
	}
}

// A server that goes away later, or no longer answers, takes nobody with it. Calls of it end in words.
func TestAServerThatGoesAway(t *testing.T) {
	t.Parallel()
	t.Run("fails", func(t *testing.T) {
		away := newSwitched(t, small(t, "a", "create").Config.Handler, works)
		front := newFront(t, "", inFront(named("a", away.URL), named("b", small(t, "b", "create").URL)))
		s := host(t, front.url, "", client.Options{})
		away.mode.Store(fails)
		text, failed := call(t, s, "a_create", nil)
		if !failed || text == "" {
			t.Errorf("a call of the server that is away: %q, %v", text, failed)
		}
		returns(t, s, "b_create", nil, "create of b")
		away.mode.Store(works)
		eventually(t, "the server answers again", func() bool {
			text, _ := call(t, s, "a_create", nil)
			return text == "create of a"
		})
	})
	t.Run("hangs", func(t *testing.T) {
		away := newSwitched(t, small(t, "a", "create").Config.Handler, works)
		front := newFront(t, "", inFront(named("a", away.URL), named("b", small(t, "b", "create").URL)))
		s := host(t, front.url, "", client.Options{})
		away.mode.Store(hangs)
		defer away.end() // or the end of the bridge would wait for it
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		defer calls.Wait()
		defer cancel()
		for range 48 {
			calls.Go(func() { _, _ = s.CallTool(ctx, &mcp.CallToolParams{Name: "a_create"}) })
		}
		for range 48 {
			<-away.held
		}
		refuses(t, s, "a_create", nil, "48 calls of it are in progress")
		returns(t, s, "b_create", nil, "create of b")
	})
}

// What a call keeps of a server's state goes to that server only, also after the names of two servers were swapped, and
// after a name leads to another place. It goes on once the file is as before.
func TestStatesStayWithTheirServer(t *testing.T) {
	t.Parallel()
	for name, then := range map[string]func(a, b string) []bridge.Server{
		"swapped":       func(a, b string) []bridge.Server { return []bridge.Server{named("a", b), named("b", a)} },
		"another place": func(_, b string) []bridge.Server { return []bridge.Server{named("a", b)} },
		"another name":  func(a, b string) []bridge.Server { return []bridge.Server{named("b", a), named("c", b)} },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newBehind(t), newBehind(t)
			lease := func(o *bridge.Options) { o.Server.Tasks.Lease = time.Second }
			before := inFront(named("a", a.url), named("b", b.url))
			front := newFront(t, "", before, lease)
			s := host(t, front.url, "", client.Options{Tasks: client.TasksOff})
			expect.Contains(t, "the words", waits(t, s, "a_order", map[string]any{"item": "hat"}), "ada")
			front.stop()
			wrong := newFront(t, "", inFront(then(a.url, b.url)...), lease, after(front))
			wrong.answer(t, "ada", desk.Answer{Action: "accept", Content: json.RawMessage(`{"color":"blue"}`)})
			other := host(t, wrong.url, "", able())
			if text, _ := call(t, other, then(a.url, b.url)[0].Name+"_capabilities", nil); text == "" {
				t.Error("another call is not served")
			}
			wrong.stop()
			expect.Equal(t, "states have reached a server", a.states.Load()+b.states.Load(), 0)
			right := newFront(t, "", before, lease, after(front))
			right.answer(t, "ada", desk.Answer{Action: "accept"})
			eventually(t, "the call goes on", func() bool { return a.count("order") == 1 })
			if b.states.Load() != 0 || b.count("order") != 0 {
				t.Error("the call has reached the other server")
			}
		})
	}
}

// A server's list that changes is its own, and a resource of which the first server lets go becomes the next one's.
func TestResourcesPassOn(t *testing.T) {
	first := newBehind(t)
	second := small(t, "b")
	first.AddResource(&mcp.Resource{Name: "terms", URI: "doc://terms"}, readURI)
	front := newFront(t, "", inFront(named("a", first.url), named("b", second.URL)))
	s := host(t, front.url, "", client.Options{})
	text := func() string {
		read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://terms"})
		if err != nil {
			return fmt.Sprint(err)
		}
		return read.Contents[0].Text
	}
	expect.Equal(t, "the resource of the first server", text(), "about doc://terms")
	first.RemoveResources("doc://terms")
	eventually(t, "the second server's is offered", func() bool { return text() == "b" })
}
