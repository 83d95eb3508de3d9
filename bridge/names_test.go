package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// with is a server with a prefix and a choice of its tools.
func with(s bridge.Server, prefix string, choice bridge.Choice) bridge.Server {
	s.Prefix, s.Tools = prefix, choice
	return s
}

// offered are the names of the tools of a bridge, without its own.
func offered(t *testing.T, s *client.Session) []string {
	t.Helper()
	return slices.DeleteFunc(toolNames(t, s), func(name string) bool { return name == "askback_result" })
}

// promptNames are the names of the prompts of a bridge.
func promptNames(t *testing.T, s *client.Session) (names []string) {
	t.Helper()
	for prompt := range expect.Each(t, s.SDK().Prompts(t.Context(), nil)) {
		names = append(names, prompt.Name)
	}
	slices.Sort(names)
	return names
}

// The operator says which tools are offered, and under which names. Each pattern is compared with a tool's name at the
// server, with that one behind its prefix, and with its new name.
func TestToolsAreChosen(t *testing.T) {
	web := small(t, "a", "create", "delete", "list")
	for name, c := range map[string]struct {
		prefix      string
		one, all    bridge.Choice
		want        []string
		text        string // of the first of them
		wantPrompts string
	}{
		"all": {prefix: "a", want: []string{"a_create", "a_delete", "a_list"}, text: "create of a",
			wantPrompts: "a_greet"},
		"no prefix": {want: []string{"create", "delete", "list"}, text: "create of a", wantPrompts: "greet"},
		"another separator": {prefix: "a.", want: []string{"a.create", "a.delete", "a.list"}, text: "create of a",
			wantPrompts: "a.greet"},
		"a prefix of the bridge's": {prefix: "askback_", one: bridge.Choice{Rename: map[string]string{"list": "result"},
			Allow: []string{"list"}}, want: []string{"askback_result-"}, text: "list of a", wantPrompts: "askback_greet"},
		"allowed":               {one: bridge.Choice{Allow: []string{"[cd]*TE"}}, want: []string{"create", "delete"}},
		"allowed by the prefix": {prefix: "a", one: bridge.Choice{Allow: []string{"a_l*"}}, want: []string{"a_list"}},
		"none is allowed":       {one: bridge.Choice{Allow: []string{}}},
		"allowed by both": {one: bridge.Choice{Allow: []string{"create", "list"}},
			all: bridge.Choice{Allow: []string{"create", "delete"}}, want: []string{"create"}},
		"denied": {one: bridge.Choice{Allow: []string{"*"}, Deny: []string{"d*"}}, all: bridge.Choice{Deny: []string{"list"}},
			want: []string{"create"}},
		"denied under each name": {prefix: "a",
			one: bridge.Choice{Rename: map[string]string{"create": "new", "delete": "old", "list": "all"},
				Deny: []string{"create", "a_delete", "a_al?"}}},
		"renamed": {prefix: "a", one: bridge.Choice{Rename: map[string]string{"create": "Add.it", "a_list": "_all"}},
			want: []string{"_all", "a_Add.it", "a_delete"}, text: "list of a"},
		"swapped": {one: bridge.Choice{Rename: map[string]string{"create": "delete", "delete": "create"}},
			want: []string{"create", "delete", "list"}, text: "delete of a"},
		"the one of the server stands first": {one: bridge.Choice{Rename: map[string]string{"create": "add"}},
			all:  bridge.Choice{Rename: map[string]string{"create": "new", "list": "all"}},
			want: []string{"add", "all", "delete"}, text: "create of a"},
		"a name that another one has": {one: bridge.Choice{Rename: map[string]string{"create": "list"}},
			want: []string{"delete", "list-", "list-"}},
	} {
		t.Run(name, func(t *testing.T) {
			front := newFront(t, "", inFront(with(at(web.URL), c.prefix, c.one)),
				func(o *bridge.Options) { o.Tools = c.all })
			s := host(t, front.url, "", client.Options{})
			got := offered(t, s)
			if !slices.EqualFunc(got, c.want, func(got, want string) bool {
				return got == want || strings.HasSuffix(want, "-") && strings.HasPrefix(got, want)
			}) {
				t.Fatalf("the tools are %q, want %q", got, c.want)
			}
			for _, tool := range got {
				if text, failed := call(t, s, tool, nil); failed || tool == got[0] && c.text != "" && text != c.text {
					t.Errorf("%s returns %q", tool, text)
				}
			}
			if prompts := promptNames(t, s); c.wantPrompts != "" && !slices.Equal(prompts, []string{c.wantPrompts}) {
				t.Errorf("the prompts are %q", prompts)
			}
		})
	}
}

// Options that no name can have, or no pattern match, are refused.
func TestChoicesAreChecked(t *testing.T) {
	for _, s := range []bridge.Server{
		{Prefix: "a b"}, {Prefix: "ä"}, {Prefix: strings.Repeat("a", 129)}, {NameLength: 15}, {NameLength: 129},
		{Tools: bridge.Choice{Allow: []string{"["}}}, {Tools: bridge.Choice{Deny: []string{"a b"}}},
		{Tools: bridge.Choice{Rename: map[string]string{"a": ""}}}, {NameLength: -1},
		{Tools: bridge.Choice{Rename: map[string]string{"a": "b/c"}}},
		{Tools: bridge.Choice{Rename: map[string]string{"": "b"}}},
	} {
		opts := frontOptions(t, "")
		opts.Servers = []bridge.Server{s}
		b, err := bridge.Open(t.Context(), opts)
		if err == nil {
			b.Close()
			t.Errorf("a bridge in front of %+v opens", s)
		}
	}
	if _, err := bridge.Open(t.Context(), &bridge.Options{Server: frontOptions(t, "").Server}); err == nil {
		t.Error("a bridge in front of nothing opens")
	}
}

// A tool that is denied answers as one that does not exist, also if it appears later.
func TestADeniedToolIsUnknown(t *testing.T) {
	srv := newBehind(t)
	front := newFront(t, "", inFront(with(at(srv.url), "", bridge.Choice{Deny: []string{"echo", "lat*"}})))
	for _, name := range []string{"late", "later on"} {
		askback.AddTool(srv.Server, &mcp.Tool{Name: name}, func(context.Context, *askback.Call, struct{}) (string, error) {
			srv.done("late")
			return "", nil
		})
	}
	addSaying(srv.Server, "fine", "")
	for _, version := range revisions {
		s := host(t, front.url, version, client.Options{})
		eventually(t, "the new tool is listed", func() bool { return slices.Contains(offered(t, s), "fine") })
		if names := offered(t, s); slices.Contains(names, "echo") || slices.Contains(names, "late") {
			t.Errorf("%s: the tools are %q", version, names)
		}
		fault := func(tool string) string {
			_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
			wire, ok := errors.AsType[*jsonrpc.Error](err)
			if !ok {
				t.Fatalf("%s: %s returns the error %v", version, tool, err)
			}
			wire.Message = strings.ReplaceAll(wire.Message, tool, "TOOL")
			return wire.Error() + string(wire.Data)
		}
		for _, tool := range []string{"echo", "late"} {
			if got, want := fault(tool), fault("nothing"); got != want {
				t.Errorf("%s: %s answers %q, and an unknown tool %q", version, tool, got, want)
			}
		}
	}
	if srv.count("echo")+srv.count("late") > 0 {
		t.Error("a denied tool has run")
	}
}

// An approval goes on to guard a tool that has another name, whichever of its names the pattern has.
func TestRenamesOpenNoGate(t *testing.T) {
	long := "delete_" + strings.Repeat("x", 80)
	web := small(t, "a", "delete", long)
	renamed := with(named("a", web.URL), "a",
		bridge.Choice{Rename: map[string]string{"delete": "tidy", long: "t" + long[1:]}})
	renamed.NameLength = 64
	for _, pattern := range []string{"delete*", "a_del*", "a_t*", "A_T*"} {
		front := newFront(t, "", inFront(renamed), approving(bridge.Approval{Tools: []string{pattern}}))
		s := host(t, front.url, "", client.Options{Tasks: client.TasksOff})
		names := offered(t, s)
		cut := regexp.MustCompile(`^a_telete_x{46}-[0-9a-f]{8}$`)
		if len(names) != 2 || names[1] != "a_tidy" || !cut.MatchString(names[0]) {
			t.Fatalf("the tools are %q", names)
		}
		for _, tool := range names {
			if text, _ := call(t, s, tool, nil); strings.HasSuffix(text, "of a") {
				t.Errorf("%s: %s has run: %q", pattern, tool, text)
			}
		}
	}
	for pattern, want := range map[string]bool{"delete": true, "a_delete": true, "a_tidy": true, "tidy": false} {
		front := newFront(t, "", inFront(renamed), approving(bridge.Approval{Tools: []string{pattern, long}}))
		text, _ := call(t, host(t, front.url, "", client.Options{Tasks: client.TasksOff}), "a_tidy", nil)
		if got := text != "delete of a"; got != want {
			t.Errorf("%s: the call returns %q", pattern, text)
		}
	}
}

// Two servers may have tools of one name without a prefix. Each then gets a digest of its own, in whichever order the
// servers stand and answer, also after a restart. Prompts do the same.
func TestTwoToolsWithOneName(t *testing.T) {
	t.Parallel()
	a, b := small(t, "a", "create", "list"), small(t, "b", "create", "show")
	lateA := newSwitched(t, a.Config.Handler, fails)
	var want, prompts []string
	for name, servers := range map[string][]bridge.Server{
		"in order":  {with(named("a", a.URL), "", bridge.Choice{}), with(named("b", b.URL), "", bridge.Choice{})},
		"reversed":  {with(named("b", b.URL), "", bridge.Choice{}), with(named("a", a.URL), "", bridge.Choice{})},
		"one late":  {with(named("a", lateA.URL), "", bridge.Choice{}), with(named("b", b.URL), "", bridge.Choice{})},
		"in shared": {with(named("a", a.URL), "", bridge.Choice{}), with(named("b", b.URL), "", bridge.Choice{})},
	} {
		log := new(logged)
		front := newFront(t, "", inFront(servers...), log.into)
		s := host(t, front.url, "", client.Options{})
		if name == "one late" {
			expect.Same(t, "the tools of the server that is there", offered(t, s), []string{"create", "show"})
			lateA.mode.Store(works)
			lateA.CloseClientConnections()
		}
		eventually(t, "all are listed", func() bool { return len(offered(t, s)) == 4 && len(promptNames(t, s)) == 2 })
		names := offered(t, s)
		if want == nil {
			want, prompts = names, promptNames(t, s)
		}
		if !slices.Equal(names, want) || !slices.Equal(promptNames(t, s), prompts) {
			t.Fatalf("%s: the tools are %q, the prompts %q, and were %q and %q", name, names, promptNames(t, s), want, prompts)
		}
		first, _ := call(t, s, names[0], nil)
		second, _ := call(t, s, names[1], nil)
		if got := []string{first, second}; !slices.Contains(got, "create of a") || !slices.Contains(got, "create of b") {
			t.Errorf("%s: the tools return %q", name, got)
		}
		if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "create"}); err == nil {
			t.Errorf("%s: the name that is nobody's is called", name)
		}
		expect.Contains(t, name+": the log", log.String(), `name=create as=`+names[0])
		for _, prompt := range prompts {
			got, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: prompt})
			if err != nil || !strings.HasPrefix(got.Description, "Hello from ") {
				t.Errorf("%s: the prompt %s: %+v, %v", name, prompt, got, err)
			}
			done, err := s.SDK().Complete(t.Context(), &mcp.CompleteParams{Ref: &mcp.CompleteReference{Type: "ref/prompt",
				Name: prompt}, Argument: mcp.CompleteParamsArgument{Name: "who"}})
			if err != nil || len(done.Completion.Values) != 1 || "Hello from "+done.Completion.Values[0] != got.Description {
				t.Errorf("%s: the completion of %s: %+v, %v", name, prompt, done, err)
			}
		}
		front.stop()
	}
}

// A tool that comes or goes changes the names of those that want the same one, and of no other.
func TestNamesFollowTheLists(t *testing.T) {
	srv := newBehind(t)
	front := newFront(t, "", inFront(with(named("a", small(t, "a", "create").URL), "", bridge.Choice{}),
		with(named("b", srv.url), "", bridge.Choice{Allow: []string{"create"}})))
	s := host(t, front.url, "", client.Options{})
	if names := offered(t, s); !slices.Equal(names, []string{"create"}) {
		t.Fatalf("the tools are %q", names)
	}
	addSaying(srv.Server, "create", "create of b")
	eventually(t, "both have a digest", func() bool {
		names := offered(t, s)
		return len(names) == 2 && !slices.Contains(names, "create")
	})
	srv.mcp.RemoveTools("create")
	eventually(t, "the other one has its name again", func() bool {
		return slices.Equal(offered(t, s), []string{"create"})
	})
	returns(t, s, "create", nil, "create of a")
}

// Names are cut to what a host takes, at the same place each time, and two of them stay apart.
func TestNamesAreCut(t *testing.T) {
	start := strings.Repeat("n", 70)
	cut := named("a", small(t, "a", start+"one", start+"two", "short").URL)
	cut.NameLength = 64
	var before []string
	for range 2 {
		front := newFront(t, "", inFront(cut))
		s := host(t, front.url, "", client.Options{})
		names := offered(t, s)
		if len(names) != 3 || before != nil && !slices.Equal(names, before) || names[2] != "a_short" {
			t.Fatalf("the tools are %q, and were %q", names, before)
		}
		before = names
		var texts []string
		for _, name := range names[:2] {
			if !regexp.MustCompile(`^a_n{53}-[0-9a-f]{8}$`).MatchString(name) {
				t.Errorf("the name is %q", name)
			}
			text, _ := call(t, s, name, nil)
			texts = append(texts, text)
		}
		if slices.Sort(texts); !slices.Equal(texts, []string{start + "one of a", start + "two of a"}) {
			t.Errorf("the tools return %q", texts)
		}
	}
}

// A pattern or a name that no tool has is said in the log, once a server's tools are known.
func TestChoicesWithoutATool(t *testing.T) {
	t.Parallel()
	log := new(logged)
	late := newSwitched(t, small(t, "late", "create").Config.Handler, fails)
	newFront(t, "", log.into, inFront(
		with(named("a", small(t, "a", "create", "delete").URL), "a", bridge.Choice{Allow: []string{"*", "crate"},
			Deny: []string{"delte*", "a_del*"}, Rename: map[string]string{"lst": "list", "create": "new", "a_delete": "gone"}}),
		with(named("late", late.URL), "late", bridge.Choice{Deny: []string{"anything"}}),
	), func(o *bridge.Options) {
		o.Tools = bridge.Choice{Deny: []string{"b_*", "late_x"}, Allow: []string{"*"}}
	})
	var got []string
	for line := range strings.Lines(log.String()) {
		if _, text, ok := strings.Cut(line, `msg="bridge: no tool matches a pattern of `); ok {
			got = append(got, strings.TrimSpace(text))
		}
	}
	want := []string{`what is denied" pattern=b_*`, `what is allowed at a" pattern=crate`,
		`what is denied at a" pattern=delte*`, `what is renamed at a" pattern=lst`}
	expect.Same(t, "the log has", got, want)
}

// A call that waits belongs to a tool of a server, and not to a name: after its tool was renamed it goes on there, and
// never at another tool that has got the name. Without its tool it ends.
func TestACallStaysWithItsTool(t *testing.T) {
	for name, c := range map[string]struct {
		prefix     string
		choice     bridge.Choice
		goes, runs bool
	}{
		"renamed":   {"", bridge.Choice{Rename: map[string]string{"order": "buy"}}, false, true},
		"swapped":   {"", bridge.Choice{Rename: map[string]string{"order": "echo", "echo": "order"}}, false, true},
		"a prefix":  {"shop", bridge.Choice{}, false, true},
		"denied":    {"", bridge.Choice{Deny: []string{"order"}}, false, false},
		"succeeded": {"", bridge.Choice{Rename: map[string]string{"echo": "order"}}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newBehind(t)
			lease := func(o *bridge.Options) { o.Server.Tasks.Lease = time.Second }
			before := newFront(t, srv.url, lease)
			s := host(t, before.url, "", client.Options{Tasks: client.TasksOff})
			waits(t, s, "order", map[string]any{"item": "hat"})
			before.stop()
			if c.goes {
				srv.mcp.RemoveTools("order")
			}
			then := newFront(t, "", inFront(with(at(srv.url), c.prefix, c.choice)), lease, patient, after(before))
			q := then.answer(t, "ada", desk.Answer{Action: "accept", Content: json.RawMessage(`{"color":"blue"}`)})
			if c.runs {
				then.answer(t, "ada", desk.Answer{Action: "accept"})
			}
			text := fetch(t, host(t, then.url, "", client.Options{Tasks: client.TasksOff}), q.Name)
			want := `no longer offers the tool "order"`
			if c.runs {
				want = "blue hat ordered"
			}
			if !strings.Contains(text, want) || srv.count("order") > 0 != c.runs || srv.count("echo") > 0 {
				t.Errorf("the call returns %q", text)
			}
		})
	}
}
