package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
)

// tasks is a scripted server with one task. What it answers to a method is said by the
// function of that name, which gets the number of such requests so far, from 1.
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
	s.mu.Unlock()
	s.mu.Lock()
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

// now says what is answered from now on.
func (s *tasks) now(method string, answer func(int, message) string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on[method] = answer
}

// sent are the requests of a method.
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

// inTurn gives one result after the other, the last one for ever.
func inTurn(results ...string) func(int, message) string {
	return func(n int, _ message) string { return results[min(n, len(results))-1] }
}

const (
	oddID   = "tâche/1"
	oddName = "=?base64?dMOiY2hlLzE=?="
	times   = `"createdAt":"2026-11-20T10:30:00.5Z","lastUpdatedAt":"2026-11-20T10:40:00Z"`
	askWho  = `"inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}}`
	done    = `{"content":[{"type":"text","text":"done"}],"n":12345678901234567890}`
)

// flat is a task of the extension.
func flat(status, more string) string {
	return fmt.Sprintf(`{"resultType":"complete","taskId":%q,"status":%q,%s,"ttlMs":60000,"pollIntervalMs":1%s}`, oddID, status, times, more)
}

func created(status, message string) string {
	return fmt.Sprintf(`{"resultType":"task","taskId":%q,"status":%q,"statusMessage":%q,%s,"ttlMs":null,"pollIntervalMs":1}`, oddID, status, message, times)
}

// draft is a task of the seeds' dialect.
func draft(status string) string {
	return fmt.Sprintf(`{"taskId":%q,"status":%q,"statusMessage":"it is %[2]s","createdAt":"2026-01-27T03:32:48.3148180Z","ttl":60000,"pollInterval":1}`, oddID, status)
}

// patient are options of a client that answers, and does not wait for long.
func patient() client.Options {
	opts := answers()
	opts.Limits.MinPoll = time.Millisecond
	opts.Form = func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "octocat"}}, nil
	}
	return opts
}

func observed(opts *client.Options) *[]string {
	var seen []string
	opts.Observe = func(_ context.Context, r *client.Round) error {
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

// said is the first text of a result.
func said(t *testing.T, res *mcp.CallToolResult, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return res.Content[0].(*mcp.TextContent).Text
}

func TestTaskOfTheExtension(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(created("working", "in progress")),
		"tasks/get": inTurn(flat("working", `,"statusMessage":"in progress"`), flat("working", `,"statusMessage":"halfway"`), flat("input_required", ","+askWho), // then not taken yet:
			flat("input_required", ","+askWho), flat("working", ""), flat("working", ""), strings.Replace(flat("completed", `,"result":`+done), "complete", "task", 1)),
		"tasks/update": always(`{"resultType":"complete"}`),
	})
	opts := patient()
	seen := observed(&opts)
	asked := 0
	form := opts.Form
	opts.Form = func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		asked++
		if q.Server == nil || q.Server.Name != "hostile" {
			t.Errorf("it is not clear who asks: %v", q.Server)
		}
		return form(ctx, q)
	}
	session := connect(t, opts, srv.transport(), "")
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
	if got := said(t, res, err); got != "done" || asked != 1 {
		t.Errorf("got %q, asked %d times", got, asked)
	}
	want := []string{
		`1 tools/call working "in progress"`,
		`1 tasks/get working "halfway"`,
		`2 tasks/get input_required "" asks who`,
		`2 tasks/update input_required "" answers 1`,
		`2 tasks/get working ""`,
		`2 tasks/get completed "" final ` + done,
	}
	if diff := cmp.Diff(want, *seen); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
	if sent, _ := srv.sent("tasks/update"); len(sent) != 1 || sent[0] != `{"inputResponses":{"who":{"action":"accept","content":{"name":"octocat"}}},"taskId":"tâche/1"}` {
		t.Errorf("update: %s", sent)
	}
	for _, method := range []string{"tasks/get", "tasks/update"} {
		if _, headers := srv.sent(method); headers[0].Get("Mcp-Method") != method || headers[0].Get("Mcp-Name") != oddName || headers[0].Get("Mcp-Protocol-Version") != "2026-07-28" {
			t.Errorf("%s: headers %v", method, headers[0])
		}
	}
	if got := srv.methods(); slices.Contains(got, "tasks/cancel") || slices.Contains(got, "tasks/result") {
		t.Errorf("sent %v", got)
	}
}

// What the client can do is said with every request.
func TestExtensionIsDeclared(t *testing.T) {
	for dialect, want := range map[client.TaskDialect]bool{client.TasksAuto: true, client.TasksExtension: true, client.TasksSeeds: false, client.TasksOff: false} {
		var caps string
		opts := patient()
		opts.Tasks = dialect
		session := connect(t, opts, wireServer(t, func(w http.ResponseWriter, _ *http.Request, m message) {
			caps = string(m.Params["_meta"])
			respond(w, m, done)
		}), "")
		if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(caps, `"extensions":{"io.modelcontextprotocol/tasks":{}}`); got != want || !strings.Contains(caps, `"elicitation":{"form":{}`) {
			t.Errorf("%q declares %s", dialect, caps)
		}
	}
	// Nor is it declared where it does not belong.
	opts := patient()
	session := connect(t, opts, wireServer(t, func(w http.ResponseWriter, _ *http.Request, m message) {
		respond(w, m, done)
	}), "2025-11-25")
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"}); err != nil {
		t.Fatal(err)
	}
	opts.Tasks = client.TasksOff
	session = connect(t, opts, serveTasks(t, map[string]func(int, message) string{"tools/call": always(created("working", ""))}).transport(), "")
	if _, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"}); !isProtocol(err) {
		t.Errorf("a task that the client does not take: %v", err)
	}
}

func TestTaskOfTheSeeds(t *testing.T) {
	var answered atomic.Int64
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": inTurn(`{"inputRequests":{"first":`+formQuestion+`},"requestState":"s1"}`, `{"task":`+draft("Working")+`}`),
		"tasks/get": func(n int, _ message) string { // it may be looked at more often than it changes
			if n == 1 {
				return draft("working")
			}
			return draft([]string{"InputRequired", "input_require", "Completed"}[answered.Load()])
		},
		"tasks/result": inTurn(`{`+askWho+`,"requestState":"s2","_meta":{}}`, `{"resultType":"input_required",`+strings.ReplaceAll(askWho, `"who"`, `"again"`)+`}`,
			done),
		"tasks/input_response": func(n int, _ message) string {
			answered.Store(int64(n))
			return `{"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"x"}}}`
		},
	})
	opts := patient()
	opts.Tasks = client.TasksSeeds
	seen := observed(&opts)
	session := connect(t, opts, srv.transport(), "")
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t", Arguments: map[string]any{"a": 1}})
	if got := said(t, res, err); got != "done" {
		t.Errorf("got %q", got)
	}
	want := []string{
		`1 tools/call asks first`,
		`2 tools/call working "it is Working" answers 1`,
		`2 tasks/get working "it is working"`,
		`2 tasks/get input_required "it is InputRequired"`,
		`3 tasks/result input_required "it is InputRequired" asks who`,
		`3 tasks/input_response input_required "it is InputRequired" answers 1`,
		`3 tasks/get input_required "it is input_require"`,
		`4 tasks/result input_required "it is input_require" asks again`,
		`4 tasks/input_response input_required "it is input_require" answers 1`,
		`4 tasks/get completed "it is Completed"`,
		`4 tasks/result completed "it is Completed" final ` + done,
	}
	if diff := cmp.Diff(want, *seen); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
	sent, _ := srv.sent("tools/call")
	if diff := cmp.Diff([]string{
		`{"arguments":{"a":1},"name":"t","task":{}}`,
		`{"arguments":{"a":1},"inputResponses":{"first":{"action":"accept","content":{}}},"name":"t","requestState":"s1","task":{}}`,
	}, sent); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	sent, headers := srv.sent("tasks/input_response")
	if diff := cmp.Diff([]string{
		`{"inputResponses":{"who":{"action":"accept","content":{"name":"octocat"}}},"requestState":"s2"}`,
		`{"inputResponses":{"again":{"action":"accept","content":{"name":"octocat"}}}}`,
	}, sent); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if headers[0].Get("Mcp-Name") != oddName {
		t.Errorf("headers %v", headers[0])
	}
	if slices.Contains(srv.methods(), "subscriptions/listen") {
		t.Error("the dialect has no subscriptions")
	}
}

// A draft's server asks again under the same key if it could do nothing with the answer.
func TestSeedsAskAgainUnderTheSameKey(t *testing.T) {
	n := 0
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(`{"task":` + draft("working") + `}`),
		"tasks/get":  always(draft("input_required")),
		"tasks/result": func(int, message) string {
			if n < 2 {
				return `{` + askWho + `}`
			}
			return done
		},
		"tasks/input_response": func(k int, _ message) string { n = k; return `{}` },
	})
	opts := patient()
	opts.Tasks = client.TasksSeeds
	asked := 0
	form := opts.Form
	opts.Form = func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		asked++
		return form(ctx, q)
	}
	res, err := connect(t, opts, srv.transport(), "").CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
	if got := said(t, res, err); got != "done" || asked != 2 {
		t.Errorf("got %q, asked %d times", got, asked)
	}
}

// legacyServer serves a session of 2025-11-25 with tasks, to a tool of that taskSupport. It
// asks over the stream of tasks/result. A call that goes against the tool's word it takes
// badly, as there are servers that do.
func legacyServer(t *testing.T, caps, support string) *mcp.StreamableClientTransport {
	answered := make(chan message, 1)
	var mu sync.Mutex
	status := "input_required"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m message
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		if r.Header.Get("Mcp-Name") != "" {
			t.Errorf("Mcp-Name in a session: %s", m.Method)
		}
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
			respond(w, m, `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}`+caps+`},"serverInfo":{"name":"s","version":"1"}}`)
		case m.Method == "tools/list" && m.Params["cursor"] == nil:
			respond(w, m, `{"tools":[{"name":"u","inputSchema":{"type":"object"},"execution":{"taskSupport":"optional"}}],"nextCursor":"more"}`)
		case m.Method == "tools/list":
			respond(w, m, `{"tools":[{"name":"t","inputSchema":{"type":"object"}`+support+`}]}`)
		case m.Method == "tools/call" && m.Params["task"] == nil && support == required:
			t.Error("called without a task")
			respond(w, m, `{"content":[{"type":"text","text":"MCP error -32601: task augmentation required"}],"isError":true}`)
		case m.Method == "tools/call" && m.Params["task"] != nil && (caps == "" || support != required && support != optional):
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
			fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}},"_meta":{"io.modelcontextprotocol/related-task":{"taskId":%q}}}}`+"\n\n", oddID)
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
			fmt.Fprint(w, "data: ")
			respond(w, m, done)
			fmt.Fprint(w, "\n\n")
		case m.Method == "tasks/list" && m.Params["cursor"] == nil:
			respond(w, m, `{"tasks":[`+draft(status)+`],"nextCursor":"2"}`)
		case m.Method == "tasks/list":
			respond(w, m, `{"tasks":[]}`)
		case m.Method == "tasks/cancel":
			status = "cancelled"
			respond(w, m, draft(status))
		case m.Method == "" && m.ID != nil:
			if got, want := string(m.Result["_meta"]), fmt.Sprintf(`{"io.modelcontextprotocol/related-task":{"taskId":%q}}`, oddID); got != want {
				t.Errorf("the answer to a task has _meta %s, want %s", got, want)
			}
			if got := string(m.Result["content"]); got != `{"name":"octocat"}` {
				t.Errorf("the answer has content %s", got)
			}
			answered <- m
			w.WriteHeader(http.StatusAccepted)
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		default:
			fault(-32601)
		}
	}))
	t.Cleanup(s.Close)
	return &mcp.StreamableClientTransport{Endpoint: s.URL}
}

const (
	tasksCapability = `,"tasks":{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}`
	required        = `,"execution":{"taskSupport":"required"}`
	optional        = `,"execution":{"taskSupport":"optional"}`
	forbidden       = `,"execution":{"taskSupport":"forbidden"}`
)

// Whether a call is a task the tool says, and where it leaves that open, the caller.
func TestTaskSupportOfASession(t *testing.T) {
	for _, c := range []struct {
		name, caps, support string
		dialect             client.TaskDialect
		call, start         string // what comes of CallTool, and of StartTask
	}{
		{"required", tasksCapability, required, client.TasksAuto, "done", "task"},
		{"optional", tasksCapability, optional, client.TasksAuto, "at once", "task"},
		{"forbidden", tasksCapability, forbidden, client.TasksAuto, "at once", "at once"},
		{"no word", tasksCapability, "", client.TasksAuto, "at once", "at once"},
		{"an odd word", tasksCapability, `,"execution":{"taskSupport":["required"]}`, client.TasksAuto, "at once", "at once"},
		{"optional, always asked for", tasksCapability, optional, client.TasksSeeds, "done", "task"},
		{"forbidden, always asked for", tasksCapability, forbidden, client.TasksSeeds, "at once", "at once"},
		{"optional, never asked for", tasksCapability, optional, client.TasksOff, "at once", "at once"},
		{"optional, of another dialect", tasksCapability, optional, client.TasksExtension, "at once", "at once"},
		{"optional, and no capability", "", optional, client.TasksSeeds, "at once", "at once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts := patient()
			opts.Tasks = c.dialect
			session := connect(t, opts, legacyServer(t, c.caps, c.support), "2025-11-25")
			started, res, err := session.StartTask(t.Context(), &mcp.CallToolParams{Name: "t"}, time.Minute)
			if started == nil && said(t, res, err) != c.start || started != nil && c.start != "task" {
				t.Errorf("started %v, %v, want %s", started, res, c.start)
			}
			res, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
			if got := said(t, res, err); got != c.call {
				t.Errorf("called: got %q, want %q", got, c.call)
			}
		})
	}
}

func TestTaskOfASession(t *testing.T) {
	t.Run("that the tool cannot do without", func(t *testing.T) {
		session := connect(t, patient(), legacyServer(t, tasksCapability, required), "2025-11-25")
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
		if got := said(t, res, err); got != "done" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("that is a result without content", func(t *testing.T) {
		opts := patient()
		opts.Tasks = client.TasksSeeds
		srv := serveTasks(t, map[string]func(int, message) string{"tools/call": always(`{"structuredContent":{"a":1}}`)})
		res, err := connect(t, opts, srv.transport(), "").CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
		if err != nil || fmt.Sprint(res.StructuredContent) != "map[a:1]" {
			t.Errorf("got %v, %v", res, err)
		}
	})
	t.Run("that the tool cannot be", func(t *testing.T) {
		opts := patient()
		opts.Tasks = client.TasksSeeds
		srv := serveTasks(t, map[string]func(int, message) string{"tools/call": func(_ int, m message) string {
			if m.Params["task"] != nil {
				return `error {"code":-32601,"message":"no tasks here"}`
			}
			return done
		}})
		started, res, err := connect(t, opts, srv.transport(), "").StartTask(t.Context(), &mcp.CallToolParams{Name: "t"}, 0)
		if started != nil || said(t, res, err) != "done" {
			t.Errorf("got %v, %v", started, res)
		}
	})
	t.Run("by its id", func(t *testing.T) {
		session := connect(t, patient(), legacyServer(t, tasksCapability, required), "2025-11-25")
		started, _, err := session.StartTask(t.Context(), &mcp.CallToolParams{Name: "t"}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		list, next, err := session.ListTasks(t.Context(), "")
		if err != nil || len(list) != 1 || list[0].ID != oddID || next != "2" {
			t.Errorf("list: %v, %q, %v", list, next, err)
		}
		if list, next, err = session.ListTasks(t.Context(), next); err != nil || len(list) != 0 || next != "" {
			t.Errorf("list: %v, %q, %v", list, next, err)
		}
		now, err := session.GetTask(t.Context(), started.ID)
		if err != nil || now.Status != "input_required" || now.Questions != nil {
			t.Errorf("get: %v, %v", now, err)
		}
		if err := session.AnswerTask(t.Context(), started.ID, map[string]any{}); err == nil {
			t.Error("an answer had no way to go")
		}
		res, err := session.WaitTask(t.Context(), started.ID)
		if got := said(t, res, err); got != "done" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		session := connect(t, patient(), legacyServer(t, tasksCapability, required), "2025-11-25")
		if err := session.CancelTask(t.Context(), oddID); err != nil {
			t.Fatal(err)
		}
		_, err := session.WaitTask(t.Context(), oddID)
		if !errors.Is(err, client.ErrTaskCancelled) || !strings.Contains(err.Error(), "it is cancelled") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("parked", func(t *testing.T) {
		server := legacyServer(t, tasksCapability, required)
		opts := patient()
		opts.Form = park
		session := connect(t, opts, server, "2025-11-25")
		_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
		pending, ok := errors.AsType[*client.Pending](err)
		if !ok || pending.TaskID != oddID || len(pending.Questions) != 1 {
			t.Fatalf("got %v", err)
		}
		session.Close()
		res, err := connect(t, patient(), server, "2025-11-25").Resume(t.Context(), stored(t, pending))
		if err != nil {
			t.Fatal(err)
		}
		if got := said(t, res.(*mcp.CallToolResult), nil); got != "done" {
			t.Errorf("got %q", got)
		}
	})
}

func stored(t *testing.T, p *client.Pending) *client.Pending {
	t.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	loaded := new(client.Pending)
	if err := json.Unmarshal(data, loaded); err != nil {
		t.Fatal(err)
	}
	return loaded
}

// A task is started, looked at and answered by its id, maybe in another process.
func TestTaskByItsID(t *testing.T) {
	for _, dialect := range []client.TaskDialect{client.TasksExtension, client.TasksSeeds} {
		t.Run(string(dialect), func(t *testing.T) {
			answered, ended := false, false
			look := func(int, message) string {
				switch {
				case ended && dialect == client.TasksSeeds:
					return draft("completed")
				case ended:
					return flat("completed", `,"result":`+done)
				case answered && dialect == client.TasksSeeds:
					return draft("working")
				case answered:
					return flat("working", "")
				case dialect == client.TasksSeeds:
					return draft("input_required")
				}
				return flat("input_required", ","+askWho)
			}
			take := func(int, message) string { answered = true; return `{}` }
			srv := serveTasks(t, map[string]func(int, message) string{
				"tools/call": func(_ int, m message) string {
					if m.Params["task"] == nil {
						return created("working", "")
					}
					return `{"task":` + draft("working") + `}`
				},
				"tasks/get": look, "tasks/update": take, "tasks/input_response": take,
				"tasks/result": func(int, message) string {
					if ended {
						return done
					}
					return `{` + askWho + `,"requestState":"s"}`
				},
				"tasks/cancel": func(int, message) string { return `{}` },
			})
			opts := patient()
			opts.Tasks = dialect
			session := connect(t, opts, srv.transport(), "")
			started, res, err := session.StartTask(t.Context(), &mcp.CallToolParams{Name: "t"}, 90*time.Second)
			if err != nil || res != nil || started.ID != oddID || started.Status != "working" {
				t.Fatalf("started %v, %v, %v", started, res, err)
			}
			if sent, _ := srv.sent("tools/call"); dialect == client.TasksSeeds && sent[0] != `{"arguments":{},"name":"t","task":{"ttl":90000}}` {
				t.Errorf("sent %s", sent)
			}
			now, err := session.GetTask(t.Context(), oddID)
			if err != nil || now.Status != "input_required" || len(now.Questions) != 1 || now.Questions[0].Message != "Who?" {
				t.Fatalf("now %v, %v", now, err)
			}
			if now.TTL != time.Minute || now.PollInterval != time.Millisecond || now.Created.IsZero() || now.Updated.IsZero() != (dialect == client.TasksSeeds) {
				t.Errorf("now %+v", now)
			}
			for name, answer := range map[string]map[string]any{
				`does not ask "else"`: {"else": &mcp.ElicitResult{Action: "decline"}},
				"does not fit":        {"who": &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": 1}}},
				"must return":         {"who": &mcp.ElicitResult{Action: "yes"}},
				"no object":           {"who": "octocat"},
			} {
				if err := session.AnswerTask(t.Context(), oddID, answer); err == nil || !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if answered {
				t.Error("an answer that does not fit was sent")
			}
			if err := session.AnswerTask(t.Context(), oddID, map[string]any{"who": json.RawMessage(`{"action":"decline"}`)}); err != nil || !answered {
				t.Fatal(err)
			}
			if sent, _ := srv.sent("tasks/input_response"); dialect == client.TasksSeeds && sent[0] != `{"inputResponses":{"who":{"action":"decline"}},"requestState":"s"}` {
				t.Errorf("sent %s", sent)
			}
			if err := session.CancelTask(t.Context(), oddID); err != nil {
				t.Error(err)
			}
			ended = true
			res, err = session.WaitTask(t.Context(), oddID)
			if got := said(t, res, err); got != "done" {
				t.Errorf("got %q", got)
			}
			if _, _, err := session.ListTasks(t.Context(), ""); dialect == client.TasksExtension && (err == nil || !strings.Contains(err.Error(), "the tasks extension has no list")) {
				t.Errorf("list: %v", err)
			}
			if err := session.CancelTask(t.Context(), strings.Repeat("x", 5000)); err == nil {
				t.Error("an id that no header can carry was sent")
			}
		})
	}
}

// A task that waits is a file; who is not there to answer now may be tomorrow.
func TestTaskIsParkedAndResumed(t *testing.T) {
	for _, dialect := range []client.TaskDialect{client.TasksAuto, client.TasksSeeds} {
		t.Run(string(dialect), func(t *testing.T) {
			var mu sync.Mutex
			var answered string
			two := `"inputRequests":{"who":` + formQuestion + `,"roots":{"method":"roots/list"}}`
			take := func(_ int, m message) string {
				mu.Lock()
				defer mu.Unlock()
				answered = string(m.Params["inputResponses"])
				if strings.Contains(string(m.Params["_meta"]), "extensions") != (dialect == client.TasksAuto) {
					t.Errorf("declares %s", m.Params["_meta"])
				}
				return `{}`
			}
			srv := serveTasks(t, map[string]func(int, message) string{
				"tools/call": func(_ int, m message) string {
					if dialect == client.TasksAuto {
						return created("working", "")
					}
					return `{"task":` + draft("working") + `}`
				},
				"tasks/get": func(int, message) string {
					mu.Lock()
					defer mu.Unlock()
					switch {
					case dialect == client.TasksSeeds && answered == "":
						return draft("input_required")
					case dialect == client.TasksSeeds:
						return draft("completed")
					case answered == "":
						return flat("input_required", ","+two)
					}
					return flat("completed", `,"result":`+done)
				},
				"tasks/result": func(int, message) string {
					mu.Lock()
					defer mu.Unlock()
					if answered == "" {
						return `{` + two + `,"requestState":"s"}`
					}
					return done
				},
				"tasks/update": take, "tasks/input_response": take,
			})
			opts := patient()
			opts.Tasks = dialect
			opts.Form = park
			transport := srv.transport()
			_, err := connect(t, opts, transport, "").CallTool(t.Context(), &mcp.CallToolParams{Name: "t", Arguments: map[string]any{"a": 1}})
			pending, ok := errors.AsType[*client.Pending](err)
			if !ok || pending.TaskID != oddID || len(pending.Answers) != 1 || pending.Expires == nil || pending.Round != 2 {
				t.Fatalf("got %v: %+v", err, pending)
			}
			if want := `the task "tâche/1" waits for answers to "who"`; pending.Error() != want {
				t.Errorf("got %q, want %q", pending, want)
			}
			pending = stored(t, pending)

			// Still nobody is there: it is the same round.
			opts.Tasks = client.TasksAuto
			opts.Roots = func(context.Context) ([]*mcp.Root, error) { return nil, errors.New("asked again") }
			_, err = connect(t, opts, transport, "").Resume(t.Context(), pending)
			if pending, ok = errors.AsType[*client.Pending](err); !ok || pending.Round != 2 {
				t.Fatalf("got %v: %+v", err, pending)
			}
			opts.Form = patient().Form
			res, err := connect(t, opts, transport, "").Resume(t.Context(), stored(t, pending))
			if err != nil {
				t.Fatal(err)
			}
			if got := said(t, res.(*mcp.CallToolResult), nil); got != "done" || !strings.Contains(answered, `"roots":[{"uri":"file:///src"}]`) {
				t.Errorf("got %q, answered %s", got, answered)
			}
		})
	}
}

// What was answered is sent only to whom it was answered.
func TestResumedTaskAsksSomethingElse(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call":   always(created("working", "")),
		"tasks/get":    always(flat("input_required", `,"inputRequests":{"who":`+formQuestion+`,"roots":{"method":"roots/list"}}`)),
		"tasks/update": always(`{}`),
	})
	opts := patient()
	opts.Roots = func(context.Context) ([]*mcp.Root, error) { return nil, client.ErrPark }
	transport := srv.transport()
	_, err := connect(t, opts, transport, "").CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
	pending, ok := errors.AsType[*client.Pending](err)
	if !ok || len(pending.Answers) != 1 {
		t.Fatal(err)
	}
	srv.now("tasks/get", func(int, message) string {
		if sent, _ := srv.sent("tasks/update"); len(sent) > 0 {
			return flat("completed", `,"result":`+done)
		}
		return flat("input_required", ","+askWho)
	})
	if _, err := connect(t, patient(), transport, "").Resume(t.Context(), stored(t, pending)); err != nil {
		t.Fatal(err)
	}
	if sent, _ := srv.sent("tasks/update"); len(sent) != 1 || !strings.Contains(sent[0], "octocat") {
		t.Errorf("sent %s", sent)
	}
}

// Before there is a task its call is parked like any other, and still asks for one when it goes on.
func TestCallIsParkedBeforeItIsATask(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": func(_ int, m message) string {
			if m.Params["inputResponses"] == nil {
				return `{"resultType":"input_required","inputRequests":{"q":` + formQuestion + `},"requestState":"s"}`
			}
			return `{"task":` + draft("working") + `}`
		},
		"tasks/get":    always(draft("completed")),
		"tasks/result": always(done),
	})
	opts := patient()
	opts.Tasks = client.TasksSeeds
	opts.Form = park
	transport := srv.transport()
	_, _, err := connect(t, opts, transport, "").StartTask(t.Context(), &mcp.CallToolParams{Name: "t"}, time.Minute)
	pending, ok := errors.AsType[*client.Pending](err)
	if !ok || pending.TaskID != "" {
		t.Fatal(err)
	}
	res, err := connect(t, patient(), transport, "").Resume(t.Context(), stored(t, pending))
	if err != nil || said(t, res.(*mcp.CallToolResult), nil) != "done" {
		t.Errorf("got %v, %v", res, err)
	}
	sent, _ := srv.sent("tools/call")
	if want := `{"arguments":{},"inputResponses":{"q":{"action":"accept","content":{}}},"name":"t","requestState":"s","task":{"ttl":60000}}`; sent[1] != want {
		t.Errorf("got %s\nwant %s", sent[1], want)
	}
}

// When the waiting ends the task goes on, and the error says where.
func TestTaskOutlivesTheWaiting(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(created("working", "")),
		"tasks/get":  always(flat("working", "")),
	})
	opts := patient()
	opts.Limits.Total = 200 * time.Millisecond
	session := connect(t, opts, srv.transport(), "")
	_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
	waited, ok := errors.AsType[*client.TaskError](err)
	if !ok || !isLimit("total time of a call")(err) || waited.Pending.TaskID != oddID {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = session.WaitTask(ctx, oddID)
	if waited, ok = errors.AsType[*client.TaskError](err); !ok || !errors.Is(err, context.Canceled) || waited.Pending.TaskID != oddID {
		t.Errorf("got %v", err)
	}
	if slices.Contains(srv.methods(), "tasks/cancel") {
		t.Error("the task was cancelled")
	}
	srv.now("tasks/get", always(flat("completed", `,"result":`+done)))
	res, err := session.Resume(t.Context(), stored(t, waited.Pending))
	if err != nil || said(t, res.(*mcp.CallToolResult), nil) != "done" {
		t.Errorf("got %v, %v", res, err)
	}
}

func TestTaskEnds(t *testing.T) {
	for name, c := range map[string]struct {
		last string
		want func(err error) bool
	}{
		"failed": {flat("failed", `,"error":{"code":-32000,"message":"no luck","data":{"a":1}}`), func(err error) bool {
			fault, ok := errors.AsType[*jsonrpc.Error](err)
			return ok && fault.Code == -32000 && fault.Message == "no luck" && string(fault.Data) == `{"a":1}`
		}},
		"failed without an error": {flat("failed", `,"statusMessage":"too late"`), func(err error) bool {
			fault, ok := errors.AsType[*jsonrpc.Error](err)
			return ok && strings.Contains(fault.Message, "too late")
		}},
		"cancelled": {flat("cancelled", ""), func(err error) bool { return errors.Is(err, client.ErrTaskCancelled) }},
		"forgotten": {`error {"code":-32602,"message":"Task not found"}`, func(err error) bool {
			fault, ok := errors.AsType[*jsonrpc.Error](err)
			_, waited := errors.AsType[*client.TaskError](err)
			return ok && fault.Code == -32602 && errors.Is(err, client.ErrTaskUnknown) && !waited
		}},
	} {
		srv := serveTasks(t, map[string]func(int, message) string{
			"tools/call": always(created("working", "")), "tasks/get": inTurn(flat("working", ""), c.last),
		})
		_, err := connect(t, patient(), srv.transport(), "").CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
		if !c.want(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A task outlives restarts of its server, and so does the waiting.
func TestWaitingOutlivesFailures(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(created("working", "")),
		"tasks/get": inTurn("status 503", "status 500", `error {"code":-32603,"message":"the database is away"}`, flat("input_required", ","+askWho),
			"status 502", flat("completed", `,"result":`+done)),
		"tasks/update": inTurn("status 500", `{"resultType":"complete"}`),
	})
	res, err := connect(t, patient(), srv.transport(), "").CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
	if got := said(t, res, err); got != "done" {
		t.Errorf("got %q", got)
	}
	// But not for ever, and not where it makes no sense.
	for _, status := range []string{"500", "403"} {
		srv.now("tasks/get", always("status "+status))
		before := len(srv.methods())
		_, err = connect(t, patient(), srv.transport(), "").WaitTask(t.Context(), oddID)
		if _, ok := errors.AsType[*client.TaskError](err); !ok || !strings.Contains(err.Error(), status) {
			t.Errorf("got %v", err)
		}
		if tries := len(srv.methods()) - before; tries > 15 || status == "403" && tries > 4 {
			t.Errorf("%s: tried %d times", status, tries)
		}
	}
}

// A server that is killed breaks off, and does so in many ways.
func TestWaitingOutlivesBrokenResponses(t *testing.T) {
	const progress = "event: message\nretry: 1\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\n"
	raw := func(w http.ResponseWriter, text string) {
		conn, out, err := w.(http.Hijacker).Hijack()
		if err == nil {
			fmt.Fprint(out, text)
			out.Flush()
			conn.Close()
		}
	}
	stream := func(w http.ResponseWriter, text string) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, text)
	}
	breaks := map[string]func(w http.ResponseWriter){
		"at once":     func(w http.ResponseWriter) { raw(w, "") },
		"in the head": func(w http.ResponseWriter) { raw(w, "HTTP/1.1 200 OK\r\nContent-Len") },
		"in the body": func(w http.ResponseWriter) {
			raw(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"json")
		},
		"an empty stream":    func(w http.ResponseWriter) { stream(w, "") },
		"a stream":           func(w http.ResponseWriter) { stream(w, progress) },
		"a stream with ids":  func(w http.ResponseWriter) { stream(w, "id: 1\n"+progress) },
		"a stream in a line": func(w http.ResponseWriter) { stream(w, "id: 1\n"+progress+"data: {\"json") },
	}
	for how, breakOff := range breaks {
		for _, version := range []string{"2026-07-28", "2025-11-25"} {
			t.Run(how+" "+version, func(t *testing.T) {
				t.Parallel()
				s := serveTasks(t, map[string]func(int, message) string{
					"tasks/get":    inTurn(flat("input_required", ","+askWho), flat("completed", `,"result":`+done)),
					"tasks/update": always(`{"resultType":"complete"}`),
					"tasks/result": always(done),
				})
				var mu sync.Mutex
				broken := make(map[string]bool)
				transport := wireServer(t, func(w http.ResponseWriter, r *http.Request, m message) {
					mu.Lock()
					first := strings.HasPrefix(m.Method, "tasks/") && !broken[m.Method]
					broken[m.Method] = true
					mu.Unlock()
					switch {
					case r.Method != http.MethodPost:
						w.WriteHeader(http.StatusMethodNotAllowed)
					case first:
						breakOff(w)
					default:
						s.answer(w, r, m)
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				opts := patient()
				opts.Limits.FirstPause = time.Millisecond
				res, err := connect(t, opts, transport, version).WaitTask(ctx, oddID)
				if got := said(t, res, err); got != "done" {
					t.Errorf("got %q", got)
				}
				if !broken["tasks/get"] || !broken["tasks/update"] && !broken["tasks/result"] {
					t.Errorf("broken: %v", broken)
				}
			})
		}
	}
}

const askTwo = `"inputRequests":{"a":` + formQuestion + `,"b":` + formQuestion + `}`

// Answers are kept while others are missing, and nobody is told of their questions again.
func TestAnswersAreKept(t *testing.T) {
	for name, interrupted := range map[string]bool{"parked": false, "interrupted": true} {
		t.Run(name, func(t *testing.T) {
			srv := serveTasks(t, map[string]func(int, message) string{
				"tools/call":   always(created("working", "")),
				"tasks/get":    always(flat("input_required", ","+askTwo)),
				"tasks/update": always(`{}`),
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answered := make(chan struct{})
			resumed := false
			opts := patient()
			opts.Form = func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
				switch {
				case q.Key == "a" && resumed:
					t.Error("asked again")
				case q.Key == "a":
					defer close(answered)
				case !resumed && interrupted:
					<-answered
					cancel()
					<-ctx.Done()
					return nil, ctx.Err()
				case !resumed:
					return nil, client.ErrPark
				}
				return &mcp.ElicitResult{Action: "accept"}, nil
			}
			var told []string
			opts.Observe = func(_ context.Context, r *client.Round) error {
				for _, q := range r.Questions {
					told = append(told, q.Key)
				}
				if r.Method == "tasks/update" {
					srv.now("tasks/get", always(flat("completed", `,"result":`+done)))
				}
				return nil
			}
			session := connect(t, opts, srv.transport(), "")
			_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "t"})
			p, ok := errors.AsType[*client.Pending](err)
			if waited, outlived := errors.AsType[*client.TaskError](err); outlived && interrupted {
				p, ok = waited.Pending, true
			}
			if !ok || len(p.Answers) != 1 || p.Answers["a"] == nil {
				t.Fatalf("got %v, %v", p, err)
			}
			resumed = true
			res, err := session.Resume(t.Context(), stored(t, p))
			if err != nil || said(t, res.(*mcp.CallToolResult), nil) != "done" {
				t.Errorf("got %v, %v", res, err)
			}
			if diff := cmp.Diff([]string{"a", "b", "b"}, told); diff != "" {
				t.Errorf("told of (-want +got):\n%s", diff)
			}
		})
	}
}

// Answers that could not be brought to the server go with what is left of the call.
func TestAnswersThatWereNotSentAreKept(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call":   always(created("working", "")),
		"tasks/get":    always(flat("input_required", ","+askWho)),
		"tasks/update": always("status 403"),
	})
	_, err := connect(t, patient(), srv.transport(), "").CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
	if waited, ok := errors.AsType[*client.TaskError](err); !ok || waited.Pending.Answers["who"] == nil {
		t.Errorf("got %v", err)
	}
}

// A task that is looked at has its outcome, if the server told it.
func TestOutcomeOfATask(t *testing.T) {
	const fault = `{"code":-32000,"message":"no luck"}`
	srv := serveTasks(t, map[string]func(int, message) string{
		"tasks/get": inTurn(flat("working", ""), flat("completed", `,"result":`+done), flat("failed", `,"error":`+fault), flat("failed", "")),
	})
	session := connect(t, patient(), srv.transport(), "")
	for _, want := range [][2]string{{}, {done}, {"", fault}, {}} {
		got, err := session.GetTask(t.Context(), oddID)
		if err != nil || string(got.Result) != want[0] || string(got.Error) != want[1] {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

// An answer that the server acknowledged and lost is sent again, without asking anybody.
func TestLostAnswersAreSentAgain(t *testing.T) {
	updates := 0
	srv := serveTasks(t, map[string]func(int, message) string{
		"tools/call": always(created("working", "")),
		"tasks/get": func(int, message) string {
			if updates < 2 {
				return flat("input_required", ","+askWho)
			}
			return flat("completed", `,"result":`+done)
		},
		"tasks/update": func(n int, _ message) string { updates = n; return `{}` },
	})
	opts := patient()
	asked := 0
	form := opts.Form
	opts.Form = func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		asked++
		return form(ctx, q)
	}
	res, err := connect(t, opts, srv.transport(), "").CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
	if got := said(t, res, err); got != "done" || asked != 1 {
		t.Errorf("got %q, asked %d times", got, asked)
	}
	if sent, _ := srv.sent("tasks/update"); len(sent) != 2 || sent[0] != sent[1] {
		t.Errorf("sent %q", sent)
	}
}
