package client_test

import (
	"context"
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
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

type person struct {
	Zip  string `json:"zip"`
	Name string `json:"name"`
	Age  int64  `json:"age,omitempty" default:"42"`
}

// register adds what the tests call: a tool that asks everything in several rounds, one
// that only asks, a prompt and a resource.
func register(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "everything"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
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
			return greeting(call, who, roots)
		})
	ask := func(ctx context.Context, call *askback.Call) (string, error) {
		who, err := askback.Elicit[person](call, "who", "Who are you?")
		return who.Name, err
	}
	askback.AddTool(srv, &mcp.Tool{Name: "ask"},
		func(ctx context.Context, call *askback.Call, in map[string]any) (string, error) {
			name, err := ask(ctx, call)
			return "Hello " + name, err
		})
	srv.AddPrompt(&mcp.Prompt{Name: "prompt"},
		func(ctx context.Context, call *askback.Call, args map[string]string) (*mcp.GetPromptResult, error) {
			name, err := ask(ctx, call)
			return &mcp.GetPromptResult{Description: args["greeting"] + name}, err
		})
	srv.AddResourceTemplate(&mcp.ResourceTemplate{Name: "resource", URITemplate: "doc://{+id}"},
		func(ctx context.Context, call *askback.Call, uri string) (*mcp.ReadResourceResult, error) {
			name, err := ask(ctx, call)
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{Text: uri + name}}}, err
		})
}

// greeting asks the model for a greeting, and returns it with what was answered before.
func greeting(call *askback.Call, who person, roots []*mcp.Root) (string, error) {
	model, err := askback.Sample(call, "model", &mcp.CreateMessageWithToolsParams{
		MaxTokens: 10,
		Messages: []*mcp.SamplingMessageV2{
			{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "Hi " + who.Name}}}},
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprint(who, roots[0].URI, model.Content[0].(*mcp.TextContent).Text), nil
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

func newServer(t *testing.T, opts askback.Options) *askback.Server {
	t.Helper()
	opts.Logger = slog.New(slog.DiscardHandler)
	srv := expect.Must(askback.New(mcp.NewServer(&mcp.Implementation{Name: "the server", Version: "1.0.0"}, nil),
		&opts))(t)
	register(srv)
	return srv
}

// answers returns options that answer every kind of question.
func answers() client.Options {
	return client.Options{
		Form: filling(map[string]any{"name": "octocat", "zip": "0150"}),
		URL: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			if q.URL != "https://example.com/in" {
				return nil, errors.New("wrong page")
			}
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
		Sample: func(_ context.Context, q *client.Question,
			p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
			return &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m",
				Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil
		},
		Roots:  func(context.Context) ([]*mcp.Root, error) { return []*mcp.Root{{URI: "file:///src"}}, nil },
		Limits: client.Limits{FirstPause: time.Millisecond, MaxPause: time.Millisecond},
	}
}

func park(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
	return nil, client.ErrPark
}

// parked returns the call that a handler parked.
func parked(err error) (*client.Pending, bool) {
	pending, ok := errors.AsType[*client.PendingError](err)
	if !ok || !errors.Is(err, client.ErrPark) {
		return nil, false
	}
	return pending.Pending, true
}

// waitEnded returns the error of a call whose waiting ended before its task did, without being
// parked.
func waitEnded(err error) (*client.PendingError, bool) {
	pending, ok := errors.AsType[*client.PendingError](err)
	return pending, ok && pending.Pending.TaskID != "" && !errors.Is(err, client.ErrPark)
}

func connect(t *testing.T, opts client.Options, transport mcp.Transport, version string) *client.Session {
	t.Helper()
	session := expect.Must(client.New(&opts).Connect(t.Context(), transport,
		&mcp.ClientSessionOptions{ProtocolVersion: version}))(t)
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
	expect.Must(srv.Connect(t.Context(), there, nil))(t)
	return here
}

type message struct {
	ID     json.RawMessage            `json:"id"`
	Method string                     `json:"method"`
	Params map[string]json.RawMessage `json:"params"`
	Result map[string]json.RawMessage `json:"result"`
}

// wireServer serves what answer writes for each message, except for discovery.
func wireServer(
	t *testing.T, answer func(w http.ResponseWriter, r *http.Request, m message),
) *mcp.StreamableClientTransport {
	t.Helper()
	s := harness.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		if body, _ := io.ReadAll(r.Body); len(body) > 0 {
			if err := json.Unmarshal(body, &m); err != nil {
				t.Error(err)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		switch {
		case m.Method == "server/discover":
			respond(w, m, discovered)
		case m.Method == "initialize":
			respond(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`)
		default:
			answer(w, r, m)
		}
	}))
	return &mcp.StreamableClientTransport{Endpoint: s.URL}
}

func respond(w io.Writer, m message, result string) {
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// respondOn sends a result on a stream.
func respondOn(w io.Writer, m message, result string) {
	fmt.Fprint(w, "data: ")
	respond(w, m, result)
	fmt.Fprint(w, "\n\n")
}

// script answers each tools/call with the next result, and records all requests.
type script struct {
	mu   sync.Mutex
	sent []message
}

func (s *script) serve(t *testing.T, results ...string) *mcp.StreamableClientTransport {
	return wireServer(t, func(w http.ResponseWriter, _ *http.Request, m message) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent = append(s.sent, m)
		n := 0
		for _, was := range s.sent {
			if was.Method == "tools/call" {
				n++
			}
		}
		if m.Method == "tools/list" {
			respond(w, m, `{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private"}`)
			return
		}
		respond(w, m, results[min(n, len(results))-1])
	})
}

func (s *script) all() []message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

func isLimit(name string) func(error) bool {
	return func(err error) bool {
		l, ok := errors.AsType[*client.LimitError](err)
		return ok && l.Limit == name
	}
}

func isUndeclared(kind string) func(error) bool {
	return func(err error) bool {
		u, ok := errors.AsType[*client.UndeclaredError](err)
		return ok && u.Kind == kind
	}
}

func isProtocol(err error) bool {
	_, ok := errors.AsType[*client.ProtocolError](err)
	return ok
}

const formQuestion = `{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object",` +
	`"properties":{}}}}`

const discovered = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},` +
	`"ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"hostile","version":"1"}}}`

// tasks is a scripted server with one task. The function under a method's name returns the answers to
// that method. It gets the number of such requests so far, from 1.
type tasks struct {
	t  *testing.T
	on map[string]func(n int, m message) string // a result, or an error beginning with "error "

	mu       sync.Mutex
	requests []message
	headers  []http.Header
}

func serveTasks(t *testing.T, on map[string]func(n int, m message) string) *tasks {
	return &tasks{t: t, on: on}
}

func (s *tasks) transport() *mcp.StreamableClientTransport {
	return wireServer(s.t, s.answer)
}

func (s *tasks) answer(w http.ResponseWriter, r *http.Request, m message) {
	s.mu.Lock()
	s.requests, s.headers = append(s.requests, m), append(s.headers, r.Header)
	n := 0
	for _, was := range s.requests {
		if was.Method == m.Method {
			n++
		}
	}
	on := s.on[m.Method]
	s.mu.Unlock()
	switch {
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case on == nil:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no %s"}}`, m.ID, m.Method)
	default:
		result := on(n, m)
		if fault, ok := strings.CutPrefix(result, "error "); ok {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":%s}`, m.ID, fault)
		} else if code, ok := strings.CutPrefix(result, "status "); ok {
			w.Header().Set("Content-Type", "text/html")
			var status int
			fmt.Sscan(code, &status)
			w.WriteHeader(status)
			fmt.Fprint(w, "<p>oops</p>")
		} else {
			respond(w, m, result)
		}
	}
}

// now sets the answers from now on.
func (s *tasks) now(method string, answer func(int, message) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on[method] = answer
}

// sent returns the requests of a method.
func (s *tasks) sent(method string) (params []string, headers []http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.requests {
		if m.Method == method {
			delete(m.Params, "_meta")
			data, _ := json.Marshal(m.Params)
			params, headers = append(params, string(data)), append(headers, s.headers[i])
		}
	}
	return params, headers
}

func (s *tasks) methods() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var methods []string
	for _, m := range s.requests {
		if m.ID != nil {
			methods = append(methods, m.Method)
		}
	}
	return methods
}

func always(result string) func(int, message) string {
	return func(int, message) string { return result }
}

// inTurn returns one result after the other, and then repeats the last one.
func inTurn(results ...string) func(int, message) string {
	return func(n int, _ message) string { return results[min(n, len(results))-1] }
}

const (
	oddID   = "tâche/1"
	oddName = "=?base64?dMOiY2hlLzE=?="
	times   = `"createdAt":"2026-11-20T10:30:00.5Z","lastUpdatedAt":"2026-11-20T10:40:00Z"`
	askWho  = `"inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who?",` +
		`"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}}`
	done = `{"content":[{"type":"text","text":"done"}],"n":12345678901234567890}`
)

// flat returns a task in the form of the extension.
func flat(status, more string) string {
	return fmt.Sprintf(`{"resultType":"complete","taskId":%q,"status":%q,%s,"ttlMs":60000,"pollIntervalMs":1%s}`, oddID,
		status, times, more)
}

func created(status, message string) string {
	return fmt.Sprintf(`{"resultType":"task","taskId":%q,"status":%q,"statusMessage":%q,%s,"ttlMs":null,`+
		`"pollIntervalMs":1}`, oddID, status, message, times)
}

// draft returns a task in the form of the proposals' dialect.
func draft(status string) string {
	return fmt.Sprintf(
		`{"taskId":%q,"status":%q,"statusMessage":"it is %[2]s","createdAt":"2026-01-27T03:32:48.3148180Z","ttl":60000,`+
			`"pollInterval":1}`, oddID, status)
}

// patient returns options of a client that answers and has short pauses.
func patient() client.Options {
	opts := answers()
	opts.Limits.MinPoll = time.Millisecond
	opts.Form = filling(map[string]any{"name": "octocat"})
	return opts
}

func observed(opts *client.Options) *[]string {
	var seen []string
	opts.OnRound = func(_ context.Context, r *client.Round) error {
		line := fmt.Sprint(r.Number, " ", r.Method)
		if r.Task != nil {
			line += fmt.Sprintf(" %s %q", r.Task.Status, r.Task.Message)
		}
		for _, q := range r.Questions {
			line += " asks " + q.Key
		}
		if len(r.Answers) > 0 {
			line += fmt.Sprintf(" answers %d", len(r.Answers))
		}
		if r.Final {
			line += " final " + string(r.Result)
		}
		seen = append(seen, line)
		return nil
	}
	return &seen
}

// called calls a tool without arguments.
func called(t *testing.T, s *client.Session, tool string) (*mcp.CallToolResult, error) {
	t.Helper()
	return s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
}

// ends requires that a call of the scripted tool is done in time.
func ends(t *testing.T, s *client.Session) {
	t.Helper()
	res := expect.Must(s.CallTool(harness.InTime(t), &mcp.CallToolParams{Name: "t"}))(t)
	expect.Equal(t, "the result", textOf(res), "done")
}

// start calls a tool as a task.
func start(t *testing.T, s *client.Session, tool string, ttl time.Duration) *client.Task {
	t.Helper()
	started, _, err := s.StartTask(t.Context(), &mcp.CallToolParams{Name: tool}, ttl)
	expect.Check(t, err)
	return started
}

// textOf returns the first text of a tool's result.
func textOf(result any) string {
	return result.(*mcp.CallToolResult).Content[0].(*mcp.TextContent).Text
}

// acting answers every form with an action.
func acting(action string) func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
	return func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: action}, nil
	}
}

// filling accepts every form with this content.
func filling(content map[string]any) func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
	return func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: content}, nil
	}
}

// counted counts the forms that are asked.
func counted(opts *client.Options) (asked *int) {
	form := opts.Form
	asked = new(int)
	opts.Form = func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		*asked++
		return form(ctx, q)
	}
	return asked
}

// parkedBy returns the call that ended with an error because a handler parked it.
func parkedBy(t *testing.T, err error) *client.Pending {
	t.Helper()
	pending, ok := parked(err)
	if !ok {
		t.Fatalf("no call is parked: %v", err)
	}
	return pending
}

// said returns the first text of a result.
func said(t *testing.T, res *mcp.CallToolResult, err error) string {
	t.Helper()
	expect.Check(t, err)
	return textOf(res)
}

func stored(t *testing.T, p *client.Pending) *client.Pending {
	t.Helper()
	data := expect.Must(json.Marshal(p))(t)
	loaded := new(client.Pending)
	expect.Check(t, json.Unmarshal(data, loaded))
	return loaded
}

// newTaskServer returns an Askback server with tasks.
func newTaskServer(t *testing.T) *askback.Server {
	t.Helper()
	srv := expect.Must(askback.New(mcp.NewServer(&mcp.Implementation{Name: "the server", Version: "1.0.0"}, nil),
		&askback.Options{
			Tasks: &askback.Tasks{Store: new(task.MemoryStore), ListAnonymous: true,
				Settings: task.Settings{PollInterval: 20 * time.Millisecond}},
			Logger: slog.New(slog.DiscardHandler),
		}))(t)
	registerTasks(srv)
	harness.RunTasks(t, srv)
	return srv
}

func registerTasks(srv *askback.Server) {
	ask := func(ctx context.Context, call *askback.Call, detach bool) (string, error) {
		who, err1 := askback.Elicit[person](call, "who", "Who are you?")
		roots, err2 := askback.Roots(call, "roots")
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		if detach {
			if err := call.Detach(); err != nil {
				return "", err
			}
		}
		if err := call.Progress(ctx, 1, 2, "halfway"); err != nil {
			return "", err
		}
		return greeting(call, who, roots)
	}
	for name, support := range map[string]*askback.TaskSupport{
		"work": nil, "detach": {AtDetach: true}, "only": {Required: true},
	} {
		askback.AddTaskTool(srv, &mcp.Tool{Name: name}, support,
			func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
				return ask(ctx, call, name == "detach")
			})
	}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "fails"}, nil,
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			return nil, errors.New("no luck")
		})
	askback.AddTaskTool(srv, &mcp.Tool{Name: "greet"}, nil,
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			who, err := askback.Elicit[struct {
				Name string `json:"name"`
			}](call, "name", "What is your name?")
			return "Hello " + who.Name, err
		})
	askback.AddTaskTool(srv, &mcp.Tool{Name: "long"}, nil,
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
}

const worked = "{0150 octocat 42}file:///srchello"

// legacyServer serves a session of 2025-11-25 with tasks, and a tool with that taskSupport. It asks
// over the stream of tasks/result. Like some servers, it fails a call that contradicts the tool's
// taskSupport.
func legacyServer(t *testing.T, caps, support string) *mcp.StreamableClientTransport {
	answered := make(chan message, 1)
	var mu sync.Mutex
	status := "input_required"
	s := harness.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		expect.Equal(t, "Mcp-Name in a session: "+m.Method, r.Header.Get("Mcp-Name"), "")
		mu.Lock()
		defer mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		fault := func(code int) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"not so"}}`, m.ID, code)
		}
		switch {
		case m.Method == "initialize":
			if strings.Contains(string(m.Params["capabilities"]), "io.modelcontextprotocol/tasks") {
				t.Errorf("declares an extension: %s", m.Params["capabilities"])
			}
			respond(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}`+caps+`},"serverInfo":{"name":"s",`+
				`"version":"1"}}`)
		case m.Method == "tools/list" && m.Params["cursor"] == nil:
			respond(w, m, `{"tools":[{"name":"u","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}],`+
				`"nextCursor":"more"}`)
		case m.Method == "tools/list":
			respond(w, m, `{"tools":[{"name":"t","inputSchema":{"type":"object"}`+support+`}]}`)
		case m.Method == "tools/call" && m.Params["task"] == nil && support == required:
			t.Error("called without a task")
			respond(w, m, `{"content":[{"type":"text","text":"MCP error -32601: task augmentation required"}],"isError":true}`)
		case m.Method == "tools/call" && m.Params["task"] != nil &&
			(caps == "" || support != required && support != optional):
			t.Error("called as a task")
			fault(-32602)
		case m.Method == "tools/call" && m.Params["task"] == nil:
			respond(w, m, `{"content":[{"type":"text","text":"at once"}]}`)
		case m.Method == "tools/call":
			respond(w, m, `{"task":`+draft("working")+`}`)
		case m.Method == "tasks/get":
			respond(w, m, draft(status))
		case m.Method == "tasks/result":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Who?",`+
				`"requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}},`+
				`"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}}}`+"\n\n", oddID)
			w.(http.Flusher).Flush()
			mu.Unlock()
			var got message
			select {
			case got = <-answered:
			case <-r.Context().Done():
			}
			mu.Lock()
			if got.ID == nil {
				return
			}
			status = "completed"
			respondOn(w, m, done)
		case m.Method == "tasks/list" && m.Params["cursor"] == nil:
			respond(w, m, `{"tasks":[`+draft(status)+`],"nextCursor":"2"}`)
		case m.Method == "tasks/list":
			respond(w, m, `{"tasks":[]}`)
		case m.Method == "tasks/cancel":
			status = "cancelled"
			respond(w, m, draft(status))
		case m.Method == "" && m.ID != nil:
			if got, want := string(m.Result["_meta"]), fmt.Sprintf(`{"io.modelcontextprotocol/related-task":{"taskId":%q}}`,
				oddID); got != want {
				t.Errorf("the answer to a task has _meta %s, want %s", got, want)
			}
			expect.Equal(t, "the answer has content", string(m.Result["content"]), `{"name":"octocat"}`)
			answered <- m
			w.WriteHeader(http.StatusAccepted)
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		default:
			fault(-32601)
		}
	}))
	return &mcp.StreamableClientTransport{Endpoint: s.URL}
}

const (
	tasksCapability = `,"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
	required        = `,"execution":{"taskSupport":"required"}`
	optional        = `,"execution":{"taskSupport":"optional"}`
	forbidden       = `,"execution":{"taskSupport":"forbidden"}`
)
