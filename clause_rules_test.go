package askback_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/task"
)

// Clauses of the specification and of the proposals before it that other tests show in
// passing only, or not at all: docs/clauses.md says which.

// What needs input is the last message of a stream, and what the handler tells after it has
// returned is not sent.
func TestInputRequiredEndsItsStream(t *testing.T) {
	late := make(chan error, 1)
	returned := make(chan struct{})
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "slow"}, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			if err := call.Progress(ctx, 1, 2, "looking"); err != nil {
				return nil, err
			}
			go func() {
				<-returned
				late <- call.Progress(context.WithoutCancel(ctx), 2, 2, "too late")
			}()
			_, err := askback.Elicit[login](call, "login", "Who are you?")
			return nil, err
		})
	}).HTTPHandler(nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request{target: "slow", meta: `,"progressToken":1`}.http(t))
	close(returned)
	if err := <-late; err == nil {
		t.Error("progress after the response was sent, or said to be")
	}
	events := strings.Split(strings.TrimSpace(w.Body.String()), "\n\n")
	if len(events) != 2 || !strings.Contains(events[0], "notifications/progress") || !strings.Contains(events[1], `"resultType":"input_required"`) {
		t.Errorf("got %d events: %s", len(events), w.Body)
	}

	// Where nothing was told it is a single response.
	res := request{target: "slow"}.send(t, h)
	if res.asked(t, "login"); res.header.Get("Content-Type") != "application/json" {
		t.Errorf("content type %q", res.header.Get("Content-Type"))
	}
	<-late
}

// Answers and state are for a retried request: others ignore them, and none but four is
// ever answered with input required.
func TestOtherRequestsNeitherAskNorTakeAnswers(t *testing.T) {
	s := newTaskServer(t, &askback.Options{Tasks: &askback.Tasks{ListAnonymous: true}}, addEcho, greet)
	id := at(s.result(proposalOnly, "tools/call", "echo", `"name":"echo","task":{}`), "task", "taskId").(string)
	s.get(proposalOnly, id, "input_required")
	const more = `,"inputResponses":{"echo_input":{"action":"accept","content":{"input":"x"}},"login":{"action":"accept","content":{"name":"x"}}},"requestState":"forged"`
	for _, test := range []struct{ capabilities, method, name, members string }{
		{proposalOnly, "tools/list", "", ""},
		{proposalOnly, "prompts/list", "", ""},
		{proposalOnly, "resources/list", "", ""},
		{proposalOnly, "resources/templates/list", "", ""},
		{proposalOnly, "server/discover", "", ""},
		{proposalOnly, "tasks/list", "", ""},
		{proposalOnly, "tasks/get", id, `,"taskId":"` + id + `"`},
		{withExtension, "tasks/get", id, `,"taskId":"` + id + `"`},
	} {
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}%s%s}}`,
			test.method, test.capabilities, test.members, more)
		res := request{method: test.method, target: test.name, body: body}.send(t, s.handler)
		if res.Result == nil || res.Result.Type != "complete" || res.Result.State != "" {
			t.Errorf("%s: %s", test.method, res.raw)
		}
	}
	if now := s.result(proposalOnly, "tasks/get", "", `"taskId":"`+id+`"`); now["status"] != "input_required" {
		t.Errorf("an answer was taken from a request that carries none: %v", now)
	}
	// Taking an answer is not answered with a question, though one is open.
	ack := s.result(proposalOnly, "tasks/input_response", "", `"taskId":"`+id+`","inputResponses":{"other":{}}`)
	if ack["resultType"] != "complete" || ack["inputRequests"] != nil {
		t.Errorf("acknowledged %v", ack)
	}
	if cancelled := s.result(proposalOnly, "tasks/cancel", "", `"taskId":"`+id+`"`+more); cancelled["resultType"] != "complete" || cancelled["status"] != "cancelled" {
		t.Errorf("cancelled %v", cancelled)
	}
}

// logins asks for these logins in one round.
func logins(keys ...string) func(*askback.Server) {
	return func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "logins"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			answers := make([]login, len(keys))
			errs := make([]error, len(keys))
			for i, key := range keys {
				answers[i], errs[i] = askback.Elicit[login](call, key, "Your "+key+"?")
			}
			return fmt.Sprint(answers), errors.Join(errs...)
		})
	}
}

// The proposals' rolling upgrade: the new version asks for what it misses only, and a call
// that meets the old version again loses nothing either.
func TestAnUpgradeAsksNobodyTwice(t *testing.T) {
	keys := &askback.Options{Keys: newRing(t)}
	old := newServer(t, keys, logins("github_login", "google_login")).HTTPHandler(nil)
	upgraded := newServer(t, keys, logins("github_login", "microsoft_login")).HTTPHandler(nil)
	r := request{target: "logins"}
	r.state = r.send(t, old).asked(t, "github_login", "google_login")
	r.responses = `{"github_login":{"action":"accept","content":{"name":"octocat"}},"google_login":{"action":"accept","content":{"name":"g"}}}`
	r.state = r.send(t, upgraded).asked(t, "microsoft_login")
	r.responses = `{"microsoft_login":{"action":"accept","content":{"name":"m"}}}`
	if got := r.send(t, upgraded).text(t); got != "[{octocat} {m}]" {
		t.Errorf("the new version: %q", got)
	}
	if got := r.send(t, old).text(t); got != "[{octocat} {g}]" {
		t.Errorf("the old version: %q", got)
	}
}

// A state can be read by nobody: neither arguments nor answers, results, keys or principal.
func TestAStateShowsNothingOfItsCall(t *testing.T) {
	options := &askback.Options{Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice-secret", nil }}
	h := newServer(t, options, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "t"}, func(ctx context.Context, call *askback.Call, in greeting) (*mcp.CallToolResult, error) {
			if _, err := askback.Elicit[login](call, "first-secret", "?"); err != nil {
				return nil, err
			}
			if _, err := askback.Do(ctx, call, "step", func(context.Context) (string, error) { return "result-secret", nil }); err != nil {
				return nil, err
			}
			_, err := askback.Elicit[login](call, "second", "?")
			return nil, err
		})
	}).HTTPHandler(nil)
	r := request{target: "t", arguments: `{"place":"argument-secret"}`}
	r.state = r.send(t, h).asked(t, "first-secret")
	r.responses = `{"first-secret":{"action":"accept","content":{"name":"answer-secret"}}}`
	state := r.send(t, h).asked(t, "second")
	raw, err := base64.RawURLEncoding.DecodeString(state[strings.LastIndexByte(state, '.')+1:])
	if err != nil {
		t.Fatal(err)
	}
	if len(raw) < 100 {
		t.Errorf("a state of %d bytes cannot hold what it has to", len(raw))
	}
	if seen := state + string(raw); strings.Contains(seen, "secret") || strings.Contains(seen, `"name"`) || strings.Contains(seen, "tools/call") {
		t.Errorf("the state shows %q", seen)
	}
}

// A client need not come back: a round that is over holds nothing.
func TestAbandonedRoundsHoldNothing(t *testing.T) {
	h := newServer(t, nil, greet).HTTPHandler(nil)
	round := func() { request{target: "greet", arguments: `{"place":"x"}`}.send(t, h).asked(t, "login") }
	measure := func() (goroutines int, bytes uint64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	for range 100 {
		round()
	}
	goroutines, before := measure()
	const rounds = 5000
	for range rounds {
		round()
	}
	now, after := measure()
	if now > goroutines {
		t.Errorf("%d goroutines, %d before", now, goroutines)
	}
	if after > before && (after-before)/rounds > 50 {
		t.Errorf("each round left %d bytes", (after-before)/rounds)
	}
}

// What needs input has questions or a state, however it came about; and a state needs no
// capability of the client.
func TestInputRequiredIsNeverEmpty(t *testing.T) {
	register := func(srv *askback.Server) {
		for name, h := range map[string]askback.ToolHandler[struct{}, any]{
			"nothing asked": func(context.Context, *askback.Call, struct{}) (any, error) {
				return nil, askback.ErrInputRequired
			},
			"no questions of its own": func(context.Context, *askback.Call, struct{}) (any, error) {
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}}, nil
			},
			"a checkpoint": func(ctx context.Context, call *askback.Call, _ struct{}) (any, error) {
				return "done", call.Checkpoint(ctx, "c")
			},
			"a question": func(ctx context.Context, call *askback.Call, _ struct{}) (any, error) {
				_, err := askback.Elicit[login](call, "login", "?")
				return "done", err
			},
		} {
			askback.AddTool(srv, &mcp.Tool{Name: name}, h)
		}
	}
	for _, bare := range []bool{false, true} {
		h := newServer(t, &askback.Options{BareFirstRound: bare}, register).HTTPHandler(nil)
		for _, name := range []string{"nothing asked", "no questions of its own", "a checkpoint", "a question"} {
			res := request{target: name}.send(t, h)
			if r := res.Result; r != nil && r.Type == "input_required" && len(r.Requests) == 0 && r.State == "" {
				t.Errorf("%s (bare %v): %s", name, bare, res.raw)
			}
		}
		m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
		m.AddTool(&mcp.Tool{Name: "manual", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}}, nil
		})
		manual, err := askback.New(m, &askback.Options{BareFirstRound: bare, Keys: newRing(t)})
		if err != nil {
			t.Fatal(err)
		}
		if state := (request{target: "manual"}).send(t, manual.HTTPHandler(nil)).asked(t); state == "" {
			t.Errorf("manual (bare %v): neither questions nor state", bare)
		}
		if state := (request{target: "a checkpoint", capabilities: `{}`}).send(t, h).asked(t); state == "" {
			t.Errorf("bare %v: no state to come back with", bare)
		}
	}
}

// A task that waits for input says so in every answer to tasks/result, under the id of that
// request, until the answer is there. A state that comes with the answer is none of ours.
func TestTasksResultAsksUntilItIsAnswered(t *testing.T) {
	s := newTaskServer(t, nil, addEcho)
	id := at(s.result(proposalOnly, "tools/call", "echo", `"name":"echo","task":{}`), "task", "taskId").(string)
	s.get(proposalOnly, id, "input_required")
	var first map[string]any
	for range 3 {
		status, response := s.send(proposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)
		asked, _ := response["result"].(map[string]any)
		if status != 200 || response["id"] != 1.0 || asked["resultType"] != "input_required" || at(asked, "inputRequests", "echo_input") == nil || asked["content"] != nil || asked["requestState"] != nil {
			t.Fatalf("asked: %d %v", status, response)
		}
		if first == nil {
			first = asked
		}
		if diff := cmp.Diff(first, asked); diff != "" {
			t.Errorf("asked differently (-first +now):\n%s", diff)
		}
	}
	s.result(proposalOnly, "tasks/input_response", "", `"taskId":"`+id+`","requestState":"forged","inputResponses":{"echo_input":{"action":"accept","content":{"input":"x"}}}`)
	if final := s.result(proposalOnly, "tasks/result", "", `"taskId":"`+id+`"`); content(final) != "Echo: x" {
		t.Errorf("final %v", final)
	}
}

// Answers that are none are a protocol error in both dialects, and leave the task as it was.
func TestMalformedAnswersOfATaskAreRefused(t *testing.T) {
	s := newTaskServer(t, nil, addEcho)
	for capabilities, method := range map[string]string{proposalOnly: "tasks/input_response", withExtension: "tasks/update"} {
		id := at(s.result(proposalOnly, "tools/call", "echo", `"name":"echo","task":{}`), "task", "taskId").(string)
		before := s.get(proposalOnly, id, "input_required")
		for _, members := range []string{``, `,"inputResponses":[]`, `,"inputResponses":null`, `,"inputResponses":{"echo_input":"x"}`, `,"inputResponses":{"echo_input":null}`} {
			if code, message := s.fault(capabilities, method, id, `"taskId":"`+id+`"`+members); code != -32602 || !strings.Contains(message, "inputResponses") {
				t.Errorf("%s with %s: %d %s", method, members, code, message)
			}
		}
		if diff := cmp.Diff(before, s.get(proposalOnly, id, "input_required")); diff != "" {
			t.Errorf("%s changed the task (-before +after):\n%s", method, diff)
		}
	}
}

// journalReads counts how often a store's journals are read.
type journalReads struct {
	task.Store
	n atomic.Int64
}

func (s *journalReads) Journal(ctx context.Context, id string) ([]byte, [][]byte, error) {
	s.n.Add(1)
	return s.Store.Journal(ctx, id)
}

// To look at a task costs the same whatever it has done: its journal is not read for it.
func TestLookingAtATaskReadsNoJournal(t *testing.T) {
	counted := &journalReads{Store: new(task.MemoryStore)}
	s := newTaskServerOn(t, counted, nil, addEcho)
	id := at(s.result(proposalOnly, "tools/call", "echo", `"name":"echo","task":{}`), "task", "taskId").(string)
	look := func(status string) {
		t.Helper()
		s.get(proposalOnly, id, status)
		before := counted.n.Load()
		for _, capabilities := range []string{proposalOnly, withExtension} {
			s.get(capabilities, id, status)
		}
		if now := counted.n.Load(); now != before || before == 0 {
			t.Errorf("%s: the journal was read %d times", status, now-before)
		}
	}
	look("input_required")
	s.result(proposalOnly, "tasks/input_response", "", `"taskId":"`+id+`","inputResponses":{"echo_input":{"action":"accept","content":{"input":"x"}}}`)
	look("completed")
}

// A tool asks in the same form in a call and in a task.
func TestToolsAndTasksAskAlike(t *testing.T) {
	s := newTaskServer(t, nil, addEcho)
	inCall := s.result(proposalOnly, "tools/call", "echo", `"name":"echo"`)
	id := at(s.result(proposalOnly, "tools/call", "echo", `"name":"echo","task":{}`), "task", "taskId").(string)
	s.get(proposalOnly, id, "input_required")
	inTask := s.result(proposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)
	for _, member := range []string{"resultType", "inputRequests"} {
		if diff := cmp.Diff(inCall[member], inTask[member]); diff != "" || inCall[member] == nil {
			t.Errorf("%s (-call +task):\n%s", member, diff)
		}
	}
	if diff := cmp.Diff(inCall["inputRequests"], s.get(withExtension, id, "input_required")["inputRequests"]); diff != "" {
		t.Errorf("in tasks/get of the extension (-call +task):\n%s", diff)
	}
}

// A modern client gets responses only, whatever is asked; and a session of a revision
// without requestState gets none, in no form.
func TestWhoGetsRequestsOfTheServer(t *testing.T) {
	ask := addText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		who, err1 := askback.Elicit[login](call, "login", "?")
		_, err2 := askback.Roots(call, "roots")
		return who.Name, errors.Join(err1, err2)
	})
	modern := taskPipe(t, ask)
	first := modern.call(1, "tools/call", `"name":"t"`, `{"elicitation":{},"roots":{}}`)
	state, _ := at(first, "result", "requestState").(string)
	last := modern.call(2, "tools/call", `"name":"t","requestState":`+quote(state)+`,"inputResponses":{"login":{"action":"accept","content":{"name":"x"}},"roots":{"roots":[]}}`, `{"elicitation":{},"roots":{}}`)
	if result, _ := last["result"].(map[string]any); result == nil || content(result) != "x" {
		t.Errorf("got %v after %v", last, first)
	}
	for _, m := range modern.kept {
		t.Errorf("a modern client got %v", m)
	}

	session := taskPipe(t, ask)
	session.call(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"roots":{}},"clientInfo":{"name":"c","version":"1"}`, "")
	session.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	session.request(2, "tools/call", `"name":"t"`, "")
	for method, result := range map[string]string{"elicitation/create": `{"action":"accept","content":{"name":"x"}}`, "roots/list": `{"roots":[]}`} {
		q := session.until(method, func(m map[string]any) bool { return m["method"] == method })
		for _, member := range []string{"state", "requestState"} {
			if q[member] != nil || at(q, "params", member) != nil {
				t.Errorf("%s carries %q: %v", method, member, q)
			}
		}
		session.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, quoteID(q["id"]), result))
	}
	done := session.response(2)
	if result, _ := done["result"].(map[string]any); result == nil || content(result) != "x" || result["requestState"] != nil || result["resultType"] != nil {
		t.Errorf("got %v", done)
	}
}

// The first draft's wrapper around each answer is not the specification's form.
func TestAnswersInAWrapperAreAskedAgain(t *testing.T) {
	h := newServer(t, nil, greet).HTTPHandler(nil)
	r := request{target: "greet", arguments: `{"place":"Oslo"}`}
	r.state = r.send(t, h).asked(t, "login")
	r.responses = `{"login":{"result":{"action":"accept","content":{"name":"octocat"}}}}`
	r.state = r.send(t, h).asked(t, "login")
	r.responses = octocat
	if got := r.send(t, h).text(t); got != "Hello octocat in Oslo" {
		t.Errorf("got %q", got)
	}
}
