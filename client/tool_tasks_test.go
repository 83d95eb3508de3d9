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

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// lists is a server of a session of 2025-11-25 with tasks. A test sets its list of tools by the
// cursor. It records what it receives.
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
			reply(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}` + tasksCapability +
				`},"serverInfo":{"name":"s","version":"1"}}`)
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

// The client reads the whole list once, and again when it has changed or lacks the tool.
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
		expect.Diff(t, name, want, srv.took())
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

// If the list cannot be read, no tool is called: the call can be repeated.
func TestToolsCannotBeListed(t *testing.T) {
	always := func(page string) func(string) string { return func(string) string { return page } }
	n := 0
	for name, c := range map[string]struct {
		pages func(cursor string) string
		want  func(error) bool
	}{
		"an error": {always("error no database"), func(err error) bool {
			fault, ok := errors.AsType[*jsonrpc.Error](err)
			return ok && fault.Code == jsonrpc.CodeInternalError && strings.Contains(err.Error(),
				`whether "job" runs as a task`)
		}},
		"pages without end": {func(string) string { n++; return fmt.Sprintf(`{"tools":[],"nextCursor":"%d"}`, n) },
			isLimit("pages of the list of tools")},
		"large pages": {func(string) string {
			n++
			return `{"tools":[` + tool("x", `,"description":"`+strings.Repeat("x", 3000)+`"`) +
				fmt.Sprintf(`],"nextCursor":"%d"}`, n)
		}, isLimit("bytes of the list of tools")},
		"a page that leads to itself": {always(`{"tools":[],"nextCursor":"x"}`), isProtocol},
		"no list":                     {always(`{"tools":{}}`), isProtocol},
		"nothing":                     {always(`{}`), isProtocol},
		"a cursor that is no string":  {always(`{"tools":[],"nextCursor":7}`), isProtocol},
		"a list that is not sound":    {always(`{"tools":[],"tools":[]}`), isProtocol},
		"tools that are none, at all": {always(`{"tools":[7,null,{"name":7},[]]}`), func(err error) bool {
			return err == nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			srv := &lists{pages: c.pages}
			opts := patient()
			opts.Limits.Rounds, opts.Limits.MessageBytes = 5, 10_000
			session := connect(t, opts, srv.transport(t), "2025-11-25")
			_, err := called(t, session, "job")
			if !c.want(err) {
				t.Errorf("got %v", err)
			}
			expect.Equal(t, "called", slices.Contains(srv.took(), "job"), (err == nil))
		})
	}
}

// The tool decides whether a call is a task. If the tool leaves it open, the caller decides.
func TestTaskSupportOfASession(t *testing.T) {
	for _, c := range []struct {
		name, caps, support string
		dialect             client.TaskDialect
		call, start         string // the outcomes of CallTool and of StartTask
	}{
		{"required", tasksCapability, required, client.TasksAuto, "done", "task"},
		{"optional", tasksCapability, optional, client.TasksAuto, "at once", "task"},
		{"forbidden", tasksCapability, forbidden, client.TasksAuto, "at once", "at once"},
		{"no word", tasksCapability, "", client.TasksAuto, "at once", "at once"},
		{"an odd word", tasksCapability, `,"execution":{"taskSupport":["required"]}`, client.TasksAuto, "at once", "at once"},
		{"optional, always asked for", tasksCapability, optional, client.TasksProposal, "done", "task"},
		{"forbidden, always asked for", tasksCapability, forbidden, client.TasksProposal, "at once", "at once"},
		{"optional, never asked for", tasksCapability, optional, client.TasksOff, "at once", "at once"},
		{"optional, of another dialect", tasksCapability, optional, client.TasksExtension, "at once", "at once"},
		{"optional, and no capability", "", optional, client.TasksProposal, "at once", "at once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			opts := patient()
			opts.Tasks = c.dialect
			session := connect(t, opts, legacyServer(t, c.caps, c.support), "2025-11-25")
			started, res, err := session.StartTask(t.Context(), &mcp.CallToolParams{Name: "t"}, time.Minute)
			if started == nil && said(t, res, err) != c.start || started != nil && c.start != "task" {
				t.Errorf("started %v, %v, want %s", started, res, c.start)
			}
			expect.Equal(t, "called", textOf(expect.Must(called(t, session, "t"))(t)), c.call)
		})
	}
}
