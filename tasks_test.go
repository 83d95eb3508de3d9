package askback_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/task"
)

// taskServer is a server with tasks, over HTTP.
type taskServer struct {
	t       testing.TB
	url     string
	handler http.Handler
	stop    func() // running tasks, and waits
}

// newTaskServer starts an instance on a store of its own.
func newTaskServer(t testing.TB, opts *askback.Options, register ...func(*askback.Server)) *taskServer {
	t.Helper()
	return newTaskServerOn(t, new(task.MemoryStore), opts, register...)
}

// taskUpdateDue makes a claimed task due, as if its lease had ended.
var taskUpdateDue = task.Update{}

// newTaskServerOn starts an instance on a store.
func newTaskServerOn(t testing.TB, store task.Store, opts *askback.Options, register ...func(*askback.Server)) *taskServer {
	t.Helper()
	all := askback.Options{}
	if opts != nil {
		all = *opts
	}
	tasks := askback.Tasks{}
	if all.Tasks != nil {
		tasks = *all.Tasks
	}
	tasks.Store = store
	all.Tasks = &tasks
	srv := newServer(t, &all, register...)
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() {
		if err := srv.RunTasks(ctx); err != nil {
			t.Error(err)
		}
	})
	stop := func() { cancel(); working.Wait() }
	t.Cleanup(func() {
		stop()
	})
	s := serveTasks(t, srv)
	s.stop = stop
	return s
}

func serveTasks(t testing.TB, srv *askback.Server) *taskServer {
	handler := srv.HTTPHandler(nil)
	web := httptest.NewServer(handler)
	t.Cleanup(web.Close)
	return &taskServer{t: t, url: web.URL, handler: handler}
}

const (
	withExtension = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	proposalOnly  = `{"elicitation":{}}`
)

// send sends a request with these members of params, and returns its response.
func (s *taskServer) send(capabilities, method, name, members string, header ...string) (status int, response map[string]any) {
	s.t.Helper()
	if members != "" {
		members += ","
	}
	meta := `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities
	if strings.Contains(members, `"_meta":{`) {
		members = strings.Replace(members, `"_meta":{`, `"_meta":{`+meta+`,`, 1)
		members = strings.TrimSuffix(members, ",")
	} else {
		members += `"_meta":{` + meta + `}`
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, members)
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range []string{"Content-Type: application/json", "Accept: application/json, text/event-stream",
		"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: " + method, "Mcp-Name: " + name} {
		key, value, _ := strings.Cut(h, ": ")
		req.Header.Set(key, value)
	}
	if name == "" {
		req.Header.Del("Mcp-Name")
	}
	for _, h := range header {
		key, value, _ := strings.Cut(h, ": ")
		req.Header.Set(key, value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(data, &response); err != nil {
		s.t.Fatalf("%s: %v in %s", method, err, data)
	}
	return res.StatusCode, response
}

// result is send for a request that must have a result.
func (s *taskServer) result(capabilities, method, name, members string) map[string]any {
	s.t.Helper()
	status, response := s.send(capabilities, method, name, members)
	result, ok := response["result"].(map[string]any)
	if !ok || status != http.StatusOK {
		s.t.Fatalf("%s: %d %v", method, status, response)
	}
	return result
}

// fault is send for a request that must have an error.
func (s *taskServer) fault(capabilities, method, name, members string, header ...string) (code int, message string) {
	s.t.Helper()
	_, response := s.send(capabilities, method, name, members, header...)
	fault, ok := response["error"].(map[string]any)
	if !ok {
		s.t.Fatalf("%s: %v", method, response)
	}
	return int(fault["code"].(float64)), fault["message"].(string)
}

// get polls tasks/get until the task has the status.
func (s *taskServer) get(capabilities, id, want string) map[string]any {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		now := s.result(capabilities, "tasks/get", id, `"taskId":"`+id+`"`)
		if now["status"] == want {
			return now
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the task is %v, want %s", now, want)
		}
	}
}

// at follows a path of member names.
func at(v any, path ...string) any {
	for _, name := range path {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

type echoInput struct {
	Input string `json:"input"`
}

// addEcho adds the echo tool of the specification's drafts.
func addEcho(s *askback.Server) {
	askback.AddTaskTool(s, &mcp.Tool{Name: "echo"}, &askback.TaskSupport{PollInterval: 100 * time.Millisecond},
		func(ctx context.Context, call *askback.Call, in struct {
			Input string `json:"input,omitempty"`
		}) (string, error) {
			if in.Input == "" {
				answer, err := askback.Elicit[echoInput](call, "echo_input", "Please provide the input string to echo back")
				if err != nil {
					return "", err
				}
				in.Input = answer.Input
			}
			return "Echo: " + in.Input, nil
		})
}

func TestEchoInTheProposalsDialect(t *testing.T) {
	s := newTaskServer(t, nil, addEcho)
	created := at(s.result(proposalOnly, "tools/call", "echo", `"name":"echo","task":{"ttl":60000}`), "task").(map[string]any)
	id := created["taskId"].(string)
	if created["status"] != "working" || created["ttl"] != 60000.0 || created["pollInterval"] != 100.0 ||
		created["statusMessage"] != "Task has been created for echo tool invocation." {
		t.Errorf("created %v", created)
	}
	parked := s.get(proposalOnly, id, "input_required")
	if parked["statusMessage"] != "Input Required to Proceed call tasks/result" || parked["inputRequests"] != nil || parked["resultType"] != "complete" {
		t.Errorf("parked %v", parked)
	}
	asked := s.result(proposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)
	if asked["resultType"] != "input_required" || at(asked, "inputRequests", "echo_input", "method") != "elicitation/create" ||
		at(asked, "_meta", "io.modelcontextprotocol/related-task", "taskId") != id {
		t.Errorf("asked %v", asked)
	}
	related := `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}`
	// What was not requested leaves the task as it is, and it is asked again.
	ack := s.result(proposalOnly, "tasks/input_response", "",
		`"inputResponses":{"echo_input":{"action":"accept","content":{"not_requested_parameter":"x"}}},`+related)
	if at(ack, "_meta", "io.modelcontextprotocol/related-task", "taskId") != id {
		t.Errorf("acknowledged %v", ack)
	}
	if now := s.result(proposalOnly, "tasks/get", "", `"taskId":"`+id+`"`); now["status"] != "input_required" {
		t.Errorf("after an answer that does not fit: %v", now)
	}
	again := s.result(proposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)
	if at(again, "inputRequests", "echo_input#2", "method") != "elicitation/create" || at(again, "inputRequests", "echo_input") != nil {
		t.Errorf("asked again %v", again)
	}
	s.result(proposalOnly, "tasks/input_response", "",
		`"inputResponses":{"echo_input#2":{"action":"accept","content":{"input":"Hello World!"}},"unknown":{"x":1}},`+related)
	if done := s.get(proposalOnly, id, "completed"); done["statusMessage"] != "Task has been completed successfully, call tasks/result" || done["result"] != nil {
		t.Errorf("done %v", done)
	}
	final := s.result(proposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)
	if text := final["content"].([]any)[0].(map[string]any)["text"]; text != "Echo: Hello World!" || final["isError"] != false ||
		at(final, "_meta", "io.modelcontextprotocol/related-task", "taskId") != id {
		t.Errorf("final %v", final)
	}
	if code, message := s.fault(proposalOnly, "tasks/cancel", "", `"taskId":"`+id+`"`); code != -32602 || !strings.Contains(message, "already in terminal status 'completed'") {
		t.Errorf("cancelling a task that ended: %d %s", code, message)
	}
}

func TestEchoInTheExtensionsDialect(t *testing.T) {
	s := newTaskServer(t, nil, addEcho)
	created := s.result(withExtension, "tools/call", "echo", `"name":"echo"`)
	id := created["taskId"].(string)
	if created["resultType"] != "task" || created["status"] != "working" || created["ttlMs"] != 86400000.0 || created["pollIntervalMs"] != 100.0 || created["task"] != nil {
		t.Errorf("created %v", created)
	}
	parked := s.get(withExtension, id, "input_required")
	if at(parked, "inputRequests", "echo_input", "params", "message") != "Please provide the input string to echo back" || parked["resultType"] != "complete" {
		t.Errorf("parked %v", parked)
	}
	ack := s.result(withExtension, "tasks/update", id, `"taskId":"`+id+`","inputResponses":{"other":{"action":"accept"}}`)
	if len(ack) != 2 || ack["resultType"] != "complete" {
		t.Errorf("acknowledged %v", ack)
	}
	s.result(withExtension, "tasks/update", id, `"taskId":"`+id+`","inputResponses":{"echo_input":{"action":"accept","content":{"input":"Hello World!"}}}`)
	done := s.get(withExtension, id, "completed")
	if text := at(done, "result", "content").([]any)[0].(map[string]any)["text"]; text != "Echo: Hello World!" || done["inputRequests"] != nil {
		t.Errorf("done %v", done)
	}
	// Answers that come again change nothing.
	s.result(withExtension, "tasks/update", id, `"taskId":"`+id+`","inputResponses":{"echo_input":{"action":"decline"}}`)
	s.result(withExtension, "tasks/cancel", id, `"taskId":"`+id+`"`)
	s.get(withExtension, id, "completed")
	for _, method := range []string{"tasks/result", "tasks/list", "tasks/input_response", "tasks/whatever"} {
		status, response := s.send(withExtension, method, id, `"taskId":"`+id+`"`)
		if status != http.StatusNotFound || at(response, "error", "code") != -32601.0 {
			t.Errorf("%s: %d %v", method, status, response)
		}
	}
}

func TestRoutingHeadersOfTasks(t *testing.T) {
	s := newTaskServer(t, nil, addEcho)
	id := s.result(withExtension, "tools/call", "echo", `"name":"echo"`)["taskId"].(string)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		for _, name := range []string{"", "another"} {
			if code, _ := s.fault(withExtension, method, name, `"taskId":"`+id+`","inputResponses":{}`); code != -32020 {
				t.Errorf("%s with Mcp-Name %q: %d", method, name, code)
			}
		}
	}
}

func TestForeignTasksAreNone(t *testing.T) {
	principal := func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
		return extra.Header.Get("X-User"), nil
	}
	s := newTaskServer(t, &askback.Options{Principal: principal}, addEcho)
	_, response := s.send(withExtension, "tools/call", "echo", `"name":"echo"`, "X-User: alice")
	id := at(response, "result", "taskId").(string)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		params := func(id string) string { return `"taskId":"` + id + `","inputResponses":{}` }
		_, foreign := s.send(withExtension, method, id, params(id), "X-User: bob")
		_, none := s.send(withExtension, method, "none", params("none"), "X-User: bob")
		if a, b := fmt.Sprint(foreign), fmt.Sprint(none); a != b || at(foreign, "error", "code") != -32602.0 {
			t.Errorf("%s: a foreign task gives %s, none gives %s", method, a, b)
		}
	}
	// Neither does a client see it that does not declare the extension.
	if code, _ := s.fault(proposalOnly, "tasks/get", "", `"taskId":"`+id+`"`, "X-User: alice"); code != -32021 {
		t.Errorf("without the extension: %d", code)
	}
	if code, _ := s.fault(proposalOnly, "tasks/result", "", `"taskId":"`+id+`"`, "X-User: alice"); code != -32602 {
		t.Errorf("tasks/result without the extension: %d", code)
	}
	// The list has only one's own.
	for _, user := range []string{"alice", "bob"} {
		_, _ = s.send(proposalOnly, "tools/call", "echo", `"name":"echo","task":{}`, "X-User: "+user)
	}
	_, list := s.send(proposalOnly, "tasks/list", "", "", "X-User: bob")
	if tasks := at(list, "result", "tasks").([]any); len(tasks) != 1 {
		t.Errorf("bob sees %v", tasks)
	}
	if code, _ := s.fault(proposalOnly, "tasks/list", "", ""); code != -32601 {
		t.Errorf("an anonymous caller's list: %d", code)
	}
}

func TestTasksListIsPaged(t *testing.T) {
	s := newTaskServer(t, &askback.Options{Tasks: &askback.Tasks{ListAnonymous: true}}, addEcho)
	created := map[string]bool{}
	for range 120 {
		created[at(s.result(proposalOnly, "tools/call", "echo", `"name":"echo","task":{"ttl":60000}`), "task", "taskId").(string)] = true
	}
	for cursor, pages := "", 1; ; pages++ {
		page := s.result(proposalOnly, "tasks/list", "", strings.TrimSuffix(cursor, ","))
		for _, listed := range page["tasks"].([]any) {
			id := at(listed, "taskId").(string)
			if !created[id] {
				t.Errorf("%s is listed twice, or not ours", id)
			}
			delete(created, id)
		}
		next, ok := page["nextCursor"].(string)
		if !ok {
			if pages != 3 || len(created) != 0 {
				t.Errorf("%d pages, %d tasks missing", pages, len(created))
			}
			break
		}
		cursor = `"cursor":"` + next + `"`
	}
	for _, cursor := range []string{`"x"`, `7`, `"!!!"`, `"` + strings.Repeat("A", 1000) + `"`} {
		if code, _ := s.fault(proposalOnly, "tasks/list", "", `"cursor":`+cursor); code != -32602 {
			t.Errorf("cursor %.20s: %d", cursor, code)
		}
	}
}

func TestTaskSupportOfATool(t *testing.T) {
	plain := func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "plain"}, func(context.Context, *askback.Call, struct{}) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{}, nil
		})
	}
	required := func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: "required"}, &askback.TaskSupport{Required: true},
			func(context.Context, *askback.Call, struct{}) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{}, nil
			})
	}
	s := newTaskServer(t, nil, addEcho, plain, required)
	if got := s.result(withExtension, "tools/call", "plain", `"name":"plain","task":{"ttl":"bad"}`); got["resultType"] != "complete" {
		t.Errorf("a tool without tasks: %v", got)
	}
	if code, message := s.fault(proposalOnly, "tools/call", "plain", `"name":"plain","task":{}`); code != -32601 {
		t.Errorf("a forbidden task: %d %s", code, message)
	}
	_, response := s.send(proposalOnly, "tools/call", "required", `"name":"required"`)
	if at(response, "error", "code") != -32021.0 || at(response, "error", "data", "requiredCapabilities", "extensions", "io.modelcontextprotocol/tasks") == nil {
		t.Errorf("a required task: %v", response)
	}
	if got := s.result(proposalOnly, "tools/call", "echo", `"name":"echo"`); got["resultType"] != "input_required" || got["requestState"] == nil {
		t.Errorf("a client without tasks: %v", got)
	}
	if got := s.result(proposalOnly, "tools/call", "echo", `"name":"echo","task":null`); got["resultType"] != "input_required" {
		t.Errorf("task null: %v", got)
	}
	for _, member := range []string{`7`, `{"ttl":"x"}`, `{"ttl":-1}`, `{"ttl":0}`, `[]`} {
		if code, _ := s.fault(proposalOnly, "tools/call", "echo", `"name":"echo","task":`+member); code != -32602 {
			t.Errorf("task %s: %d", member, code)
		}
	}
	if got := s.result(proposalOnly, "tools/call", "echo", `"name":"echo","task":{"ttl":1e300}`); at(got, "task", "ttl") != 7*24*3600*1000.0 {
		t.Errorf("a huge time to live: %v", got)
	}
}

func TestQuotaOfAPrincipal(t *testing.T) {
	s := newTaskServer(t, &askback.Options{Tasks: &askback.Tasks{Settings: task.Settings{PerPrincipal: 2}}}, addEcho)
	for range 2 {
		s.result(withExtension, "tools/call", "echo", `"name":"echo"`)
	}
	if code, message := s.fault(withExtension, "tools/call", "echo", `"name":"echo"`); code != -32603 || !strings.Contains(message, "at most 2") {
		t.Errorf("%d %s", code, message)
	}
}

type color struct {
	Color string `json:"color"`
}

// addPainter adds a tool that asks in a round, detaches, does something, asks again and
// does something else. It counts what it does.
func addPainter(first, second *atomic.Int32) func(s *askback.Server) {
	return func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: "paint"}, &askback.TaskSupport{AtDetach: true},
			func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
				base, err := askback.Elicit[color](call, "base", "Which base?")
				if err != nil {
					return "", err
				}
				mixed, err := askback.Do(ctx, call, "mix", func(context.Context) (string, error) {
					first.Add(1)
					return base.Color + "+white", nil
				})
				if err != nil {
					return "", err
				}
				if err := call.Detach(); err != nil {
					return "", err
				}
				top, err := askback.Elicit[color](call, "top", "Which top?")
				if err != nil {
					return "", err
				}
				done, err := askback.Do(ctx, call, "paint", func(context.Context) (string, error) {
					second.Add(1)
					return mixed + "/" + top.Color, nil
				})
				return done, err
			})
	}
}

func TestRoundsGoOnAsATask(t *testing.T) {
	for name, capabilities := range map[string]string{"extension": withExtension, "proposal": proposalOnly} {
		t.Run(name, func(t *testing.T) {
			var first, second atomic.Int32
			s := newTaskServer(t, nil, addPainter(&first, &second))
			params := `"name":"paint"`
			if capabilities == proposalOnly {
				params += `,"task":{"ttl":60000}`
			}
			asked := s.result(capabilities, "tools/call", "paint", params)
			if asked["resultType"] != "input_required" || at(asked, "inputRequests", "base") == nil || asked["taskId"] != nil {
				t.Fatalf("round 1: %v", asked)
			}
			created := s.result(capabilities, "tools/call", "paint",
				params+`,"inputResponses":{"base":{"action":"accept","content":{"color":"red"}}},"requestState":"`+asked["requestState"].(string)+`"`)
			if created["requestState"] != nil || created["inputRequests"] != nil {
				t.Errorf("round 2: %v", created)
			}
			// The response was lost, and the client sends the round again: there is one task.
			again := s.result(capabilities, "tools/call", "paint",
				params+`,"inputResponses":{"base":{"action":"accept","content":{"color":"red"}}},"requestState":"`+asked["requestState"].(string)+`"`)
			if again["taskId"] != created["taskId"] || at(again, "task", "taskId") != at(created, "task", "taskId") {
				t.Errorf("round 2 again: %v, after %v", again, created)
			}
			answer := `"inputResponses":{"top":{"action":"accept","content":{"color":"blue"}}}`
			var text any
			if capabilities == withExtension {
				id := created["taskId"].(string)
				if parked := s.get(capabilities, id, "input_required"); at(parked, "inputRequests", "top") == nil || at(parked, "inputRequests", "base") != nil {
					t.Errorf("parked: %v", parked)
				}
				s.result(capabilities, "tasks/update", id, `"taskId":"`+id+`",`+answer)
				text = at(s.get(capabilities, id, "completed"), "result", "content").([]any)[0].(map[string]any)["text"]
			} else {
				id := at(created, "task", "taskId").(string)
				s.get(capabilities, id, "input_required")
				s.result(capabilities, "tasks/input_response", "", answer+`,"taskId":"`+id+`"`)
				text = s.result(capabilities, "tasks/result", "", `"taskId":"`+id+`"`)["content"].([]any)[0].(map[string]any)["text"]
			}
			if text != "red+white/blue" {
				t.Errorf("result %v", text)
			}
			// The round that detached ran twice; no store can help that.
			if first.Load() != 2 || second.Load() != 1 {
				t.Errorf("mixed %d times, painted %d times", first.Load(), second.Load())
			}
		})
	}
}

func TestDetachIsNothingForAClientWithoutTasks(t *testing.T) {
	var first, second atomic.Int32
	s := newTaskServer(t, nil, addPainter(&first, &second))
	state, answer := "", ""
	for _, key := range []string{"base", "top"} {
		asked := s.result(proposalOnly, "tools/call", "paint", `"name":"paint"`+answer+state)
		if at(asked, "inputRequests", key) == nil {
			t.Fatalf("%v", asked)
		}
		state = `,"requestState":"` + asked["requestState"].(string) + `"`
		answer = `,"inputResponses":{"` + key + `":{"action":"accept","content":{"color":"` + key + `"}}}`
	}
	done := s.result(proposalOnly, "tools/call", "paint", `"name":"paint"`+answer+state)
	if text := done["content"].([]any)[0].(map[string]any)["text"]; text != "base+white/top" {
		t.Errorf("%v", done)
	}
}

func TestPartialAnswers(t *testing.T) {
	two := func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: "two"}, nil, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			a, err1 := askback.Elicit[color](call, "a", "A?")
			b, err2 := askback.Elicit[color](call, "b", "B?")
			if err := errors.Join(err1, err2); err != nil {
				return "", err
			}
			return a.Color + b.Color, nil
		})
	}
	s := newTaskServer(t, nil, two)
	id := s.result(withExtension, "tools/call", "two", `"name":"two"`)["taskId"].(string)
	if parked := s.get(withExtension, id, "input_required"); at(parked, "inputRequests", "a") == nil || at(parked, "inputRequests", "b") == nil {
		t.Errorf("both are asked at once, but got %v", parked)
	}
	update := func(answers string) {
		t.Helper()
		s.result(withExtension, "tasks/update", id, `"taskId":"`+id+`","inputResponses":{`+answers+`}`)
	}
	update(`"b":{"action":"accept","content":{"color":"2"}}`)
	if now := s.get(withExtension, id, "input_required"); at(now, "inputRequests", "b") != nil || at(now, "inputRequests", "a") == nil {
		t.Errorf("%v", now)
	}
	update(`"b":{"action":"accept","content":{"color":"changed"}}`)
	update(`"a":{"action":"accept","content":{"color":"1"}}`)
	if done := s.get(withExtension, id, "completed"); at(done, "result", "content").([]any)[0].(map[string]any)["text"] != "12" {
		t.Errorf("%v", done)
	}

	// The other dialect has them in the answer to tasks/result.
	id = at(s.result(proposalOnly, "tools/call", "two", `"name":"two","task":{}`), "task", "taskId").(string)
	for answered, open := range [][]string{{"a", "b"}, {"a"}} {
		asked, _ := s.result(proposalOnly, "tasks/result", "", `"taskId":"`+id+`"`)["inputRequests"].(map[string]any)
		if got := slices.Sorted(maps.Keys(asked)); !slices.Equal(got, open) {
			t.Errorf("after %d answers tasks/result asks %q, want %q", answered, got, open)
		}
		s.result(proposalOnly, "tasks/input_response", "", `"taskId":"`+id+`","inputResponses":{"`+open[len(open)-1]+`":{"action":"accept","content":{"color":"3"}}}`)
	}
	if final := s.result(proposalOnly, "tasks/result", "", `"taskId":"`+id+`"`); content(final) != "33" {
		t.Errorf("%v", final)
	}
}

func TestTaskOutcomes(t *testing.T) {
	add := func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: "end"}, nil, func(ctx context.Context, call *askback.Call, in struct {
			How string `json:"how"`
		}) (*mcp.CallToolResult, error) {
			switch in.How {
			case "error":
				return nil, errors.New("no luck")
			case "panic":
				panic("with a secret")
			case "sample":
				_, err := askback.Sample(call, "s", &mcp.CreateMessageWithToolsParams{MaxTokens: 1, Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "?"}}}}})
				return nil, err
			}
			return &mcp.CallToolResult{Meta: mcp.Meta{"own": 1}}, nil
		})
	}
	s := newTaskServer(t, nil, add)
	end := func(how, status string) map[string]any {
		t.Helper()
		id := s.result(withExtension, "tools/call", "end", `"name":"end","arguments":{"how":"`+how+`"}`)["taskId"].(string)
		return s.get(withExtension, id, status)
	}
	if got := end("error", "completed"); at(got, "result", "isError") != true || got["error"] != nil {
		t.Errorf("a tool's error: %v", got)
	}
	if got := end("panic", "failed"); at(got, "error", "code") != -32603.0 || got["result"] != nil || strings.Contains(fmt.Sprint(got), "secret") {
		t.Errorf("a panic: %v", got)
	}
	if got := end("sample", "failed"); at(got, "error", "code") != -32021.0 {
		t.Errorf("a question that the client cannot be asked: %v", got)
	}
	if got := end("", "completed"); at(got, "result", "_meta", "own") != 1.0 {
		t.Errorf("a result with _meta: %v", got)
	}
	// In the proposals' dialect a tool's error is the task's failure.
	id := at(s.result(proposalOnly, "tools/call", "end", `"name":"end","arguments":{"how":"error"},"task":{}`), "task", "taskId").(string)
	if now := s.get(proposalOnly, id, "failed"); now["statusMessage"] != "no luck" {
		t.Errorf("a tool's error in the proposals' dialect: %v", now)
	}
	if final := s.result(proposalOnly, "tasks/result", "", `"taskId":"`+id+`"`); final["isError"] != true {
		t.Errorf("its result: %v", final)
	}
	id = at(s.result(proposalOnly, "tools/call", "end", `"name":"end","arguments":{"how":""},"task":{}`), "task", "taskId").(string)
	if final := s.result(proposalOnly, "tasks/result", "", `"taskId":"`+id+`"`); at(final, "_meta", "own") != 1.0 || at(final, "_meta", "io.modelcontextprotocol/related-task", "taskId") != id {
		t.Errorf("_meta of a result: %v", final)
	}
	id = at(s.result(proposalOnly, "tools/call", "end", `"name":"end","arguments":{"how":"panic"},"task":{}`), "task", "taskId").(string)
	if code, _ := s.fault(proposalOnly, "tasks/result", "", `"taskId":"`+id+`"`); code != -32603 {
		t.Errorf("the error of a failed task: %d", code)
	}
}

func TestAnswersThatNeverFitEndATask(t *testing.T) {
	s := newTaskServer(t, &askback.Options{Limits: askback.Limits{Rounds: 3}}, addEcho)
	id := s.result(withExtension, "tools/call", "echo", `"name":"echo"`)["taskId"].(string)
	used := map[string]bool{}
	for range 3 {
		now := s.result(withExtension, "tasks/get", id, `"taskId":"`+id+`"`)
		if now["status"] != "input_required" {
			now = s.get(withExtension, id, "input_required")
		}
		for key := range now["inputRequests"].(map[string]any) {
			if used[key] {
				t.Errorf("the key %q is used again", key)
			}
			used[key] = true
			s.result(withExtension, "tasks/update", id, `"taskId":"`+id+`","inputResponses":{"`+key+`":{"action":"accept","content":{}}}`)
		}
	}
	if now := s.get(withExtension, id, "failed"); !strings.Contains(now["statusMessage"].(string), "3 rounds per call") {
		t.Errorf("%v", now)
	}
}

func TestCancelledTaskCleansUp(t *testing.T) {
	undone := make(chan string, 100)
	undo := func(ctx context.Context, what string) error {
		select {
		case undone <- what:
		default: // far too often, which the end of the test sees
		}
		return ctx.Err()
	}
	var working = make(chan struct{}, 1)
	add := func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: "build"}, nil, func(ctx context.Context, call *askback.Call, in struct {
			Ask bool `json:"ask"`
		}) (*mcp.CallToolResult, error) {
			call.OnCancel(func(ctx context.Context) error { return undo(ctx, "ground") })
			ground, err := askback.Do(ctx, call, "ground", func(context.Context) (string, error) { return "ground floor", nil })
			if err != nil {
				return nil, err
			}
			call.OnCancel(func(ctx context.Context) error { return undo(ctx, "above "+ground) })
			if in.Ask {
				_, err = askback.Elicit[color](call, "color", "Which?")
				return nil, err
			}
			err = call.Do(ctx, "roof", func(ctx context.Context) error {
				working <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			})
			return nil, err
		})
	}
	s := newTaskServer(t, nil, add)
	for _, ask := range []bool{false, true} {
		id := s.result(withExtension, "tools/call", "build", fmt.Sprintf(`"name":"build","arguments":{"ask":%v}`, ask))["taskId"].(string)
		if ask {
			s.get(withExtension, id, "input_required")
		} else {
			<-working
		}
		if ack := s.result(withExtension, "tasks/cancel", id, `"taskId":"`+id+`"`); len(ack) != 2 {
			t.Errorf("acknowledged %v", ack)
		}
		s.get(withExtension, id, "cancelled")
		if a, b := <-undone, <-undone; a != "above ground floor" || b != "ground" {
			t.Errorf("undone %q, %q", a, b)
		}
	}
	s.stop()
	if len(undone) > 0 {
		t.Error("cleaned up more than once")
	}
}

func TestTasksResultWaits(t *testing.T) {
	gate := make(chan struct{})
	add := func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: "wait"}, nil, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			if err := call.Progress(ctx, 1, 2, "waiting"); err != nil {
				return "", err
			}
			<-gate
			return "now", nil
		})
	}
	s := newTaskServer(t, nil, add)
	id := at(s.result(proposalOnly, "tools/call", "wait", `"name":"wait","task":{}`), "task", "taskId").(string)
	for {
		if now := s.get(proposalOnly, id, "working"); now["statusMessage"] == "waiting (1 of 2)" {
			break
		}
	}
	got := make(chan map[string]any)
	go func() { got <- s.result(proposalOnly, "tasks/result", "", `"taskId":"`+id+`"`) }()
	select {
	case r := <-got:
		t.Fatalf("tasks/result did not wait: %v", r)
	case <-time.After(50 * time.Millisecond):
	}
	close(gate)
	if r := <-got; r["content"].([]any)[0].(map[string]any)["text"] != "now" {
		t.Errorf("%v", r)
	}
}

func TestAnotherInstanceGoesOn(t *testing.T) {
	store := new(task.MemoryStore)
	var first, second atomic.Int32
	ring := newRing(t)
	a := newTaskServerOn(t, store, &askback.Options{Keys: ring}, addPainter(&first, &second))
	b := newTaskServerOn(t, store, &askback.Options{Keys: ring}, addPainter(&first, &second))
	asked := a.result(withExtension, "tools/call", "paint", `"name":"paint"`)
	created := b.result(withExtension, "tools/call", "paint", `"name":"paint","inputResponses":{"base":{"action":"accept","content":{"color":"red"}}},"requestState":"`+asked["requestState"].(string)+`"`)
	id := created["taskId"].(string)
	a.get(withExtension, id, "input_required")
	b.result(withExtension, "tasks/update", id, `"taskId":"`+id+`","inputResponses":{"top":{"action":"accept","content":{"color":"blue"}}}`)
	if done := a.get(withExtension, id, "completed"); at(done, "result", "content").([]any)[0].(map[string]any)["text"] != "red+white/blue" {
		t.Errorf("%v", done)
	}
	if first.Load() != 1 || second.Load() != 1 {
		t.Errorf("mixed %d times, painted %d times", first.Load(), second.Load())
	}
}

func TestSecretsOfTasksAreNotLogged(t *testing.T) {
	var log bytes.Buffer
	var mu sync.Mutex
	logger := slog.New(slog.NewJSONHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := newTaskServer(t, &askback.Options{Logger: logger}, addEcho)
	id := s.result(withExtension, "tools/call", "echo", `"name":"echo"`)["taskId"].(string)
	s.get(withExtension, id, "input_required")
	s.result(withExtension, "tasks/update", id, `"taskId":"`+id+`","inputResponses":{"echo_input":{"action":"accept","content":{"input":"the secret"}}}`)
	s.get(withExtension, id, "completed")
	mu.Lock()
	defer mu.Unlock()
	if strings.Contains(log.String(), "the secret") || strings.Contains(log.String(), id) {
		t.Errorf("the log has %s", log.String())
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
