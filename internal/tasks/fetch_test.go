package tasks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// fetch are the members of a call of the result tool.
func fetch(name, more string) string {
	return `"name":"askback_result","arguments":{"name":` + harness.Quote(name) + `}` + more
}

// The result tool waits, and returns the outcome as the call would have: its text, its structured content as it is, its
// tool error and its JSON-RPC error, as often as it is called, over every front.
func TestFetch(t *testing.T) {
	t.Parallel()
	for _, f := range allFronts() {
		t.Run(f.Name, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				srv, d := deskServer(t, nil, (*askback.Server).AddResultTool, addFailing)
				ask := f.Dial(t, srv, &auth.TokenInfo{UserID: "alice"})
				result := func(response map[string]any) map[string]any {
					result, _ := response["result"].(map[string]any)
					return result
				}
				for _, tool := range []string{"deploy", "report", "fails", "breaks"} {
					told := fmt.Sprint(harness.Content(result(ask("tools/call", `"name":"`+tool+`"`+meta(f, `{}`)))))
					if len(namesIn(told)) != 1 || !strings.Contains(told, `call the tool askback_result with the name "`) {
						t.Fatalf("%s is told %s", tool, told)
					}
					name := namesIn(told)[0]
					began := time.Now()
					again := fmt.Sprint(harness.Content(result(ask("tools/call", fetch(name, meta(f, `{}`))))))
					if took := time.Since(began); took != 5*time.Second || again != strings.TrimPrefix(told, "Not failed: waiting. ") {
						t.Errorf("after %v, the result of %s is %s", took, tool, again)
					}
					approve(t, d, name)
					for _, as := range []string{name, strings.ToLower(name[:6])} {
						response := ask("tools/call", fetch(as, meta(f, `{}`)))
						encoded, _ := json.Marshal(response)
						want := map[string]string{
							"deploy": `"text":"deployed  for bob and carol"`, "report": `"large":9007199254740993`,
							"fails": `"text":"the ship has sailed"`, "breaks": `"code":-32042`,
						}[tool]
						if tool == "report" {
							want = `"large":9007199254740992` // as this test's decoder reads it
						}
						if !strings.Contains(string(encoded), want) || (tool == "fails") != (result(response)["isError"] == true) {
							t.Errorf("%s: want %s in %s", tool, want, encoded)
						}
					}
				}
			})
		})
	}
}

func addFailing(srv *askback.Server) {
	for name, err := range map[string]error{
		"fails": errors.New("the ship has sailed"), "breaks": &jsonrpc.Error{Code: -32042, Message: "out of order"},
	} {
		harness.AddText(name, nil, func(_ context.Context, call *askback.Call) (string, error) {
			q := askback.Question{Message: "?", For: []string{askback.Group("release")}, Votes: 2}
			if err := askback.Approve(call, "q", q); err != nil {
				return "", err
			}
			return "", err
		})(srv)
	}
}

// A name is one of the caller's own calls, and every other gets one and the same error.
func TestFetchFindsOnlyTheCallersOwn(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		srv, _ := deskServer(t, &askback.Options{Principal: harness.UserHeader}, (*askback.Server).AddResultTool,
			harness.AddTool("ask", func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
				return "", askback.Approve(call, "q", askback.Question{Message: "?", For: []string{askback.User("bob")}})
			}))
		b := &bubble{t: t, Handler: srv.HTTPHandler(nil)}
		fetched := func(user, name string) string {
			return b.text(b.send(t.Context(), user, "askback_result", `"arguments":{"name":`+harness.Quote(name)+`}`, ""))
		}
		mine := namesIn(b.text(b.send(t.Context(), "alice", "ask", "", "")))[0]
		id := namesIn(b.text(b.send(t.Context(), "", "ask", "", "")))[0]
		const refused = "no such call: give the name from the message of the call that waits"
		for _, c := range []struct{ user, name string }{
			{"eve", mine}, {"eve", mine[:8]}, {"eve", id}, {"", mine}, {"alice", id}, {"", task.Name(id)}, {"", id[:8]},
			{"alice", mine[:5]}, {"alice", "AAAAAA"}, {"alice", mine + "A"}, {"alice", strings.Repeat("x", 1000)},
			{"alice", "%\x00_"},
		} {
			if text := fetched(c.user, c.name); text != refused {
				t.Errorf("%q is told of %.30q: %q", c.user, c.name, text)
			}
		}
		for user, name := range map[string]string{"alice": " " + mine[:6], "": id} {
			expect.Contains(t, user+" is told of its own call", fetched(user, name), "of user:bob.")
		}
		if text := fetched("", ""); strings.Contains(text, id) || !strings.Contains(text, "the name of a call is missing") {
			t.Errorf("an anonymous caller is told %q", text)
		}
		expect.Equal(t, "eve is told", fetched("eve", ""), "There are no calls of yours.")
	})
}

// Without a name the tool lists the calls of its caller: what waits comes first, and the list has an end.
func TestFetchLists(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		srv, d := deskServer(t, nil, (*askback.Server).AddResultTool)
		b := &bubble{t: t, Handler: srv.HTTPHandler(nil)}
		first := namesIn(b.text(b.send(t.Context(), "", "deploy", "", "")))[0]
		var names []string
		for range 21 {
			text := b.text(b.send(t.Context(), "", "then", "", ""))
			names = append(names, namesIn(text)[0])
		}
		approve(t, d, names[20])
		synctest.Wait()
		text := b.text(b.send(t.Context(), "", "askback_result", "", ""))
		lines := strings.Split(text, "\n")
		if len(lines) != 22 || !strings.HasPrefix(lines[1], "- "+names[19]+": then, since 2000-01-01 ") ||
			!strings.Contains(lines[1], `The call waits for the answer "release" of 2 of group:release until `) ||
			!strings.HasSuffix(lines[21], "22 calls in all.") || strings.Contains(text, first) {
			t.Errorf("the list is %s", text)
		}
		for _, name := range names[:20] {
			expect.Must(d.Cancel(t.Context(), name, desk.Cancellation{By: "bob", Reason: "why"}))(t)
		}
		text = b.text(b.send(t.Context(), "", "askback_result", "", ""))
		lines = strings.Split(text, "\n")
		if !strings.Contains(lines[1], first) || !strings.HasSuffix(lines[3], ": cancelled") {
			t.Errorf("the list is %s", text)
		}
	})
}

const accepts = `{"action":"accept","content":{"name":"octocat"}}`

// What a call asks its client then, the result tool asks: each question under its key, again if the answer does not
// fit, and once if two ask it at the same time. A retry that is repeated changes nothing.
func TestFetchAsksTheClient(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		logger, log := harness.Logs()
		srv, d := deskServer(t, &askback.Options{Logger: logger}, (*askback.Server).AddResultTool)
		h := srv.HTTPHandler(nil)
		round := func(target, arguments, responses, state string) *harness.Response {
			return harness.Request{Target: target, Arguments: arguments, Capabilities: `{"elicitation":{}}`,
				Responses: responses, State: state}.Send(t, h)
		}
		name := namesIn(round("then", "", "", "").Text(t))[0]
		arguments := `{"name":"` + name + `"}`
		// A client that cannot be asked is told so, at once, once the call has a question.
		approve(t, d, name)
		synctest.Wait()
		began := time.Now()
		deaf := harness.Request{Target: "askback_result", Arguments: arguments, Capabilities: `{}`}.Send(t, h).Text(t)
		if time.Since(began) != 0 || !strings.Contains(deaf, "The call has a question for you. This client cannot") {
			t.Errorf("a client that cannot be asked is told %q", deaf)
		}
		fetch := func(responses, state string) *harness.Response {
			return round("askback_result", arguments, responses, state)
		}
		state := fetch("", "").Asked(t, "login")
		other := fetch("", "").Asked(t, "login")
		unfit := fetch(`{"login":{"action":"accept","content":{"name":7}}}`, state)
		state = unfit.Asked(t, "login#2")
		expect.Contains(t, "the reason", unfit.Raw, "does not fit")
		other = fetch(`{"login":`+accepts+`}`, other).Asked(t, "login#2") // which is asked no more
		for range 2 {
			expect.Equal(t, "the outcome", fetch(`{"login#2":`+accepts+`}`, state).Text(t), "deployed for octocat")
		}
		expect.Equal(t, "the other one gets", fetch(`{"login#2":{"action":"decline"}}`, other).Text(t),
			"deployed for octocat")
		if strings.Contains(log.String(), "WARN") {
			t.Errorf("the log has %s", log)
		}
	})
}

// In a session the client is asked inside of the request.
func TestFetchAsksInASession(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		srv, d := deskServer(t, nil, (*askback.Server).AddResultTool)
		c := harness.Pipe(t, srv)
		c.Open(harness.Initialize)
		told := c.Call(2, "tools/call", `"name":"then"`, "")
		name := namesIn(harness.Content(told["result"].(map[string]any)))[0]
		c.Request(3, "tools/call", fetch(name, ""), "")
		synctest.Wait()
		approve(t, d, name)
		for i, answer := range []string{`{"action":"accept","content":{"name":7}}`, accepts} {
			question := c.Asked()
			message := fmt.Sprint(harness.At(question, "params", "message"))
			expect.Equal(t, "asked "+message, (i == 1), strings.Contains(message, "not fit"))
			c.Answer(question, answer)
		}
		expect.Equal(t, "the outcome", harness.Content(c.Response(3)["result"].(map[string]any)), "deployed for octocat")
	})
}

// A question that waits for its caller at the desk, because the host could not show it, is asked by the result tool of
// a host that can: the answer is a vote through the host. A host that shows nothing has no vote.
func TestFetchAsksWhatWaitsForItsCallerAtTheDesk(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		srv, d := deskServer(t, &askback.Options{Desk: &askback.DeskOptions{Fallback: true, Wait: 5 * time.Second}},
			(*askback.Server).AddResultTool, harness.AddGreet, harness.AddTool("named",
				func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
					q := askback.Question{Message: "A person?", For: []string{askback.User("alice")}}
					return "approved", askback.Approve(call, "person", q)
				}))
		h := srv.HTTPHandler(nil)
		round := func(capabilities, target, arguments, responses, state string) *harness.Response {
			return harness.Request{Target: target, Arguments: arguments, Capabilities: capabilities,
				Responses: responses, State: state}.Send(t, h)
		}
		const able = `{"elicitation":{}}`
		told := round(`{}`, "greet", `{"place":"Rome"}`, "", "").Text(t)
		expect.Contains(t, "told", told, `the answer "login" of user:`)
		name := namesIn(told)[0]
		arguments := `{"name":"` + name + `"}`
		state := round(able, "askback_result", arguments, "", "").Asked(t, "login")
		// Nobody can have read the question by then.
		time.Sleep(time.Millisecond)
		fast := round(able, "askback_result", arguments, `{"login":{"action":"decline"}}`, state).Text(t)
		if !strings.Contains(fast, `at the desk (your client did not show you the question)`) || namesIn(fast)[0] != name {
			t.Errorf("a host that shows nothing is told %q", fast)
		}
		state = round(able, "askback_result", arguments, "", "").Asked(t, "login")
		time.Sleep(10 * time.Second)
		const unfit = `{"login":{"action":"accept","content":{}}}`
		state = round(able, "askback_result", arguments, unfit, state).Asked(t, "login")
		began := time.Now()
		for range 2 {
			text := round(able, "askback_result", arguments, `{"login":`+accepts+`}`, state).Text(t)
			if text != "Hello octocat in Rome" || time.Since(began) > 100*time.Millisecond {
				t.Errorf("after %v, the outcome is %q", time.Since(began), text)
			}
		}
		questions, err := d.Questions(t.Context(), name, nil)
		if err != nil || questions[0].Decision.By[0].Channel != "host" || questions[0].Decision.By[0].Who != "alice" {
			t.Errorf("the decision is %+v, %v", questions[0].Decision, err)
		}
		// What the author asks of the caller by name is for a person, whatever a host would answer.
		person := namesIn(round(able, "named", "", "", "").Text(t))[0]
		expect.Contains(t, "told", round(able, "askback_result", `{"name":"`+person+`"}`, "", "").Text(t),
			`of user:alice.`)
	})
}

// An answer that comes after the deadline of its question does not count, and the client is told so: of a question to
// the client, and of one that waits for its caller at the desk.
func TestFetchTellsOfALateAnswer(t *testing.T) {
	t.Parallel()
	for first, says := range map[string]string{
		`{"elicitation":{}}`: `The answer does not count: too late: the deadline of the question "login" has passed.`,
		`{}`:                 `The answer does not count: too late: the deadline of the question was 2000-01-01T`,
	} {
		synctest.Test(t, func(t *testing.T) {
			opts := &askback.Options{Desk: &askback.DeskOptions{Wait: 5 * time.Second, Fallback: true}}
			srv, d := deskServer(t, opts, (*askback.Server).AddResultTool, harness.AddTool("late", late))
			h := srv.HTTPHandler(nil)
			round := func(capabilities, target, arguments, responses, state string) *harness.Response {
				return harness.Request{Target: target, Arguments: arguments, Capabilities: capabilities,
					Responses: responses, State: state}.Send(t, h)
			}
			name := namesIn(round(first, "late", "", "", "").Text(t))[0]
			time.Sleep(300 * time.Millisecond) // so that no instance looks when the deadline passes
			approve(t, d, name)
			synctest.Wait()
			fetch := func(responses, state string) *harness.Response {
				return round(`{"elicitation":{}}`, "askback_result", `{"name":"`+name+`"}`, responses, state)
			}
			state := fetch("", "").Asked(t, "login")
			time.Sleep(time.Minute + time.Millisecond) // before an instance has noticed
			text := fetch(`{"login":`+accepts+`}`, state).Text(t)
			if !strings.HasPrefix(text, says) || !strings.Contains(text, `the answer "second" of 2 of group:release`) {
				t.Errorf("told %q", text)
			}
			approve(t, d, name)
			expect.Equal(t, "the outcome", fetch("", "").Text(t), "without login")
		})
	}
}

// late asks a group, then its client with a deadline and, if that has passed, the group again.
func late(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
	q := askback.Question{Message: "?", For: []string{askback.Group("release")}, Votes: 2}
	if err := askback.Approve(call, "first", q); err != nil {
		return "", err
	}
	l, err := askback.ElicitWith[harness.Login](call, "login", askback.Question{
		Message: "Who?", Within: time.Minute,
		Schema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
	})
	if late, ok := errors.AsType[*askback.UnansweredError](err); ok {
		return "without " + late.Key, askback.Approve(call, "second", q)
	}
	return l.Name, err
}

// The beginning of a name that two calls share names neither, and the rest of it does.
func TestFetchByAnAmbiguousName(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		store := new(task.MemoryStore)
		seen, ids := make(map[string]string), []string(nil)
		for i := 0; ids == nil; i++ { // some 40,000 times
			id := fmt.Sprintf("a task with the number %d", i)
			begins := task.Name(id)[:6]
			if other, ok := seen[begins]; ok {
				ids = []string{other, id}
			}
			seen[begins] = id
		}
		for _, id := range ids {
			row := &task.Task{ID: id, Principal: "alice", Method: "none", Target: id, Status: task.Working}
			expect.Check(t, store.Create(t.Context(), row, time.Hour, 0, nil, nil, task.Quota{}))
		}
		srv, _ := deskServer(t, &askback.Options{Tasks: &askback.Tasks{Store: store}}, (*askback.Server).AddResultTool)
		b := &bubble{t: t, Handler: srv.HTTPHandler(nil)}
		for name, want := range map[string]string{
			task.Name(ids[0])[:6]: "no such call", task.Name(ids[0])[:25]: task.Name(ids[0]),
			task.Name(ids[1]): task.Name(ids[1]),
		} {
			text := b.text(b.send(t.Context(), "", "askback_result", `"arguments":{"name":"`+name+`"}`, ""))
			expect.Contains(t, name, text, want)
		}
	})
}

// The result is fetched on another instance, while the one of the call has ended, and two at once get the same.
func TestFetchOnAnotherInstance(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		store := new(task.MemoryStore)
		open := func() *bubble {
			srv, d := deskServer(t, &askback.Options{Tasks: &askback.Tasks{Store: store}}, (*askback.Server).AddResultTool)
			return &bubble{t: t, Handler: srv.HTTPHandler(nil), desk: d}
		}
		one, other := open(), open()
		name := namesIn(one.text(one.send(t.Context(), "", "deploy", "", "")))[0]
		var told []chan string
		for _, b := range []*bubble{one, other, other} {
			told = append(told, b.start(t.Context(), "", "askback_result", `"arguments":{"name":"`+name+`"}`))
		}
		approve(t, one.desk, name)
		for _, told := range told {
			expect.Equal(t, "told", <-told, "deployed  for bob and carol")
		}
	})
}

// The result tool waits in the pool of the waits, where another caller is still served.
func TestFetchKeepsNobodyOut(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		one := askback.Share{Total: 1, PerPrincipal: 1, Anonymous: 1}
		srv, d := deskServer(t, &askback.Options{Principal: harness.UserHeader, Limits: askback.Limits{
			Requests: one, Calls: one, Waits: askback.Share{Total: 2, PerPrincipal: 1, Anonymous: 1},
		}}, (*askback.Server).AddResultTool)
		b := &bubble{t: t, Handler: srv.HTTPHandler(nil), desk: d}
		name := make(map[string]string)
		for _, user := range []string{"alice", "eve"} {
			name[user] = namesIn(b.text(b.send(t.Context(), user, "deploy", "", "")))[0]
		}
		start := func(user string) chan string {
			return b.start(t.Context(), user, "askback_result", `"arguments":{"name":"`+name[user]+`"}`)
		}
		first, second, eve := start("alice"), start("alice"), start("eve")
		if text := <-first; len(namesIn(text)) == 0 || len(second)+len(eve) > 0 {
			t.Errorf("the first is told %q, and %d others", text, len(second)+len(eve))
		}
		approve(t, d, name["eve"])
		approve(t, d, name["alice"])
		for _, told := range []chan string{second, eve} {
			expect.Equal(t, "told", <-told, "deployed  for bob and carol")
		}
	})
}

// The tool needs a desk, and says so where it is added. Clients see what it does.
func TestTheResultTool(t *testing.T) {
	t.Parallel()
	func() {
		defer func() {
			expect.Contains(t, "the panic", fmt.Sprint(recover()), "it needs Options.Desk")
		}()
		harness.NewServer(t, &askback.Options{Logger: slog.New(slog.DiscardHandler)}, (*askback.Server).AddResultTool)
	}()
	srv, _ := deskServer(t, nil, (*askback.Server).AddResultTool)
	res := harness.Fronts[0].Dial(t, srv, nil)("tools/list", noTasks(`{}`))
	for _, tool := range harness.At(res, "result", "tools").([]any) {
		if harness.At(tool, "name") == "askback_result" {
			if harness.At(tool, "annotations", "readOnlyHint") != true ||
				harness.At(tool, "inputSchema", "properties", "name") == nil {
				t.Errorf("it is %v", tool)
			}
			return
		}
	}
	t.Errorf("it is missing in %v", res)
}
