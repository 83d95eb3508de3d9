package askback_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

// newDraftServer starts a server with tasks and the tools that the proposals call.
func newDraftServer(t testing.TB, ring *seal.Ring, drafts bool, register ...func(*askback.Server)) string {
	t.Helper()
	srv := newServer(t, &askback.Options{Keys: ring, Tasks: &askback.Tasks{Store: new(task.MemoryStore)}, Logger: slog.New(slog.DiscardHandler)},
		append(register, addWeather, addEcho, addBoth)...)
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	working.Go(func() {
		if err := srv.RunTasks(ctx); err != nil {
			t.Error(err)
		}
	})
	ts := httptest.NewServer(srv.HTTPHandler(&askback.HTTPOptions{Drafts: drafts}))
	t.Cleanup(func() {
		ts.CloseClientConnections() // sessions have streams of their own
		ts.Close()
		cancel()
		working.Wait()
	})
	return ts.URL
}

// addWeather adds the tool of the proposals that asks one question.
func addWeather(s *askback.Server) {
	type where struct {
		Location string `json:"location"`
	}
	askback.AddTool(s, &mcp.Tool{Name: "get_weather"}, func(ctx context.Context, call *askback.Call, in where) (string, error) {
		_, err := askback.Elicit[login](call, "github_login", "Please provide your GitHub username")
		return "Current weather in " + in.Location + ":\nTemperature: 72°F\nConditions: Partly cloudy", err
	})
}

// addBoth adds a tool that asks for two things in one round, one more after a checkpoint,
// and tells what it got.
func addBoth(s *askback.Server) {
	type name struct {
		Name string `json:"name"`
	}
	askback.AddTool(s, &mcp.Tool{Name: "both"}, func(ctx context.Context, call *askback.Call, in struct{}) (string, error) {
		first, err1 := askback.Elicit[name](call, "first", "The first?")
		second, err2 := askback.Elicit[name](call, "second", "The second?")
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		if err := call.Checkpoint(ctx, "over"); err != nil {
			return "", err
		}
		third, err := askback.Elicit[name](call, "third", "The third?")
		if err != nil {
			return "", err
		}
		return first.Name + second.Name + third.Name, nil
	})
}

// post sends a message as it stands, and returns the answer as JSON that can be compared.
func post(t testing.TB, url, body string, header ...string) (status int, message map[string]any) {
	t.Helper()
	res := open(t, url, body, header...)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if _, last, ok := bytes.Cut(data, []byte("data: ")); ok && strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		data = last
	}
	if len(data) > 0 && json.Unmarshal(data, &message) != nil {
		message = map[string]any{"text": string(data)}
	}
	return res.StatusCode, message
}

func open(t testing.TB, url, body string, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// member follows names and indexes into JSON.
func member(v any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			a, _ := v.([]any)
			if s >= len(a) {
				return nil
			}
			v = a[s]
		}
	}
	return v
}

func asJSON(t testing.TB, s string) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	return v
}

const (
	callWeather  = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"New York"}}}`
	loginRequest = `{"method":"elicitation/create","params":{"mode":"form","message":"Please provide your GitHub username",
		"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`
	loginAnswer = `{"action":"accept","content":{"name":"octocat"}}`
	weatherText = "Current weather in New York:\nTemperature: 72°F\nConditions: Partly cloudy"
)

// Every shape in which the drafts answer a request that needs input, and every one in which
// their clients come back.
func TestDraftsOfACall(t *testing.T) {
	url := newDraftServer(t, newRing(t), true)
	const head = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"New York"}`
	incomplete := `{"jsonrpc":"2.0","id":2,"result":{"inputRequests":{"github_login":` + loginRequest + `},"requestState":STATE}}`
	content := `{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"elicitation",` +
		strings.TrimSuffix(strings.TrimPrefix(loginRequest, `{"method":"elicitation/create","params":{`), "}}") +
		`,"_meta":{"io.github.askback-mcp/key":"github_login"}}],"isError":false,"requestState":STATE}}`
	dependent := `{"jsonrpc":"2.0","id":2,"dependent_requests":{"state":STATE,"requests":[` + loginRequest + `]}}`
	dependentEach := `{"jsonrpc":"2.0","id":2,"dependent_requests":{"requests":[` + strings.Replace(loginRequest, "{", `{"state":STATE,`, 1) + `]}}`
	for _, test := range []struct {
		name, query, asked, retry string
		state                     []any // where it is
	}{
		{"wrapped answers", "?draft=mrtr-1", incomplete, head + `,"inputResponses":{"github_login":{"result":` + loginAnswer + `}},"requestState":STATE}}`, []any{"result", "requestState"}},
		{"bare answers", "?draft=mrtr-2", incomplete, head + `,"inputResponses":{"github_login":` + loginAnswer + `},"requestState":STATE}}`, []any{"result", "requestState"}},
		{"no form named, wrapped", "", incomplete, head + `,"inputResponses":{"github_login":{"result":` + loginAnswer + `}},"requestState":STATE}}`, []any{"result", "requestState"}},
		{"bare answers with a result of their own", "", incomplete, head + `,"inputResponses":{"github_login":` + strings.Replace(loginAnswer, "{", `{"result":{},`, 1) + `},"requestState":STATE}}`, []any{"result", "requestState"}},
		{"beside params", "", incomplete, head + `},"inputResponses":{"github_login":` + loginAnswer + `},"requestState":STATE}`, []any{"result", "requestState"}},
		{"answers beside, state inside", "", incomplete, head + `,"requestState":STATE},"inputResponses":{"github_login":` + loginAnswer + `}}`, []any{"result", "requestState"}},
		{"content", "?draft=tasks-2", content,
			head + `,"inputResponses":{"github_login":` + loginAnswer + `},"requestState":STATE}}`, []any{"result", "requestState"}},
		{"one state for all", "?draft=state-1", dependent, head + `},"dependent_responses":{"state":STATE,"responses":[{"result":` + loginAnswer + `}]}}`, []any{"dependent_requests", "state"}},
		{"one state for all, form not named again", "?draft=state-1", dependent, "!" + head + `},"dependent_responses":{"state":STATE,"responses":[{"result":` + loginAnswer + `}]}}`, []any{"dependent_requests", "state"}},
		{"a state for each", "?draft=state-2", dependentEach, head + `},"dependent_responses":{"responses":[{"state":STATE,"result":` + loginAnswer + `}]}}`, []any{"dependent_requests", "requests", 0, "state"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, asked := post(t, url+test.query, callWeather)
			state, _ := member(asked, test.state...).(string)
			if status != 200 || state == "" {
				t.Fatalf("status %d: %v", status, asked)
			}
			if diff := cmp.Diff(asJSON(t, strings.ReplaceAll(test.asked, "STATE", quote(state))), any(asked)); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			retry, unnamed := strings.CutPrefix(strings.ReplaceAll(test.retry, "STATE", quote(state)), "!")
			query := test.query
			if unnamed {
				query = ""
			}
			_, answered := post(t, url+query, retry)
			want := asJSON(t, `{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":`+quote(weatherText)+`}],"isError":false}}`)
			if diff := cmp.Diff(want, any(answered)); diff != "" {
				t.Errorf("answered (-want +got):\n%s", diff)
			}
		})
	}
}

// With several questions in a round, a checkpoint without any, and answers that do not come.
func TestDraftsOfAState(t *testing.T) {
	url := newDraftServer(t, newRing(t), true)
	call := func(t *testing.T, form, dependent string) map[string]any {
		t.Helper()
		if dependent != "" {
			dependent = `,"dependent_responses":` + dependent
		}
		_, message := post(t, url+"?draft="+form, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"both"}`+dependent+`}`)
		return message
	}
	asks := func(t *testing.T, message map[string]any, want ...string) {
		t.Helper()
		requests, ok := member(message, "dependent_requests", "requests").([]any)
		if !ok || len(requests) != len(want) {
			t.Fatalf("want %v asked, got %v", want, message)
		}
		for i, w := range want {
			if member(requests, i, "params", "message") != w {
				t.Errorf("request %d: %v", i, requests[i])
			}
		}
	}
	accept := func(name string) string {
		return `"result":{"action":"accept","content":{"name":"` + name + `"}}`
	}
	for _, form := range []string{"state-1", "state-2"} {
		t.Run(form, func(t *testing.T) {
			shared := func(m map[string]any) string { return quote(member(m, "dependent_requests", "state").(string)) }
			of := func(m map[string]any, i int) string {
				if form == "state-1" {
					return ""
				}
				return `"state":` + quote(member(m, "dependent_requests", "requests", i, "state").(string)) + `,`
			}
			all := func(m map[string]any, responses string) string {
				if form == "state-1" {
					return `{"state":` + shared(m) + `,"responses":[` + responses + `]}`
				}
				return `{"responses":[` + responses + `]}`
			}
			first := call(t, form, "")
			asks(t, first, "The first?", "The second?")
			// The second is not answered, and asked again.
			second := call(t, form, all(first, `{`+of(first, 0)+accept("a")+`}`))
			asks(t, second, "The second?")
			// An answer to nothing is ignored.
			third := call(t, form, all(second, `{`+of(second, 0)+accept("b")+`},{`+of(second, 0)+accept("x")+`}`))
			asks(t, third) // only a state
			fourth := call(t, form, `{"state":`+shared(third)+`}`)
			asks(t, fourth, "The third?")
			done := call(t, form, all(fourth, `{`+of(fourth, 0)+accept("c")+`}`))
			if got := member(done, "result", "content", 0, "text"); got != "abc" {
				t.Errorf("got %v", done)
			}
			// Only states of one round go together, and they have to be ours.
			for _, bad := range []string{
				`{"state":"x","responses":[]}`, `{"state":{"a":1}}`, `{}`, `{"responses":[{` + accept("a") + `}]}`,
				`{"state":"!","responses":[{` + accept("a") + `}]}`,
			} {
				if m := call(t, form, bad); member(m, "error", "message") != "Invalid or expired requestState" {
					t.Errorf("%s: %v", bad, m)
				}
			}
			for _, bad := range []string{`[]`, `{"responses":{}}`, `{"state":` + quote("e30") + `,"responses":[1]}`} {
				if m := call(t, form, bad); member(m, "error", "code") != -32602.0 {
					t.Errorf("%s: %v", bad, m)
				}
			}
		})
	}
	a, b := call(t, "state-2", ""), call(t, "state-2", "")
	mixed := `{"responses":[{"state":` + quote(member(a, "dependent_requests", "requests", 0, "state").(string)) + `,` + accept("a") + `},` +
		`{"state":` + quote(member(b, "dependent_requests", "requests", 1, "state").(string)) + `,` + accept("b") + `}]}`
	if m := call(t, "state-2", mixed); member(m, "error", "message") != "Invalid or expired requestState" {
		t.Errorf("states of two calls: %v", m)
	}
}

// A task in the forms of the proposals that have one.
func TestDraftsOfATask(t *testing.T) {
	url := newDraftServer(t, newRing(t), true)
	for _, test := range []struct{ form, working, waiting, completed string }{
		{"mrtr-1", "Working", "input_required", "Completed"},
		{"mrtr-2", "working", "input_required", "completed"},
		{"tasks-1", "Working", "input_required", "Completed"},
		{"tasks-2", "Working", "input_required", "Completed"},
	} {
		t.Run(test.form, func(t *testing.T) {
			send := func(method, params string) map[string]any {
				t.Helper()
				status, m := post(t, url+"?draft="+test.form, `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{`+params+`}}`)
				if status != 200 {
					t.Fatalf("%s: status %d: %v", method, status, m)
				}
				return m
			}
			created := send("tools/call", `"name":"echo","task":{"ttl":60000}`)
			id, _ := member(created, "result", "task", "taskId").(string)
			if status := member(created, "result", "task", "status"); status != test.working {
				t.Errorf("created: %v", created)
			}
			related := `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}`
			question := `"mode":"form","message":"Please provide the input string to echo back",
				"requestedSchema":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}`
			asked := map[string]string{
				"tasks-1": `{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{` + question + `},` + related + `}`,
				"tasks-2": `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"elicitation",` + question + `}],"isError":false,` + related + `}}`,
				"mrtr-1":  `{"jsonrpc":"2.0","id":7,"result":{"inputRequests":{"echo_input":{"method":"elicitation/create","params":{` + question + `}}},` + related + `}}`,
			}
			asked["mrtr-2"] = asked["mrtr-1"]
			if diff := cmp.Diff(asJSON(t, asked[test.form]), any(send("tasks/result", `"taskId":"`+id+`"`))); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
			if m := send("tasks/get", `"taskId":"`+id+`"`); member(m, "result", "status") != test.waiting {
				t.Errorf("waiting: %v", m)
			}
			const input = `"action":"accept","content":{"input":"Hello World!"}`
			switch test.form {
			case "mrtr-1":
				send("tasks/input_response", `"inputResponses":{"echo_input":{"result":{`+input+`}}},`+related)
			case "mrtr-2":
				send("tasks/input_response", `"inputResponses":{"echo_input":{`+input+`}},`+related)
			default:
				answer := `{"jsonrpc":"2.0","id":4,"result":{` + input + `,` + related + `}}`
				if status, m := post(t, url, answer); status != 202 || m != nil {
					t.Errorf("answered: status %d, %v", status, m)
				}
				defer func() { // nothing is open any more
					if status, m := post(t, url, answer); status != 202 {
						t.Errorf("answered again: status %d, %v", status, m)
					}
				}()
			}
			want := `{"jsonrpc":"2.0","id":7,"result":{"isError":false,"content":[{"type":"text","text":"Echo: Hello World!"}],` + related + `}}`
			if diff := cmp.Diff(asJSON(t, want), any(send("tasks/result", `"taskId":"`+id+`"`))); diff != "" {
				t.Errorf("completed (-want +got):\n%s", diff)
			}
			if m := send("tasks/get", `"taskId":"`+id+`"`); member(m, "result", "status") != test.completed {
				t.Errorf("completed: %v", m)
			}
		})
	}
	const none = `{"jsonrpc":"2.0","id":4,"result":{"action":"accept","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"none"}}}}`
	// A client that began a session is served as its URL says, answers included.
	c := newSession(t, url, url)
	if status, m := c.post(url+"?draft=tasks-1", none); status != 400 || member(m, "error", "message") != "Failed to retrieve task: Task not found" {
		t.Errorf("an answer to no task, in a session: status %d, %v", status, m)
	}
	if status, m := c.post(url, none); status != 202 {
		t.Errorf("an answer that belongs to the session: status %d, %v", status, m)
	}
	if status, m := post(t, url, none); status != 400 || member(m, "error", "message") != "Failed to retrieve task: Task not found" {
		t.Errorf("an answer to no task: status %d, %v", status, m)
	}
}

// What a draft request does not say is not guessed where it matters, and what it says twice
// is refused.
func TestDraftsAreRecognisedPerRequest(t *testing.T) {
	url := newDraftServer(t, newRing(t), true)
	ratified := func(params string) string {
		return `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"New York"}` + params +
			`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`
	}
	headers := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "get_weather"}
	_, m := post(t, url, ratified(""), headers...)
	if member(m, "result", "resultType") != "input_required" || member(m, "result", "_meta") == nil {
		t.Errorf("a ratified request: %v", m)
	}
	state := quote(member(m, "result", "requestState").(string))
	_, m = post(t, url, ratified(`,"inputResponses":{"github_login":{"result":`+loginAnswer+`}},"requestState":`+state), headers...)
	if member(m, "result", "resultType") != "input_required" {
		t.Errorf("a ratified request with a wrapped answer: %v", m)
	}
	for name, response := range map[string]string{
		"an echo":   `{"jsonrpc":"2.0","id":1,"state":"eyJrIjpbImEiXSwiYyI6eyJpIjoxLCJtIjoidG9vbHMvY2FsbCIsInAiOnsibmFtZSI6ImJvdGgifX19","result":{}}`,
		"an answer": `{"jsonrpc":"2.0","id":1,"result":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}}}}`,
	} {
		if status, m := post(t, url, response, "MCP-Protocol-Version", "2026-07-28"); status != 400 || !strings.Contains(fmt.Sprint(m), "method") {
			t.Errorf("a response that claims the ratified version, %s: status %d, %v", name, status, m)
		}
	}
	// The form that the URL names goes before.
	if _, m = post(t, url+"?draft=state-1", ratified(""), headers...); member(m, "dependent_requests") == nil {
		t.Errorf("a named form: %v", m)
	}
	for name, test := range map[string]struct{ query, body, want string }{
		"no such form":        {"?draft=mrtr-9", callWeather, "unknown draft in the URL's query"},
		"twice":               {"", `{"jsonrpc":"2.0","id":1,"method":"tools/call","requestState":"a","params":{"name":"get_weather","requestState":"a"}}`, "both inside and beside"},
		"of two drafts":       {"", `{"jsonrpc":"2.0","id":1,"method":"tools/call","requestState":"a","dependent_responses":{},"params":{"name":"get_weather"}}`, "comes without"},
		"no params object":    {"", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}`, "must be an object"},
		"not this server's":   {"", `{"jsonrpc":"2.0","id":1,"method":"tools/call","requestState":"a","params":{"name":"get_weather"}}`, "Invalid or expired requestState"},
		"no version of JSON":  {"", `{"id":1,"method":"tools/call","params":{"name":"get_weather"}}`, `"jsonrpc" must be "2.0"`},
		"no answers at all":   {"", `{"jsonrpc":"2.0","id":1,"method":"tools/call","inputResponses":[],"params":{"name":"get_weather"}}`, "inputResponses"},
		"a state of a server": {"", `{"jsonrpc":"2.0","id":1,"state":"abc","result":{}}`, "Invalid or expired requestState"},
	} {
		status, m := post(t, url+test.query, test.body)
		message, _ := member(m, "error", "message").(string)
		if status != 400 || !strings.Contains(message, test.want) {
			t.Errorf("%s: status %d, %v", name, status, m)
		}
	}
	// An answer to a task is acknowledged only where there are tasks.
	bare := httptest.NewServer(newServer(t, nil).HTTPHandler(&askback.HTTPOptions{Drafts: true}))
	defer bare.Close()
	const answer = `{"jsonrpc":"2.0","id":4,"result":{"action":"accept","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}}}}`
	for _, accept := range []string{"application/json", "application/json, text/event-stream"} {
		if status, m := post(t, bare.URL, answer, "Accept", accept); status != 400 || m["error"] == nil {
			t.Errorf("an answer where there are no tasks, %s: status %d, %v", accept, status, m)
		}
	}
	// What a client declares all the same, counts.
	const none = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"New York"},"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}}`
	if _, m := post(t, url, none); member(m, "error", "code") != -32021.0 {
		t.Errorf("without capabilities: %v", m)
	}
	// Progress makes a stream of the response; its last event is the draft's.
	res := open(t, url, strings.Replace(callWeather, `"params":{`, `"params":{"_meta":{"progressToken":1},`, 1))
	defer res.Body.Close()
	if data, _ := io.ReadAll(res.Body); strings.Contains(string(data), "resultType") {
		t.Errorf("a response with progress: %s", data)
	}
}

// Nothing of this is there unless it is asked for.
func TestDraftsAreOffUnlessEnabled(t *testing.T) {
	ring := newRing(t)
	off, on := newDraftServer(t, ring, false), newDraftServer(t, ring, true)
	_, asked := post(t, on, callWeather)
	state := quote(member(asked, "result", "requestState").(string))
	_, dependent := post(t, on+"?draft=state-1", callWeather)
	shared := quote(member(dependent, "dependent_requests", "state").(string))

	// Accepted: no request of a draft is.
	for _, query := range []string{"", "?draft=mrtr-1", "?draft=mrtr-2", "?draft=tasks-1", "?draft=tasks-2", "?draft=state-1", "?draft=state-2", "?draft=state"} {
		for name, body := range map[string]string{
			"a first round": callWeather,
			"beside params": `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"New York"}},"inputResponses":{"github_login":` + loginAnswer + `},"requestState":` + state + `}`,
			"dependent":     `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"New York"}},"dependent_responses":{"state":` + shared + `,"responses":[{"result":` + loginAnswer + `}]}}`,
			"a task":        `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","task":{"ttl":60000}}}`,
			"an answer":     `{"jsonrpc":"2.0","id":4,"result":{"action":"accept","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}}}}`,
			"an echo":       `{"jsonrpc":"2.0","id":4,"state":` + shared + `,"result":{"action":"accept"}}`,
		} {
			status, m := post(t, off+query, body)
			if status == 200 && m["error"] == nil || m["text"] != nil && status < 400 {
				t.Errorf("%s%s: %v", name, query, m)
			}
		}
	}
	// A ratified request with members of drafts is served as if they were not there, and
	// answered in the ratified form.
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	headers := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "get_weather"}
	for name, members := range map[string][2]string{
		"wrapped":       {`,"inputResponses":{"github_login":{"result":` + loginAnswer + `}},"requestState":` + state, ``},
		"beside params": {``, `,"inputResponses":{"github_login":` + loginAnswer + `},"requestState":` + state},
		"dependent":     {``, `,"dependent_responses":{"state":` + shared + `,"responses":[{"result":` + loginAnswer + `}]}`},
		"state":         {``, `,"state":` + state},
	} {
		for _, query := range []string{"", "?draft=state-1"} {
			_, m := post(t, off+query, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"New York"}`+members[0]+`,`+meta+`}`+members[1]+`}`, headers...)
			if member(m, "result", "resultType") != "input_required" || member(m, "result", "inputRequests", "github_login") == nil || m["dependent_requests"] != nil {
				t.Errorf("%s%s: %v", name, query, m)
			}
		}
	}
	// Sent: no request of the server in a session carries a state, nor where drafts are on
	// and the client does not say that it knows it. Some refuse a member that they do not
	// know, and the call would wait for ever.
	for _, url := range []string{off, off + "?draft=state", on} {
		c := newSession(t, url, url)
		c.call("get_weather", `{"location":"New York"}`)
		if q := c.event(); q["method"] != "elicitation/create" || q["state"] != nil || strings.Contains(c.last, "askback-mcp/state") {
			t.Errorf("a question in a session: %s", c.last)
		}
	}
}

// oldSession is a client of 2025-11-25, whose POSTs may go to different servers.
type oldSession struct {
	t      *testing.T
	url    string // of the requests
	answer string // of the responses
	id     string
	events *bufio.Scanner
	last   string
}

func newSession(t *testing.T, url, answer string) *oldSession {
	t.Helper()
	return newSessionThatCan(t, url, answer, `{"elicitation":{}}`)
}

func newSessionThatCan(t *testing.T, url, answer, capabilities string) *oldSession {
	t.Helper()
	c := &oldSession{t: t, url: url, answer: answer}
	res := open(t, url, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`,"clientInfo":{"name":"c","version":"1"}}}`)
	c.id = res.Header.Get("Mcp-Session-Id")
	_, _ = io.Copy(io.Discard, res.Body)
	res.Body.Close()
	c.post(url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *oldSession) post(url, body string) (int, map[string]any) {
	c.t.Helper()
	return post(c.t, url, body, "Mcp-Session-Id", c.id, "MCP-Protocol-Version", "2025-11-25")
}

// call begins a call, whose stream stays open.
func (c *oldSession) call(tool, arguments string) {
	c.t.Helper()
	res := open(c.t, c.url, `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`,
		"Mcp-Session-Id", c.id, "MCP-Protocol-Version", "2025-11-25")
	c.t.Cleanup(func() { res.Body.Close() })
	c.events = bufio.NewScanner(res.Body)
	c.events.Buffer(nil, 1<<20)
}

// event is the next message of the call's stream.
func (c *oldSession) event() map[string]any {
	c.t.Helper()
	for c.events.Scan() {
		if data, ok := strings.CutPrefix(c.events.Text(), "data: "); ok && data != "" {
			c.last = data
			return asJSON(c.t, data).(map[string]any)
		}
	}
	c.t.Fatalf("the stream ended: %v", c.events.Err())
	return nil
}

// respond answers a request of the server, with a member state if it is not "".
func (c *oldSession) respond(request map[string]any, state, result string) (int, map[string]any) {
	c.t.Helper()
	id, err := json.Marshal(request["id"])
	if err != nil {
		c.t.Fatal(err)
	}
	if state != "" {
		state = `,"state":` + quote(state)
	}
	return c.post(c.answer, `{"jsonrpc":"2.0","id":`+string(id)+state+`,"result":`+result+`}`)
}

func named(name string) string { return `{"action":"accept","content":{"name":"` + name + `"}}` }

// In a session here, a call goes on with an echo and without one; a wrong one is refused,
// and the question stays open.
func TestAStateIsEchoedInASession(t *testing.T) {
	url := newDraftServer(t, newRing(t), true)
	for name, echo := range map[string]bool{"echoed": true, "not known": false} {
		t.Run(name, func(t *testing.T) {
			c := newSession(t, url+"?draft=state", url)
			c.call("both", "{}")
			for n := range 3 {
				q := c.event()
				state, _ := q["state"].(string)
				if state == "" || q["method"] != "elicitation/create" || strings.Contains(c.last, "askback-mcp/state") {
					t.Fatalf("question %d: %s", n, c.last)
				}
				if status, m := c.respond(q, state+"x", named("x")); status != 400 || member(m, "error", "message") != "Invalid or expired requestState" {
					t.Errorf("a wrong state: status %d, %v", status, m)
				}
				if !echo {
					state = ""
				}
				answer := map[any]string{"The first?": "a", "The second?": "b", "The third?": "c"}[member(q, "params", "message")]
				if status, m := c.respond(q, state, named(answer)); status != 202 || m != nil {
					t.Errorf("status %d, %v", status, m)
				}
				if status, _ := c.respond(q, state, named("again")); status != 202 {
					t.Errorf("a second time: status %d", status)
				}
			}
			if got := member(c.event(), "result", "content", 0, "text"); got != "abc" {
				t.Errorf("got %s", c.last)
			}
		})
	}
}

// The state is for the requests of every kind, also where the kind has no parameters.
func TestQuestionsOfEveryKindCarryAState(t *testing.T) {
	url := newDraftServer(t, newRing(t), true, addText("kinds", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		who, err1 := askback.Elicit[login](call, "login", "?")
		model, err2 := askback.Sample(call, "capital", sampling("?"))
		roots, err3 := askback.Roots(call, "roots")
		if err := errors.Join(err1, err2, err3); err != nil {
			return "", err
		}
		return fmt.Sprint(who.Name, model.Model, roots[0].URI), nil
	}))
	c := newSessionThatCan(t, url+"?draft=state", url, `{"elicitation":{},"sampling":{},"roots":{}}`)
	c.call("kinds", "{}")
	answers := map[any]string{
		"elicitation/create":     named("octocat"),
		"sampling/createMessage": `{"role":"assistant","content":{"type":"text","text":"Paris"},"model":"m"}`,
		"roots/list":             `{"roots":[{"uri":"file:///home"}]}`,
	}
	for len(answers) > 0 {
		q := c.event()
		state, _ := q["state"].(string)
		if state == "" || answers[q["method"]] == "" {
			t.Fatalf("got %s, with %d to come", c.last, len(answers))
		}
		if status, m := c.respond(q, state, answers[q["method"]]); status != 202 {
			t.Errorf("%s: status %d, %v", q["method"], status, m)
		}
		delete(answers, q["method"])
	}
	if got := member(c.event(), "result", "content", 0, "text"); got != "octocatmfile:///home" {
		t.Errorf("got %s", c.last)
	}
}

// Where the session is not held, the call goes on from the state: the response is what the
// server has to say next.
func TestAnEchoGoesOnOnAnotherServer(t *testing.T) {
	ring := newRing(t)
	here, there := newDraftServer(t, ring, true), newDraftServer(t, ring, true)
	c := newSession(t, here+"?draft=state", there)
	c.call("both", "{}")
	q := c.event()
	answers := map[any]string{"The first?": "a", "The second?": "b", "The third?": "c"}
	for n := range 3 {
		status, next := c.respond(q, q["state"].(string), named(answers[member(q, "params", "message")]))
		if status != 200 {
			t.Fatalf("status %d: %v", status, next)
		}
		if n < 2 {
			if next["method"] != "elicitation/create" || next["state"] == q["state"] || next["id"] == q["id"] || next["result"] != nil {
				t.Fatalf("question %d: %v", n, next)
			}
			q = next
			continue
		}
		want := asJSON(t, `{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":"abc"}],"isError":false}}`)
		if diff := cmp.Diff(want, any(next)); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
	}
	// So it does for a client that has begun another session there, as it must where its own
	// is not known.
	lost := newSession(t, here+"?draft=state", there)
	lost.call("get_weather", `{"location":"New York"}`)
	q = lost.event()
	again := newSession(t, there+"?draft=state", there)
	if _, m := again.respond(q, q["state"].(string), named("octocat")); member(m, "result", "content", 0, "text") != weatherText {
		t.Errorf("in a new session: %v", m)
	}
	// It is bound as ever: to the call that it was made for, and to what was asked.
	bound := newSession(t, here+"?draft=state", there)
	bound.call("get_weather", `{"location":"New York"}`)
	q = bound.event()
	if status, m := c.respond(q, altered(t, q["state"].(string), "New York", "Cairo"), named("octocat")); status != 400 || member(m, "error", "code") != -32602.0 {
		t.Errorf("other arguments: status %d, %v", status, m)
	}
	id, _ := json.Marshal(q["id"])
	failed := `{"jsonrpc":"2.0","id":` + string(id) + `,"state":` + quote(q["state"].(string)) + `,"error":{"code":1,"message":"no"}}`
	if _, m := c.post(there, failed); member(m, "error", "code") != -32603.0 || m["id"] != 9.0 {
		t.Errorf("a client's error: %v", m)
	}
	// Another key than that of the question.
	if _, m := c.respond(q, altered(t, q["state"].(string), `"github_login"`, `"google_login"`), named("octocat")); m["method"] != "elicitation/create" {
		t.Errorf("another key: %v", m)
	}
	if _, m := c.respond(q, q["state"].(string), named("octocat")); member(m, "result", "content", 0, "text") != weatherText {
		t.Errorf("got %v", m)
	}
}

// Where a state counts once, one that was used in its session is used.
func TestAStateOfASessionIsUsedOnce(t *testing.T) {
	ran := make(chan string, 9)
	srv := newServer(t, &askback.Options{ReplayGuard: new(state.MemoryGuard), Logger: slog.New(slog.DiscardHandler)}, func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "redeem"}, func(ctx context.Context, call *askback.Call, in struct{}) (string, error) {
			who, err := askback.Elicit[struct {
				Name string `json:"name"`
			}](call, "name", "Who?")
			if err == nil {
				ran <- who.Name
			}
			return "redeemed", err
		})
	})
	ts := httptest.NewServer(srv.HTTPHandler(&askback.HTTPOptions{Drafts: true}))
	defer func() {
		ts.CloseClientConnections()
		ts.Close()
	}()
	elsewhere := func(q map[string]any, want string) {
		t.Helper()
		_, m := post(t, ts.URL, `{"jsonrpc":"2.0","id":1,"state":`+quote(q["state"].(string))+`,"result":`+named("b")+`}`)
		if !strings.Contains(fmt.Sprint(m), want) {
			t.Errorf("want %s, got %v", want, m)
		}
	}
	// In the session, and then elsewhere.
	c := newSession(t, ts.URL+"?draft=state", ts.URL)
	c.call("redeem", "{}")
	q := c.event()
	c.respond(q, "", named("a"))
	if m := c.event(); !strings.Contains(c.last, "redeemed") {
		t.Errorf("in the session: %v", m)
	}
	elsewhere(q, "Invalid or expired requestState")
	// Elsewhere, and then in the session.
	c.call("redeem", "{}")
	q = c.event()
	elsewhere(q, "redeemed")
	c.respond(q, "", named("a"))
	if m := c.event(); !strings.Contains(c.last, "Invalid or expired requestState") {
		t.Errorf("in the session: %v", m)
	}
	if len(ran) != 2 {
		t.Errorf("ran %d times", len(ran))
	}
}

// Prompts, resources, and handlers in the SDK's manual style are no different.
func TestDraftsOfEverythingThatAsks(t *testing.T) {
	type name struct {
		Name string `json:"name"`
	}
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Keys: newRing(t), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	m.AddTool(&mcp.Tool{Name: "manual", InputSchema: map[string]any{"type": "object"}}, func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if answer, ok := req.Params.InputResponses["name"].(*mcp.ElicitResult); ok && req.Params.RequestState == "mine" {
			return text("hello " + answer.Content["name"].(string)), nil
		}
		return &mcp.CallToolResult{RequestState: "mine", InputRequests: mcp.InputRequestMap{"name": &mcp.ElicitParams{
			Message: "Who?", RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}},
		}}}, nil
	})
	srv.AddPrompt(&mcp.Prompt{Name: "greeting"}, func(ctx context.Context, call *askback.Call, _ map[string]string) (*mcp.GetPromptResult, error) {
		n, err := askback.Elicit[name](call, "name", "Who?")
		return &mcp.GetPromptResult{Description: "hello " + n.Name, Messages: []*mcp.PromptMessage{}}, err
	})
	srv.AddResource(&mcp.Resource{URI: "file:///greeting", Name: "greeting"}, func(ctx context.Context, call *askback.Call, _ string) (*mcp.ReadResourceResult, error) {
		n, err := askback.Elicit[name](call, "name", "Who?")
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "file:///greeting", Text: "hello " + n.Name}}}, err
	})
	ts := httptest.NewServer(srv.HTTPHandler(&askback.HTTPOptions{Drafts: true}))
	defer ts.Close()
	// Nor is a tool that the SDK serves by itself, to a client that comes back to it: say, it
	// asked on the other server, which is older.
	m.AddTool(&mcp.Tool{Name: "plain", InputSchema: map[string]any{"type": "object"}}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text("hello"), nil
	})
	echo := base64.RawURLEncoding.EncodeToString([]byte(`{"s":"","k":["name"],"c":{"i":9,"m":"tools/call","p":{"name":"plain"},"o":{}}}`))
	_, plain := post(t, ts.URL, `{"jsonrpc":"2.0","id":1,"state":`+quote(echo)+`,"result":`+named("octocat")+`}`)
	if want := asJSON(t, `{"jsonrpc":"2.0","id":9,"result":{"content":[{"type":"text","text":"hello"}]}}`); !cmp.Equal(want, any(plain)) {
		t.Errorf("an echo to a tool of the SDK: %v", plain)
	}
	for _, form := range []string{"mrtr-1", "state-1"} {
		for _, request := range []string{
			`"method":"tools/call","params":{"name":"manual","arguments":{}`,
			`"method":"prompts/get","params":{"name":"greeting"`,
			`"method":"resources/read","params":{"uri":"file:///greeting"`,
		} {
			url, head := ts.URL+"?draft="+form, `{"jsonrpc":"2.0","id":"x",`+request
			_, asked := post(t, url, head+`}}`)
			retry := ""
			if form == "state-1" {
				retry = `},"dependent_responses":{"state":` + quote(fmt.Sprint(member(asked, "dependent_requests", "state"))) + `,"responses":[{"result":` + named("octocat") + `}]}}`
			} else {
				retry = `,"inputResponses":{"name":{"result":` + named("octocat") + `}},"requestState":` + quote(fmt.Sprint(member(asked, "result", "requestState"))) + `}}`
			}
			_, answered := post(t, url, head+retry)
			if data, _ := json.Marshal(answered["result"]); !strings.Contains(string(data), "hello octocat") || strings.Contains(string(data), "resultType") {
				t.Errorf("%s %s: %v, then %v", form, request, asked, answered)
			}
		}
	}
}

// A handler's progress goes along to the client of a draft.
func TestDraftsStreamProgress(t *testing.T) {
	url := newDraftServer(t, newRing(t), true, func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "slow"}, func(ctx context.Context, call *askback.Call, in struct{}) (string, error) {
			if err := call.Progress(ctx, 1, 2, "half"); err != nil {
				return "", err
			}
			_, err := askback.Roots(call, "roots")
			return "done", err
		})
	})
	res := open(t, url+"?draft=state-1", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":"p"}}}`)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(res.Header, err)
	}
	events := strings.Split(strings.TrimSpace(string(data)), "\n\n")
	if len(events) != 2 || !strings.Contains(events[0], `"progressToken":"p"`) || !strings.Contains(events[1], `"dependent_requests":{"state":`) {
		t.Errorf("got %s", data)
	}
}

// Whatever comes, the answer is JSON or nothing.
func FuzzDrafts(f *testing.F) {
	srv := newServer(f, &askback.Options{Tasks: &askback.Tasks{Store: new(task.MemoryStore)}}, addWeather, addEcho, addBoth)
	handler := srv.HTTPHandler(&askback.HTTPOptions{Drafts: true})
	for _, query := range []string{"", "mrtr-1", "tasks-1", "tasks-2", "state-1", "state-2"} {
		f.Add(query, callWeather)
		f.Add(query, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"both"},"dependent_responses":{"state":"eyJzIjoieCIsImsiOlsiYSJdfQ","responses":[{"result":{}}]}}`)
		f.Add(query, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"both"},"inputResponses":{"a":{"result":{}}},"requestState":"x"}`)
		f.Add(query, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","task":{"ttl":1}}}`)
		f.Add(query, `{"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{"taskId":"x"}}`)
		f.Add(query, `{"jsonrpc":"2.0","id":3,"result":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}}}}`)
		f.Add(query, `{"jsonrpc":"2.0","id":3,"state":"eyJzIjoieCIsImsiOlsiYSJdLCJjIjp7ImkiOjEsIm0iOiJ0b29scy9jYWxsIiwicCI6eyJuYW1lIjoiYm90aCJ9fX0","result":{}}`)
	}
	f.Fuzz(func(t *testing.T, query, body string) {
		req := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
		q := req.URL.Query()
		q.Set("draft", query)
		req.URL.RawQuery = q.Encode()
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, req)
		if w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Errorf("no JSON: %s", w.Body)
		}
		if strings.Contains(w.Body.String(), "resultType") && w.Header().Get("Content-Type") == "application/json" {
			t.Errorf("a ratified form: %s", w.Body)
		}
	})
}

// altered changes what is inside of a state in a session.
func altered(t *testing.T, state, from, to string) string {
	t.Helper()
	data, err := base64.RawURLEncoding.DecodeString(state)
	if err != nil || !strings.Contains(string(data), from) {
		t.Fatalf("%q is not in %s, %v", from, data, err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(data), from, to, 1)))
}

// What surrounds a sealed state in the drafts' own forms is not sealed. Whoever changes it, or
// has another's, gains nothing: the state is bound to the call and its caller.
func TestAStateOfADraftIsForItsCallAndCaller(t *testing.T) {
	ring := newRing(t)
	serve := func(caller string) string {
		srv := newServer(t, &askback.Options{Keys: ring, Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return caller, nil }}, addWeather)
		ts := httptest.NewServer(srv.HTTPHandler(&askback.HTTPOptions{Drafts: true}))
		t.Cleanup(func() { ts.CloseClientConnections(); ts.Close() })
		return ts.URL
	}
	alice, other, bob := serve("alice"), serve("alice"), serve("bob")
	c := newSession(t, alice+"?draft=state", other)
	c.call("get_weather", `{"location":"New York"}`)
	q := c.event()
	echo := q["state"].(string)
	_, asked := post(t, alice+"?draft=state-1", callWeather)
	shared := member(asked, "dependent_requests", "state").(string)
	const head = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"New York"}},"dependent_responses":{"state":`
	for name, send := range map[string]func(url, state string) (int, map[string]any){
		"in a session": func(url, state string) (int, map[string]any) {
			return post(t, url, `{"jsonrpc":"2.0","id":1,"state":`+quote(state)+`,"result":`+named("octocat")+`}`)
		},
		"of dependent requests": func(url, state string) (int, map[string]any) {
			return post(t, url, head+quote(state)+`,"responses":[{"result":`+named("octocat")+`}]}}`)
		},
	} {
		state := map[string]string{"in a session": echo, "of dependent requests": shared}[name]
		if status, m := send(bob, state); status != 400 || member(m, "error", "message") != "Invalid or expired requestState" {
			t.Errorf("%s, another's: status %d, %v", name, status, m)
		}
		data, err := base64.RawURLEncoding.DecodeString(state)
		if err != nil {
			t.Fatal(err)
		}
		for i := range data {
			data[i] ^= 1 << (i % 8)
			status, m := send(other, base64.RawURLEncoding.EncodeToString(data))
			data[i] ^= 1 << (i % 8)
			if m == nil || m["text"] != nil || status != 200 && status != 400 {
				t.Errorf("%s, byte %d: status %d, %v", name, i, status, m)
			}
			if said, ok := member(m, "result", "content", 0, "text").(string); ok && said != weatherText {
				t.Errorf("%s, byte %d: %s", name, i, said)
			}
		}
		for what, bad := range map[string]string{
			"deep":  base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(`{"c":`, 10_000) + "1" + strings.Repeat("}", 10_000))),
			"large": strings.Repeat("A", 3<<20),
		} {
			if status, m := send(other, bad); status != 400 || member(m, "error", "message") != "Invalid or expired requestState" {
				t.Errorf("%s, %s: status %d, %.200v", name, what, status, m)
			}
		}
		if status, _ := send(other, strings.Repeat("A", 10<<20)); status != 413 {
			t.Errorf("%s, 10 MB: status %d", name, status)
		}
		if _, m := send(other, state); member(m, "result", "content", 0, "text") != weatherText {
			t.Errorf("%s, as it was: %v", name, m)
		}
	}
}
