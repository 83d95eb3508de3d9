package sqlite_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task/sqlite"
)

var _ state.Store = (*sqlite.Store)(nil)

// Three instances open the same file, and one state is presented to them 200 times at once: exactly one call goes on.
func TestAStateIsUsedOnceInAFleet(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.db")
	ring := harness.NewRing(t)
	var instances []http.Handler
	for range 3 {
		store, err := sqlite.Open(t.Context(), path)
		expect.Check(t, err)
		t.Cleanup(func() { store.Close() })
		options := &askback.Options{Keys: ring, ReplayGuard: store.Guard()}
		instances = append(instances, harness.NewServer(t, options, harness.AddGreet).HTTPHandler(nil))
	}
	r := harness.Request{Target: "greet", Arguments: `{"place":"Oslo"}`}
	r.State = r.Send(t, instances[0]).Asked(t, "login")
	r.Responses = harness.Octocat
	var passed, refused atomic.Int32
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			switch response := r.Send(t, instances[i%len(instances)]); response.Status {
			case http.StatusOK:
				passed.Add(1)
			case http.StatusBadRequest:
				refused.Add(1)
			default:
				t.Errorf("status %d", response.Status)
			}
		})
	}
	all.Wait()
	if passed.Load() != 1 || refused.Load() != 199 {
		t.Errorf("%d passed and %d were refused, want 1 and 199", passed.Load(), refused.Load())
	}
}

// Two instances open the same file, and requests go to them in turn. A call goes on in
// either, though neither can open what the other has sealed; a task too; and no step runs
// twice.
func TestInstancesShareAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tasks.db")
	var paid atomic.Int32
	var instances []http.Handler
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for range 2 {
		store, err := sqlite.Open(t.Context(), path)
		expect.Check(t, err)
		t.Cleanup(func() { store.Close() })
		srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1.0.0"}, nil), &askback.Options{
			Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
			States:    &state.Options{Store: store, Mode: state.Dual},
			Tasks:     &askback.Tasks{Store: store},
			Logger:    slog.New(slog.DiscardHandler), // and random keys
		})
		expect.Check(t, err)
		buy := func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			type answer struct {
				Yes bool `json:"yes"`
			}
			for _, item := range []string{"bread", "milk"} {
				if _, err := askback.Elicit[answer](call, item, "Buy "+item+"?"); err != nil {
					return "", err
				}
				if _, err := askback.Do(ctx, call, "pay "+item, func(context.Context) (int32, error) {
					return paid.Add(1), nil
				}); err != nil {
					return "", err
				}
			}
			return "bought", nil
		}
		askback.AddTool(srv, &mcp.Tool{Name: "call"}, buy)
		askback.AddTaskTool(srv, &mcp.Tool{Name: "task"}, nil, buy)
		running.Go(func() { _ = srv.RunTasks(ctx) })
		instances = append(instances, srv.HTTPHandler(nil))
	}
	var requests atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		instances[int(requests.Add(1))%len(instances)].ServeHTTP(w, r)
	}))
	defer web.Close()
	asked := 0
	c := client.New(&client.Options{Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		asked++
		return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"yes": true}}, nil
	}})
	session, err := c.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	expect.Check(t, err)
	defer session.Close()
	for i, tool := range []string{"call", "task"} {
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: tool})
		if err != nil || result.IsError || fmt.Sprint(result.Content[0].(*mcp.TextContent).Text) != "bought" {
			t.Fatalf("%s: %v, %v", tool, result, err)
		}
		if n := 2 * (i + 1); asked != n || int(paid.Load()) != n {
			t.Errorf("%s: asked %d times and paid %d times in all, want %d", tool, asked, paid.Load(), n)
		}
	}
}
