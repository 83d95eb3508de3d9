package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
)

// lists is a server of a session of 2025-11-25 with tasks, whose list of tools a test says
// by the cursor. It keeps what it was sent.
type lists struct {
	mu    sync.Mutex
	pages func(cursor string) string // a result, or an error beginning with "error "
	sent  []string
}

func (l *lists) transport(t *testing.T) mcp.Transport {
	return scripted(t, func(_ context.Context, req *jsonrpc.Request, write func(jsonrpc.Message)) {
		var params struct{ Cursor, Name string }
		_ = json.Unmarshal(req.Params, &params)
		reply := func(result string) {
			if fault, ok := strings.CutPrefix(result, "error "); ok {
				write(&jsonrpc.Response{ID: req.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fault}})
				return
			}
			write(&jsonrpc.Response{ID: req.ID, Result: json.RawMessage(result)})
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		switch req.Method {
		case "initialize":
			reply(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}` + tasksCapability + `},"serverInfo":{"name":"s","version":"1"}}`)
		case "tools/list":
			l.sent = append(l.sent, "list "+params.Cursor)
			reply(l.pages(params.Cursor))
		case "tools/call":
			if params.Name == "change" {
				write(&jsonrpc.Request{Method: "notifications/tools/list_changed", Params: json.RawMessage(`{}`)})
			}
			if bytes.Contains(req.Params, []byte(`"task":`)) {
				l.sent = append(l.sent, params.Name+" as a task")
				reply(`{"task":` + draft("working") + `}`)
			} else {
				l.sent = append(l.sent, params.Name)
				reply(done)
			}
		}
	})
}

func (l *lists) took() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	sent := l.sent
	l.sent = nil
	return sent
}

func (l *lists) now(pages func(cursor string) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages = pages
}

func tool(name, more string) string {
	return fmt.Sprintf(`{"name":%q,"inputSchema":{"type":"object"}%s}`, name, more)
}

// The list is read once, whole, and again when it changed or does not have the tool.
func TestToolsAreListedOnce(t *testing.T) {
	all := func(cursor string) string {
		if cursor == "" {
			return `{"tools":[` + tool("plain", "") + `,` + tool("change", "") + `],"nextCursor":"2"}`
		}
		return `{"tools":[` + tool("job", required) + `],"nextCursor":null}`
	}
	srv := &lists{pages: all}
	opts := patient()
	changed := make(chan struct{}, 1)
	opts.SDK.ToolListChangedHandler = func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} }
	session := connect(t, opts, srv.transport(t), "2025-11-25")
	start := func(name string, want ...string) {
		t.Helper()
		if _, _, err := session.StartTask(t.Context(), &mcp.CallToolParams{Name: name}, 0); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, srv.took()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	start("plain", "list ", "list 2", "plain")
	start("job", "job as a task")
	start("new", "list ", "list 2", "new")
	srv.now(func(string) string {
		return `{"tools":[` + tool("plain", optional) + `,` + tool("new", optional) + `,` + tool("change", "") + `]}`
	})
	start("new", "list ", "new as a task")
	start("plain", "plain as a task")
	srv.now(all)
	start("change", "change")
	<-changed
	start("plain", "list ", "list 2", "plain")
}

// Nothing is called if the list cannot be read: the call may be made again.
func TestToolsCannotBeListed(t *testing.T) {
	always := func(page string) func(string) string { return func(string) string { return page } }
	n := 0
	for name, c := range map[string]struct {
		pages func(cursor string) string
		want  func(error) bool
	}{
		"an error": {always("error no database"), func(err error) bool {
			fault, ok := errors.AsType[*jsonrpc.Error](err)
			return ok && fault.Code == jsonrpc.CodeInternalError && strings.Contains(err.Error(), `whether "job" is to be called as a task`)
		}},
		"pages without end": {func(string) string { n++; return fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, n) }, isLimit("pages of a list of tools")},
		"large pages": {func(string) string {
			return `{"tools":[` + tool("x", `,"description":"`+strings.Repeat("x", 3000)+`"`) + `],"nextCursor":"x"}`
		}, isLimit("bytes of a list of tools")},
		"no list":                     {always(`{"tools":{}}`), isProtocol},
		"nothing":                     {always(`{}`), isProtocol},
		"a cursor that is no string":  {always(`{"tools":[],"nextCursor":7}`), isProtocol},
		"a list that is not sound":    {always(`{"tools":[],"tools":[]}`), isProtocol},
		"tools that are none, at all": {always(`{"tools":[7,null,{"name":7},[]]}`), func(err error) bool { return err == nil }},
	} {
		t.Run(name, func(t *testing.T) {
			srv := &lists{pages: c.pages}
			opts := patient()
			opts.Limits.Rounds, opts.Limits.MessageBytes = 5, 10_000
			session := connect(t, opts, srv.transport(t), "2025-11-25")
			_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "job"})
			if !c.want(err) {
				t.Errorf("got %v", err)
			}
			if called := slices.Contains(srv.took(), "job"); called != (err == nil) {
				t.Errorf("called: %v", called)
			}
		})
	}
}

// What does not exist does not go on.
func TestNoSuchTask(t *testing.T) {
	const unknown = `error {"code":-32602,"message":"Task not found"}`
	for name, on := range map[string]map[string]func(int, message) string{
		"to look at":           {"tasks/get": always(unknown)},
		"to take an answer":    {"tasks/get": inTurn(draft("input_required"), unknown), "tasks/result": always(`{` + askWho + `}`), "tasks/input_response": always(unknown)},
		"to wait for any more": {"tasks/get": inTurn(draft("input_required"), unknown), "tasks/result": always(unknown)},
	} {
		t.Run(name, func(t *testing.T) {
			opts := patient()
			opts.Tasks = client.TasksSeeds
			session := connect(t, opts, serveTasks(t, on).transport(), "")
			_, err := session.WaitTask(t.Context(), oddID)
			if !errors.Is(err, client.ErrTaskUnknown) || !strings.Contains(err.Error(), `no such task: "tâche/1"`) || strings.Contains(err.Error(), "may still go on") {
				t.Errorf("got %v", err)
			}
			if fault, ok := errors.AsType[*jsonrpc.Error](err); !ok || fault.Code != jsonrpc.CodeInvalidParams {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("of Askback's", func(t *testing.T) {
		for _, version := range []string{"2026-07-28", "2025-11-25"} {
			session := connect(t, patient(), web(t, newTaskServer(t)), version)
			if _, err := session.WaitTask(t.Context(), "nope"); !errors.Is(err, client.ErrTaskUnknown) {
				t.Errorf("%s: waited: %v", version, err)
			}
			_, err := session.GetTask(t.Context(), "nope")
			if !errors.Is(err, client.ErrTaskUnknown) || strings.Contains(err.Error(), "of another revision") != (version == "2025-11-25") {
				t.Errorf("%s: looked: %v", version, err)
			}
		}
	})
}

// A task that fails while its result is waited for has failed, whatever it failed with.
func TestTaskFailsWhileWaitedFor(t *testing.T) {
	srv := serveTasks(t, map[string]func(int, message) string{
		"tasks/get":    inTurn(draft("input_required"), draft("failed")),
		"tasks/result": always(`error {"code":-32602,"message":"no such bug"}`),
	})
	opts := patient()
	opts.Tasks = client.TasksSeeds
	_, err := connect(t, opts, srv.transport(), "").WaitTask(t.Context(), oddID)
	fault, ok := errors.AsType[*jsonrpc.Error](err)
	_, waited := errors.AsType[*client.TaskError](err)
	if !ok || fault.Message != "no such bug" || waited || errors.Is(err, client.ErrTaskUnknown) {
		t.Errorf("got %v", err)
	}
}

// Answers say to which task they belong, of every kind, and keep what else they say.
func TestAnswersAreRelatedToTheirTask(t *testing.T) {
	var mu sync.Mutex
	var log bytes.Buffer
	opts := answers()
	sample := opts.Sample
	opts.Sample = func(ctx context.Context, q *client.Question, p *mcp.CreateMessageWithToolsParams) (*mcp.CreateMessageWithToolsResult, error) {
		res, err := sample(ctx, q, p)
		res.Meta = mcp.Meta{"cost": 7}
		return res, err
	}
	transport := &mcp.LoggingTransport{Transport: memory(t, newTaskServer(t)), Writer: lockedWriter{&mu, &log}}
	session := connect(t, opts, transport, "2025-11-25")
	started, _, err := session.StartTask(t.Context(), &mcp.CallToolParams{Name: "only"}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	res, err := session.WaitTask(t.Context(), started.ID)
	if got := said(t, res, err); got != worked {
		t.Errorf("got %q", got)
	}
	mu.Lock()
	defer mu.Unlock()
	related := fmt.Sprintf(`"io.modelcontextprotocol/related-task":{"taskId":%q}`, started.ID)
	var missing []string
	for _, kind := range []string{`"action":"accept"`, `"roots":[`, `"model":"m"`} {
		if !slices.ContainsFunc(strings.Split(log.String(), "\n"), func(line string) bool {
			return strings.Contains(line, `"result":`) && strings.Contains(line, kind) && strings.Contains(line, related) &&
				(kind != `"model":"m"` || strings.Contains(line, `"cost":7`))
		}) {
			missing = append(missing, kind)
		}
	}
	if missing != nil {
		t.Errorf("not related: %v, in\n%s", missing, log.String())
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
