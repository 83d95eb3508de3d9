package askback_test

import (
	"context"
	"errors"
	"fmt"
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

type order struct {
	Size int    `json:"size" minimum:"18"`
	Kind string `json:"kind" enum:"a|b"`
}

// addOrder adds tools that ask once. What is not for a log has MARK in it.
func addOrder(srv *askback.Server) {
	type note struct{ Note string }
	askback.AddTaskTool(srv, &mcp.Tool{Name: "order"}, &askback.TaskSupport{},
		func(ctx context.Context, call *askback.Call, _ note) (string, error) {
			o, err := askback.Elicit[order](call, "order", "What?")
			if err != nil {
				return "", err
			}
			return askback.Do(ctx, call, "buy", func(context.Context) (string, error) { return "MARK-result " + o.Kind, nil })
		})
	askback.AddTool(srv, &mcp.Tool{Name: "drops"}, func(_ context.Context, call *askback.Call, _ note) (string, error) {
		if _, err := askback.Elicit[order](call, "order", "What?"); err != nil {
			return "", errors.New("MARK-error")
		}
		return "", nil
	})
	var asked atomic.Int64
	askback.AddTool(srv, &mcp.Tool{Name: "rewords"}, func(_ context.Context, call *askback.Call, _ note) (string, error) {
		_, err := askback.Elicit[order](call, "order", fmt.Sprint("MARK-question ", asked.Add(1)))
		return "", err
	})
	type small struct {
		Size int8 `json:"size"`
	}
	askback.AddTool(srv, &mcp.Tool{Name: "narrow"}, func(_ context.Context, call *askback.Call, _ note) (string, error) {
		_, err := askback.ElicitWith[small](call, "order", askback.Question{Message: "How large?", Schema: map[string]any{
			"type": "object", "properties": map[string]any{"size": map[string]any{"type": "integer"}},
			"required": []string{"size"},
		}})
		return "", err
	})
}

const (
	goodOrder = `{"order":{"action":"accept","content":{"size":20,"kind":"a"}}}`
	badOrder  = `{"order":{"action":"accept","content":{"size":17,"kind":"MARK-answer"}}}`
	whyBad    = `size: must be at least 18; kind: must be one of a, b`
)

// There is one line for each round, and one for each request that did not come so far.
func TestALineForEachRound(t *testing.T) {
	logger, log, lines := harness.JSONLogs()
	h := harness.NewServer(t, &askback.Options{Logger: logger}, addOrder).HTTPHandler(nil)
	r := harness.Request{Target: "order", Arguments: `{"Note":"MARK-argument"}`}
	first := r.Send(t, h)
	r.State, r.Responses = first.Asked(t, "order"), goodOrder
	if got := r.Send(t, h).Text(t); got != "MARK-result a" {
		t.Fatal(got)
	}
	altered := r
	altered.State = r.State[:len(r.State)-1]
	altered.Send(t, h)

	rounds := lines("askback: a round")
	calls := make(map[any]bool)
	for _, l := range rounds {
		calls[l["call"]] = true
		if d, ok := l["duration"].(float64); !ok || d <= 0 {
			t.Errorf("the duration is %v", l["duration"])
		}
		delete(l, "call")
		delete(l, "duration")
	}
	line := func(round float64, asked any, outcome string) map[string]any {
		return map[string]any{"level": "DEBUG", "msg": "askback: a round", "method": "tools/call", "target": "order",
			"round": round, "asked": asked, "outcome": outcome}
	}
	expect.Diff(t, "rounds", []map[string]any{line(1, []any{"order"}, "input_required"), line(2, nil, "completed")},
		rounds)
	if len(calls) != 1 || calls[nil] {
		t.Errorf("one call is logged as %v", calls)
	}
	requests := lines("askback: a request")
	if len(requests) != 1 || requests[0]["outcome"] != "refused" || requests[0]["reason"] == "" ||
		requests[0]["target"] != "order" || requests[0]["code"] != float64(-32602) {
		t.Errorf("requests that did not become rounds: %v", requests)
	}
	refused := lines("askback: requestState refused")
	if len(refused) != 1 || refused[0]["target"] != "order" {
		t.Errorf("states that were refused: %v", refused)
	}
	harness.NoSecrets(t, log, r.State, altered.State)
}

// Why a question is asked again stands in the log: the key and the rule, in every kind of session, and never the
// answer.
func TestWhyAQuestionIsAskedAgain(t *testing.T) {
	const message = "askback: an answer does not fit"
	in := harness.Request{Arguments: `{"Note":"MARK-argument"}`}
	carried := func(tool, answer string) func(t *testing.T, opts *askback.Options) []string {
		return func(t *testing.T, opts *askback.Options) []string {
			h := harness.NewServer(t, opts, addOrder).HTTPHandler(nil)
			r := in
			r.Target = tool
			r.State = r.Send(t, h).Asked(t, "order")
			r.Responses = answer
			again := r.Send(t, h)
			for key := range again.Result.Requests { // another question has another key
				if rest, _ := strings.CutPrefix(key, "order"); rest != "" && (tool != "rewords" || rest[0] != '#') {
					t.Errorf("the question is asked again as %q", key)
				}
			}
			return []string{r.State, again.Result.State}
		}
	}
	for _, c := range []struct {
		says   string
		run    func(t *testing.T, opts *askback.Options) (secrets []string)
		target string
		round  float64
		reason string
	}{
		{"carried", carried("order", badOrder), "order", 2, whyBad},
		{"no answer", carried("order", `{"order":{"action":"MARK-action"}}`), "order", 2,
			`an elicitation result needs the action "accept", "decline" or "cancel"`},
		{"another question", carried("rewords", goodOrder), "rewords", 2,
			"it answers another question under the same key: what the client sees of the question has changed since"},
		{"too large for its type", carried("narrow", `{"order":{"action":"accept","content":{"size":471147114711}}}`),
			"narrow", 2, "the form allows it, but the server cannot hold it, such as a number that is too large"},
		{"a task", func(t *testing.T, opts *askback.Options) []string {
			s := harness.NewTaskServer(t, opts, addOrder)
			id := s.Start(harness.WithExtension, `"name":"order","arguments":{"Note":"MARK-argument"}`)
			s.Get(harness.WithExtension, id, "input_required")
			s.Answer(id, badOrder[1:len(badOrder)-1])
			return []string{id}
		}, "order", 2, whyBad},
		{"a session", func(t *testing.T, opts *askback.Options) []string {
			pipe := harness.Pipe(t, harness.NewServer(t, opts, addOrder))
			pipe.Write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` +
				harness.AllCapabilities +
				`,"clientInfo":{"name":"c","version":"1"}}}`)
			pipe.Response(1)
			pipe.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			pipe.Request(2, "tools/call", `"name":"order","arguments":{"Note":"MARK-argument"}`, "")
			for i, answer := range []string{badOrder, goodOrder} {
				question := pipe.Until("a question", func(m map[string]any) bool { return m["method"] != nil && m["id"] != nil })
				message := question["params"].(map[string]any)["message"]
				if want := []string{"What?", "What?\n\nThe answer before this one does not fit: " + whyBad +
					"."}[i]; message != want {
					t.Errorf("the question is %q, want %q", message, want)
				}
				pipe.Answer(question, answer[len(`{"order":`):len(answer)-1])
			}
			pipe.Response(2)
			return nil
		}, "order", 2, whyBad},
	} {
		t.Run(c.says, func(t *testing.T) {
			logger, log, lines := harness.JSONLogs()
			secrets := c.run(t, &askback.Options{Logger: logger})
			harness.Eventually(t, "the line", func() bool { return lines(message) != nil })
			got := lines(message)
			for _, l := range got {
				if call, _ := l["call"].(string); len(call) != 26 {
					t.Errorf("the call is %q", call)
				}
				delete(l, "call")
				delete(l, "msg")
			}
			want := map[string]any{"level": "INFO", "method": "tools/call", "target": c.target, "round": c.round, "key": "order",
				"reason": c.reason}
			expect.Diff(t, "lines", []map[string]any{want}, got)
			harness.NoSecrets(t, log, append(secrets, "471147114711")...)
		})
	}
}

// A handler whose questions do not depend on its arguments and answers alone is told so, of every kind and in every
// home.
func TestAStrayingHandlerIsLogged(t *testing.T) {
	var asked atomic.Int64
	stray := func(call *askback.Call) error {
		_, err := askback.Elicit[order](call, fmt.Sprint("key-", asked.Add(1)), "What?")
		return err
	}
	add := func(srv *askback.Server) {
		askback.AddTaskTool(srv, &mcp.Tool{Name: "strays"}, &askback.TaskSupport{},
			func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
				return "", stray(call)
			})
		srv.AddPrompt(&mcp.Prompt{Name: "strays"},
			func(_ context.Context, call *askback.Call, _ map[string]string) (*mcp.GetPromptResult, error) {
				return &mcp.GetPromptResult{}, stray(call)
			})
		srv.AddResource(&mcp.Resource{Name: "strays", URI: "test:strays"},
			func(_ context.Context, call *askback.Call, _ string) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{}, stray(call)
			})
		askback.AddInlineTool(srv, &mcp.Tool{Name: "inline"},
			func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				_, err := elicitName(ctx, req, fmt.Sprint("It is ", asked.Add(1)))
				return &mcp.CallToolResult{}, nil, err
			})
	}
	answers := func(key string) string { return `{"` + key + `":` + goodOrder[len(`{"order":`):] }
	carried := func(method, target string) func(t *testing.T, opts *askback.Options) {
		return func(t *testing.T, opts *askback.Options) {
			h := harness.NewServer(t, opts, add).HTTPHandler(nil)
			r := harness.Request{Method: method, Target: target, Arguments: `{}`}
			first := r.Send(t, h)
			if first.Result == nil || len(first.Result.Requests) != 1 {
				t.Fatal(first.Raw)
			}
			r.State = first.Result.State
			for key := range first.Result.Requests {
				r.Responses = answers(key)
			}
			r.Send(t, h)
		}
	}
	for _, c := range []struct {
		says, method, target string
		run                  func(t *testing.T, opts *askback.Options)
	}{
		{"a tool", "tools/call", "strays", carried("tools/call", "strays")},
		{"a prompt", "prompts/get", "strays", carried("prompts/get", "strays")},
		{"a resource", "resources/read", "test:strays", carried("resources/read", "test:strays")},
		{"an inline tool", "tools/call", "inline", carried("tools/call", "inline")},
		{"a task", "tools/call", "strays", func(t *testing.T, opts *askback.Options) {
			s := harness.NewTaskServer(t, opts, add)
			id := s.Start(harness.WithExtension, `"name":"strays"`)
			s.Get(harness.WithExtension, id, "input_required")
			answer := answers("key-1")
			s.Answer(id, answer[1:len(answer)-1])
		}},
		{"a session", "tools/call", "strays", func(t *testing.T, opts *askback.Options) {
			pipe := harness.Pipe(t, harness.NewServer(t, opts, add))
			pipe.Write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":` +
				harness.AllCapabilities +
				`,"clientInfo":{"name":"c","version":"1"}}}`)
			pipe.Response(1)
			pipe.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			pipe.Request(2, "tools/call", `"name":"strays","arguments":{}`, "")
			question := pipe.Until("a question", func(m map[string]any) bool { return m["method"] != nil && m["id"] != nil })
			pipe.Answer(question, goodOrder[len(`{"order":`):len(goodOrder)-1])
		}},
	} {
		t.Run(c.says, func(t *testing.T) {
			asked.Store(0)
			logger, log, lines := harness.JSONLogs()
			c.run(t, &askback.Options{Logger: logger})
			const message = "askback: a handler asked something new, but not again what was answered in an earlier round"
			harness.Eventually(t, "the warning", func() bool { return lines(message) != nil })
			l := lines(message)[0]
			if l["level"] != "WARN" || l["method"] != c.method || l["target"] != c.target || l["round"] != float64(2) ||
				len(l["call"].(string)) != 26 ||
				len(l["asked"].([]any)) != 1 || len(l["answered"].([]any)) != 1 ||
				l["asked"].([]any)[0] == l["answered"].([]any)[0] {
				t.Errorf("the line is %v", l)
			}
			harness.NoSecrets(t, log)
		})
	}
}

// A worker that loses its lease says so, and so does the one that goes on with its task.
func TestALostLeaseIsLogged(t *testing.T) { synctest.Test(t, testALostLeaseIsLogged) }

func testALostLeaseIsLogged(t *testing.T) {
	store := new(task.MemoryStore)
	arrived := make(chan struct{}, 1)
	steps := func(hang bool) func(*askback.Server) {
		return harness.AddText("steps", nil, func(ctx context.Context, call *askback.Call) (string, error) {
			if err := call.Do(ctx, "one", func(context.Context) error { return nil }); err != nil {
				return "", err
			}
			if hang {
				arrived <- struct{}{}
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "done", nil
		})
	}
	logger, log, lines := harness.JSONLogs()
	options := func() *askback.Options {
		return &askback.Options{Logger: logger, Keys: harness.NewRing(t),
			Tasks: &askback.Tasks{Settings: task.Settings{Lease: time.Second}}}
	}
	first := harness.NewTaskServerOn(t, store, options(), steps(true))
	id := first.Result(harness.WithExtension, "tools/call", "steps", `"name":"steps"`)["taskId"].(string)
	<-arrived
	giveBack := harness.Steal(t, store, id)
	harness.Eventually(t, "loss of the lease", func() bool { return lines("task: the lease is lost") != nil })
	first.Stop()
	giveBack()
	second := harness.NewTaskServerOn(t, store, options(), steps(false))
	second.Get(harness.WithExtension, id, "completed")

	harness.Eventually(t, "other line", func() bool {
		return lines("askback: a task goes on after a run that did not end") != nil
	})
	for _, l := range append(lines("task: the lease is lost"), lines("askback: a task goes on after")...) {
		if l["task"] != task.Name(id) || l["target"] != "steps" {
			t.Errorf("whose task is it? %v", l)
		}
	}
	goesOn := lines("askback: a task goes on after")[0]
	if goesOn["level"] != "INFO" || len(goesOn["call"].(string)) != 26 || goesOn["fence"] != float64(3) {
		t.Errorf("the line is %v", goesOn)
	}
	harness.NoSecrets(t, log, id)
}

// An alert on tasks whose worker died must stay silent for tasks that clients cancel and for tasks whose time to live
// ends: no log line and no operation says that such a task continues.
func TestATaskThatIsEndedFromOutsideIsNotRecovered(t *testing.T) {
	t.Parallel()
	cancel := func(s *harness.TaskServer, id string) {
		s.Result(harness.WithExtension, "tasks/cancel", id, `"taskId":"`+id+`"`)
	}
	for _, test := range []struct {
		name string
		ttl  time.Duration
		end  func(s *harness.TaskServer, id string, working <-chan struct{})
	}{
		{"cancelled while it waits", 0, func(s *harness.TaskServer, id string, _ <-chan struct{}) { cancel(s, id) }},
		{"expired while it waits", 2 * time.Second, func(*harness.TaskServer, string, <-chan struct{}) {}},
		{"cancelled while it works", 0, func(s *harness.TaskServer, id string, working <-chan struct{}) {
			s.Answer(id, `"color":{"action":"decline"}`)
			<-working
			cancel(s, id)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				working := make(chan struct{}, 1)
				w := new(follower)
				logger, log, lines := harness.JSONLogs()
				s := harness.NewTaskServer(t, &askback.Options{
					Logger: logger, Observe: w.observe,
					Tasks: &askback.Tasks{Settings: task.Settings{TTL: test.ttl}},
				}, harness.AddText("trip", nil, func(ctx context.Context, call *askback.Call) (string, error) {
					step := func(context.Context) error { return nil }
					if err := call.Do(ctx, "reserve", step); err != nil {
						return "", err
					}
					if _, err := askback.Elicit[harness.Color](call, "color", "Which?"); errors.Is(err, askback.ErrInputRequired) {
						return "", err
					}
					if err := call.Do(ctx, "book", step); err != nil {
						return "", err
					}
					return "", call.Do(ctx, "drive", func(ctx context.Context) error {
						working <- struct{}{}
						<-ctx.Done()
						return ctx.Err()
					})
				}))
				id := s.Start(harness.WithExtension, `"name":"trip"`)
				s.Get(harness.WithExtension, id, "input_required")
				test.end(s, id, working)
				harness.Eventually(t, "the clean-up", func() bool { return strings.Contains(fmt.Sprint(w.seen()), "cleaned_up") })
				if l := lines("askback: a task goes on after a run that did not end"); l != nil {
					t.Errorf("logged %v", l)
				}
				for _, op := range w.all() {
					if op.Recovered {
						t.Errorf("the %s of round %d recovered the task", op.Kind, op.Round)
					}
				}
				harness.NoSecrets(t, log, id)
			})
		})
	}
}
