package home_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/home"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/wire"
	"github.com/askback-mcp/askback/state"
)

// takes notes how a call is to become a task.
type takes struct{ as home.TaskRequest }

func (k *takes) Create(
	_ context.Context, _ *call.Request, as home.TaskRequest, _ *journal.Journal,
) (*call.Outcome, error) {
	k.as = as
	return &call.Outcome{Encoded: []byte("a task")}, nil
}

func (k *takes) Find(context.Context, *call.Request, home.TaskRequest, string) (*call.Outcome, error) {
	return nil, nil
}

// A call becomes a task only if its tool, its client and the server can. In a session it does so at once.
func TestWhichCallsBecomeTasks(t *testing.T) {
	const extension = `{"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	const no, missing = "-32601", "-32021"
	proposal := home.TaskRequest{Dialect: home.DialectProposal, TTL: time.Minute}
	for _, test := range []struct {
		says      string
		without   bool // the server has no tasks
		support   *call.TaskSupport
		method    string // tools/call if empty
		meta      string
		task      string
		inSession bool
		refused   string // the code of the error
		desk      bool   // the server has one
		fetches   bool   // the tool fetches the outcomes of other calls
		as        home.TaskRequest
		atOnce    bool
		waits     *home.TaskRequest // how it becomes a task to wait for people
	}{
		{says: "a tool that cannot"},
		{says: "a tool that cannot, with the extension", meta: extension},
		{says: "a tool that cannot, with the member", task: `{"ttl":60000}`, refused: no},
		{says: "a tool that cannot, with null", task: `null`},
		{says: "a tool that cannot, with both", task: `{}`, meta: extension},
		{says: "a tool that can", support: new(call.TaskSupport)},
		{says: "a tool that can, with the extension", support: new(call.TaskSupport), meta: extension,
			as: home.TaskRequest{Dialect: home.DialectExtension}, atOnce: true},
		{says: "a tool that can, with the member", support: new(call.TaskSupport), task: `{"ttl":60000}`,
			as: proposal, atOnce: true},
		{says: "a wrong member", support: new(call.TaskSupport), task: `{"ttl":-1}`, refused: "-32602"},
		{says: "later", support: &call.TaskSupport{AtDetach: true}, task: `{"ttl":60000}`, as: proposal},
		{says: "later, in a session", support: &call.TaskSupport{AtDetach: true}, task: `{"ttl":60000}`, inSession: true,
			as: proposal, atOnce: true},
		{says: "the extension in a session", support: new(call.TaskSupport), meta: extension, inSession: true},
		{says: "a server without tasks", without: true, support: new(call.TaskSupport), task: `{}`, meta: extension},
		{says: "a prompt", method: wire.GetPrompt, task: `{}`, meta: extension},
		{says: "a task only", support: &call.TaskSupport{Required: true}, refused: missing},
		{says: "a task only, in a session", support: &call.TaskSupport{Required: true}, inSession: true, refused: no},
		{says: "a task only, without tasks", without: true, support: &call.TaskSupport{Required: true}, meta: extension,
			refused: missing},
		{says: "a task only, with the member", support: &call.TaskSupport{Required: true}, task: `{"ttl":60000}`,
			as: proposal, atOnce: true},
		{says: "any tool with a desk", desk: true, waits: new(home.TaskRequest)},
		{says: "any tool with a desk and the extension", desk: true, meta: extension,
			waits: &home.TaskRequest{Dialect: home.DialectExtension}},
		{says: "a desk in a session", desk: true, inSession: true, meta: extension, waits: new(home.TaskRequest)},
		{says: "a desk and the member", desk: true, support: new(call.TaskSupport), task: `{"ttl":60000}`, as: proposal,
			atOnce: true, waits: &proposal},
		{says: "a desk and a tool that fetches", desk: true, fetches: true, meta: extension},
		{says: "a desk without tasks", desk: true, without: true, meta: extension},
		{says: "a desk and a prompt", desk: true, method: wire.GetPrompt, meta: extension},
		{says: "always a task", desk: true, support: &call.TaskSupport{Always: true}, atOnce: true,
			waits: new(home.TaskRequest)},
		{says: "always a task, later", desk: true, support: &call.TaskSupport{Always: true, AtDetach: true},
			waits: new(home.TaskRequest)},
	} {
		tasks := new(takes)
		c := &home.Carrier{Keys: newRing(t), Desk: test.desk}
		if !test.without {
			c.Tasks = tasks
		}
		meta, invalid := wire.ParseMeta([]byte(test.meta))
		if invalid != nil {
			t.Fatal(invalid)
		}
		r := &call.Request{Params: &wire.Params{Target: "x", Meta: meta}, InSession: test.inSession}
		r.Handler = &call.Handler{Method: wire.CallTool, Tasks: test.support, Fetches: test.fetches}
		if test.method != "" {
			r.Handler.Method = test.method
		}
		if test.task != "" {
			r.Params.Task = []byte(test.task)
		}
		var at call.Home = c.Home(r)
		if test.inSession {
			at = c.Held(r, nil)
		}
		opened, err := at.Open(t.Context())
		if test.refused != "" {
			if err == nil || fmt.Sprint(fault.Wire(err).Code) != test.refused {
				t.Errorf("%s: %v, want %s", test.says, err, test.refused)
			}
			continue
		}
		always := test.support != nil && test.support.Always
		if err != nil || opened.AtOnce != test.atOnce || (opened.Detach != nil) != (always || test.as.Dialect != "") ||
			(opened.Wait != nil) != (test.waits != nil) {
			t.Errorf("%s: %+v, %v", test.says, opened, err)
			continue
		}
		moves := func(to call.Mover, want home.TaskRequest) {
			want.Fresh = true
			out, err := to.Move(t.Context(), opened.Journal)
			if err != nil || string(out.Encoded) != "a task" || tasks.as != want {
				t.Errorf("%s: %+v as %+v, want %+v; %v", test.says, out, tasks.as, want, err)
			}
		}
		if opened.Detach != nil {
			moves(opened.Detach, test.as)
		}
		if opened.Wait != nil {
			moves(opened.Wait, *test.waits)
		}
	}
}

// A client that cannot take the task which its call has become follows it, in as many rounds as the task asks, and
// repeats any of them.
func TestAClientFollowsTheTaskOfItsCall(t *testing.T) {
	f := newFleet(t)
	f.carrier.Guard = new(state.MemoryGuard)
	i := f.plain(f.trip)
	r := began
	r.state = i.want("asks from", r)
	r.answers = answer("from", "Oslo")
	i.want("asks to", r) // and its response is lost
	follow := &call.Handler{Method: wire.CallTool}
	follow.Invoke = func(_ context.Context, c *call.Call, _ *wire.Params) (mcp.Result, error) {
		who, err := ask(c, "approver", "Who approves?")
		return text("approved by " + who), err
	}
	i.carrier.Tasks = find(func(*call.Request, string) (*call.Outcome, error) {
		return &call.Outcome{Follow: follow}, nil
	})
	r.state = i.want("asks approver", r)
	r.answers = answer("approver", "Ada")
	for range 2 {
		i.want("approved by Ada", r)
	}
	i.carrier.Tasks = find(func(*call.Request, string) (*call.Outcome, error) { return nil, errors.New("no store") })
	i.want("-32603 no store", r)
	const gone = "-32602 the call went on as a task, which is no longer kept"
	i.carrier.Tasks = find(func(*call.Request, string) (*call.Outcome, error) { return nil, nil })
	i.want(gone, r)
	i.carrier.Tasks = nil // as on an instance that has none
	i.want(gone, r)
	f.refused()
}

// Which client shows plain forms only is noted in the journal, whatever brought the client's name, and asked once for
// each call.
func TestPlainFormsAreNoted(t *testing.T) {
	here, there := mcp.NewInMemoryTransports()
	session, err := mcp.NewServer(&mcp.Implementation{Name: "s"}, nil).Connect(t.Context(), there, nil)
	expect.Check(t, err)
	old := &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"}
	conn := expect.Must(mcp.NewClient(&mcp.Implementation{Name: "plain"}, nil).Connect(t.Context(), here, old))(t)
	defer conn.Close()
	var log bytes.Buffer
	asked := 0
	c := &home.Carrier{
		Keys: newRing(t), Audience: "service", Log: slog.New(slog.NewTextHandler(&log, nil)),
		PlainForms: func(client *mcp.Implementation) bool {
			if asked++; client.Name == "panics" {
				panic(client.Name)
			}
			return client.Name == "plain"
		},
	}
	c.Limits.StateBytes, c.Limits.RoundTTL, c.Limits.CallTTL = 1<<20, time.Hour, time.Hour
	open := func(name string, session *mcp.ServerSession, state string) (*call.Request, call.Opened) {
		t.Helper()
		meta, _ := wire.ParseMeta([]byte(`{}`))
		if name != "" {
			meta, _ = wire.ParseMeta([]byte(`{"io.modelcontextprotocol/clientInfo":{"name":"` + name + `","version":"1"}}`))
		}
		r := &call.Request{Params: &wire.Params{Target: "x", Meta: meta, State: state, HasState: state != ""}}
		r.Handler, r.Session, r.InSession = &call.Handler{Method: wire.CallTool}, session, session != nil
		var at call.Home = c.Home(r)
		if r.InSession {
			at = c.Held(r, session)
		}
		opened := expect.Must(at.Open(t.Context()))(t)
		return r, opened
	}
	for name, want := range map[string]bool{"plain": true, "rich": false, "panics": false, "": false} {
		if _, opened := open(name, nil, ""); opened.Journal.PlainForms != want {
			t.Errorf("%q shows plain forms only: %v", name, opened.Journal.PlainForms)
		}
	}
	if !strings.Contains(log.String(), "Options.PlainForms panicked") {
		t.Errorf("the log is %q", &log)
	}
	if _, opened := open("", session, ""); !opened.Journal.PlainForms {
		t.Error("the client of a session is not known")
	}
	// A later round has it from the journal, whoever sends it.
	r, opened := open("plain", nil, "")
	opened.Journal.Round = 1
	state, _, err := c.Home(r).Seal(t.Context(), opened.Journal)
	expect.Check(t, err)
	before := asked
	if _, opened := open("rich", nil, state); !opened.Journal.PlainForms || asked != before {
		t.Errorf("the next round: %v, asked %d times", opened.Journal.PlainForms, asked-before)
	}
}
