package askback_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

// auditor keeps events, and a log of everything.
type auditor struct {
	mu     sync.Mutex
	events []askback.AuditEvent
	log    *harness.Log
}

// options are those of a server that this auditor watches.
func (a *auditor) options() *askback.Options {
	a.log = new(harness.Log)
	return &askback.Options{
		Logger:    slog.New(slog.NewTextHandler(a.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
		Audit: func(_ context.Context, e askback.AuditEvent) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.events = append(a.events, e)
		},
	}
}

// told are the events, each as its round and what its kind names.
func (a *auditor) told() (told []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range a.events {
		told = append(told, strings.Join(strings.Fields(fmt.Sprint(e.Round, " ", e.Kind, " ", e.Key, " ", e.Action, " ",
			e.Reason)), " "))
	}
	return told
}

// wants waits for these events, in any order if they are of a task, whose worker may be faster than who answered it.
func (a *auditor) wants(t *testing.T, want ...string) {
	t.Helper()
	harness.Eventually(t, "end of "+fmt.Sprint(want), func() bool { return len(a.told()) >= len(want) })
	got := a.told()
	if slices.Contains(want, "1 ended task") {
		got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	}
	expect.Diff(t, "events", want, got)
}

// wantsEvents checks each field of the events.
func (a *auditor) wantsEvents(t *testing.T, want ...askback.AuditEvent) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	expect.Diff(t, "events", want, a.events)
}

// paying is what is told of a call of pay that is answered.
var paying = []string{
	"1 asked login", "2 answered login accept", "2 step charge completed", "2 asked sure", "3 answered sure accept",
	"3 ended completed",
}

// addPay adds tools that ask twice, with a step in between. What is not for an audit has MARK in it.
func addPay(srv *askback.Server) {
	type note struct{ Note string }
	askback.AddTaskTool(srv, &mcp.Tool{Name: "pay"}, nil,
		func(ctx context.Context, call *askback.Call, _ note) (string, error) {
			if _, err := askback.Elicit[harness.Login](call, "login", "Who pays?"); err != nil {
				return "", err
			}
			if _, err := askback.Do(ctx, call,
				"charge", func(context.Context) (string, error) { return "MARK-result", nil }); err != nil {
				return "", err
			}
			_, err := askback.Elicit[harness.Login](call, "sure", "Are you sure?")
			return "MARK-outcome", err
		})
}

func addManual(m *mcp.Server) {
	m.AddTool(&mcp.Tool{Name: "manual", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if req.Params.RequestState == "MARK-state" {
				return harness.Text("MARK-outcome"), nil
			}
			return &mcp.CallToolResult{RequestState: "MARK-state",
				InputRequests: mcp.InputRequestMap{"login": &mcp.ElicitParams{Message: "?"}}}, nil
		})
}

const (
	auditArguments = `"arguments":{"Note":"MARK-argument"}`
	auditAnswer    = `{"action":"accept","content":{"name":"MARK-answer"}}`
)

// Whatever way a call takes, the same is told of it, and nothing of what it carries.
func TestAuditOfACall(t *testing.T) {
	// payIn calls a tool of 2026-07-28 until it is complete, and returns what is secret.
	payIn := func(t *testing.T, tool string, ask func(method, params string) map[string]any) (secrets []string) {
		keys := []string{"", "login", "sure"}
		sealed := ""
		for _, key := range keys {
			params := `"name":"` + tool + `",` + auditArguments
			if key != "" {
				params += `,"inputResponses":{"` + key + `":` + auditAnswer + `},"requestState":"` + sealed + `"`
			}
			response := ask("tools/call", params)
			if harness.At(response, "result", "resultType") != "input_required" {
				if fmt.Sprint(harness.At(response, "result", "content")) == "<nil>" {
					t.Fatalf("%v", response)
				}
				return secrets
			}
			sealed = harness.At(response, "result", "requestState").(string)
			secrets = append(secrets, sealed)
		}
		t.Fatal("the call did not end")
		return nil
	}
	type run func(t *testing.T, a *auditor, opts *askback.Options) (secrets []string)
	over := func(name, tool string) run {
		return func(t *testing.T, _ *auditor, opts *askback.Options) []string {
			srv := harness.NewServer(t, opts, addPay)
			i := slices.IndexFunc(harness.Fronts, func(f harness.Front) bool { return f.Name == name })
			return payIn(t, tool, harness.Fronts[i].Dial(t, srv, nil))
		}
	}
	inSession := func(tool string) run {
		return func(t *testing.T, _ *auditor, opts *askback.Options) []string {
			srv := expect.Must(askback.New(newManualServer(), opts))(t)
			addPay(srv)
			askback.AddInlineTool(srv, &mcp.Tool{Name: "inline", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
				askInline)
			here, there := mcp.NewInMemoryTransports()
			expect.Must(srv.Connect(t.Context(), there, nil))(t)
			client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "MARK-answer"}}, nil
				},
			})
			session := expect.Must(client.Connect(t.Context(), here,
				&mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"}))(t)
			defer session.Close()
			expect.Must(session.CallTool(t.Context(),
				&mcp.CallToolParams{Name: tool, Arguments: map[string]any{"Note": "MARK-argument"}}))(t)
			return nil
		}
	}
	inManualStyle := []string{"1 asked login", "2 answered login accept", "2 ended completed"}
	for _, c := range []struct {
		says string
		run  run
		want []string
	}{
		{"carried, over HTTP", over("HTTP", "pay"), paying},
		{"carried, over a connection", over("connection", "pay"), paying},
		{"carried, past a store", func(t *testing.T, a *auditor, opts *askback.Options) []string {
			opts.States = &state.Options{Store: new(state.MemoryStore), Mode: state.Dual, Overflow: 10}
			return over("HTTP", "pay")(t, a, opts)
		}, []string{"1 asked login", "0 state overflowed", "0 state same", "2 answered login accept",
			"2 step charge completed", "2 asked sure",
			"0 state overflowed", "0 state same", "3 answered sure accept", "3 ended completed"}},
		{"held", inSession("pay"), paying},
		// the SDK asks
		{"held, in the manual style", inSession("manual"), []string{"1 asked", "1 answered accept", "1 ended completed"}},
		{"an inline tool in its session", inSession("inline"), []string{"1 asked", "1 answered accept", "1 ended completed"}},
		{"an inline tool in rounds", func(t *testing.T, _ *auditor, opts *askback.Options) []string {
			h := harness.NewServer(t, opts, func(srv *askback.Server) {
				askback.AddInlineTool(srv, &mcp.Tool{Name: "inline", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}},
					askInline)
			}).HTTPHandler(nil)
			r := harness.Request{Target: "inline", Arguments: `{"Note":"MARK-argument"}`}
			first := r.Send(t, h)
			var key string
			for key = range first.Result.Requests {
			}
			r.State = first.Asked(t, key)
			r.Responses = `{"` + key + `":` + auditAnswer + `}`
			r.Send(t, h).Text(t)
			return []string{r.State}
		}, nil},
		{"in the manual style", func(t *testing.T, _ *auditor, opts *askback.Options) []string {
			srv := expect.Must(askback.New(newManualServer(), opts))(t)
			return payIn(t, "manual", harness.Fronts[0].Dial(t, srv, nil))
		}, inManualStyle},
		{"stored with a task", func(t *testing.T, _ *auditor, opts *askback.Options) []string {
			s := harness.NewTaskServer(t, opts, addPay)
			id := s.Start(harness.WithExtension, `"name":"pay",`+auditArguments)
			for _, key := range []string{"login", "sure"} {
				s.Get(harness.WithExtension, id, "input_required")
				s.Answer(id, `"`+key+`":`+auditAnswer)
			}
			s.Get(harness.WithExtension, id, "completed")
			return []string{id}
		}, append([]string{"1 ended task"}, paying...)},
		{"a task that is cancelled", func(t *testing.T, _ *auditor, opts *askback.Options) []string {
			s := harness.NewTaskServer(t, opts, addPay)
			id := s.Start(harness.WithExtension, `"name":"pay",`+auditArguments)
			s.Get(harness.WithExtension, id, "input_required")
			s.Result(harness.WithExtension, "tasks/cancel", id, `"taskId":"`+id+`"`)
			return []string{id}
		}, []string{"1 ended task", "1 asked login", "2 ended cancelled"}},
	} {
		t.Run(c.says, func(t *testing.T) {
			a := new(auditor)
			secrets := c.run(t, a, a.options())
			if c.want == nil { // the SDK names the question
				harness.Eventually(t, "end", func() bool { return len(a.told()) == 3 })
			} else {
				a.wants(t, c.want...)
			}
			a.mu.Lock()
			defer a.mu.Unlock()
			all := fmt.Sprintf("%+v\n%s", a.events, a.log)
			for _, secret := range append(secrets, "MARK") {
				if i := strings.Index(all, secret); i >= 0 {
					t.Errorf("%.20s is told: %s", secret, all[max(0, i-200):min(len(all), i+100)])
				}
			}
			calls, digests := map[string]bool{}, map[string]bool{}
			for _, e := range a.events {
				if e.Kind == askback.AuditAsked {
					digests[e.Digest] = true
				}
			}
			for _, e := range a.events {
				if e.Principal != "alice" || e.Method != "tools/call" || e.Target == "" {
					t.Errorf("whose is %+v?", e)
				}
				if e.Call != "" {
					calls[e.Call] = true
				}
				if e.Kind == askback.AuditAnswered && !digests[e.Digest] {
					t.Errorf("an answer to no question that was asked: %+v", e)
				}
			}
			if len(calls) > 1 {
				t.Errorf("one call is told as %v", calls)
			}
		})
	}
}

func newManualServer() *mcp.Server {
	m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
	addManual(m)
	return m
}

func askInline(ctx context.Context, req *mcp.CallToolRequest, _ struct{ Note string }) (*mcp.CallToolResult, any,
	error) {
	_, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Who?", RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}},
	}})
	return harness.Text("MARK-outcome"), nil, err
}

// A question that a handler asks through its session is told with the call's principal, method, target and round. It
// has no key and no digest, and an answer has an action only if it answers an elicitation.
func TestAuditOfQuestionsThroughASession(t *testing.T) {
	const accept = `{"action":"accept","content":{"name":"MARK"}}`
	model := `{"role":"assistant","model":"m","content":{"type":"text","text":"MARK"}}`
	elicit := func(ctx context.Context, s *mcp.ServerSession) error {
		_, err := s.Elicit(ctx, &mcp.ElicitParams{Message: "MARK"})
		return err
	}
	for _, c := range []struct {
		says     string
		ask      func(ctx context.Context, s *mcp.ServerSession) error
		answer   string
		answered bool
		action   string
	}{
		{"accepted", elicit, `"result":` + accept, true, "accept"},
		{"declined", elicit, `"result":{"action":"decline"}`, true, "decline"},
		{"cancelled", elicit, `"result":{"action":"cancel"}`, true, "cancel"},
		{"an action of the client's own", elicit, `"result":{"action":"MARK"}`, true, ""},
		{"an error", elicit, `"error":{"code":1,"message":"MARK"}`, false, ""},
		{"sampling", func(ctx context.Context, s *mcp.ServerSession) error {
			_, err := s.CreateMessage(ctx, &mcp.CreateMessageParams{MaxTokens: 1})
			return err
		}, `"result":` + model, true, ""},
		{"roots", func(ctx context.Context, s *mcp.ServerSession) error {
			_, err := s.ListRoots(ctx, nil)
			return err
		}, `"result":{"roots":[{"uri":"file:///MARK"}]}`, true, ""},
	} {
		for what, target := range map[string]string{"tools/call": "native", "prompts/get": "native",
			"resources/read": "test:native"} {
			t.Run(c.says+" "+what, func(t *testing.T) {
				a := new(auditor)
				m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
				m.AddTool(&mcp.Tool{Name: "native", InputSchema: map[string]any{"type": "object"}},
					func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
						return &mcp.CallToolResult{}, c.ask(ctx, req.Session)
					})
				m.AddPrompt(&mcp.Prompt{Name: "native"},
					func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
						return &mcp.GetPromptResult{}, c.ask(ctx, req.Session)
					})
				m.AddResource(&mcp.Resource{Name: "native", URI: "test:native"},
					func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
						return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, Text: "x"}}}, c.ask(ctx,
							req.Session)
					})
				srv := expect.Must(askback.New(m, a.options()))(t)
				pipe := harness.Pipe(t, srv)
				pipe.Write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
					`"capabilities":` + harness.AllCapabilities +
					`,"clientInfo":{"name":"c","version":"1"}}}`)
				pipe.Response(1)
				pipe.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
				member := "name"
				if what == "resources/read" {
					member = "uri"
				}
				pipe.Request(2, what, `"`+member+`":"`+target+`"`, "")
				question := pipe.Until("a question", func(m map[string]any) bool { return m["method"] != nil && m["id"] != nil })
				pipe.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,%s}`, question["id"], c.answer))
				pipe.Response(2)

				of := askback.AuditEvent{Principal: "alice", Method: what, Target: target, Round: 1}
				asked, answered := of, of
				asked.Kind, answered.Kind, answered.Action = askback.AuditAsked, askback.AuditAnswered, c.action
				want := []askback.AuditEvent{asked}
				if c.answered {
					want = append(want, answered)
				}
				a.mu.Lock()
				a.events = slices.DeleteFunc(a.events, func(e askback.AuditEvent) bool { return e.Kind == askback.AuditEnded })
				a.mu.Unlock()
				a.wantsEvents(t, want...)
			})
		}
	}
}

// What is refused is told with the reason, by every way in, and so is a call that ends badly.
func TestAuditOfWhatIsRefused(t *testing.T) {
	fails := func(name string, err error) func(*askback.Server) {
		return harness.AddTool(name, func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
			if err != nil {
				return "", err
			}
			if _, err := askback.Do(ctx, call,
				"break", func(context.Context) (string, error) { return "", errors.New("MARK-error") }); err == nil {
				return "", errors.New("the step did not fail")
			}
			return "", call.Checkpoint(ctx, fmt.Sprint(call.Round()))
		})
	}
	answered := `"name":"greet","arguments":{"place":"MARK"},"inputResponses":{"login":` + auditAnswer + `}`
	for _, c := range []struct {
		says    string
		options func(o *askback.Options)
		method  string
		params  string
		want    []string
		session bool // as well
	}{
		{"a caller without a name", func(o *askback.Options) {
			o.Principal = func(context.Context, *mcp.RequestExtra) (string, error) { return "", errors.New("MARK") }
		}, "tools/call", `"name":"greet"`, []string{"0 refused caller"}, false},
		{"a caller who may not", func(o *askback.Options) {
			o.Authorize = func(context.Context, askback.Access) error { return &jsonrpc.Error{Code: 1, Message: "no"} }
		}, "tools/call", `"name":"greet"`, []string{"0 refused authorize"}, true},
		{"a caller who may not, with a task", func(o *askback.Options) {
			o.Authorize = func(context.Context, askback.Access) error { return errors.New("no") }
		}, "tasks/get", `"taskId":"MARK-task"`, []string{"0 refused authorize"}, true},
		{"a state", func(*askback.Options) {}, "tools/call", answered + `,"requestState":"MARK"`,
			[]string{"0 refused malformed"}, false},
		{"a client that cannot be asked", func(*askback.Options) {}, "tools/call",
			`"name":"samples","arguments":{}`, []string{"1 ended capability"}, true},
		{"too many rounds", func(o *askback.Options) { o.Limits.Rounds = 1 }, "tools/call", `"name":"breaks","arguments":{}`,
			[]string{"1 step break failed"}, false},
		{"an error", func(*askback.Options) {}, "tools/call", `"name":"fails","arguments":{}`, []string{"1 ended failed"},
			true},
		{"a tool's own error of the protocol", func(*askback.Options) {}, "tools/call",
			`"name":"faults","arguments":{}`, []string{"1 ended failed"}, true},
	} {
		for _, f := range harness.Fronts {
			if f.Session && !c.session {
				continue
			}
			t.Run(c.says+" "+f.Name, func(t *testing.T) {
				a := new(auditor)
				opts := a.options()
				c.options(opts)
				opts.Tasks = &askback.Tasks{Store: new(task.MemoryStore)}
				srv := harness.NewServer(t, opts, harness.AddGreet, fails("breaks", nil), fails("fails", errors.New("MARK")),
					fails("faults", &jsonrpc.Error{Code: 7, Message: "MARK"}), harness.AddTool("samples",
						func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
							_, err := askback.Sample(call, "sample", harness.Sampling("MARK"))
							return "", err
						}))
				f.Dial(t, srv, nil)(c.method, c.params)
				a.wants(t, c.want...)
				for i := range a.events {
					a.events[i].Call = "" // letters at random
				}
				if told := fmt.Sprintf("%+v", a.events); strings.Contains(told, "MARK") {
					t.Errorf("told: %s", told)
				}
			})
		}
	}
}

// The answer to a question can be a refusal: it counts as an answer. A panic in the hook costs nothing.
func TestAuditOfADeclinedQuestion(t *testing.T) {
	a := new(auditor)
	opts := a.options()
	opts.ReplayGuard = new(state.MemoryGuard)
	own := opts.Audit
	opts.Audit = func(ctx context.Context, e askback.AuditEvent) {
		own(ctx, e)
		panic("no disk")
	}
	h := harness.NewServer(t, opts, harness.AddGreet).HTTPHandler(nil)
	r := harness.Request{Target: "greet", Arguments: `{"place":"x"}`}
	r.State = r.Send(t, h).Asked(t, "login")
	r.Responses = `{"login":{"action":"decline"}}`
	if res := r.Send(t, h); res.Status != http.StatusOK || !strings.Contains(res.Raw, "isError\":true") {
		t.Errorf("%d %s", res.Status, res.Raw)
	}
	r.Send(t, h).Refused(t, 400, -32602)
	a.wants(t, "1 asked login", "2 answered login decline", "2 ended failed", "0 refused replayed")
	a.log.Has(t, "Options.Audit")
}

// An answer that does not fit is none: only the question that is asked again is told.
func TestAuditOfAnAnswerThatDoesNotFit(t *testing.T) {
	a := new(auditor)
	h := harness.NewServer(t, a.options(), harness.AddGreet).HTTPHandler(nil)
	r := harness.Request{Target: "greet", Arguments: `{"place":"x"}`}
	r.State = r.Send(t, h).Asked(t, "login")
	r.Responses = `{"login":{"action":"accept","content":{"name":7}}}`
	r.State = r.Send(t, h).Asked(t, "login")
	r.Responses = harness.Octocat
	r.Send(t, h).Text(t)
	a.wants(t, "1 asked login", "2 asked login", "3 answered login accept", "3 ended completed")
}
