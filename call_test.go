package askback_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/state"
)

func TestStepsRunOnce(t *testing.T) {
	ran := map[string]int{}
	var keys []string
	h := harness.NewServer(t, nil, harness.AddTool("order",
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			id, err := askback.Do(ctx, call, "reserve", func(context.Context) (int64, error) {
				ran["reserve"]++
				keys = append(keys, call.IdempotencyKey("pay"))
				return 9007199254740993, nil
			})
			if err != nil {
				return "", err
			}
			if _, err = askback.Elicit[harness.Login](call, "login", "Who pays?"); err != nil {
				return "", err
			}
			err = call.Do(ctx, "pay", func(context.Context) error {
				ran["pay"]++
				keys = append(keys, call.IdempotencyKey("pay"))
				return nil
			})
			if err != nil {
				return "", err
			}
			if _, err = askback.Elicit[harness.Login](call, "receipt", "Who gets the receipt?"); err != nil {
				return "", err
			}
			return fmt.Sprint(id), nil
		})).HTTPHandler(nil)
	r := harness.Request{Target: "order"}
	r.State = r.Send(t, h).Asked(t, "login")
	r.Responses = harness.Octocat
	lost := r
	r.State = r.Send(t, h).Asked(t, "receipt")
	lost.Send(t, h).Asked(t, "receipt") // the response was lost: the client sends the round again
	r.Responses = `{"receipt":{"action":"accept","content":{"name":"x"}}}`
	expect.Equal(t, "the result", r.Send(t, h).Text(t), "9007199254740993")
	// The repeated round has no record of the payment; its idempotency key is the same.
	if want := map[string]int{"reserve": 1, "pay": 2}; !cmp.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
	if len(keys) != 3 || keys[0] != keys[1] || keys[1] != keys[2] || keys[0] == "" {
		t.Errorf("idempotency keys %q", keys)
	}
}

func TestCheckpointHandsOver(t *testing.T) {
	ring := harness.NewRing(t)
	ran := 0
	tool := harness.AddTool("index", func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
		n, err := askback.Do(ctx, call, "compute", func(context.Context) (int, error) { ran++; return 42, nil })
		if err != nil {
			return "", err
		}
		if err := call.Checkpoint(ctx, "computed"); err != nil {
			return "", err
		}
		return fmt.Sprint(n), nil
	})
	a := harness.NewServer(t, &askback.Options{Keys: ring}, tool).HTTPHandler(nil)
	b := harness.NewServer(t, &askback.Options{Keys: ring}, tool).HTTPHandler(nil)
	res := harness.Request{Target: "index"}.Send(t, a)
	state := res.Asked(t)
	if state == "" || !strings.Contains(res.Raw, `"inputRequests":{}`) {
		t.Fatalf("want a state and no questions, got %s", res.Raw)
	}
	if got := (harness.Request{Target: "index", State: state}).Send(t, b).Text(t); got != "42" || ran != 1 {
		t.Errorf("got %q after %d computations", got, ran)
	}
}

// Every input-required result has questions or a state. A state needs no capability of the client.
func TestInputRequiredIsNeverEmpty(t *testing.T) {
	register := func(srv *askback.Server) {
		for name, h := range map[string]askback.ToolHandler[struct{}, any]{
			"nothing asked": func(context.Context, *askback.Call, struct{}) (any, error) {
				return nil, askback.ErrInputRequired
			},
			"no questions of its own": func(context.Context, *askback.Call, struct{}) (any, error) {
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}}, nil
			},
			"a checkpoint": func(ctx context.Context, call *askback.Call, _ struct{}) (any, error) {
				return "done", call.Checkpoint(ctx, "c")
			},
			"a question": func(ctx context.Context, call *askback.Call, _ struct{}) (any, error) {
				_, err := askback.Elicit[harness.Login](call, "login", "?")
				return "done", err
			},
		} {
			askback.AddTool(srv, &mcp.Tool{Name: name}, h)
		}
	}
	for _, bare := range []bool{false, true} {
		h := harness.NewServer(t, &askback.Options{BareFirstRound: bare}, register).HTTPHandler(nil)
		for _, name := range []string{"nothing asked", "no questions of its own", "a checkpoint", "a question"} {
			res := harness.Request{Target: name}.Send(t, h)
			if r := res.Result; r != nil && r.Type == "input_required" && len(r.Requests) == 0 && r.State == "" {
				t.Errorf("%s (bare %v): %s", name, bare, res.Raw)
			}
		}
		m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
		m.AddTool(&mcp.Tool{Name: "manual", InputSchema: map[string]any{"type": "object"}},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}}, nil
			})
		manual := expect.Must(askback.New(m, &askback.Options{BareFirstRound: bare, Keys: harness.NewRing(t)}))(t)
		if state := (harness.Request{Target: "manual"}).Send(t, manual.HTTPHandler(nil)).Asked(t); state == "" {
			t.Errorf("manual (bare %v): neither questions nor state", bare)
		}
		if state := (harness.Request{Target: "a checkpoint", Capabilities: `{}`}).Send(t, h).Asked(t); state == "" {
			t.Errorf("bare %v: no state to come back with", bare)
		}
	}
}

// A round without a state has nothing that could be used once only.
func TestBareFirstRoundExcludesAReplayGuard(t *testing.T) {
	for _, c := range []struct {
		bare  bool
		guard state.Guard
		fails bool
	}{
		{false, nil, false}, {true, nil, false}, {false, new(state.MemoryGuard), false}, {true, new(state.MemoryGuard), true},
	} {
		_, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil),
			&askback.Options{BareFirstRound: c.bare, ReplayGuard: c.guard, Keys: harness.NewRing(t)})
		if (err != nil) != c.fails || err != nil && !strings.Contains(err.Error(), "leave out one") {
			t.Errorf("bare %v, guard %v: %v", c.bare, c.guard != nil, err)
		}
	}
}

// A handler that reads the call's ID, or a key derived from it, before it asks finds the same in the next round.
func TestBareFirstRoundKeepsAnIDThatWasRead(t *testing.T) {
	for says, read := range map[string]func(*askback.Call) string{
		"ID":             (*askback.Call).ID,
		"IdempotencyKey": func(c *askback.Call) string { return c.IdempotencyKey("pay") },
	} {
		var seen []string
		h := harness.NewServer(t, &askback.Options{BareFirstRound: true}, func(srv *askback.Server) {
			askback.AddTool(srv, &mcp.Tool{Name: "own"},
				func(_ context.Context, call *askback.Call, _ struct{}) (string, error) {
					seen = append(seen, read(call))
					in, err := askback.Elicit[harness.Login](call, "login", "?")
					return in.Name, err
				})
			askback.AddTool(srv, &mcp.Tool{Name: "manual"},
				func(_ context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
					seen = append(seen, read(call))
					if len(call.Request().(*mcp.CallToolRequest).Params.InputResponses) > 0 {
						return harness.Text("octocat"), nil
					}
					return &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{"login": &mcp.ElicitParams{Message: "?"}}}, nil
				})
		}).HTTPHandler(nil)
		for _, tool := range []string{"own", "manual"} {
			seen = nil
			r := harness.Request{Target: tool}
			r.State = r.Send(t, h).Asked(t, "login")
			r.Responses = harness.Octocat
			for range 2 { // the second time as if the response had been lost
				if got := r.Send(t, h).Text(t); got != "octocat" {
					t.Errorf("%s, %s: got %q", says, tool, got)
				}
			}
			if len(seen) != 3 || seen[0] != seen[1] || seen[1] != seen[2] {
				t.Errorf("%s, %s: the rounds saw %q", says, tool, seen)
			}
		}
	}
}

func TestBareFirstRound(t *testing.T) {
	twice := harness.AddTool("twice", func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
		a, err := askback.Elicit[harness.Login](call, "a", "?")
		if err != nil {
			return "", err
		}
		b, err := askback.Elicit[harness.Login](call, "b", "?")
		return a.Name + b.Name, err
	})
	h := harness.NewServer(t, &askback.Options{BareFirstRound: true}, twice).HTTPHandler(nil)
	expect.Equal(t, "the first round has a state", (harness.Request{Target: "twice"}).Send(t, h).Asked(t, "a"), "")
	r := harness.Request{Target: "twice", Responses: `{"a":{"action":"accept","content":{"name":"x"}}}`}
	r.State = r.Send(t, h).Asked(t, "b")
	r.Responses = `{"b":{"action":"accept","content":{"name":"y"}}}`
	expect.Equal(t, "the result", r.Send(t, h).Text(t), "xy")
	// Without the option such an answer is ignored.
	strict := harness.NewServer(t, nil, twice).HTTPHandler(nil)
	harness.Request{Target: "twice", Responses: `{"a":{"action":"accept","content":{"name":"x"}}}`}.Send(t,
		strict).Asked(t, "a")
}

func TestPanicsAreContained(t *testing.T) {
	logger, logged := harness.Logs()
	h := harness.NewServer(t, &askback.Options{Logger: logger}, harness.AddGreet, harness.AddTool("p",
		func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			panic("boom")
		})).HTTPHandler(nil)
	expect.Equal(t, "the client is told", (harness.Request{Target: "p"}).Send(t, h).Refused(t, 200, -32603),
		"internal error")
	if !strings.Contains(logged.String(), "boom") || !strings.Contains(logged.String(), "call_test.go") {
		t.Errorf("logged without panic or stack: %s", logged)
	}
	harness.Request{Target: "greet", Arguments: `{"place":"x"}`}.Send(t, h).Asked(t, "login")
}

// A client need not come back: after a round the server holds nothing.
func TestAbandonedRoundsHoldNothing(t *testing.T) {
	h := harness.NewServer(t, nil, harness.AddGreet).HTTPHandler(nil)
	round := func() { harness.Request{Target: "greet", Arguments: `{"place":"x"}`}.Send(t, h).Asked(t, "login") }
	measure := func() (goroutines int, bytes uint64) {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return runtime.NumGoroutine(), m.HeapAlloc
	}
	for range 100 {
		round()
	}
	goroutines, before := measure()
	const rounds = 5000
	for range rounds {
		round()
	}
	now, after := measure()
	if now > goroutines {
		t.Errorf("%d goroutines, %d before", now, goroutines)
	}
	if after > before && (after-before)/rounds > 50 {
		t.Errorf("each round left %d bytes", (after-before)/rounds)
	}
}
