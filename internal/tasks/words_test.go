package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/ending"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

// deployment are the arguments of the tools that ask a group.
type deployment struct {
	Version string `json:"version,omitempty"`
	Notes   string `json:"notes,omitempty"`
}

// report is the structured result of one of them.
type report struct {
	Approved string `json:"approved"`
	Large    int64  `json:"large"`
}

// addDeploy adds a tool that two of a group approve, one with an output schema, and one that asks its client then.
func addDeploy(srv *askback.Server) {
	approved := func(call *askback.Call, in deployment) (string, error) {
		err := askback.Approve(call, "release", askback.Question{
			Message: "Deploy " + in.Version + "? It is secret why.", For: []string{askback.Group("release")}, Votes: 2,
			Within: time.Hour,
		})
		if err != nil {
			return "", err
		}
		var names []string
		for _, by := range call.Answers("release") {
			names = append(names, by.Who)
		}
		return strings.Join(names, " and "), nil
	}
	askback.AddTool(srv, &mcp.Tool{Name: "deploy"},
		func(_ context.Context, call *askback.Call, in deployment) (string, error) {
			by, err := approved(call, in)
			return "deployed " + in.Version + " for " + by, err
		})
	askback.AddTool(srv, &mcp.Tool{Name: "report"},
		func(_ context.Context, call *askback.Call, in deployment) (*report, error) {
			by, err := approved(call, in)
			return &report{by, 1<<53 + 1}, err
		})
	askback.AddTool(srv, &mcp.Tool{Name: "then"},
		func(_ context.Context, call *askback.Call, in deployment) (string, error) {
			if _, err := approved(call, in); err != nil {
				return "", err
			}
			l, err := askback.Elicit[harness.Login](call, "login", "Who are you?")
			return "deployed for " + l.Name, err
		})
}

// noTasks is the _meta of a client that takes no tasks, with these capabilities.
func noTasks(capabilities string) string {
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
}

// deskServer returns a server whose callers are all alice, unless opts name them, and a desk on its store.
func deskServer(t *testing.T, opts *askback.Options, register ...func(*askback.Server)) (*askback.Server, *desk.Desk) {
	t.Helper()
	own := askback.Options{}
	if opts != nil {
		own = *opts
	}
	store := task.Store(new(task.MemoryStore))
	if own.Tasks == nil {
		own.Tasks = &askback.Tasks{Store: store}
	} else {
		store = own.Tasks.Store
	}
	if own.Desk == nil {
		own.Desk = &askback.DeskOptions{Wait: 5 * time.Second}
	}
	if own.Principal == nil {
		own.Principal = func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil }
	}
	if own.Logger == nil {
		own.Logger = slog.New(slog.DiscardHandler)
	}
	srv := harness.NewServer(t, &own, append(register, addDeploy)...)
	ctx, stop := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() {
		if err := srv.RunTasks(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); working.Wait() })
	d := expect.Must(desk.Open(store, nil))(t)
	return srv, d
}

// approve lets two of the group accept the open question of a task.
func approve(t *testing.T, d *desk.Desk, name string) {
	t.Helper()
	questions := expect.Must(d.Questions(t.Context(), name, nil))(t)
	for _, who := range []string{"bob", "carol"} {
		expect.Must(d.Answer(t.Context(), name, questions[len(questions)-1].Key, desk.Answer{
			By: desk.Person{Name: who, Groups: []string{"release"}}, Action: "accept",
		}))(t)
	}
}

var awaitsRelease = regexp.MustCompile(`waits for the answer "release" of 2 of group:release until 20[^ ]+ [^ ]+ UTC\.`)

var quotedName = regexp.MustCompile(`"([A-Z2-7]{26})"`)

// namesIn returns the names of tasks that a text quotes.
func namesIn(text any) (names []string) {
	for _, m := range quotedName.FindAllStringSubmatch(fmt.Sprint(text), -1) {
		names = append(names, m[1])
	}
	return names
}

// allFronts are all ways for requests to reach a server.
func allFronts() []harness.Front { return slices.Concat(harness.Fronts, harness.LineFronts) }

// meta returns what makes a front's client one without tasks: those of sessions have none.
func meta(f harness.Front, capabilities string) string {
	if f.Session {
		return ""
	}
	return "," + noTasks(capabilities)
}

// A client that cannot take a task is told who is awaited until when, under which name, and not what they are asked. An
// identical call is named, but not somebody else's.
func TestWords(t *testing.T) {
	t.Parallel()
	for _, f := range allFronts() {
		t.Run(f.Name, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				srv, d := deskServer(t, nil)
				ask := f.Dial(t, srv, &auth.TokenInfo{UserID: "alice"})
				call := func(tool, version string) map[string]any {
					res := ask("tools/call", `"name":"`+tool+`","arguments":{"version":"`+version+`"}`+meta(f, `{}`))
					result, _ := res["result"].(map[string]any)
					return result
				}
				first := call("deploy", "1")
				text := fmt.Sprint(harness.Content(first))
				names := namesIn(text)
				if len(names) != 1 || first["isError"] == true || strings.Contains(text, "secret") ||
					!awaitsRelease.MatchString(text) {
					t.Fatalf("the first call: %v", first)
				}
				again := call("deploy", "1")
				if found := namesIn(harness.Content(again)); len(found) != 2 || found[1] != names[0] || found[0] == names[0] ||
					!strings.Contains(fmt.Sprint(again), "identical call") {
					t.Errorf("an identical call: %v", again)
				}
				expect.Equal(t, "another call", len(namesIn(harness.Content(call("deploy", "2")))), 1)
				structured := call("report", "1")
				if text := fmt.Sprint(harness.Content(structured)); structured["isError"] != true ||
					!strings.HasPrefix(text, "Not failed: waiting.") || len(namesIn(text)) != 1 {
					t.Errorf("with an output schema: %v", structured)
				}
				approve(t, d, names[0])
				harness.Eventually(t, "outcome", func() bool {
					shown, err := d.Show(t.Context(), names[0])
					return err == nil && shown.Status == task.Completed
				})
			})
		})
	}
}

// An anonymous caller is told the ID, and nothing of the calls of other anonymous callers.
func TestWordsForAnonymousCallers(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		anonymous := func(context.Context, *mcp.RequestExtra) (string, error) { return "", nil }
		srv, _ := deskServer(t, &askback.Options{Principal: anonymous}, harness.AddTool("ask",
			func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
				return "", askback.Approve(call, "q", askback.Question{Message: "?", For: []string{askback.User("bob")}})
			}))
		ask := harness.Fronts[0].Dial(t, srv, nil)
		for range 2 {
			text := fmt.Sprint(harness.Content(ask("tools/call",
				`"name":"ask",`+noTasks(`{}`))["result"].(map[string]any)))
			if len(namesIn(text)) != 1 || strings.Contains(text, "identical") || !strings.Contains(text, "of user:bob.") {
				t.Errorf("told %q", text)
			}
			id := namesIn(text)[0]
			harness.Want(t, "its name is no ID", ask("tasks/get", `"taskId":"`+id+`"`), "working", "result", "status")
		}
	})
}

// bubble is a server in a bubble of synctest, whose requests are served one by one over HTTP.
type bubble struct {
	t *testing.T
	http.Handler
	desk *desk.Desk
}

func newBubble(t *testing.T, opts *askback.Options, register ...func(*askback.Server)) *bubble {
	t.Helper()
	if opts == nil {
		opts = new(askback.Options)
	}
	if opts.Desk == nil {
		opts.Desk = new(askback.DeskOptions)
	}
	srv, d := deskServer(t, opts, register...)
	return &bubble{t, srv.HTTPHandler(nil), d}
}

// send sends a call, and returns its response.
func (b *bubble) send(ctx context.Context, user, tool, members, meta string) *httptest.ResponseRecorder {
	if members != "" {
		members = "," + members
	}
	message := harness.Message(1, "tools/call", `"name":"`+tool+`"`+members+`,"_meta":{`+
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}`+meta+`}`, "")
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(message))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "X-User": user,
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool,
	} {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	return w
}

// text returns the text of the result in a response.
func (b *bubble) text(w *httptest.ResponseRecorder) string {
	b.t.Helper()
	message, _ := harness.At(recorded{w}.body(b.t), "result").(map[string]any)
	return fmt.Sprint(harness.Content(message))
}

// start sends a call that waits, and returns what its client will be told.
func (b *bubble) start(ctx context.Context, user, tool, members string) (told chan string) {
	told = make(chan string, 1)
	go func() { told <- b.text(b.send(ctx, user, tool, members, "")) }()
	synctest.Wait()
	return told
}

// A call waits for 45 seconds unless the operator says otherwise, and its client is told of it every few seconds, if it
// asked to be told. Progress grows, also beyond what the handler has reported.
func TestAWaitTellsHowItStands(t *testing.T) {
	t.Parallel()
	for _, middleware := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t, nil, func(srv *askback.Server) {
				if middleware {
					srv.AddReceivingMiddleware(harness.PassOn)
				}
				askback.AddTool(srv, &mcp.Tool{Name: "reports"},
					func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
						if err := call.Progress(ctx, 7, 10, "almost"); err != nil {
							return "", err
						}
						return "", askback.Approve(call, "q", askback.Question{Message: "?", For: []string{askback.Group("g")}})
					})
			})
			began := time.Now()
			w := b.send(t.Context(), "alice", "reports", "", `,"progressToken":1`)
			expect.Equal(t, "it waited for", time.Since(began), 45*time.Second)
			last, n, named := 0.0, 0, 0
			for line := range strings.Lines(w.Body.String()) {
				var m struct {
					Method string
					Params struct {
						Progress float64
						Message  string
					}
				}
				if data, ok := strings.CutPrefix(line, "data: "); !ok || json.Unmarshal([]byte(data), &m) != nil || m.Method == "" {
					continue
				}
				if m.Params.Progress <= last {
					t.Errorf("progress %v after %v", m.Params.Progress, last)
				}
				if last = m.Params.Progress; strings.Contains(m.Params.Message, "group:g") {
					named++
				}
				n++
			}
			if n < 9 || n > 12 || named < 8 {
				t.Errorf("it was told %d times, and %d times who is awaited: %s", n, named, w.Body)
			}
			expect.Equal(t, "it was told", len(namesIn(b.text(w))), 1)
			// A client that did not ask is told once.
			began = time.Now()
			expect.Equal(t, "the result", b.send(t.Context(), "alice", "reports", "", "").Header().Get("Content-Type"),
				"application/json")
			expect.Equal(t, "it waited for", time.Since(began), 45*time.Second)
		})
	}
}

// The outcome of a call that is decided in time is the response to it, as the call would have returned it.
func TestAWaitEndsWithTheOutcome(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := newBubble(t, nil)
		told := make(chan *httptest.ResponseRecorder, 1)
		go func() { told <- b.send(t.Context(), "alice", "report", "", "") }()
		time.Sleep(30 * time.Second)
		for q := range b.desk.Waiting(t.Context(), desk.Waiting{}) {
			approve(t, b.desk, q.Name)
		}
		w := <-told
		const want = `"structuredContent":{"approved":"bob and carol","large":9007199254740993}`
		if body := w.Body.String(); !strings.Contains(body, want) || strings.Contains(body, `"isError":true`) {
			t.Errorf("the outcome is %s", body)
		}
		for _, c := range []struct {
			tool, want string
			fail       func(name string) error
		}{
			{"deploy", `"isError":true`, func(name string) error { // as the author's error
				questions, err := b.desk.Questions(t.Context(), name, nil)
				if err == nil {
					_, err = b.desk.Answer(t.Context(), name, questions[0].Key, desk.Answer{
						By: desk.Person{Name: "bob", Groups: []string{"release"}}, Action: "decline"})
				}
				return err
			}},
			{"deploy", `the call was cancelled`, func(name string) error {
				_, err := b.desk.Cancel(t.Context(), name, desk.Cancellation{By: "bob", Reason: "why"})
				return err
			}},
		} {
			go func() { told <- b.send(t.Context(), "alice", c.tool, "", "") }()
			time.Sleep(time.Second)
			for q := range b.desk.Waiting(t.Context(), desk.Waiting{}) {
				if err := c.fail(q.Name); err != nil {
					t.Error(err)
				}
			}
			if w := <-told; !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("want %s in %s", c.want, w.Body)
			}
		}
	})
}

// A call that waits holds no shares, so that a second caller is served however many wait. When there is no room for
// another wait, the largest holder gives way and is told in words at once.
func TestAWaitKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	one := askback.Share{Total: 1, PerPrincipal: 1, Anonymous: 1}
	for name, configure := range map[string]func(*askback.Server){
		"directly":           func(*askback.Server) {},
		"through middleware": func(srv *askback.Server) { srv.AddReceivingMiddleware(harness.PassOn) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBubble(t, &askback.Options{Principal: harness.UserHeader, Limits: askback.Limits{
					Requests: one, Calls: one, Streams: one, Sessions: one,
					Waits: askback.Share{Total: 3, PerPrincipal: 2, Anonymous: 1},
				}}, harness.AddText("quick", nil, func(context.Context, *askback.Call) (string, error) {
					return "done", nil
				}), configure)
				waits := func(user string) chan string { return b.start(t.Context(), user, "deploy", "") }
				served := func(after string) {
					for _, user := range []string{"alice", "bob", "eve"} {
						if text := b.text(b.send(t.Context(), user, "quick", "", "")); text != "done" {
							t.Errorf("%s, %s is told %q", after, user, text)
						}
					}
				}
				first, second := waits("alice"), waits("alice")
				served("while two wait")
				third := waits("alice")
				if text := <-first; len(namesIn(text)) == 0 {
					t.Errorf("the one that gave way is told %q", text)
				}
				bob := waits("bob")
				served("while the pool is full")
				began := time.Now()
				for _, told := range []chan string{second, third, bob} {
					if text := <-told; len(namesIn(text)) == 0 {
						t.Errorf("told %q", text)
					}
				}
				if time.Since(began) == 0 {
					t.Error("nobody waited")
				}
				served("afterwards")
			})
		})
	}
}

// A large message stays in memory while its call waits. The wait gives way to a message that needs the room, and is
// told in words at once.
func TestALargeCallThatWaitsGivesWay(t *testing.T) {
	t.Parallel()
	for _, middleware := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBubble(t, &askback.Options{Principal: harness.UserHeader, Limits: askback.Limits{
				MessageBytes: 1 << 20, BodyBytes: askback.Share{Total: 2 << 20, PerPrincipal: 1 << 20, Anonymous: 1 << 20},
			}}, func(srv *askback.Server) {
				if middleware {
					srv.AddReceivingMiddleware(harness.PassOn)
				}
			})
			told := make(map[string]chan string)
			for _, user := range []string{"alice", "bob", "carol"} {
				told[user] = b.start(t.Context(), user, "deploy", `"arguments":{"notes":"`+strings.Repeat("x", 900<<10)+`"}`)
			}
			if len(told["alice"])+len(told["bob"]) != 1 || len(told["carol"]) != 0 {
				t.Errorf("told are %d, %d and %d", len(told["alice"]), len(told["bob"]), len(told["carol"]))
			}
			for _, told := range told {
				if text := <-told; len(namesIn(text)) == 0 {
					t.Errorf("told %q", text)
				}
			}
		})
	}
}

// A wait ends with its client, and with its server, which answers it in words. The call goes on.
func TestAWaitEndsAndTheCallGoesOn(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		b := newBubble(t, nil)
		open := func() (names []string) {
			for q, err := range b.desk.Waiting(t.Context(), desk.Waiting{}) {
				expect.Check(t, err)
				names = append(names, q.Name)
			}
			return names
		}
		client, disconnect := context.WithCancel(t.Context())
		began := time.Now()
		time.AfterFunc(time.Second, disconnect)
		if w := b.send(client, "alice", "deploy", "", ""); w.Body.Len() > 0 || time.Since(began) != time.Second {
			t.Errorf("after %v, a client that has gone is told %s", time.Since(began), w.Body)
		}
		server, end := context.WithCancel(t.Context())
		began = time.Now()
		time.AfterFunc(7*time.Second, end)
		w := b.send(ending.With(t.Context(), server), "alice", "deploy", "", `,"progressToken":1`)
		if names := namesIn(b.text(w)); len(names) != 2 || time.Since(began) != 7*time.Second {
			t.Errorf("after %v, the client of a server that ends is told %s", time.Since(began), w.Body)
		}
		expect.Equal(t, "what waits", len(open()), 2)
		for _, name := range open() {
			approve(t, b.desk, name)
		}
		time.Sleep(time.Second)
		for t_, err := range b.desk.List(t.Context(), task.Filter{}) {
			if err != nil || t_.Status != task.Completed {
				t.Errorf("the task is %+v, %v", t_, err)
			}
		}
	})
}

// Over standard input a wait ends soon after the input has ended, and its client is told in words.
func TestAWaitEndsWithTheInput(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		srv, _ := deskServer(t, &askback.Options{Desk: &askback.DeskOptions{Wait: time.Hour}})
		c := harness.Pipe(t, srv)
		c.Request(1, "tools/call", `"name":"deploy"`, `{}`)
		synctest.Wait()
		began := time.Now()
		_ = c.End() // waits for the server
		expect.Equal(t, "the server ended after", time.Since(began), 8*time.Second)
		expect.Equal(t, "told", len(namesIn(harness.Content(c.Response(1)["result"].(map[string]any)))), 1)
	})
}

// A round that is repeated, because its response was lost, finds its task, also where a state can be used once.
func TestARepeatedRoundFindsItsTask(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string]*askback.Options{
		"any use": {}, "single use": {ReplayGuard: new(state.MemoryGuard)},
	} {
		t.Run(name, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				srv, d := deskServer(t, opts, harness.AddTool("both",
					func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
						l, err := askback.Elicit[harness.Login](call, "login", "Who are you?")
						if err != nil {
							return "", err
						}
						q := askback.Question{Message: "?", For: []string{askback.Group("release")}, Votes: 2}
						return "for " + l.Name, askback.Approve(call, "q", q)
					}))
				h := srv.HTTPHandler(nil)
				round := func(responses, state string) *harness.Response {
					return harness.Request{Target: "both", Capabilities: `{"elicitation":{}}`, Responses: responses,
						State: state}.Send(t, h)
				}
				state := round("", "").Asked(t, "login")
				first := round(harness.Octocat, state).Text(t)
				second := round(harness.Octocat, state).Text(t)
				if names := namesIn(first); len(names) != 1 || !slices.Equal(names, namesIn(second)) {
					t.Fatalf("told %q, and when it was repeated %q", first, second)
				}
				approve(t, d, namesIn(first)[0])
				harness.Eventually(t, "the outcome", func() bool { return round(harness.Octocat, state).Text(t) == "for octocat" })
			})
		})
	}
}

// The Go SDK's client, which checks structured content, takes both the words and the outcome.
func TestWordsForAStrictClient(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		srv, d := deskServer(t, nil)
		here, there := mcp.NewInMemoryTransports()
		expect.Must(srv.Connect(t.Context(), there, nil))(t)
		c := expect.Must(mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), here, nil))(t)
		defer c.Close()
		res, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "report"})
		if err != nil || !res.IsError || res.StructuredContent != nil {
			t.Fatalf("told %+v, %v", res, err)
		}
		for q := range d.Waiting(t.Context(), desk.Waiting{}) {
			approve(t, d, q.Name)
		}
	})
}

// The call of a session that waits holds no share of the streams and of the open requests of sessions either, so that
// others are served, and it waits on.
func TestAWaitInASessionKeepsNobodyOut(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		one := askback.Share{Total: 1, PerPrincipal: 1, Anonymous: 1}
		srv, d := deskServer(t, &askback.Options{
			Desk:   new(askback.DeskOptions),
			Limits: askback.Limits{Streams: one, Waits: askback.Share{Total: 2, PerPrincipal: 1, Anonymous: 1}},
			Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
				return extra.TokenInfo.UserID, nil
			},
		}, harness.AddText("quick", nil, func(context.Context, *askback.Call) (string, error) { return "done", nil }))
		session := func(user string) harness.Ask {
			return harness.Fronts[1].Dial(t, srv, &auth.TokenInfo{UserID: user})
		}
		began := time.Now()
		start := func(user string) (told chan string) {
			ask := session(user)
			told = make(chan string, 1)
			go func() {
				result, _ := ask("tools/call", `"name":"deploy"`)["result"].(map[string]any)
				told <- fmt.Sprint(harness.Content(result))
			}()
			synctest.Wait()
			return told
		}
		alice := start("alice")
		for _, user := range []string{"alice", "bob"} {
			if res := session(user)("tools/call", `"name":"quick"`); harness.At(res, "error") != nil {
				t.Errorf("%s is told %v", user, res)
			}
		}
		bob := start("bob")
		for q, err := range d.Waiting(t.Context(), desk.Waiting{}) {
			if err != nil || q.Target != "deploy" {
				t.Errorf("%+v, %v", q, err)
			}
		}
		for _, told := range []chan string{alice, bob} {
			if text := <-told; len(namesIn(text)) != 1 || time.Since(began) != 45*time.Second {
				t.Errorf("after %v, told %q", time.Since(began), text)
			}
		}
		// The largest holder gives way, in words at once.
		alice = start("alice")
		second := start("alice")
		if text := <-alice; len(namesIn(text)) < 2 || len(second) > 0 {
			t.Errorf("told %q", text)
		}
	})
}
