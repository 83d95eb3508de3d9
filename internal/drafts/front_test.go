package drafts_test

import (
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

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// newDraftServer starts a server with tasks and the tools that the proposals call.
func newDraftServer(t testing.TB, ring *seal.Ring, drafts bool, register ...func(*askback.Server)) string {
	t.Helper()
	srv := harness.NewServer(t, &askback.Options{Keys: ring, Tasks: &askback.Tasks{Store: new(task.MemoryStore)},
		Logger: slog.New(slog.DiscardHandler)},
		append(register, addWeather, harness.AddEcho, addBoth)...)
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
	askback.AddTool(s, &mcp.Tool{Name: "get_weather"}, func(ctx context.Context, call *askback.Call,
		in where) (string, error) {
		_, err := askback.Elicit[harness.Login](call, "github_login", "Please provide your GitHub username")
		return "Current weather in " + in.Location + ":\nTemperature: 72°F\nConditions: Partly cloudy", err
	})
}

// addBoth adds a tool that asks two questions in one round and a third after a checkpoint. Its
// result has the answers.
func addBoth(s *askback.Server) {
	type name struct {
		Name string `json:"name"`
	}
	askback.AddTool(s, &mcp.Tool{Name: "both"}, func(ctx context.Context, call *askback.Call,
		in struct{}) (string, error) {
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

// post sends a message unchanged, and returns the answer as JSON that can be compared.
const (
	callWeather = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_weather",` +
		`"arguments":{"location":"New York"}}}`
	loginRequest = `{"method":"elicitation/create","params":{"mode":"form","message":"Please provide your GitHub username",
		"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}}`
	loginAnswer = `{"action":"accept","content":{"name":"octocat"}}`
	weatherText = "Current weather in New York:\nTemperature: 72°F\nConditions: Partly cloudy"
)

// One call in the form of a draft. The other forms of requests and responses are tested in
// internal/drafts.
func TestDraftsOfACall(t *testing.T) {
	t.Parallel()
	url := newDraftServer(t, harness.NewRing(t), true) + "?draft=mrtr-1"
	status, asked := harness.Post(t, url, callWeather)
	state, _ := harness.At(asked, "result", "requestState").(string)
	if status != 200 || state == "" {
		t.Fatalf("status %d: %v", status, asked)
	}
	want := `{"jsonrpc":"2.0","id":2,"result":{"inputRequests":{"github_login":` + loginRequest + `},"requestState":` +
		harness.Quote(state) + `}}`
	expect.Diff(t, "asked", harness.AsJSON(t, want), any(asked))
	_, answered := harness.Post(t, url,
		`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"New York"},`+
			`"inputResponses":{"github_login":{"result":`+loginAnswer+`}},"requestState":`+harness.Quote(state)+`}}`)
	want = `{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":` + harness.Quote(weatherText) +
		`}],"isError":false}}`
	expect.Diff(t, "answered", harness.AsJSON(t, want), any(answered))
}

// Several questions in a round, a checkpoint without questions, and missing answers.
func TestDraftsOfAState(t *testing.T) {
	t.Parallel()
	url := newDraftServer(t, harness.NewRing(t), true)
	call := func(dependent string) map[string]any {
		t.Helper()
		_, message := harness.Post(t, url+"?draft=state-2",
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"both"}`+dependent+`}`)
		return message
	}
	asks := func(message map[string]any, want ...string) {
		t.Helper()
		requests, ok := harness.At(message, "dependent_requests", "requests").([]any)
		if !ok || len(requests) != len(want) {
			t.Fatalf("want %v asked, got %v", want, message)
		}
		for i, w := range want {
			if harness.At(requests, i, "params", "message") != w {
				t.Errorf("request %d: %v", i, requests[i])
			}
		}
	}
	answer := func(m map[string]any, name string) string {
		state, _ := harness.At(m, "dependent_requests", "requests", 0, "state").(string)
		return `,"dependent_responses":{"responses":[{"state":` + harness.Quote(state) + `,"result":` + named(name) + `}]}`
	}
	first := call("")
	asks(first, "The first?", "The second?")
	second := call(answer(first, "a"))
	asks(second, "The second?") // The second question was not answered.
	third := call(answer(second, "b"))
	asks(third) // only a state
	fourth := call(`,"dependent_responses":{"state":` + harness.Quote(harness.At(third, "dependent_requests",
		"state").(string)) + `}`)
	asks(fourth, "The third?")
	if done := call(answer(fourth, "c")); harness.At(done, "result", "content", 0, "text") != "abc" {
		t.Errorf("got %v", done)
	}
	// The content must be sealed by this server.
	if m := call(`,"dependent_responses":{"state":` +
		harness.Quote(base64.RawURLEncoding.EncodeToString([]byte(`{"s":"x"}`))) + `}`); harness.At(m, "error",
		"message") != "Invalid or expired requestState" {
		t.Errorf("another's state inside: %v", m)
	}
}

// A task in a form of the proposals whose question and answer are messages of their own.
func TestDraftsOfATask(t *testing.T) {
	t.Parallel()
	url := newDraftServer(t, harness.NewRing(t), true)
	send := func(method, params string) map[string]any {
		t.Helper()
		status, m := harness.Post(t, url+"?draft=tasks-1",
			`{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{`+params+`}}`)
		if status != 200 {
			t.Fatalf("%s: status %d: %v", method, status, m)
		}
		return m
	}
	created := send("tools/call", `"name":"echo","task":{"ttl":60000}`)
	id, _ := harness.At(created, "result", "task", "taskId").(string)
	if status := harness.At(created, "result", "task", "status"); status != "Working" {
		t.Errorf("created: %v", created)
	}
	related := `"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"` + id + `"}}`
	asked := `{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"mode":"form","message":"Please provide the input string to echo back",
		"requestedSchema":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}},` + related + `}`
	expect.Diff(t, "asked", harness.AsJSON(t, asked), any(send("tasks/result", `"taskId":"`+id+`"`)))
	if m := send("tasks/get", `"taskId":"`+id+`"`); harness.At(m, "result", "status") != "input_required" {
		t.Errorf("waiting: %v", m)
	}
	answer := `{"jsonrpc":"2.0","id":4,"result":{"action":"accept","content":{"input":"Hello World!"},` + related + `}}`
	if status, m := harness.Post(t, url, answer); status != 202 || m != nil {
		t.Errorf("answered: status %d, %v", status, m)
	}
	want := `{"jsonrpc":"2.0","id":7,"result":{"isError":false,"content":[{"type":"text","text":"Echo: Hello World!"}],` +
		related + `}}`
	expect.Diff(t, "completed", harness.AsJSON(t, want), any(send("tasks/result", `"taskId":"`+id+`"`)))
	if m := send("tasks/get", `"taskId":"`+id+`"`); harness.At(m, "result", "status") != "Completed" {
		t.Errorf("completed: %v", m)
	}
	if status, m := harness.Post(t, url, answer); status != 202 { // no question is open any more
		t.Errorf("answered again: status %d, %v", status, m)
	}
	const none = `{"jsonrpc":"2.0","id":4,"result":{"action":"accept",` +
		`"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"none"}}}}`
	// A client that began a session is served as its URL says, answers included.
	c := newSession(t, url, url)
	if status, m := c.post(url+"?draft=tasks-1", none); status != 400 ||
		harness.At(m, "error", "message") != "Failed to retrieve task: Task not found" {
		t.Errorf("an answer to no task, in a session: status %d, %v", status, m)
	}
	if status, m := c.post(url, none); status != 202 {
		t.Errorf("an answer that belongs to the session: status %d, %v", status, m)
	}
	if status, m := harness.Post(t, url, none); status != 400 ||
		harness.At(m, "error", "message") != "Failed to retrieve task: Task not found" {
		t.Errorf("an answer to no task: status %d, %v", status, m)
	}
}

// A draft's request that leaves out something important or says it twice is refused.
func TestDraftsAreRecognisedPerRequest(t *testing.T) {
	t.Parallel()
	url := newDraftServer(t, harness.NewRing(t), true)
	const ratified = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"get_weather",` +
		`"arguments":{"location":"New York"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`
	_, m := harness.Post(t, url, ratified, "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name",
		"get_weather")
	if harness.At(m, "result", "resultType") != "input_required" || harness.At(m, "result", "_meta") == nil {
		t.Errorf("a ratified request: %v", m)
	}
	for name, test := range map[string]struct{ body, want string }{
		"not this server's": {`{"jsonrpc":"2.0","id":1,"method":"tools/call","requestState":"a",` +
			`"params":{"name":"get_weather"}}`, "Invalid or expired requestState"},
		"no version": {`{"id":1,"method":"tools/call","params":{"name":"get_weather"}}`, `"jsonrpc" must be "2.0"`},
		"no answers at all": {`{"jsonrpc":"2.0","id":1,"method":"tools/call","inputResponses":[],` +
			`"params":{"name":"get_weather"}}`, "inputResponses"},
	} {
		status, m := harness.Post(t, url, test.body)
		message, _ := harness.At(m, "error", "message").(string)
		if status != 400 || !strings.Contains(message, test.want) {
			t.Errorf("%s: status %d, %v", name, status, m)
		}
	}
	// An answer to a task is acknowledged only by a server with tasks.
	bare := httptest.NewServer(harness.NewServer(t, nil).HTTPHandler(&askback.HTTPOptions{Drafts: true}))
	defer bare.Close()
	const answer = `{"jsonrpc":"2.0","id":4,"result":{"action":"accept",` +
		`"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}}}}`
	for _, accept := range []string{"application/json", "application/json, text/event-stream"} {
		if status, m := harness.Post(t, bare.URL, answer, "Accept", accept); status != 400 || m["error"] == nil {
			t.Errorf("an answer where there are no tasks, %s: status %d, %v", accept, status, m)
		}
	}
	// Capabilities that a client declares are respected.
	const none = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_weather",` +
		`"arguments":{"location":"New York"},"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}}`
	if _, m := harness.Post(t, url, none); harness.At(m, "error", "code") != -32021.0 {
		t.Errorf("without capabilities: %v", m)
	}
}

// The routing headers of a draft's request may be absent. Those that are present must agree
// with the body, because an intermediary may have let the request pass for them.
func TestRoutingHeadersOfADraftMatch(t *testing.T) {
	t.Parallel()
	deleted := 0
	url := newDraftServer(t, harness.NewRing(t), true, func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "delete_everything", InputSchema: map[string]any{"type": "object",
			"properties": map[string]any{
				"region": map[string]any{"type": "string", "x-mcp-header": "Region"},
			}}}, func(context.Context, *askback.Call, map[string]any) (string, error) {
			deleted++
			return "deleted", nil
		})
	})
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_everything",` +
		`"arguments":{"region":"eu"}}}`
	for name, test := range map[string]struct {
		header  []string
		refused bool
	}{
		"none": {nil, false},
		"all match": {[]string{"Mcp-Method", "tools/call", "Mcp-Name", "delete_everything", "Mcp-Param-Region",
			"eu"}, false},
		"another name":        {[]string{"Mcp-Name", "harmless"}, true},
		"another method":      {[]string{"Mcp-Method", "tools/list"}, true},
		"another parameter":   {[]string{"Mcp-Param-Region", "us"}, true},
		"a parameter of none": {[]string{"Mcp-Param-Planet", "mars"}, false},
	} {
		for _, query := range []string{"?draft=mrtr-1", ""} {
			deleted = 0
			status, m := harness.Post(t, url+query, call, test.header...)
			if refused := status == 400 && harness.At(m, "error", "code") == -32020.0; refused != test.refused ||
				(deleted == 0) != test.refused {
				t.Errorf("%s%s: status %d, deleted %d times: %v", name, query, status, deleted, m)
			}
		}
	}
}

// Without the option nothing of the drafts is accepted or sent.
func TestDraftsAreOffUnlessEnabled(t *testing.T) {
	t.Parallel()
	ring := harness.NewRing(t)
	off, on := newDraftServer(t, ring, false), newDraftServer(t, ring, true)
	_, asked := harness.Post(t, on, callWeather)
	state := harness.Quote(harness.At(asked, "result", "requestState").(string))
	_, dependent := harness.Post(t, on+"?draft=state-1", callWeather)
	shared := harness.Quote(harness.At(dependent, "dependent_requests", "state").(string))

	// No request of a draft is accepted.
	for _, query := range []string{"", "?draft=mrtr-1", "?draft=mrtr-2", "?draft=tasks-1", "?draft=tasks-2",
		"?draft=state-1", "?draft=state-2", "?draft=state"} {
		for name, body := range map[string]string{
			"a first round": callWeather,
			"beside params": `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_weather",` +
				`"arguments":{"location":"New York"}},"inputResponses":{"github_login":` + loginAnswer + `},"requestState":` +
				state + `}`,
			"dependent": `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_weather",` +
				`"arguments":{"location":"New York"}},"dependent_responses":{"state":` + shared + `,"responses":[{"result":` +
				loginAnswer + `}]}}`,
			"a task": `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","task":{"ttl":60000}}}`,
			"an answer": `{"jsonrpc":"2.0","id":4,"result":{"action":"accept",` +
				`"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}}}}`,
			"an echo": `{"jsonrpc":"2.0","id":4,"state":` + shared + `,"result":{"action":"accept"}}`,
		} {
			status, m := harness.Post(t, off+query, body)
			if status == 200 && m["error"] == nil || m["text"] != nil && status < 400 {
				t.Errorf("%s%s: %v", name, query, m)
			}
		}
	}
	// In a ratified request members of drafts are ignored, and the response has the ratified form.
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	headers := []string{"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "get_weather"}
	for name, members := range map[string][2]string{
		"wrapped":       {`,"inputResponses":{"github_login":{"result":` + loginAnswer + `}},"requestState":` + state, ``},
		"beside params": {``, `,"inputResponses":{"github_login":` + loginAnswer + `},"requestState":` + state},
		"dependent":     {``, `,"dependent_responses":{"state":` + shared + `,"responses":[{"result":` + loginAnswer + `}]}`},
		"state":         {``, `,"state":` + state},
	} {
		for _, query := range []string{"", "?draft=state-1"} {
			_, m := harness.Post(t, off+query,
				`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_weather","arguments":{"location":"New `+
					`York"}`+members[0]+`,`+meta+`}`+members[1]+`}`, headers...)
			if harness.At(m, "result", "resultType") != "input_required" ||
				harness.At(m, "result", "inputRequests", "github_login") == nil || m["dependent_requests"] != nil {
				t.Errorf("%s%s: %v", name, query, m)
			}
		}
	}
	// The server's requests in a session carry no state. With drafts on they carry one only if the
	// client asks for it, because some clients refuse unknown members, and the call would wait forever.
	for _, url := range []string{off, off + "?draft=state", on} {
		c := newSession(t, url, url)
		c.call("get_weather", `{"location":"New York"}`)
		if q := c.event(); q["method"] != "elicitation/create" || q["state"] != nil ||
			strings.Contains(c.last, "askback-mcp/state") {
			t.Errorf("a question in a session: %s", c.last)
		}
	}
}

// Prompts, resources and handlers in the SDK's manual style work in the same way.
func TestDraftsOfEverythingThatAsks(t *testing.T) {
	t.Parallel()
	type name struct {
		Name string `json:"name"`
	}
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	srv, err := askback.New(m, &askback.Options{Keys: harness.NewRing(t), Logger: slog.New(slog.DiscardHandler)})
	expect.Check(t, err)
	m.AddTool(&mcp.Tool{Name: "manual", InputSchema: map[string]any{"type": "object"}},
		func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			if answer, ok := req.Params.InputResponses["name"].(*mcp.ElicitResult); ok && req.Params.RequestState == "mine" {
				return harness.Text("hello " + answer.Content["name"].(string)), nil
			}
			return &mcp.CallToolResult{RequestState: "mine", InputRequests: mcp.InputRequestMap{"name": &mcp.ElicitParams{
				Message: "Who?", RequestedSchema: map[string]any{"type": "object",
					"properties": map[string]any{"name": map[string]any{"type": "string"}}},
			}}}, nil
		})
	srv.AddPrompt(&mcp.Prompt{Name: "greeting"}, func(ctx context.Context, call *askback.Call,
		_ map[string]string) (*mcp.GetPromptResult, error) {
		n, err := askback.Elicit[name](call, "name", "Who?")
		return &mcp.GetPromptResult{Description: "hello " + n.Name, Messages: []*mcp.PromptMessage{}}, err
	})
	srv.AddResource(&mcp.Resource{URI: "file:///greeting", Name: "greeting"}, func(ctx context.Context, call *askback.Call,
		_ string) (*mcp.ReadResourceResult, error) {
		n, err := askback.Elicit[name](call, "name", "Who?")
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: "file:///greeting", Text: "hello " + n.Name}}},
			err
	})
	ts := httptest.NewServer(srv.HTTPHandler(&askback.HTTPOptions{Drafts: true}))
	defer ts.Close()
	// No server of ours asks for a tool that the SDK serves by itself in a session, so no echo belongs to it.
	m.AddTool(&mcp.Tool{Name: "plain", InputSchema: map[string]any{"type": "object"}},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return harness.Text("hello"), nil
		})
	echo := base64.RawURLEncoding.EncodeToString([]byte(`{"s":"","k":["name"],"c":{"i":9,"m":"tools/call",` +
		`"p":{"name":"plain"},"o":{}}}`))
	_, plain := harness.Post(t, ts.URL,
		`{"jsonrpc":"2.0","id":1,"state":`+harness.Quote(echo)+`,"result":`+named("octocat")+`}`)
	if harness.At(plain, "error", "message") != harness.StateRefused {
		t.Errorf("an echo to a tool of the SDK: %v", plain)
	}
	for _, form := range []string{"mrtr-1", "state-1"} {
		for _, request := range []string{
			`"method":"tools/call","params":{"name":"manual","arguments":{}`,
			`"method":"prompts/get","params":{"name":"greeting"`,
			`"method":"resources/read","params":{"uri":"file:///greeting"`,
		} {
			url, head := ts.URL+"?draft="+form, `{"jsonrpc":"2.0","id":"x",`+request
			_, asked := harness.Post(t, url, head+`}}`)
			retry := ""
			if form == "state-1" {
				retry = `},"dependent_responses":{"state":` + harness.Quote(fmt.Sprint(harness.At(asked, "dependent_requests",
					"state"))) + `,"responses":[{"result":` + named("octocat") + `}]}}`
			} else {
				retry = `,"inputResponses":{"name":{"result":` + named("octocat") + `}},"requestState":` +
					harness.Quote(fmt.Sprint(harness.At(asked, "result", "requestState"))) + `}}`
			}
			_, answered := harness.Post(t, url, head+retry)
			if data, _ := json.Marshal(answered["result"]); !strings.Contains(string(data), "hello octocat") ||
				strings.Contains(string(data), "resultType") {
				t.Errorf("%s %s: %v, then %v", form, request, asked, answered)
			}
		}
	}
}

// The client of a draft gets the handler's progress.
func TestDraftsStreamProgress(t *testing.T) {
	t.Parallel()
	url := newDraftServer(t, harness.NewRing(t), true, func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "slow"}, func(ctx context.Context, call *askback.Call,
			in struct{}) (string, error) {
			if err := call.Progress(ctx, 1, 2, "half"); err != nil {
				return "", err
			}
			_, err := askback.Roots(call, "roots")
			return "done", err
		})
	})
	res := harness.Open(t, url+"?draft=state-1",
		`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"slow","_meta":{"progressToken":"p"}}}`)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(res.Header, err)
	}
	events := strings.Split(strings.TrimSpace(string(data)), "\n\n")
	if len(events) != 2 || !strings.Contains(events[0], `"progressToken":"p"`) ||
		!strings.Contains(events[1], `"dependent_requests":{"state":`) {
		t.Errorf("got %s", data)
	}
}

// For any request, the response is JSON or empty.
func FuzzDrafts(f *testing.F) {
	srv := harness.NewServer(f, &askback.Options{Tasks: &askback.Tasks{Store: new(task.MemoryStore)}}, addWeather,
		harness.AddEcho, addBoth)
	handler := srv.HTTPHandler(&askback.HTTPOptions{Drafts: true})
	for _, query := range []string{"", "mrtr-1", "tasks-1", "tasks-2", "state-1", "state-2"} {
		f.Add(query, callWeather)
		f.Add(query, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"both"},`+
			`"dependent_responses":{"state":"eyJzIjoieCIsImsiOlsiYSJdfQ","responses":[{"result":{}}]}}`)
		f.Add(query, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"both"},`+
			`"inputResponses":{"a":{"result":{}}},"requestState":"x"}`)
		f.Add(query, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","task":{"ttl":1}}}`)
		f.Add(query, `{"jsonrpc":"2.0","id":3,"method":"tasks/result","params":{"taskId":"x"}}`)
		f.Add(query, `{"jsonrpc":"2.0","id":3,"result":{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}}}}`)
		f.Add(query, `{"jsonrpc":"2.0","id":3,`+
			`"state":"eyJzIjoieCIsImsiOlsiYSJdLCJjIjp7ImkiOjEsIm0iOiJ0b29scy9jYWxsIiwicCI6eyJuYW1lIjoiYm90aCJ9fX0","result":{}}`)
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

// In the drafts' own forms the members around a sealed state are not sealed. Changing them, or
// using another caller's, gains nothing: the state is bound to the call and its caller.
func TestAStateOfADraftIsForItsCallAndCaller(t *testing.T) {
	t.Parallel()
	ring := harness.NewRing(t)
	serve := func(caller string) string {
		srv := harness.NewServer(t, &askback.Options{Keys: ring, Principal: func(context.Context, *mcp.RequestExtra) (string,
			error) {
			return caller, nil
		}}, addWeather)
		ts := httptest.NewServer(srv.HTTPHandler(&askback.HTTPOptions{Drafts: true}))
		t.Cleanup(func() { ts.CloseClientConnections(); ts.Close() })
		return ts.URL
	}
	alice, other, bob := serve("alice"), serve("alice"), serve("bob")
	c := newSession(t, alice+"?draft=state", other)
	c.call("get_weather", `{"location":"New York"}`)
	q := c.event()
	echo := q["state"].(string)
	_, asked := harness.Post(t, alice+"?draft=state-1", callWeather)
	shared := harness.At(asked, "dependent_requests", "state").(string)
	const head = `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"get_weather",` +
		`"arguments":{"location":"New York"}},"dependent_responses":{"state":`
	for name, send := range map[string]func(url, state string) (int, map[string]any){
		"in a session": func(url, state string) (int, map[string]any) {
			return harness.Post(t, url,
				`{"jsonrpc":"2.0","id":1,"state":`+harness.Quote(state)+`,"result":`+named("octocat")+`}`)
		},
		"of dependent requests": func(url, state string) (int, map[string]any) {
			return harness.Post(t, url, head+harness.Quote(state)+`,"responses":[{"result":`+named("octocat")+`}]}}`)
		},
	} {
		state := map[string]string{"in a session": echo, "of dependent requests": shared}[name]
		if status, m := send(bob, state); status != 400 ||
			harness.At(m, "error", "message") != "Invalid or expired requestState" {
			t.Errorf("%s, another's: status %d, %v", name, status, m)
		}
		data, err := base64.RawURLEncoding.DecodeString(state)
		expect.Check(t, err)
		for i := range data {
			data[i] ^= 1 << (i % 8)
			status, m := send(other, base64.RawURLEncoding.EncodeToString(data))
			data[i] ^= 1 << (i % 8)
			if m == nil || m["text"] != nil || status != 200 && status != 400 {
				t.Errorf("%s, byte %d: status %d, %v", name, i, status, m)
			}
			if said, ok := harness.At(m, "result", "content", 0, "text").(string); ok && said != weatherText {
				t.Errorf("%s, byte %d: %s", name, i, said)
			}
		}
		for what, bad := range map[string]string{
			"deep": base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat(`{"c":`, 10_000) + "1" + strings.Repeat("}",
				10_000))),
			"large": strings.Repeat("A", 3<<20),
		} {
			if status, m := send(other, bad); status != 400 ||
				harness.At(m, "error", "message") != "Invalid or expired requestState" {
				t.Errorf("%s, %s: status %d, %.200v", name, what, status, m)
			}
		}
		if status, _ := send(other, strings.Repeat("A", 10<<20)); status != 413 {
			t.Errorf("%s, 10 MB: status %d", name, status)
		}
		if _, m := send(other, state); harness.At(m, "result", "content", 0, "text") != weatherText {
			t.Errorf("%s, as it was: %v", name, m)
		}
	}
}
