package askback_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// One handler serves every client, and any server can serve a round.
func TestInline(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler inline
		answers map[string][]string
		want    string
		asked   []string // sorted; nil is not checked
	}{
		{
			name: "two questions in sequence",
			handler: func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (*mcp.CallToolResult, any, error) {
				a, err := elicitName(ctx, req, "a")
				if err != nil {
					return nil, nil, err
				}
				b, err := elicitName(ctx, req, "b after "+a.Content["name"].(string))
				if err != nil {
					return nil, nil, err
				}
				return harness.Text(fmt.Sprint(in.Place, a.Content, b.Content)), nil, nil
			},
			want:  "Oslomap[name:a0] map[name:b after a00]",
			asked: []string{"a", "b after a0"},
		},
		{
			name: "questions of several goroutines",
			handler: func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (*mcp.CallToolResult, any, error) {
				var names [4]any
				group, ctx := errgroup.WithContext(ctx)
				for i := range names {
					group.Go(func() error {
						res, err := elicitName(ctx, req, fmt.Sprint("q", i))
						if err == nil {
							names[i] = res.Content["name"]
						}
						return err
					})
				}
				if err := group.Wait(); err != nil {
					return nil, nil, err
				}
				return harness.Text(fmt.Sprint(names)), nil, nil
			},
			want:  "[q00 q10 q20 q30]",
			asked: []string{"q0", "q1", "q2", "q3"},
		},
		{
			name: "a handler that does not look at errors",
			handler: func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (*mcp.CallToolResult, any, error) {
				name := any("nobody")
				if res, err := elicitName(ctx, req, "a"); err == nil && res.Action == "accept" {
					name = res.Content["name"]
				}
				return harness.Text(fmt.Sprint(name)), nil, nil
			},
			want: "a0",
		},
		{
			name: "goroutines that do not look at errors",
			handler: func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (*mcp.CallToolResult, any, error) {
				name := make(chan any)
				go func() {
					defer close(name)
					if res, err := elicitName(ctx, req, "a"); err == nil {
						name <- res.Content["name"]
					}
				}()
				if got, ok := <-name; ok {
					return harness.Text(fmt.Sprint(got)), nil, nil
				}
				return nil, nil, errors.New("no name")
			},
			want: "a0",
		},
		{
			name: "a question that is asked until the answer is good",
			handler: func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (*mcp.CallToolResult, any, error) {
				for try := 1; ; try++ {
					res, err := elicitName(ctx, req, "a")
					if err != nil {
						return nil, nil, err
					}
					if res.Content["name"] == "good" {
						return harness.Text(fmt.Sprint("good at ", try)), nil, nil
					}
				}
			},
			answers: map[string][]string{"a": {"bad", "bad", "good"}},
			want:    "good at 3",
			asked:   []string{"a", "a", "a"},
		},
		{
			name: "declined",
			handler: func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (*mcp.CallToolResult, any, error) {
				a, err := elicitName(ctx, req, "a")
				if err != nil {
					return nil, nil, err
				}
				b, err := elicitName(ctx, req, "b")
				return harness.Text(fmt.Sprint(a.Action, a.Content, b.Action)), nil, err
			},
			answers: map[string][]string{"a": {"-"}, "b": {"--"}},
			want:    "declinemap[]cancel",
		},
		{
			name: "context.Background",
			handler: func(_ context.Context, req *mcp.CallToolRequest, in harness.Greeting) (*mcp.CallToolResult, any, error) {
				res, err := elicitName(context.Background(), req, "a")
				if err != nil {
					return nil, nil, err
				}
				return harness.Text(fmt.Sprint(res.Content)), nil, nil
			},
			want: "map[name:a0]",
		},
		{
			name: "defaults",
			handler: func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (*mcp.CallToolResult, any, error) {
				res, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "a", RequestedSchema: map[string]any{
					"type": "object", "additionalProperties": false,
					"properties": map[string]any{
						"name": map[string]any{"type": "string"},
						"n":    map[string]any{"type": "integer", "default": 3},
					},
				}})
				if err != nil {
					return nil, nil, err
				}
				return harness.Text(fmt.Sprint(res.Content)), nil, nil
			},
			want: "map[n:3 name:a0]",
		},
		{
			name: "a schema inferred by the SDK's package, and none",
			handler: func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (*mcp.CallToolResult, any, error) {
				schema, err := jsonschema.For[harness.Login](nil)
				if err != nil {
					return nil, nil, err
				}
				a, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "a", RequestedSchema: schema})
				if err != nil {
					return nil, nil, err
				}
				b, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "b"})
				if err != nil {
					return nil, nil, err
				}
				return harness.Text(fmt.Sprint(a.Content, b.Action)), nil, nil
			},
			want: "map[name:a0]accept",
		},
		{
			name: "a page",
			handler: func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (*mcp.CallToolResult, any, error) {
				res, err := req.Session.Elicit(ctx,
					&mcp.ElicitParams{Message: "page", URL: "https://example.com/", ElicitationID: fmt.Sprint(time.Now().UnixNano())})
				if err != nil {
					return nil, nil, err
				}
				return harness.Text(res.Action), nil, nil
			},
			answers: map[string][]string{"page": {"-"}},
			want:    "decline",
			asked:   []string{"page"},
		},
		{
			name: "model and roots",
			handler: func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (*mcp.CallToolResult, any, error) {
				one, err := req.Session.CreateMessage(ctx,
					&mcp.CreateMessageParams{MaxTokens: 9,
						Messages: []*mcp.SamplingMessage{{Role: "user", Content: &mcp.TextContent{Text: "hi"}}}})
				if err != nil {
					return nil, nil, err
				}
				params := harness.Sampling("hi")
				params.Tools = []*mcp.Tool{{Name: "t", InputSchema: &jsonschema.Schema{Type: "object"}}}
				two, err := req.Session.CreateMessageWithTools(ctx, params)
				if err != nil {
					return nil, nil, err
				}
				roots, err := req.Session.ListRoots(ctx, nil)
				if err != nil {
					return nil, nil, err
				}
				return harness.Text(fmt.Sprint(one.Content.(*mcp.TextContent).Text, two.Content[0].(*mcp.TextContent).Text,
					roots.Roots[0].URI)), nil, nil
			},
			want: "hellohellofile:///src",
		},
		{
			name: "what else a session can",
			handler: func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (*mcp.CallToolResult, any, error) {
				if err := req.Session.Ping(ctx, nil); err != nil {
					return nil, nil, err
				}
				if err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "error", Data: "x"}); err != nil {
					return nil, nil, err
				}
				if err := req.Session.NotifyProgress(ctx,
					&mcp.ProgressNotificationParams{ProgressToken: "none", Progress: 1}); err != nil {
					return nil, nil, err
				}
				init := req.Session.InitializeParams()
				return harness.Text(fmt.Sprint(init.Capabilities.Elicitation.URL != nil, init.Capabilities.RootsV2 != nil,
					init.ClientInfo.Name != "")), nil, nil
			},
			want: "true true true",
		},
		{
			name: "deep in the stack",
			handler: func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (*mcp.CallToolResult, any, error) {
				var deep func(n int) string
				deep = func(n int) string {
					if n > 0 {
						return deep(n - 1)
					}
					res, err := elicitName(ctx, req, "a")
					if err != nil {
						return "an error reached the handler: " + err.Error()
					}
					return res.Content["name"].(string)
				}
				got := deep(5000)
				if strings.Contains(got, "error") {
					panic(got)
				}
				return harness.Text(got), nil, nil
			},
			want: "a0",
		},
		{
			name: "asked while it is unwound",
			handler: func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (res *mcp.CallToolResult, _ any,
				err error) {
				var b *mcp.ElicitResult
				defer func() {
					if b, err = elicitName(context.WithoutCancel(ctx), req, "b"); err == nil && res != nil {
						res = harness.Text(outcome(res) + b.Content["name"].(string))
					}
				}()
				a, err := elicitName(ctx, req, "a")
				if err != nil {
					return nil, nil, err
				}
				return harness.Text(a.Content["name"].(string)), nil, nil
			},
			want:  "a0b0",
			asked: []string{"a", "b"},
		},
	} {
		for _, c := range callers() {
			t.Run(test.name+"/"+c.name, func(t *testing.T) {
				u := &user{answers: test.answers}
				got := expect.Must(c.call(t, alternating(t, nil, test.handler), u, "tool"))(t)
				expect.Equal(t, "the result", got, test.want)
				if asked := u.all(); test.asked != nil && !slices.Equal(asked, test.asked) {
					t.Errorf("asked %q, want %q", asked, test.asked)
				}
			})
		}
	}
}

// A step runs once. Other code before a question runs in every round, and once in a session.
func TestInlineDo(t *testing.T) {
	for _, c := range callers() {
		var steps, runs atomic.Int64
		native := strings.Contains(c.name, "2025")
		endpoint := alternating(t, nil, func(ctx context.Context, req *mcp.CallToolRequest,
			_ harness.Greeting) (*mcp.CallToolResult, any, error) {
			runs.Add(1)
			call := askback.CallFrom(ctx)
			if !native && req.Session.ID() != call.ID() || call.Request() != mcp.Request(req) {
				return nil, nil, fmt.Errorf("the session's id is %q, the request %v", req.Session.ID(), call.Request())
			}
			n, err := askback.Do(ctx, call, "step", func(context.Context) (int64, error) { return steps.Add(1), nil })
			if err != nil {
				return nil, nil, err
			}
			if _, err := elicitName(ctx, req, "a"); err != nil {
				return nil, nil, err
			}
			return harness.Text(fmt.Sprint(n)), nil, nil
		})
		got, err := c.call(t, endpoint, &user{}, "tool")
		if err != nil || got != "1" || steps.Load() != 1 {
			t.Errorf("%s: got %q (%v) after %d steps", c.name, got, err, steps.Load())
		}
		if native != (runs.Load() == 1) {
			t.Errorf("%s: the handler ran %d times", c.name, runs.Load())
		}
	}
}

// The client that asked for progress gets it.
func TestInlineProgress(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25"} {
		var progress atomic.Int64
		endpoint := alternating(t, nil, func(ctx context.Context, req *mcp.CallToolRequest,
			_ harness.Greeting) (*mcp.CallToolResult, any, error) {
			if _, err := elicitName(ctx, req, "a"); err != nil {
				return nil, nil, err
			}
			return harness.Text("done"), nil, req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: req.Params.GetProgressToken(), Progress: 1, Total: 2, Message: "halfway",
			})
		})
		session := expect.Must(harness.Answering(&progress).Connect(t.Context(),
			&mcp.StreamableClientTransport{Endpoint: endpoint}, &mcp.ClientSessionOptions{ProtocolVersion: version}))(t)
		params := &mcp.CallToolParams{Name: "tool", Arguments: harness.Greeting{Place: "Oslo"}}
		params.SetProgressToken("tok")
		expect.Equal(t, version, outcome(expect.Must(session.CallTool(t.Context(), params))(t)), "done")
		session.Close()
		expect.Equal(t, version+": notifications", progress.Load(), 1)
	}
}

// The same holds over a transport of the SDK, whose session must not be asked.
func TestInlineInMemory(t *testing.T) {
	srv := harness.NewServer(t, nil, func(srv *askback.Server) {
		askback.AddInlineTool(srv, &mcp.Tool{Name: "t"},
			func(ctx context.Context, req *mcp.CallToolRequest, _ harness.Greeting) (*mcp.CallToolResult, any, error) {
				res, err := elicitName(ctx, req, "a")
				if err != nil {
					return nil, nil, err
				}
				return harness.Text(fmt.Sprint(res.Content)), nil, nil
			})
	})
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
		here, there := mcp.NewInMemoryTransports()
		expect.Must(srv.Connect(t.Context(), there, nil))(t)
		session := expect.Must(harness.Answering(new(atomic.Int64)).Connect(t.Context(), here,
			&mcp.ClientSessionOptions{ProtocolVersion: version}))(t)
		expect.Equal(t, version, outcome(expect.Must(session.CallTool(t.Context(),
			&mcp.CallToolParams{Name: "t", Arguments: harness.Greeting{Place: "x"}}))(t)), "map[name:first]")
		session.Close()
	}
}

// A warning at registration names the tool and the remedy, unless the tool only reads.
func TestInlineWarning(t *testing.T) {
	for _, test := range []struct {
		hints       *mcp.ToolAnnotations
		level, says string
	}{
		{nil, "level=WARN", "askback.Do"},
		{nil, "level=WARN", "after the last question the call's IdempotencyKey"},
		{&mcp.ToolAnnotations{Title: "x"}, "level=WARN", "ReadOnlyHint"},
		{&mcp.ToolAnnotations{IdempotentHint: true}, "level=INFO", "askback.Do"},
		{&mcp.ToolAnnotations{ReadOnlyHint: true}, "", ""},
	} {
		logger, log := harness.Logs()
		harness.NewServer(t, &askback.Options{Logger: logger}, func(srv *askback.Server) {
			askback.AddInlineTool(srv, &mcp.Tool{Name: "the_tool", Annotations: test.hints},
				func(context.Context, *mcp.CallToolRequest, any) (*mcp.CallToolResult, any, error) {
					return harness.Text(""), nil, nil
				})
		})
		got := log.String()
		if test.says == "" && got != "" || !strings.Contains(got, test.level) || !strings.Contains(got, test.says) ||
			test.says != "" && !strings.Contains(got, "the_tool") {
			t.Errorf("%+v: logged %q", test.hints, got)
		}
	}
}

// Calls leave no goroutine and no session behind, and their sessions are not on the author's server.
func TestInlineLeavesNothing(t *testing.T) {
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, &mcp.ServerOptions{KeepAlive: time.Hour})
	srv := expect.Must(askback.New(m,
		&askback.Options{Keys: harness.NewRing(t), Logger: slog.New(slog.DiscardHandler)}))(t)
	askback.AddInlineTool(srv, &mcp.Tool{Name: "t"},
		func(ctx context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
			for range m.Sessions() {
				return nil, nil, errors.New("the author's server has a session")
			}
			_, err := elicitName(ctx, req, "a")
			return harness.Text("done"), nil, err
		})
	h := srv.HTTPHandler(nil)
	for range 10 {
		(harness.Request{Target: "t"}).Send(t, h)
	}
	before := runtime.NumGoroutine()
	for range 500 {
		if res := (harness.Request{Target: "t"}).Send(t, h); res.Result == nil || len(res.Result.Requests) != 1 {
			t.Fatal(res.Raw)
		}
	}
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
		}
		time.Sleep(time.Millisecond)
	}
	expect.Equal(t, "stand-ins are left", askback.StandIns(srv), 0)
}

// In a session an inline tool gives the same answers as the SDK's own server, also if the client
// fails to answer or the handler returns a protocol error.
func TestInlineInASessionIsTheSDKs(t *testing.T) {
	asking := func(ctx context.Context, req *mcp.CallToolRequest, _ harness.Greeting) (*mcp.CallToolResult, any, error) {
		res, err := elicitName(ctx, req, "a")
		if err != nil {
			return nil, nil, err
		}
		return harness.Text(fmt.Sprint(res.Action, res.Content)), nil, nil
	}
	failing := func(err error) inline {
		return func(context.Context, *mcp.CallToolRequest, harness.Greeting) (*mcp.CallToolResult, any, error) {
			return nil, nil, err
		}
	}
	fault := &jsonrpc.Error{Code: -32001, Message: "x"}
	answer := func(res *mcp.ElicitResult, err error) *mcp.ClientOptions {
		return &mcp.ClientOptions{ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return res, err
		}}
	}
	for _, test := range []struct {
		name    string
		handler inline
		client  *mcp.ClientOptions
	}{
		{"an answer", asking, answer(accept(map[string]any{"name": "x"}), nil)},
		{"no answer", asking, answer(nil, errors.New("nobody is here"))},
		{"an error for an answer", asking, answer(nil, fault)},
		{"an answer that does not fit", asking, answer(accept(map[string]any{"name": 7}), nil)},
		{"no capability", asking, nil},
		{"an unsupported request", func(ctx context.Context, req *mcp.CallToolRequest,
			_ harness.Greeting) (*mcp.CallToolResult, any, error) {
			_, err := req.Session.CreateMessageWithTools(ctx, harness.Sampling("x"))
			return nil, nil, err
		}, nil},
		{"an error of the protocol", failing(fault), nil},
		{"a wrapped one", failing(fmt.Errorf("while: %w", fault)), nil},
	} {
		call := func(serve func(m *mcp.Server, there mcp.Transport)) string {
			here, there := mcp.NewInMemoryTransports()
			serve(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil), there)
			session := expect.Must(mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1.0.0"},
				test.client).Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"}))(t)
			defer session.Close()
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t", Arguments: harness.Greeting{}})
			return fmt.Sprint(outcome(res), err)
		}
		want := call(func(m *mcp.Server, there mcp.Transport) {
			mcp.AddTool(m, &mcp.Tool{Name: "t"}, test.handler)
			expect.Must(m.Connect(t.Context(), there, nil))(t)
		})
		got := call(func(m *mcp.Server, there mcp.Transport) {
			srv := expect.Must(askback.New(m,
				&askback.Options{Keys: harness.NewRing(t), Logger: slog.New(slog.DiscardHandler)}))(t)
			askback.AddInlineTool(srv, &mcp.Tool{Name: "t"}, test.handler)
			expect.Must(srv.Connect(t.Context(), there, nil))(t)
		})
		expect.Equal(t, test.name, got, want)
	}
}

// A handler asks the same questions and returns the same result when the SDK's own server runs it in
// a session and when it is added inline and runs in rounds.
func TestInlineLaw(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		// A letter asks; a capital asks it together with its neighbour; a bang repeats
		// the handler's last question; a dot continues only if the last answer was accepted.
		plan := rapid.StringOfN(rapid.SampledFrom([]rune("aabbccABC!!.")), 0, 8, -1).Draw(rt, "plan")
		refuse := rapid.StringOfN(rapid.SampledFrom([]rune("abcd")), 0, 2, -1).Draw(rt, "refuse")
		handler := func(ctx context.Context, req *mcp.CallToolRequest, _ harness.Greeting) (*mcp.CallToolResult, any, error) {
			last, accepted := "a", true
			var b strings.Builder
			for _, op := range plan {
				var questions []string
				switch {
				case op == '.' && !accepted:
					return harness.Text("stopped" + b.String()), nil, nil
				case op == '.':
					continue
				case op == '!':
					questions = []string{last}
				case op >= 'a':
					questions = []string{string(op)}
				default:
					questions = []string{string(op + 'a' - 'A'), string(op + 'b' - 'A')}
				}
				answers := make([]*mcp.ElicitResult, len(questions))
				var group errgroup.Group
				for i, q := range questions[1:] {
					group.Go(func() (err error) { answers[i+1], err = elicitName(ctx, req, q); return err })
				}
				var err error
				answers[0], err = elicitName(ctx, req, questions[0])
				if err := errors.Join(err, group.Wait()); err != nil {
					return nil, nil, err
				}
				for _, a := range answers {
					fmt.Fprint(&b, " ", a.Action, a.Content["name"])
				}
				last, accepted = questions[0], answers[0].Action == "accept"
			}
			return harness.Text("done" + b.String()), nil, nil
		}
		connect := func(add func(m *mcp.Server)) mcp.Transport {
			m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
			add(m)
			here, there := mcp.NewInMemoryTransports()
			if _, err := m.Connect(t.Context(), there, nil); err != nil {
				rt.Fatal(err)
			}
			return here
		}
		// call calls the tool and returns its outcome and its questions.
		call := func(callTool func(u *user, params *mcp.CallToolParams) (*mcp.CallToolResult, error)) (string, []string) {
			u := &user{answers: map[string][]string{}}
			for _, q := range refuse {
				u.answers[string(q)] = []string{"-"}
			}
			res, err := callTool(u, &mcp.CallToolParams{Name: "tool", Arguments: harness.Greeting{}})
			if err != nil {
				rt.Fatal(err)
			}
			return outcome(res), u.all()
		}
		want, wantAsked := call(func(u *user, params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
			there := connect(func(m *mcp.Server) { mcp.AddTool(m, &mcp.Tool{Name: "tool"}, handler) })
			session, err := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1.0.0"}, &mcp.ClientOptions{
				ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					return u.answer(req.Params.Message), nil
				},
			}).Connect(t.Context(), there, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			if err != nil {
				return nil, err
			}
			defer session.Close()
			return session.CallTool(t.Context(), params)
		})
		got, gotAsked := call(func(u *user, params *mcp.CallToolParams) (*mcp.CallToolResult, error) {
			there := connect(func(m *mcp.Server) {
				srv, err := askback.New(m, &askback.Options{Keys: harness.NewRing(t), Logger: slog.New(slog.DiscardHandler)})
				if err != nil {
					rt.Fatal(err)
				}
				askback.AddInlineTool(srv, &mcp.Tool{Name: "tool"}, handler)
			})
			session, err := client.New(&client.Options{Form: func(_ context.Context, q *client.Question) (*mcp.ElicitResult,
				error) {
				return u.answer(q.Message), nil
			}}).Connect(t.Context(), there, nil)
			if err != nil {
				return nil, err
			}
			defer session.Close()
			return session.CallTool(t.Context(), params)
		})
		if got != want || !slices.Equal(gotAsked, wantAsked) {
			rt.Errorf("plan %q, refusing %q:\n natively %q, asked %q\nin rounds %q, asked %q", plan, refuse, want, wantAsked,
				got, gotAsked)
		}
	})
}
