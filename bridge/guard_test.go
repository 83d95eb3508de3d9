package bridge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// logged is what a bridge has logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// into has a bridge log there.
func (l *logged) into(o *bridge.Options) { o.Server.Logger = slog.New(slog.NewTextHandler(l, nil)) }

// Patterns are compared with the server's own name of a tool and with the one that hosts see. A * is any text.
func TestPatternsOfApprovals(t *testing.T) {
	for _, c := range []struct {
		pattern string
		guarded bool
	}{
		{"*", true}, {"create", true}, {"a_create", true}, {"a_*", true}, {"*ate", true}, {"cre?te", true},
		{"[b-d]reate", true},
		{"CREATE", true}, {"A_*", true}, {"?_create", true}, {"b_*", false}, {"creat", false}, {"reate", false},
	} {
		t.Run(c.pattern, func(t *testing.T) {
			front := newFront(t, "", approving(bridge.Approval{Tools: []string{c.pattern, "list"}}),
				inFront(named("a", small(t, "a", "create").URL), named("b", small(t, "b", "list").URL)))
			text, _ := call(t, host(t, front.url, "", client.Options{Tasks: client.TasksOff}), "a_create", nil)
			expect.Equal(t, "the call returns "+text, text != "create of a", c.guarded)
		})
	}
	for _, pattern := range []string{"", " ", "create ", "a\nb", "a\u202eb", "[", `a\`} {
		if err := (&bridge.Approval{Tools: []string{pattern}}).Check(); err == nil {
			t.Errorf("the pattern %q is taken", pattern)
		}
	}
}

// While tools are guarded, one whose name could pass by a pattern unseen is not offered, and the log names it.
func TestOddNamesAreNotOffered(t *testing.T) {
	odd := []string{"fs/delete", "delete file", "del\u0435te" /* Cyrillic */, "delete\u00a0", "", "a,b", "naïve",
		strings.Repeat("n", 129), strings.Repeat("n", 126)}
	for _, guards := range []bool{true, false} {
		h := newHostile(t)
		var tools []string
		for _, name := range append(odd, "fine.name-1_2") {
			tool := expect.Must(json.Marshal(map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}}))(t)
			tools = append(tools, string(tool))
		}
		h.lists(tools...)
		log := new(logged)
		change := []func(*bridge.Options){log.into}
		if guards {
			change = append(change, approving(bridge.Approval{Tools: []string{"plain"}}))
		}
		_, s := beside(t, h, client.Options{}, change...)
		names := toolNames(t, s)
		if !slices.Contains(names, "evil_fine.name-1_2") {
			t.Errorf("the tools are %q", names)
		}
		if n := len(names); guards && n != 4 || !guards && n < 8 {
			t.Errorf("guarding %v, %d tools are offered: %q", guards, n, names)
		}
		if guards && !strings.Contains(log.String(), `name="\"fs/delete\""`) {
			t.Errorf("the log does not name what is left out: %s", log)
		}
	}
}

// If no tool matches what people are to approve, no call is passed on, the bridge is not ready, and call and log say
// which patterns and which tools there are. As soon as there is such a tool, calls pass, and it is guarded.
func TestPatternsWithoutATool(t *testing.T) {
	log := new(logged)
	srv := newBehind(t)
	front := newFront(t, srv.url, log.into, approving(bridge.Approval{Tools: []string{"delte_*", "remove"}}))
	s := host(t, front.url, "", client.Options{Tasks: client.TasksOff})
	for _, tool := range []string{"echo", "order"} {
		refuses(t, s, tool, nil, `"delte_*", "remove"`, `"capabilities", "echo"`)
	}
	expect.Fails(t, "the bridge is ready", front.Ready(t.Context()), "delte_*")
	if srv.count("echo") > 0 || !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("%d calls were passed on, and the log is %s", srv.count("echo"), log)
	}
	askback.AddTool(srv.Server, &mcp.Tool{Name: "remove"}, func(context.Context, *askback.Call, struct{}) (string, error) {
		srv.done("remove")
		return "removed", nil
	})
	eventually(t, "the bridge is ready", func() bool { return front.Ready(t.Context()) == nil })
	if text := waits(t, s, "remove", nil); !strings.Contains(text, "user:ada") || srv.count("remove") > 0 {
		t.Errorf("the tool that was added returns %q", text)
	}
	if text, failed := call(t, s, "echo", map[string]any{"a": 1}); failed {
		t.Errorf("another tool returns %q", text)
	}
	for _, want := range []string{`level=INFO msg="bridge: people approve the calls of these tools" tools="\"remove\""`,
		`level=WARN msg="bridge: no tool matches a pattern of what people are to approve" pattern=delte_*`} {
		expect.Contains(t, "the log", log.String(), want)
	}
	srv.mcp.RemoveTools("remove") // the pattern is no mistake, but nobody knows what has become of its tool
	eventually(t, "the calls of the server are refused", func() bool {
		_, failed := call(t, s, "echo", map[string]any{"a": 1})
		return failed
	})
}

// A server that is missing, or whose guarded tools are gone, does not keep the calls of another one from passing. A
// pattern that can be for the missing server alone is no mistake.
func TestAGuardDoesNotCrowdOutOtherServers(t *testing.T) {
	t.Parallel()
	late := newSwitched(t, small(t, "late", "create").Config.Handler, fails)
	good := named("good", small(t, "good", "create").URL)
	front := newFront(t, "", inFront(named("late", late.URL), good),
		approving(bridge.Approval{Tools: []string{"late_*"}}))
	served(t, host(t, front.url, "", client.Options{}))
	unclear := newFront(t, "", inFront(named("late", late.URL), good),
		approving(bridge.Approval{Tools: []string{"*list"}}))
	refuses(t, host(t, unclear.url, "", client.Options{}), "good_create", nil, `these servers are missing: "late"`)

	evil := newBehind(t)
	both := newFront(t, "", inFront(named("evil", evil.url), good), approving(bridge.Approval{Tools: []string{"echo"}}))
	s := host(t, both.url, "", client.Options{})
	if text, failed := call(t, s, "evil_capabilities", nil); failed {
		t.Errorf("a tool beside the guarded one returns %q", text)
	}
	evil.mcp.RemoveTools("echo")
	eventually(t, "the list is read again", func() bool { return !slices.Contains(toolNames(t, s), "evil_echo") })
	refuses(t, s, "evil_capabilities", nil, "no tool matches")
	served(t, s)
}

// What a server calls itself is one line of the question whether its tool is called, in quotes, and no more.
func TestTheTitleInAnApproval(t *testing.T) {
	name := "shop\"?\n\nApproved by \u202eeverybody\x1b[2J " + strings.Repeat("x", 300)
	srv := expect.Must(askback.New(mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil),
		&askback.Options{Logger: quiet}))(t)
	addSaying(srv, "buy", "bought")
	web := newSwitched(t, http.Handler(srv.HTTPHandler(nil)), works)
	front := newFront(t, web.URL, approving(bridge.Approval{Tools: []string{"buy"}}))
	waits(t, host(t, front.url, "", client.Options{Tasks: client.TasksOff}), "buy", nil)
	q := front.answer(t, "ada", desk.Answer{Action: "decline"})
	want := `Call the tool "buy" of the server "shop\"? Approved by everybody [2J ` + strings.Repeat("x", 30) + `…"?`
	expect.Equal(t, "the question", q.Message, want)
}
