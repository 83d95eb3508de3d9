package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/seal"
)

type person struct {
	Zip  string `json:"zip"`
	Name string `json:"name"`
	Age  int64  `json:"age,omitempty" default:"42"`
}

// register adds what the tests call: a tool that asks everything in several rounds, one
// that only asks, a prompt and a resource.
func register(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "everything"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
		who, err1 := askback.Elicit[person](call, "who", "Who are you?")
		roots, err2 := askback.Roots(call, "roots")
		err3 := askback.ElicitURL(call, "page", "Sign in", "https://example.com/in")
		if err := errors.Join(err1, err2, err3); err != nil {
			return "", err
		}
		for _, key := range []string{"a", "b"} {
			if err := call.Checkpoint(ctx, key); err != nil {
				return "", err
			}
		}
		model, err := askback.Sample(call, "model", &mcp.CreateMessageWithToolsParams{
			MaxTokens: 10, Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "Hi " + who.Name}}}},
		})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(who, roots[0].URI, model.Content[0].(*mcp.TextContent).Text), nil
	})
	ask := func(ctx context.Context, call *askback.Call) (string, error) {
		who, err := askback.Elicit[person](call, "who", "Who are you?")
		return who.Name, err
	}
	askback.AddTool(srv, &mcp.Tool{Name: "ask"}, func(ctx context.Context, call *askback.Call, in map[string]any) (string, error) {
		name, err := ask(ctx, call)
		return "Hello " + name, err
	})
	srv.AddPrompt(&mcp.Prompt{Name: "prompt"}, func(ctx context.Context, call *askback.Call, args map[string]string) (*mcp.GetPromptResult, error) {
		name, err := ask(ctx, call)
		return &mcp.GetPromptResult{Description: args["greeting"] + name}, err
	})
	srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "resource", URITemplate: "doc://{+id}"}, func(ctx context.Context, call *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
		name, err := ask(ctx, call)
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: uri + name}}}, err
	})
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func newServer(t *testing.T, opts askback.Options) *askback.Server {
	t.Helper()
	opts.Logger = slog.New(slog.DiscardHandler)
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "the server", Version: "1.0.0"}, nil), &opts)
	if err != nil {
		t.Fatal(err)
	}
	register(srv)
	return srv
}

// answers are options that answer everything.
func answers() client.Options {
	return client.Options{
		Form: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "octocat", "zip": "0150"}}, nil
		},
		URL: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			if q.URL != "https://example.com/in" {
				return nil, errors.New("wrong page")
			}
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
		Sample: func(_ context.Context, q *client.Question, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			return &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m", Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil
		},
		Roots:  func(context.Context) ([]*mcp.Root, error) { return []*mcp.Root{{URI: "file:///src"}}, nil },
		Limits: client.Limits{FirstPause: time.Millisecond, MaxPause: time.Millisecond},
	}
}

func park(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
	return nil, client.ErrPark
}

func connect(t *testing.T, opts client.Options, transport mcp.Transport, version string) *client.Session {
	t.Helper()
	session, err := client.New(&opts).Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	return session
}

func web(t *testing.T, srv *askback.Server) *mcp.StreamableClientTransport {
	t.Helper()
	s := httptest.NewServer(srv.HTTPHandler(nil))
	t.Cleanup(s.Close)
	return &mcp.StreamableClientTransport{Endpoint: s.URL}
}

func memory(t *testing.T, srv *askback.Server) mcp.Transport {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	if _, err := srv.Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	return here
}

func TestEveryRevisionAndTransport(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} {
		for name, transport := range map[string]func(*testing.T, *askback.Server) mcp.Transport{
			"http": func(t *testing.T, srv *askback.Server) mcp.Transport { return web(t, srv) }, "memory": memory,
		} {
			t.Run(version+" "+name, func(t *testing.T) {
				session := connect(t, answers(), transport(t, newServer(t, askback.Options{})), version)
				res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "everything"})
				if err != nil {
					t.Fatal(err)
				}
				if got := res.Content[0].(*mcp.TextContent).Text; got != "{0150 octocat 42}file:///srchello" {
					t.Errorf("tool: %q", got)
				}
				prompt, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "prompt", Arguments: map[string]string{"greeting": "Hi "}})
				if err != nil || prompt.Description != "Hi octocat" {
					t.Errorf("prompt: %v, %v", prompt, err)
				}
				resource, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://a%20b"})
				if err != nil || resource.Contents[0].Text != "doc://a%20boctocat" {
					t.Errorf("resource: %v, %v", resource, err)
				}
			})
		}
	}
}

func TestRoundsAreObserved(t *testing.T) {
	for name, transport := range map[string]mcp.Transport{"http": web(t, newServer(t, askback.Options{})), "memory": memory(t, newServer(t, askback.Options{}))} {
		opts := answers()
		var seen []string
		var states []int
		var raw string
		opts.Observe = func(_ context.Context, r *client.Round) error {
			var asked []string
			for _, q := range r.Questions {
				asked = append(asked, q.Key)
			}
			seen = append(seen, fmt.Sprint(r.Number, r.Target, len(r.Answers), asked, r.Pause > 0, r.Final))
			states = append(states, r.StateSent, r.StateReceived)
			raw = string(r.Result)
			return nil
		}
		session := connect(t, opts, transport, "")
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "everything"}); err != nil {
			t.Fatal(err)
		}
		// Rounds are counted, and questions stand in the order in which they were asked.
		want := []string{
			"1everything0 [who roots page] false false", "2everything3 [] true false", "3everything0 [] true false",
			"4everything0 [model] false false", "5everything1 [] false true",
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("%s: rounds (-want +got):\n%s", name, diff)
		}
		if states[0] != 0 || states[1] == 0 || states[2] != states[1] {
			t.Errorf("%s: states sent and received: %v", name, states)
		}
		if !strings.Contains(raw, `"resultType":"complete"`) {
			t.Errorf("%s: the result as it came: %s", name, raw)
		}
	}
}

func TestQuestionsInsideASessionHaveTheirKeys(t *testing.T) {
	opts := answers()
	opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		if q.Key != "who" {
			t.Errorf("key %q", q.Key)
		}
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	session := connect(t, opts, web(t, newServer(t, askback.Options{})), "2025-11-25")
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"}); err != nil {
		t.Fatal(err)
	}
}

// Other servers send a session's requests without keys, and roots/list without parameters.
func TestQuestionsOfOtherServers(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "other", Version: "1"}, nil)
	mcp.AddTool(m, &mcp.Tool{Name: "t"}, func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		roots, err := req.Session.ListRoots(ctx, nil)
		if err != nil {
			return nil, nil, err
		}
		res, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
		if err != nil {
			return nil, nil, err
		}
		return text(roots.Roots[0].URI + res.Action), nil, nil
	})
	here, there := mcp.NewInMemoryTransports()
	if _, err := m.Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	opts := answers()
	opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		if q.Key != "elicitation/create" {
			t.Errorf("key %q", q.Key)
		}
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	res, err := connect(t, opts, here, "2025-11-25").CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Content[0].(*mcp.TextContent).Text; got != "file:///srcdecline" {
		t.Errorf("got %q", got)
	}
}

func TestQuestionsKeepTheServersOrder(t *testing.T) {
	opts := answers()
	opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		if zip, name := strings.Index(string(q.Schema), `"zip"`), strings.Index(string(q.Schema), `"name"`); zip < 0 || zip > name {
			t.Errorf("the form's fields are out of order: %s", q.Schema)
		}
		if q.Server == nil || q.Server.Name != "the server" {
			t.Errorf("it is not clear who asks: %v", q.Server)
		}
		return &mcp.ElicitResult{Action: "decline"}, nil
	}
	for _, transport := range []mcp.Transport{web(t, newServer(t, askback.Options{})), memory(t, newServer(t, askback.Options{}))} {
		session := connect(t, opts, transport, "")
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
		if err != nil || !res.IsError {
			t.Errorf("declined: %v, %v", res, err)
		}
	}
}

// A call that one process parks is resumed by another, after the server that asked was
// replaced by a new one with the same keys.
func TestParkAndResume(t *testing.T) {
	keys, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	opts := answers()
	opts.Form = park
	first := connect(t, opts, web(t, newServer(t, askback.Options{Keys: keys})), "")
	_, err = first.CallTool(t.Context(), &mcp.CallToolParams{Name: "everything", Arguments: map[string]any{}})
	pending, ok := errors.AsType[*client.Pending](err)
	if !ok {
		t.Fatalf("want a pending call, got %v", err)
	}
	if !strings.Contains(pending.Error(), `"who"`) || strings.Contains(pending.Error(), "roots") || len(pending.Answers) != 2 {
		t.Errorf("pending: %v with answers %v", pending, pending.Answers)
	}
	if pending.Expires == nil || time.Until(*pending.Expires) > time.Hour || pending.Endpoint == "" {
		t.Errorf("expires %v, endpoint %q", pending.Expires, pending.Endpoint)
	}
	stored, err := json.Marshal(pending)
	if err != nil {
		t.Fatal(err)
	}

	var loaded client.Pending
	if err := json.Unmarshal(stored, &loaded); err != nil {
		t.Fatal(err)
	}
	opts = answers()
	opts.Roots = func(context.Context) ([]*mcp.Root, error) { return nil, errors.New("asked again") }
	second := connect(t, opts, web(t, newServer(t, askback.Options{Keys: keys})), "")
	for range 2 { // resuming twice is the client's right, where the server does not forbid it
		res, err := second.Resume(t.Context(), &loaded)
		if err != nil {
			t.Fatal(err)
		}
		if got := res.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text; got != "{0150 octocat 42}file:///srchello" {
			t.Errorf("got %q", got)
		}
	}

	t.Run("prompts and resources", func(t *testing.T) {
		opts := answers()
		opts.Form = park
		session := connect(t, opts, web(t, newServer(t, askback.Options{Keys: keys})), "")
		_, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "prompt", Arguments: map[string]string{"greeting": "Hi "}})
		pending, ok := errors.AsType[*client.Pending](err)
		if !ok {
			t.Fatal(err)
		}
		if res, err := second.Resume(t.Context(), pending); err != nil || res.(*mcp.GetPromptResult).Description != "Hi octocat" {
			t.Errorf("prompt: %v, %v", res, err)
		}
		_, err = session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "doc://x"})
		if pending, ok = errors.AsType[*client.Pending](err); !ok {
			t.Fatal(err)
		}
		if res, err := second.Resume(t.Context(), pending); err != nil || res.(*mcp.ReadResourceResult).Contents[0].Text != "doc://xoctocat" {
			t.Errorf("resource: %v, %v", res, err)
		}
	})
	t.Run("with an answer that does not fit", func(t *testing.T) {
		opts := answers()
		opts.Form = func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": 1}}, nil
		}
		_, err := connect(t, opts, web(t, newServer(t, askback.Options{Keys: keys})), "").Resume(t.Context(), &loaded)
		if err == nil || !strings.Contains(err.Error(), `"who"`) || !strings.Contains(err.Error(), "zip: is required") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("with a server that has other keys", func(t *testing.T) {
		_, err := connect(t, answers(), web(t, newServer(t, askback.Options{})), "").Resume(t.Context(), &loaded)
		if _, refused := errors.AsType[*client.RefusedError](err); !refused {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a second time, where states are used once", func(t *testing.T) {
		single := newServer(t, askback.Options{Keys: keys, ReplayGuard: &guard{}})
		session := connect(t, answers(), web(t, single), "")
		if _, err := session.Resume(t.Context(), &loaded); err != nil {
			t.Fatal(err)
		}
		_, err := session.Resume(t.Context(), &loaded)
		if _, refused := errors.AsType[*client.RefusedError](err); !refused {
			t.Errorf("got %v", err)
		}
	})
	t.Run("from a session that cannot wait", func(t *testing.T) {
		opts := answers()
		opts.Form = park
		session := connect(t, opts, web(t, newServer(t, askback.Options{Keys: keys})), "2025-11-25")
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask"})
		if err != nil || !strings.Contains(res.Content[0].(*mcp.TextContent).Text, "cannot wait") {
			t.Errorf("got %v, %v", res, err)
		}
	})
	t.Run("from something else", func(t *testing.T) {
		for _, data := range []string{`{}`, `[]`, `{"method":"tools/call","params":{},"questions":[null]}`, `{"method":"tools/list","params":{},"requestState":"x"}`} {
			var p client.Pending
			err := json.Unmarshal([]byte(data), &p)
			if err == nil {
				_, err = second.Resume(t.Context(), &p)
			}
			if err == nil || !strings.Contains(err.Error(), "not a pending call") {
				t.Errorf("%s: %v", data, err)
			}
		}
	})
}

type guard struct {
	used atomic.Pointer[map[string]bool]
}

func (g *guard) Use(_ context.Context, id string, _ time.Time) (bool, error) {
	seen := g.used.Load()
	next := map[string]bool{id: true}
	if seen != nil {
		for id := range *seen {
			next[id] = true
		}
	}
	g.used.Store(&next)
	return seen == nil || !(*seen)[id], nil
}

func TestHandlersMayFailOrCancel(t *testing.T) {
	session := func(form func(context.Context, *client.Question) (*mcp.ElicitResult, error)) *client.Session {
		opts := answers()
		opts.Form = form
		return connect(t, opts, web(t, newServer(t, askback.Options{})), "")
	}
	broken := errors.New("no display")
	_, err := session(func(context.Context, *client.Question) (*mcp.ElicitResult, error) { return nil, broken }).
		CallTool(t.Context(), &mcp.CallToolParams{Name: "everything"})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = session(func(ctx context.Context, _ *client.Question) (*mcp.ElicitResult, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}).CallTool(ctx, &mcp.CallToolParams{Name: "everything"})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	opts := answers()
	refusal := errors.New("this host refuses")
	opts.Observe = func(context.Context, *client.Round) error { return refusal }
	_, err = connect(t, opts, web(t, newServer(t, askback.Options{})), "").CallTool(t.Context(), &mcp.CallToolParams{Name: "everything"})
	if !errors.Is(err, refusal) {
		t.Errorf("got %v", err)
	}
}

func TestParallelCallsAreKeptApart(t *testing.T) {
	opts := answers()
	var n atomic.Int64
	opts.Form = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": fmt.Sprint("n", n.Add(1)), "zip": "1"}}, nil
	}
	for name, transport := range map[string]mcp.Transport{"http": web(t, newServer(t, askback.Options{})), "memory": memory(t, newServer(t, askback.Options{}))} {
		session := connect(t, opts, transport, "")
		got := make(chan string)
		const calls = 16
		for i := range calls {
			go func() {
				res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "ask", Arguments: map[string]any{"i": i}})
				if err != nil {
					got <- err.Error()
					return
				}
				got <- res.Content[0].(*mcp.TextContent).Text
			}()
		}
		seen := map[string]bool{}
		for range calls {
			answer := <-got
			if !strings.HasPrefix(answer, "Hello n") || seen[answer] {
				t.Errorf("%s: %q", name, answer)
			}
			seen[answer] = true
		}
	}
}
