package bridge_test

import (
	"cmp"
	"context"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// starting is a bridge whose servers are not up yet.
type starting struct {
	*front
	release func() // has the servers that are held answer
	started chan error
}

// newStarting starts a bridge in front of servers, of which those that are held do not answer before release.
func newStarting(
	t *testing.T, approval *bridge.Approval, lists time.Duration, held bridge.Server, others ...bridge.Server,
) *starting {
	t.Helper()
	opts := frontOptions(t, "")
	opts.Approve = approval
	gate := make(chan struct{})
	connect := held.Connect
	held.Connect = func() (mcp.Transport, error) {
		<-gate
		return connect()
	}
	opts.Servers, opts.Lists, opts.Start = append(others, held), lists, time.Minute
	b := expect.Must(bridge.New(opts))(t)
	s := &starting{front: &front{Bridge: b}, release: sync.OnceFunc(func() { close(gate) }), started: make(chan error, 1)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.started <- b.Start(context.Background())
	}()
	web := httptest.NewServer(b.Server().HTTPHandler(nil))
	s.url = web.URL
	t.Cleanup(func() {
		s.release()
		<-ended
		web.CloseClientConnections()
		web.Close()
		b.Close()
	})
	return s
}

// A host is answered before the servers are up. What it lists then is what is known, and it is told of the rest.
func TestAHostComesBeforeTheServers(t *testing.T) {
	for _, version := range revisions {
		t.Run(version, func(t *testing.T) {
			behind := at(small(t, "late", "create").URL)
			s := newStarting(t, nil, time.Nanosecond, behind)
			changed := make(chan struct{}, 100)
			h := host(t, s.url, version, client.Options{SDK: mcp.ClientOptions{
				ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
			}})
			can := h.SDK().InitializeResult().Capabilities
			if can.Tools == nil || !can.Tools.ListChanged || can.Prompts == nil || can.Resources == nil ||
				can.Completions == nil {
				t.Errorf("the bridge can %+v", can)
			}
			list, err := h.SDK().ListTools(t.Context(), nil)
			if err != nil || len(list.Tools) != 1 || list.TTLMs != 0 {
				t.Fatalf("the early list is %+v, %v", list, err)
			}
			for kind, err := range map[string]error{
				"prompts":   expect.Err(h.SDK().ListPrompts(t.Context(), nil)),
				"resources": expect.Err(h.SDK().ListResources(t.Context(), nil)),
				"templates": expect.Err(h.SDK().ListResourceTemplates(t.Context(), nil)),
			} {
				if err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			}
			called := calling(t, h, "create", nil)
			if s.Ready(t.Context()) == nil {
				t.Error("a bridge that starts is ready")
			}
			s.release()
			expect.Check(t, cmp.Or(<-s.started, s.Ready(t.Context())))
			expect.Equal(t, "a call that waited for its server", <-called, "create of late")
			<-changed
			expect.Same(t, "the tools", toolNames(t, h), []string{"askback_result", "create"})
			later := host(t, s.url, version, client.Options{}).SDK().InitializeResult()
			if later.Instructions != "Be kind to late." || later.Capabilities.Logging == nil {
				t.Errorf("told later: %+v", later)
			}
		})
	}
}

// A list waits for the servers, but a call only for its own.
func TestACallWaitsForItsServerOnly(t *testing.T) {
	t.Parallel()
	s := newStarting(t, nil, time.Hour, named("late", small(t, "late", "create").URL),
		named("early", small(t, "early", "create").URL))
	for _, version := range revisions {
		// The first hears who the bridge is after a second.
		h := host(t, s.url, version, client.Options{Tasks: client.TasksOff})
		returns(t, h, "early_create", nil, "create of early")
		expect.Equal(t, version, expect.Must(h.SDK().GetPrompt(t.Context(),
			&mcp.GetPromptParams{Name: "early_greet"}))(t).Description, "Hello from early")
	}
	h := host(t, s.url, "", client.Options{})
	listed := make(chan []string, 1)
	go func() { listed <- toolNames(t, h) }()
	select {
	case names := <-listed:
		t.Errorf("listed %q before the server was there", names)
	default:
	}
	s.release()
	if names := <-listed; !slices.Contains(names, "late_create") {
		t.Errorf("the list that waited is %q", names)
	}
}

// No call passes before it is known whether the patterns of what people approve match anything.
func TestNoCallIsEarlierThanItsApproval(t *testing.T) {
	for pattern, want := range map[string]string{"delte_*": "no tool matches", "late_*": "create of early"} {
		t.Run(pattern, func(t *testing.T) {
			s := newStarting(t, &bridge.Approval{Tools: []string{pattern}}, time.Nanosecond,
				named("late", small(t, "late", "create").URL), named("early", small(t, "early", "create").URL))
			for _, version := range revisions {
				h := host(t, s.url, version, client.Options{Tasks: client.TasksOff})
				eventually(t, "the tool is there", func() bool { return slices.Contains(toolNames(t, h), "early_create") })
				called := calling(t, h, "early_create", nil)
				defer func() {
					expect.Contains(t, version, <-called, want)
				}()
			}
			s.release()
		})
	}
}

// A call hears of its server also where that has nothing but tools, and the instructions of a server that has just come
// are told while others start.
func TestACallHearsOfToolsAlone(t *testing.T) {
	srv := expect.Must(askback.New(mcp.NewServer(&mcp.Implementation{Name: "only", Version: "1"}, nil),
		&askback.Options{Logger: quiet}))(t)
	addSaying(srv, "create", "created")
	web := harness.Serve(t, srv.HTTPHandler(nil))
	unnamed := at(web.URL)
	unnamed.Prefix = "only"
	gate := make(chan struct{})
	connect := unnamed.Connect
	unnamed.Connect = func() (mcp.Transport, error) { <-gate; return connect() }
	s := newStarting(t, nil, time.Nanosecond, named("late", small(t, "late", "create").URL), unnamed)
	h := host(t, s.url, "", client.Options{Tasks: client.TasksOff})
	called := calling(t, h, "only_create", nil)
	close(gate)
	for {
		select {
		case text := <-called:
			expect.Equal(t, "the result", text, "created")
			return
		default:
			host(t, s.url, "2025-11-25", client.Options{Tasks: client.TasksOff})
		}
	}
}
