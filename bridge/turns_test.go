package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/bridge"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// stateful is an older program. Each process remembers what was done in it.
type stateful struct {
	started atomic.Int64
	meet    atomic.Pointer[sync.WaitGroup] // of calls of "meet" at once
}

func (s *stateful) connect() (mcp.Transport, error) {
	s.started.Add(1)
	m := mcp.NewServer(&mcp.Implementation{Name: "memory", Version: "1"},
		&mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-06-18"},
			SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
			UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil }})
	kept := make(map[string]string)
	var mu sync.Mutex
	m.AddResourceTemplate(&mcp.ResourceTemplate{Name: "note", URITemplate: "note://{name}"},
		func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			mu.Lock()
			defer mu.Unlock()
			if _, ok := kept[req.Params.URI]; !ok {
				return nil, mcp.ResourceNotFoundError(req.Params.URI)
			}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, Text: kept[req.Params.URI]}}},
				nil
		})
	tool := func(name string, h func(context.Context, *mcp.CallToolRequest, string) (string, error)) {
		mcp.AddTool(m, &mcp.Tool{Name: name}, func(ctx context.Context, req *mcp.CallToolRequest, in subject) (
			*mcp.CallToolResult, any, error,
		) {
			said, err := h(ctx, req, in.Name)
			return text("%s", said), nil, err
		})
	}
	tool("keep", func(ctx context.Context, _ *mcp.CallToolRequest, name string) (string, error) {
		mu.Lock()
		kept["note://"+name] = name
		n := len(kept)
		mu.Unlock()
		m.AddTool(&mcp.Tool{Name: "read_" + name, InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("%s", name), nil })
		_ = m.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: "note://" + name})
		return fmt.Sprint(n), nil
	})
	tool("meet", func(_ context.Context, _ *mcp.CallToolRequest, name string) (string, error) {
		if all := s.meet.Load(); all != nil {
			all.Done()
			all.Wait()
		}
		return name, nil
	})
	tool("ask", func(ctx context.Context, req *mcp.CallToolRequest, name string) (string, error) {
		return elicit(ctx, req, "How is "+name+"?")
	})
	tool("forever", func(ctx context.Context, _ *mcp.CallToolRequest, _ string) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	near, far := mcp.NewInMemoryTransports()
	if _, err := m.Connect(context.Background(), far, nil); err != nil {
		return nil, err
	}
	return near, nil
}

func (s *stateful) inFront(o *bridge.Options) {
	o.Servers = []bridge.Server{{Identity: "memory", Connect: s.connect}}
}

// What a program remembers is there for everything that its caller does: for calls at once, reads and lists, and after
// a cancelled call.
func TestACallerHasOneProcess(t *testing.T) {
	s := new(stateful)
	updates := make(chan string, 10)
	f := newFront(t, "", s.inFront)
	session := host(t, f.url, "2025-11-25", client.Options{SDK: mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
			updates <- req.Params.URI
		},
	}})
	expect.Check(t, session.SDK().Subscribe(t.Context(), &mcp.SubscribeParams{URI: "note://one"}))
	returns(t, session, "keep", subject{"one"}, "1")
	expect.Equal(t, "the resource that has changed", <-updates, "note://one")
	call(t, session, "meet", nil) // and so it is known not to ask
	all := new(sync.WaitGroup)
	all.Add(3)
	s.meet.Store(all)
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() { call(t, session, "meet", nil) })
	}
	calls.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "forever"})
		ended <- err
	}()
	cancel()
	<-ended
	expect.Equal(t, "the note", expect.Must(session.SDK().ReadResource(t.Context(),
		&mcp.ReadResourceParams{URI: "note://one"}))(t).Contents[0].Text, "one")
	returns(t, session, "keep", subject{"two"}, "2")
	eventually(t, "the tool of the note is listed", func() bool {
		for tool, err := range session.SDK().Tools(t.Context(), nil) {
			if err == nil && tool.Name == "read_two" {
				return true
			}
		}
		return false
	})
	if n := s.started.Load(); n != 2 { // one of them for the first lists
		t.Errorf("%d processes were started, want 2", n)
	}
}

// While a question is open, calls that may ask do not begin, and say why. All others do.
func TestCallsThatMayAskTakeTurns(t *testing.T) {
	bridge.ShortTimes(t, 50*time.Millisecond, time.Minute, 20*time.Millisecond)
	s := new(stateful)
	f := newFront(t, "", s.inFront)
	session := host(t, f.url, "", client.Options{Tasks: client.TasksOff})
	call(t, session, "keep", subject{"one"})
	call(t, session, "ask", subject{"Ada"})
	name := f.waits(t)
	for _, tool := range []string{"ask", "meet"} { // of the second nobody knows
		refuses(t, session, tool, subject{"Bob"}, `not sent: the answer to "How is Ada?" is awaited`, name)
	}
	returns(t, session, "keep", subject{"two"}, "2")
	if _, err := session.SDK().ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "note://two"}); err != nil {
		t.Error(err)
	}
	f.answer(t, "ada", says("fine"))
	expect.Equal(t, "the call that asked", fetch(t, session, name), "fine")
	returns(t, session, "meet", subject{"Bob"}, "Bob")
}

// A server asks for the roots as soon as a session has begun, when no call is open, in each of its sessions. That is
// refused, and nothing else of the session suffers.
func TestAServerAsksForTheRootsWithoutACall(t *testing.T) {
	refused := make(chan error, 10)
	m := mcp.NewServer(&mcp.Implementation{Name: "curious", Version: "1"}, &mcp.ServerOptions{
		InitializedHandler: func(ctx context.Context, req *mcp.InitializedRequest) {
			go func() {
				_, err := req.Session.ListRoots(context.WithoutCancel(ctx), nil)
				refused <- err
			}()
		},
	})
	m.AddTool(&mcp.Tool{Name: "plain", InputSchema: json.RawMessage(`{"type":"object"}`)},
		func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("done"), nil })
	f := newFront(t, "", func(o *bridge.Options) {
		o.Servers[0].Version = "2025-06-18"
		o.Servers[0].Connect = func() (mcp.Transport, error) { return inMemory(m) }
	})
	s := host(t, f.url, "", able())
	if err := <-refused; err == nil {
		t.Error("it has roots outside of a call")
	}
	returns(t, s, "plain", nil, "done")
}
