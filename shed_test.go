package askback_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/state"
)

// These tests check how calls are handed back because of Limits.Calls.

// addOccupant adds a tool that is called by occupy.
func addOccupant(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "occupy"}, func(ctx context.Context, call *askback.Call,
		_ map[string]any) (string, error) {
		close(ctx.Value(occupied{}).(chan struct{}))
		<-ctx.Done()
		return "", ctx.Err()
	})
}

type occupied struct{}

// occupy takes one of a caller's calls until leave.
func occupy(t *testing.T, h http.Handler, user string) (leave func()) {
	runs, left := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), occupied{}, runs))
	r := harness.Request{Target: "occupy", Header: http.Header{"X-User": {user}}}
	r.Context = func(r *http.Request) *http.Request { return r.WithContext(ctx) }
	go func() {
		defer close(left)
		r.Send(t, h)
	}()
	select {
	case <-runs:
	case <-left: // handed back: another one has it
	}
	return func() {
		cancel()
		<-left
	}
}

// A call that comes while its caller's share of calls is used up is handed back with a state and no questions, whatever
// it brings, and goes on from there at another instance. Nothing is asked or done twice.
func TestCallsAreHandedBack(t *testing.T) {
	t.Parallel()
	for name, configure := range map[string]func(o *askback.Options){
		"sealed":    func(*askback.Options) {},
		"used once": func(o *askback.Options) { o.ReplayGuard = new(state.MemoryGuard) },
		"stored":    func(o *askback.Options) { o.States = &state.Options{Store: new(state.MemoryStore), Mode: state.Dual} },
		"stored, and used once": func(o *askback.Options) {
			o.States = &state.Options{Store: new(state.MemoryStore), Mode: state.Dual}
			o.ReplayGuard = new(state.MemoryGuard)
		},
		"without a first state": func(o *askback.Options) { o.BareFirstRound = true },
	} {
		t.Run(name, func(t *testing.T) {
			harness.Bubble(t, func(t *testing.T) {
				var mu sync.Mutex
				var told []string
				var log harness.Log
				opts := &askback.Options{
					Keys: harness.NewRing(t), Principal: harness.UserHeader,
					Limits: askback.Limits{Calls: askback.Share{PerPrincipal: 1, Anonymous: 1}},
					Logger: slog.New(slog.NewTextHandler(&log, nil)),
					Audit: func(_ context.Context, e askback.AuditEvent) {
						mu.Lock()
						defer mu.Unlock()
						told = append(told, e.Kind+" "+e.Principal)
					},
				}
				configure(opts)
				var ran atomic.Int64
				register := func(srv *askback.Server) {
					addOccupant(srv)
					askback.AddTool(srv, &mcp.Tool{Name: "greet"}, func(ctx context.Context, call *askback.Call,
						_ map[string]any) (string, error) {
						if _, err := askback.Do(ctx, call, "count", func(context.Context) (int64, error) {
							return ran.Add(1), nil
						}); err != nil {
							return "", err
						}
						a, err := askback.Elicit[harness.Login](call, "who", "Who?")
						return "hello " + a.Name, err
					})
				}
				h := harness.NewServer(t, opts, register).HTTPHandler(nil)
				there := harness.NewServer(t, opts, register).HTTPHandler(nil)
				alice := harness.Request{Target: "greet", Header: http.Header{"X-User": {"alice"}}}

				leave := occupy(t, h, "alice")
				bob := alice
				bob.Header = http.Header{"X-User": {"bob"}}
				bob.Send(t, h).Asked(t, "who")
				begun := ran.Load()
				handedBack := func(res *harness.Response) string {
					t.Helper()
					if state := res.Asked(t); state == "" || !strings.Contains(res.Raw, `"inputRequests":{}`) {
						t.Fatalf("got %s", res.Raw)
					}
					return res.Result.State
				}
				alice.State = handedBack(alice.Send(t, h))
				expect.Equal(t, "a handler ran beyond the limit", ran.Load(), begun)
				alice.State = alice.Send(t, there).Asked(t, "who")
				alice.Responses = `{"who":{"action":"accept","content":{"name":"Ann"}}}`
				alice.State = handedBack(alice.Send(t, h))
				alice.Responses = ""
				if got := alice.Send(t, h).Text(t); got != "hello Ann" || ran.Load() != begun+1 {
					t.Errorf("handed back twice: got %q after %d runs of the step", got, ran.Load()-begun)
				}
				leave()
				mu.Lock()
				defer mu.Unlock()
				if n := slices.Index(told, "shed alice"); n < 0 || slices.Contains(told, "shed bob") {
					t.Errorf("the operator was told %q", told)
				}
				expect.Contains(t, "the log has", log.String(), "calls that run at once")
			})
		})
	}
}

// A call waits a moment for its share before it is handed back.
func TestACallWaitsForItsShare(t *testing.T) {
	arrived := make(chan struct{}, 1)
	h := harness.NewServer(t, &askback.Options{
		Principal: harness.UserHeader, Limits: askback.Limits{Calls: askback.Share{PerPrincipal: 1, Anonymous: 1}},
		Authorize: func(_ context.Context, a askback.Access) error {
			if a.Target == "greet" {
				arrived <- struct{}{}
			}
			return nil
		},
	}, addOccupant, harness.AddGreet).HTTPHandler(nil)
	leave := occupy(t, h, "alice")
	alice := harness.Request{Target: "greet", Arguments: `{"place":"Oslo"}`, Header: http.Header{"X-User": {"alice"}}}
	done := make(chan *harness.Response)
	go func() { done <- alice.Send(t, h) }()
	<-arrived
	bob := alice
	bob.Header = http.Header{"X-User": {"bob"}}
	bob.Send(t, h).Asked(t, "login") // meanwhile
	leave()
	(<-done).Asked(t, "login")
}

// A call that becomes a task at once runs no handler.
func TestTasksAreNotHandedBack(t *testing.T) {
	s := harness.NewTaskServer(t, &askback.Options{Limits: askback.Limits{Calls: askback.Share{Anonymous: 1}}},
		addOccupant, harness.AddTask("build", nil, func(context.Context, *askback.Call, map[string]any) (string,
			error) {
			return "built", nil
		}))
	defer occupy(t, s.Handler, "")()
	if task := s.Result(harness.WithExtension, "tools/call", "build", `"name":"build"`); task["taskId"] == nil {
		t.Errorf("got %v", task)
	}
}

// The Go SDK's client comes back by itself.
func TestTheSDKsClientComesBack(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	leave, shed := func() {}, 0
	opts := &askback.Options{Limits: askback.Limits{Calls: askback.Share{Anonymous: 1}},
		Audit: func(_ context.Context, e askback.AuditEvent) {
			if e.Kind == askback.AuditShed {
				mu.Lock()
				defer mu.Unlock()
				shed++
				leave()
			}
		}}
	h := harness.NewServer(t, opts, addOccupant, harness.AddGreet).HTTPHandler(nil)
	web := httptest.NewServer(h)
	defer web.Close()
	session := expect.Must(mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return accept(map[string]any{"name": "octocat"}), nil
		},
	}).Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL},
		&mcp.ClientSessionOptions{ProtocolVersion: "2026-07-28"}))(t)
	defer session.Close()
	occupant := occupy(t, h, "")
	mu.Lock()
	leave = occupant
	mu.Unlock()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "greet",
		Arguments: harness.Greeting{Place: "Oslo"}})
	mu.Lock()
	defer mu.Unlock()
	if err != nil || shed == 0 || len(res.Content) != 1 || !strings.Contains(res.Content[0].(*mcp.TextContent).Text,
		"octocat") {
		t.Errorf("got %+v, %v", res, err)
	}
}
