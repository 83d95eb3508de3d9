package askbacktest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// receipt is a result of a step that survives its JSON, although it has what looks as if it did not.
type receipt struct {
	At      time.Time
	Amount  *big.Int
	From    netip.Addr
	Raw     json.RawMessage
	Empty   []string
	Nothing map[string]int
	Any     map[string]any
	Left    *receipt `json:",omitempty"`
	Gone    []string `json:",omitempty"`
	Own     own
	unset   int
}

// own encodes itself, and is trusted with what it leaves out.
type own struct {
	Text  string
	cache int
}

func (o own) MarshalJSON() ([]byte, error)  { return json.Marshal(o.Text) }
func (o *own) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &o.Text) }

// correct takes everything that changes from a step, and acts on the outside in steps only.
func correct(effects *askbacktest.Effects) handler {
	return func(ctx context.Context, call *askback.Call) (string, error) {
		bought, err := askback.Do(ctx, call, "buy", func(ctx context.Context) (receipt, error) {
			effects.Record("buy")
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			return receipt{
				unset: 0, // as its JSON has it
				At:    started, Amount: big.NewInt(7), From: netip.MustParseAddr("127.0.0.1"), Raw: json.RawMessage(`{ "a": 1 }`),
				Empty: []string{},
				Any:   map[string]any{"n": 1, "list": []int{2}, "time": started, "struct": struct{ B, A int }{1, 2}},
				Gone:  []string{}, Own: own{"o", 1}, Left: &receipt{Raw: json.RawMessage("1")},
			}, ctx.Err()
		})
		if err != nil {
			return "", err
		}
		if _, err := askback.Do(ctx, call, "result", func(context.Context) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "x"}}}, nil
		}); err != nil {
			return "", err
		}
		var who, friend name
		var err1, err2 error
		var group sync.WaitGroup
		group.Go(func() { who, err1 = askback.Elicit[name](call, "who", "Who are you? "+bought.At.Format("15:04")) })
		group.Go(func() { friend, err2 = askback.Elicit[name](call, "friend", "Who is your friend?") })
		group.Wait()
		if _, declined := errors.AsType[*askback.DeclinedError](err2); declined {
			err2 = nil
		}
		// A question may be open by now, or not yet: this step runs in one of two rounds.
		err3 := call.Do(ctx, "count", func(context.Context) error { effects.Record("count"); return nil })
		if err := errors.Join(err1, err2, err3); err != nil {
			return "", err
		}
		if err := call.Checkpoint(ctx, "half"); err != nil {
			return "", err
		}
		return fmt.Sprint(who.Name, friend.Name, bought.Amount), nil
	}
}

var company = map[string]askbacktest.Answer{"who": askbacktest.Accept(name{"bob"}), "friend": askbacktest.Decline()}

func TestACorrectHandlerPasses(t *testing.T) {
	var effects askbacktest.Effects
	res := askbacktest.Run(t, register(correct(&effects)),
		askbacktest.Call{Tool: "tool", Answers: company, Effects: &effects, Lossless: true})
	if res.Text() != "bob7" || effects.Count("buy") != 1 || effects.Count("count") != 1 || effects.Count("sell") != 0 {
		t.Errorf("got %q; bought %d times, counted %d times", res.Text(), effects.Count("buy"), effects.Count("count"))
	}
	askbacktest.Run(t, register(correct(&effects)), askbacktest.Call{Tool: "tool", Answers: company, Effects: &effects})
	expect.Equal(t, "bought", effects.Count("buy"), 3)
}

func TestEffectsOutsideOfStepsAreTold(t *testing.T) {
	var effects *askbacktest.Effects
	send := func(context.Context) error { effects.Record("send email"); return nil }
	const want = `askbacktest: effect "send email" happens outside of a step, so it happens again in every round: ` +
		`put it into askback.Do or call.Do`
	for _, test := range []struct {
		name    string
		handler handler
		want    string
	}{
		{"before a question", func(ctx context.Context, call *askback.Call) (string, error) {
			_ = send(ctx)
			_, err := askback.Elicit[name](call, "q", "?")
			return "", err
		}, want},
		{"after the last question", func(ctx context.Context, call *askback.Call) (string, error) {
			_, err := askback.Elicit[name](call, "q", "?")
			if err == nil {
				err = send(ctx)
			}
			return "", err
		}, want},
		{"between a step and a question", func(ctx context.Context, call *askback.Call) (string, error) {
			err := call.Do(ctx, "send", send)
			if err != nil {
				return "", err
			}
			_ = send(ctx)
			_, err = askback.Elicit[name](call, "q", "?")
			return "", err
		}, want},
		{"at times only", func(ctx context.Context, call *askback.Call) (string, error) {
			if rand.IntN(8) == 0 {
				_ = send(ctx)
			}
			_, err := askback.Elicit[name](call, "q", "?")
			return "", err
		}, want},
		{"in a step", func(ctx context.Context, call *askback.Call) (string, error) {
			if _, err := askback.Elicit[name](call, "q", "?"); err != nil {
				return "", err
			}
			return "", call.Do(ctx, "send", send)
		}, ""},
		{"in a goroutine of a step", func(ctx context.Context, call *askback.Call) (string, error) {
			if _, err := askback.Elicit[name](call, "q", "?"); err != nil {
				return "", err
			}
			return "", call.Do(ctx, "send", func(ctx context.Context) error {
				var group sync.WaitGroup
				group.Go(func() { _ = send(ctx) })
				group.Wait()
				return nil
			})
		}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			effects = new(askbacktest.Effects)
			effects.Record("send email") // by the test
			got := failures(t, register(test.handler), askbacktest.Call{Tool: "tool", Answers: answered, Effects: effects})
			expect.Equal(t, "failed", got, test.want)
		})
	}
}

// An audit hook is told of the requests, and not of the replays.
func TestReplaysAreNotAudited(t *testing.T) {
	var told []string
	askbacktest.Run(t, register(asking(func() string { return "?" })), askbacktest.Call{
		Tool: "tool", Answers: answered,
		Options: askback.Options{Audit: func(_ context.Context, e askback.AuditEvent) { told = append(told, e.Kind) }},
	})
	expect.Equal(t, "told", strings.Join(told, " "), "asked asked answered ended answered ended")
}

// The last round, too, is replayed, and its steps run no more often for that: once for each time it is sent.
func TestReplaysRunNoStep(t *testing.T) {
	ran := map[string]int{}
	h := func(ctx context.Context, call *askback.Call) (string, error) {
		count := func(name string) func(context.Context) error {
			return func(context.Context) error { ran[name]++; return nil }
		}
		if err := call.Do(ctx, "first", count("first")); err != nil {
			return "", err
		}
		if _, err := askback.Elicit[name](call, "q", "?"); err != nil {
			return "", err
		}
		if err := call.Do(ctx, "failing", func(ctx context.Context) error {
			_ = count("failing")(ctx)
			return errors.New("no")
		}); err == nil {
			return "", errors.New("the step did not fail")
		}
		return "done", call.Do(ctx, "last", count("last"))
	}
	if res := askbacktest.Run(t, register(h), askbacktest.Call{Tool: "tool", Answers: answered}); res.Text() != "done" {
		t.Errorf("got %q", res.Text())
	}
	if fmt.Sprint(ran) != "map[failing:2 first:2 last:2]" {
		t.Errorf("ran %v", ran)
	}
}

// A network connection that is used in a bubble and outside of it ends the process. What waits with the handler's
// context is noticed before; what does not needs RealClock.
func TestRealNetworks(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "7")
	}))
	defer web.Close()
	get := func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL, nil)
		if err != nil {
			return "", err
		}
		res, err := web.Client().Do(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		return string(data), err
	}
	for _, test := range []struct {
		name      string
		get       handler
		realClock bool
		unmoved   string // the log that says so
	}{
		{"in a step", func(ctx context.Context, call *askback.Call) (string, error) {
			return askback.Do(ctx, call, "get", get)
		}, false, ""},
		{"in a step, without its context", func(ctx context.Context, call *askback.Call) (string, error) {
			return askback.Do(ctx, call, "get", func(context.Context) (string, error) { return get(context.Background()) })
		}, false, ""},
		{"with the handler's context", func(ctx context.Context, _ *askback.Call) (string, error) { return get(ctx) }, false,
			"askbacktest: the handler waits for something outside of its steps, so the clock is not moved: see the comment of " +
				"the package"},
		{"without a context", func(context.Context, *askback.Call) (string, error) { return get(context.Background()) },
			true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &recorder{TB: t}
			res := askbacktest.Run(r, register(func(ctx context.Context, call *askback.Call) (string, error) {
				number, err := test.get(ctx, call)
				if err != nil {
					return "", err
				}
				_, err = askback.Elicit[name](call, "q", "Number "+number+"?")
				return "got " + number, err
			}), askbacktest.Call{Tool: "tool", Answers: answered, RealClock: test.realClock})
			if res.Text() != "got 7" || len(r.failures) > 0 {
				t.Errorf("got %q, failures %q", res.Text(), r.failures)
			}
			if got := slices.Compact(r.logs); strings.Join(got, "\n") != test.unmoved {
				t.Errorf("logged %q, want %q", got, test.unmoved)
			}
		})
	}
}

// In a bubble of the test's own the clock moves as well.
func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := failures(t, register(asking(func() string { return time.Now().Format("15:04") })),
			askbacktest.Call{Tool: "tool", Answers: answered})
		if !strings.Contains(got, `7 days later, and asked something else:`+"\n\t"+`question "q": message: "00:00" → `+
			`"11:37"`) {
			t.Errorf("failed with %q", got)
		}
		var effects askbacktest.Effects
		askbacktest.Run(t, register(correct(&effects)), askbacktest.Call{Tool: "tool", Answers: company, Effects: &effects})
	})
}

func TestAGoroutineThatIsLeftBehindIsTold(t *testing.T) {
	forever := make(chan bool)
	defer close(forever)
	got := failures(t, register(func(_ context.Context, call *askback.Call) (string, error) {
		go func() { select {} }()
		_, err := askback.Elicit[name](call, "q", "?")
		return "", err
	}), askbacktest.Call{Tool: "tool", Answers: answered})
	if !strings.HasPrefix(got, "askbacktest: the handler leaves a waiting goroutine behind: ") {
		t.Errorf("failed with %q", got)
	}
}

// An inline handler is held to the same.
func TestInlineHandlers(t *testing.T) {
	var message func() string
	tool := func(srv *askback.Server) {
		askback.AddInlineTool(srv, &mcp.Tool{Name: "tool"},
			func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				_, err := req.Session.Elicit(ctx,
					&mcp.ElicitParams{Message: message(),
						RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}}})
				return nil, "done", err
			})
	}
	message = func() string { return "Now?" }
	answers := map[string]askbacktest.Answer{"Now?": askbacktest.Accept(map[string]any{})}
	askbacktest.Run(t, tool, askbacktest.Call{Tool: "tool", Answers: answers})

	message = func() string { return time.Now().Format("2006 January 2") }
	got := failures(t, tool, askbacktest.Call{Tool: "tool", Answers: answers})
	if !strings.Contains(got, " days later, and asked something else:\n\tquestion ") ||
		!strings.Contains(got, time.Now().Format(`("2006 January 2") → `)) {
		t.Errorf("failed with %q", got)
	}
}
