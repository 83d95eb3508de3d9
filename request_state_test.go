package askback_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
)

// hostile is a text that must not reach the log as it is, or split its lines.
const hostile = "evil\nlevel=ERROR msg=forged"

// Whatever is wrong with a state, the client learns only that it was refused, and the
// operator learns why.
func TestStateIsBoundToItsRequest(t *testing.T) {
	logger, logged := harness.Logs()
	ring := harness.NewRing(t)
	var reasons []seal.Reason
	options := askback.Options{
		Keys: ring, Logger: logger,
		Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
			return extra.Header.Get("X-User"), nil
		},
		Audit: func(_ context.Context, e askback.AuditEvent) {
			if e.Kind == askback.AuditRefused {
				reasons = append(reasons, seal.Reason(e.Reason))
			}
		},
	}
	second := func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "greet2"},
			func(ctx context.Context, call *askback.Call, in harness.Greeting) (string, error) {
				_, err := askback.Elicit[harness.Login](call, "login", "Who are you?")
				return "x", err
			})
		srv.AddPrompt(&mcp.Prompt{Name: "greet"},
			func(ctx context.Context, call *askback.Call, _ map[string]string) (*mcp.GetPromptResult, error) {
				_, err := askback.Elicit[harness.Login](call, "login", "Who are you?")
				return &mcp.GetPromptResult{}, err
			})
	}
	h := harness.NewServer(t, &options, harness.AddGreet, second).HTTPHandler(nil)
	alice := http.Header{"X-User": {"alice"}}
	good := harness.Request{Target: "greet", Arguments: `{"place":"Oslo"}`, Header: alice}
	good.State = good.Send(t, h).Asked(t, "login")
	good.Responses = harness.Octocat

	other := options
	other.Audience = "another service"
	strangers := options
	strangers.Keys = harness.NewRing(t)
	revoking := options
	revoking.Keys = ring.RevokeBefore(time.Now().Add(time.Hour))

	for _, test := range []struct {
		name   string
		reason seal.Reason
		to     http.Handler
		change func(*harness.Request)
	}{
		{"other principal", seal.ReasonPrincipal, h,
			func(r *harness.Request) { r.Header = http.Header{"X-User": {"mallory"}} }},
		{"no principal", seal.ReasonPrincipal, h, func(r *harness.Request) { r.Header = nil }},
		{"other tool", seal.ReasonTarget, h, func(r *harness.Request) { r.Target = "greet2" }},
		{"other method", seal.ReasonMethod, h,
			func(r *harness.Request) { r.Method, r.Arguments = "prompts/get", `{"place":"Oslo"}` }},
		{"other arguments", seal.ReasonArguments, h, func(r *harness.Request) { r.Arguments = `{"place":"Rome"}` }},
		{"no arguments", seal.ReasonArguments, h, func(r *harness.Request) { r.Arguments = `` }},
		{"other server, same keys", seal.ReasonAudience, harness.NewServer(t, &other, harness.AddGreet).HTTPHandler(nil),
			func(*harness.Request) {}},
		{"other keys", seal.ReasonUnknownKey, harness.NewServer(t, &strangers, harness.AddGreet).HTTPHandler(nil),
			func(*harness.Request) {}},
		{"revoked", seal.ReasonRevoked, harness.NewServer(t, &revoking, harness.AddGreet).HTTPHandler(nil),
			func(*harness.Request) {}},
		{"altered", seal.ReasonAuthentication, h,
			func(r *harness.Request) { r.State = r.State[:60] + flip(r.State[60]) + r.State[61:] }},
		{"cut", seal.ReasonMalformed, h, func(r *harness.Request) { r.State = r.State[:20] }},
		{"longer", seal.ReasonMalformed, h, func(r *harness.Request) { r.State += "\n" }},
		{"of another version", seal.ReasonVersion, h, func(r *harness.Request) { r.State = "ab9" + r.State[3:] }},
		{"hostile", seal.ReasonMalformed, h, func(r *harness.Request) { r.State = hostile }},
		{"10 MB", seal.ReasonTooLarge, harness.NewServer(t,
			func() *askback.Options { o := options; o.Limits.MessageBytes = 16 << 20; return &o }(),
			harness.AddGreet).HTTPHandler(nil),
			func(r *harness.Request) { r.State = strings.Repeat("A", 10<<20) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			reasons = nil
			logged.Reset()
			r := good
			test.change(&r)
			expect.Equal(t, "the client is told", r.Send(t, test.to).Refused(t, 400, -32602), harness.StateRefused)
			if len(reasons) != 1 || reasons[0] != test.reason {
				t.Errorf("reasons %q, want %q", reasons, test.reason)
			}
			if lines := strings.Count(logged.String(), "\n"); lines != 1 ||
				!strings.Contains(logged.String(), string(test.reason)) {
				t.Errorf("logged %d lines: %.300s", lines, logged)
			}
			if log := logged.String(); strings.Contains(log, "alice") || strings.Contains(log, "octocat") || len(log) > 1000 {
				t.Errorf("logged too much: %.300s", log)
			}
		})
	}
	expect.Equal(t, "the untouched request", good.Send(t, h).Text(t), "Hello octocat in Oslo")
	empty := harness.Request{Target: "greet", Header: alice,
		Body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","requestState":"",` +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`}
	expect.Equal(t, "empty state", empty.Send(t, h).Refused(t, 400, -32602), harness.StateRefused)
}

// A server whose ring gets other keys goes on with the calls that wait, until their key is forgotten.
func TestKeysAreReplacedWithoutARestart(t *testing.T) {
	ring := harness.NewRing(t)
	h := harness.NewServer(t, &askback.Options{Keys: ring}, harness.AddGreet).HTTPHandler(nil)
	waiting := harness.Request{Target: "greet", Arguments: `{"place":"Oslo"}`}
	waiting.State = waiting.Send(t, h).Asked(t, "login")
	waiting.Responses = harness.Octocat
	for _, want := range []seal.Step{seal.StepLearn, seal.StepSwitch, seal.StepForget} {
		next, step, err := ring.Rotate(time.Now(), 0)
		if err == nil {
			err = ring.Replace(next)
		}
		if err != nil || step != want {
			t.Fatalf("%s: %v", step, err)
		}
		if step == seal.StepForget {
			waiting.Send(t, h).Refused(t, 400, -32602)
			return
		}
		if got := waiting.Send(t, h).Text(t); got != "Hello octocat in Oslo" {
			t.Errorf("after %s: %q", step, got)
		}
	}
}

func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

// Arguments may be spelled differently in every round.
func TestArgumentsAreComparedByMeaning(t *testing.T) {
	h := harness.NewServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "t", InputSchema: json.RawMessage(`{"type":"object"}`)},
			func(ctx context.Context, call *askback.Call, in map[string]any) (string, error) {
				_, err := askback.Elicit[harness.Login](call, "login", "?")
				return "done", err
			})
	}).HTTPHandler(nil)
	// of large arguments the first digest is made when it is needed, and those after it with the message's check
	for range 2 {
		for _, size := range []int{0, 32 << 10} {
			long := `"long":"` + strings.Repeat("x", size) + `"`
			state := harness.Request{Target: "t", Arguments: `{"a":1,"b":"é","n":9007199254740993,` + long + `}`}.Send(t,
				h).Asked(t, "login")
			same := harness.Request{Target: "t", Arguments: `{ ` + long + `, "n":9007199254740993, "b":"\u00e9", "a":1.0 }`,
				Responses: harness.Octocat, State: state}
			expect.Equal(t, "the result", same.Send(t, h).Text(t), "done")
			for _, other := range []string{
				`{"a":1,"b":"é","n":9007199254740992,` + long + `}`,
				`{"a":1,"b":"é","n":9007199254740993,` + strings.Replace(long, `""`, `"x"`, 1) + `,"more":null}`,
			} {
				harness.Request{Target: "t", Arguments: other, Responses: harness.Octocat, State: state}.Send(t, h).Refused(t, 400,
					-32602)
			}
		}
	}
}

func TestStatesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := harness.NewServer(t, &askback.Options{Limits: askback.Limits{RoundTTL: time.Minute, CallTTL: 90 * time.Second}},
			harness.AddGreet).HTTPHandler(nil)
		r := harness.Request{Target: "greet", Arguments: `{"place":"Oslo"}`}
		first := r.Send(t, h).Asked(t, "login")

		time.Sleep(time.Minute - time.Millisecond)
		r.State = first
		again := r.Send(t, h).Asked(t, "login") // without an answer, so that the round is repeated
		time.Sleep(time.Millisecond)
		r.Responses = harness.Octocat
		expect.Equal(t, "after the round's time", r.Send(t, h).Refused(t, 400, -32602), harness.StateRefused)
		// The whole call is bounded, even within the time for a round.
		r.State = again
		time.Sleep(31 * time.Second)
		r.Send(t, h).Refused(t, 400, -32602)
	})
}

func TestReplayGuardMakesStatesSingleUse(t *testing.T) {
	h := harness.NewServer(t, &askback.Options{ReplayGuard: new(state.MemoryGuard)}, harness.AddGreet).HTTPHandler(nil)
	r := harness.Request{Target: "greet", Arguments: `{"place":"Oslo"}`}
	r.State = r.Send(t, h).Asked(t, "login")
	r.Responses = harness.Octocat
	r.Send(t, h).Text(t)
	expect.Equal(t, "the second use", r.Send(t, h).Refused(t, 400, -32602), harness.StateRefused)
}

// A guard in memory knows nothing of what was used before its process began, although the keys still open it. Other
// calls continue, including calls that began right after the process.
func TestAMemoryGuardRefusesWhatIsOlder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := harness.NewRing(t)
		start := func() http.Handler {
			opts := &askback.Options{Keys: ring, ReplayGuard: new(state.MemoryGuard)}
			return harness.NewServer(t, opts, harness.AddGreet).HTTPHandler(nil)
		}
		asked := func(h http.Handler) harness.Request {
			r := harness.Request{Target: "greet", Arguments: `{"place":"Oslo"}`}
			r.State = r.Send(t, h).Asked(t, "login")
			r.Responses = harness.Octocat
			return r
		}
		before := start()
		used, waiting := asked(before), asked(before)
		used.Send(t, before).Text(t)
		time.Sleep(10 * time.Millisecond)
		after := start()
		for _, r := range []harness.Request{used, waiting} {
			expect.Equal(t, "the result", r.Send(t, after).Refused(t, 400, -32602), harness.StateRefused)
		}
		fresh := asked(after)
		fresh.Send(t, after).Text(t)
		fresh.Send(t, after).Refused(t, 400, -32602)
	})
}

// A state reveals no arguments, answers, results, keys or principal.
func TestAStateShowsNothingOfItsCall(t *testing.T) {
	options := &askback.Options{Principal: func(context.Context, *mcp.RequestExtra) (string,
		error) {
		return "alice-secret", nil
	}}
	h := harness.NewServer(t, options, harness.AddTool("t",
		func(ctx context.Context, call *askback.Call, in harness.Greeting) (*mcp.CallToolResult, error) {
			if _, err := askback.Elicit[harness.Login](call, "first-secret", "?"); err != nil {
				return nil, err
			}
			if _, err := askback.Do(ctx, call,
				"step", func(context.Context) (string, error) { return "result-secret", nil }); err != nil {
				return nil, err
			}
			_, err := askback.Elicit[harness.Login](call, "second", "?")
			return nil, err
		})).HTTPHandler(nil)
	r := harness.Request{Target: "t", Arguments: `{"place":"argument-secret"}`}
	r.State = r.Send(t, h).Asked(t, "first-secret")
	r.Responses = `{"first-secret":{"action":"accept","content":{"name":"answer-secret"}}}`
	state := r.Send(t, h).Asked(t, "second")
	raw := expect.Must(base64.RawURLEncoding.DecodeString(state[strings.LastIndexByte(state, '.')+1:]))(t)
	if len(raw) < 100 {
		t.Errorf("a state of %d bytes cannot hold what it has to", len(raw))
	}
	if seen := state + string(raw); strings.Contains(seen, "secret") || strings.Contains(seen, `"name"`) ||
		strings.Contains(seen, "tools/call") {
		t.Errorf("the state shows %q", seen)
	}
}

// A client may present a state as often as it likes until it expires, and answer it differently each time: the step
// behind the answer runs each time. Only a guard makes it once.
func TestARoundCanBeAnsweredAgainWithoutAGuard(t *testing.T) {
	for _, c := range []struct {
		guard state.Guard
		want  string
	}{{nil, "[a b c]"}, {new(state.MemoryGuard), "[a]"}} {
		var ran []string
		h := harness.NewServer(t, &askback.Options{ReplayGuard: c.guard}, harness.AddTool("redeem",
			func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
				in, err := askback.Elicit[harness.Login](call, "login", "Who?")
				if err != nil {
					return "", err
				}
				return "done", call.Do(ctx, "redeem", func(context.Context) error {
					ran = append(ran, in.Name)
					return nil
				})
			})).HTTPHandler(nil)
		r := harness.Request{Target: "redeem"}
		r.State = r.Send(t, h).Asked(t, "login")
		for _, name := range []string{"a", "b", "c"} {
			r.Responses = `{"login":{"action":"accept","content":{"name":"` + name + `"}}}`
			r.Send(t, h)
		}
		if got := fmt.Sprint(ran); got != c.want {
			t.Errorf("guard %v: the step ran for %s, want %s", c.guard != nil, got, c.want)
		}
	}
}

// What is in _meta and in the headers is not bound: a handler sees that of the round.
func TestMetaIsThatOfTheRound(t *testing.T) {
	var seen []string
	h := harness.NewServer(t, nil, harness.AddTool("deploy",
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			req := call.Request().(*mcp.CallToolRequest)
			first, err := askback.Do(ctx, call,
				"where", func(context.Context) (any, error) { return req.Params.Meta["com.example/where"], nil })
			if err != nil {
				return "", err
			}
			seen = append(seen, fmt.Sprint(req.Params.Meta["com.example/where"], " ", req.Extra.Header.Get("X-Where"), " ",
				first))
			_, err = askback.Elicit[harness.Login](call, "login", "Deploy?")
			return "", err
		})).HTTPHandler(nil)
	r := harness.Request{Target: "deploy", Meta: `,"com.example/where":"sandbox"`,
		Header: http.Header{"X-Where": {"sandbox"}}}
	r.State = r.Send(t, h).Asked(t, "login")
	r.Meta, r.Header = `,"com.example/where":"production"`, http.Header{"X-Where": {"production"}}
	r.Responses = harness.Octocat
	r.Send(t, h)
	expect.Same(t, "the handler saw", seen, []string{"sandbox sandbox sandbox", "production production sandbox"})
}
