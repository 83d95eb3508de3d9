package askback_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

// What an operator's dashboard counts.
func ExampleAuditEvent() {
	count := func(_ context.Context, e askback.AuditEvent) {
		switch e.Kind {
		case askback.AuditAsked:
			fmt.Println("questions_total", e.Target, e.Key)
		case askback.AuditAnswered:
			fmt.Println("answers_total", e.Target, e.Key, e.Action)
		case askback.AuditStep:
			fmt.Println("steps_total", e.Target, e.Key, e.Reason)
		case askback.AuditRefused: // somebody should look at these
			fmt.Println("refused_total", e.Method, e.Reason)
		case askback.AuditState:
			fmt.Println("states_total", e.Reason)
		case askback.AuditShed:
			fmt.Println("shed_total", e.Target)
		case askback.AuditCancelled: // by an operator, with package desk
			fmt.Println("cancelled_total", e.Target)
		case askback.AuditEnded:
			fmt.Println("calls_total", e.Target, e.Reason)
		}
	}
	srv := newServer(askback.Options{Audit: count, ReplayGuard: new(state.MemoryGuard)})
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"},
		func(ctx context.Context, call *askback.Call, _ Bug) (string, error) {
			res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
			if err != nil {
				return "", err
			}
			return res.Resolution, call.Do(ctx, "close", func(context.Context) error { return nil })
		})
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	pending := park(web.URL, nil)
	resume(web.URL, nil, pending)
	resume(web.URL, nil, pending)
	// Output:
	// questions_total close_bug resolution
	// answers_total close_bug resolution accept
	// steps_total close_bug close completed
	// calls_total close_bug completed
	// Fixed
	// refused_total tools/call replayed
	// refused: calling "tools/call": Invalid or expired requestState
}

// A hook for a system of metrics. For OpenTelemetry there is the module otelaskback.
func ExampleOptions_observe() {
	var mu sync.Mutex
	print := func(args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(args...)
	}
	observe := func(ctx context.Context, op *askback.Operation) (context.Context, func()) {
		return ctx, func() {
			over := "other"
			switch op.Transport {
			case askback.TransportHTTP:
				over = "HTTP"
			case askback.TransportPipe:
				over = "a pipe"
			}
			switch op.Kind { // with time.Since(op.Began)
			case askback.OperationRequest:
				print(op.Method, op.Target, "over", over, "round", op.Round, op.Outcome)
			case askback.OperationStep:
				print("step", op.Step, op.Outcome)
			case askback.OperationRun:
				print("run of a task", op.Target, op.Outcome)
			}
		}
	}
	srv := newServer(askback.Options{Observe: observe})
	askback.AddTool(srv, &mcp.Tool{Name: "close_bug"},
		func(ctx context.Context, call *askback.Call, _ Bug) (string, error) {
			res, err := askback.Elicit[Resolution](call, "resolution", "How was this bug resolved?")
			if err != nil {
				return "", err
			}
			return res.Resolution, call.Do(ctx, "close", func(context.Context) error { return nil })
		})
	callTool(srv, &client.Options{Form: form(map[string]any{"resolution": "Fixed"})}, "close_bug", Bug{ID: 7})
	// Output:
	// tools/call close_bug over HTTP round 1 input_required
	// asked: How was this bug resolved?
	// step close completed
	// tools/call close_bug over HTTP round 2 completed
	// Fixed
}

// Nobody can have more of a server than a share of it.
func ExampleLimits() {
	srv := newServer(askback.Options{Limits: askback.Limits{
		Rounds:   1,
		Requests: askback.Share{Total: 100, PerPrincipal: 10, Anonymous: 20},
	}})
	askback.AddTool(srv, &mcp.Tool{Name: "nag"}, func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
		_, err := askback.Elicit[Resolution](call, fmt.Sprint("round ", call.Round()), "And now?")
		return "", err
	})
	callTool(srv, &client.Options{Form: form(map[string]any{"resolution": "Fixed"})}, "nag", nil)
	// Output:
	// asked: And now?
	// error: calling "tools/call": the limit of 1 rounds per call is reached
}

// A probe of a load balancer asks whether the stores answer.
func ExampleServer_Ready() {
	running := newServer(askback.Options{Tasks: &askback.Tasks{Store: new(task.MemoryStore)}})
	fmt.Println(running.Ready(context.Background()))
	cutOff := newServer(askback.Options{Tasks: &askback.Tasks{Store: awayTasks{}}})
	fmt.Println(cutOff.Ready(context.Background()))
	// Output:
	// <nil>
	// askback: reading from the store of the tasks: the database is away
}
