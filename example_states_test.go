package askback_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/state"
)

// outcomes counts what became of the states. In a service these are a metric's labels.
type outcomes struct {
	mu sync.Mutex
	n  map[string]int
}

func (o *outcomes) count(_ context.Context, e askback.AuditEvent) {
	if e.Kind != askback.AuditState && e.Kind != askback.AuditRefused {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.n == nil {
		o.n = make(map[string]int)
	}
	o.n[e.Kind+" "+e.Reason]++
}

func (o *outcomes) print() {
	for _, outcome := range slices.Sorted(maps.Keys(o.n)) {
		fmt.Println(outcome, o.n[outcome])
	}
}

// closeBugOf serves a tool that asks one question and records a report of the given size in bytes.
func closeBugOf(report int, opts *askback.Options) http.Handler {
	opts.Logger = slog.New(slog.DiscardHandler)
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "tracker", Version: "1.0.0"}, nil), opts)
	if err != nil {
		log.Fatal(err)
	}
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"},
		func(ctx context.Context, call *askback.Call, in Bug) (string, error) {
			_, err := askback.Do(ctx, call, "report",
				func(context.Context) (string, error) { return strings.Repeat("x", report), nil })
			if err != nil {
				return "", err
			}
			res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("Bug #%d closed as %s.", in.ID, res.Resolution), nil
		})
	return srv.HTTPHandler(nil)
}

// callInTurn calls the tool, whose rounds are served by the instances in turn.
func callInTurn(instances ...http.Handler) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		instance := instances[0]
		if r.Header.Get("Mcp-Method") == "tools/call" {
			instances = append(instances[1:], instance)
		}
		instance.ServeHTTP(w, r)
	}))
	defer web.Close()
	ctx := context.Background()
	caller := client.New(&client.Options{Form: func(context.Context, *client.Question) (*mcp.ElicitResult, error) {
		return accept(map[string]any{"resolution": "Fixed"}), nil
	}})
	session, err := caller.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: web.URL}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "close_bug", Arguments: Bug{ID: 7}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
}

// The first phase of a migration finds the calls that would fail without the store. Here the
// instances do not have the same keys, and no call fails.
func ExampleOptions_states() {
	store := new(state.MemoryStore) // in a service, use one over the service's database
	var seen outcomes
	instance := func() http.Handler {
		return closeBugOf(0, &askback.Options{
			// Keys are missing.
			Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "alice", nil },
			States:    &state.Options{Store: store, Mode: state.Dual},
			Audit:     seen.count,
		})
	}
	callInTurn(instance(), instance())
	seen.print()
	// Output:
	// Bug #7 closed as Fixed.
	// refused unknown_key 1
	// state invalid 1
}

// A state that is too large to travel stays in the store.
func ExampleOptions_overflow() {
	var seen outcomes
	callInTurn(closeBugOf(1<<20, &askback.Options{
		States: &state.Options{Store: new(state.MemoryStore), Overflow: 32 << 10},
		Audit:  seen.count,
	}))
	seen.print()
	// Output:
	// Bug #7 closed as Fixed.
	// state overflowed 1
}
