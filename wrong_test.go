package askback_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
)

// hostile is a text that must not reach the log as it is, nor split its lines.
const hostile = "evil\nlevel=ERROR msg=forged"

func TestWrongInput(t *testing.T) {
	modernBody := func(members string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call",` + members + `}`
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	header := func(name string, values ...string) http.Header { return http.Header{name: values} }

	for _, test := range []struct {
		name    string
		request request
		status  int
		code    int
		message string // a part of it
	}{
		{"malformed JSON", request{body: `{"jsonrpc":`}, 400, -32700, "parse error"},
		{"malformed JSON without a version header", request{body: `{"jsonrpc":`, header: header("MCP-Protocol-Version")}, 400, -32700, "parse error"},
		{"no body", request{body: ` `}, 400, -32700, "parse error"},
		{"two values", request{body: `{} {}`}, 400, -32700, "parse error"},
		{"duplicate member", request{body: modernBody(`"params":{},"params":{}`)}, 400, -32700, "duplicate"},
		{"invalid UTF-8", request{body: modernBody("\"params\":{\"name\":\"\xff\"}")}, 400, -32700, "UTF-8"},
		{"lone surrogate", request{body: modernBody(`"params":{"name":"\ud800"}`)}, 400, -32700, "surrogate"},
		{"too deep", request{body: strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)}, 400, -32700, "64"},
		{"not an object", request{body: `"tools/call"`}, 400, -32600, "object"},
		{"batch", request{body: `[{"jsonrpc":"2.0","id":1,"method":"tools/call"}]`}, 400, -32600, "batch"},
		{"missing method", request{body: `{"jsonrpc":"2.0","id":1,"params":{}}`}, 400, -32600, "method"},
		{"method that is no string", request{body: `{"jsonrpc":"2.0","id":1,"method":7}`}, 400, -32600, "method"},
		{"wrong jsonrpc", request{body: `{"jsonrpc":"1.0","id":1,"method":"tools/call"}`}, 400, -32600, "jsonrpc"},
		{"null id", request{body: `{"jsonrpc":"2.0","id":null,"method":"tools/call"}`}, 400, -32600, "id"},
		{"fractional id", request{body: `{"jsonrpc":"2.0","id":1.5,"method":"tools/call"}`}, 400, -32600, "id"},
		{"params that are no object", request{body: modernBody(`"params":[]`)}, 400, -32600, "params"},
		{"no _meta", request{target: "greet", body: modernBody(`"params":{"name":"greet"}`)}, 400, -32602, "protocolVersion"},
		{"no capabilities", request{target: "greet", body: modernBody(`"params":{"name":"greet","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`)}, 400, -32602, "clientCapabilities"},
		{"capabilities that are no object", request{target: "greet", capabilities: `[]`}, 400, -32602, "clientCapabilities"},
		{"no name", request{body: modernBody(`"params":{` + meta + `}`)}, 400, -32602, "name"},
		{"unknown tool", request{target: "none"}, 400, -32602, "unknown tool"},
		{"arguments that are no object", request{target: "greet", arguments: `[1]`}, 400, -32602, "arguments"},
		{"version header missing", request{target: "greet", header: header("MCP-Protocol-Version")}, 400, -32020, "missing"},
		{"version header legacy, body modern", request{target: "greet", header: header("MCP-Protocol-Version", "2025-11-25")}, 400, -32020, "match"},
		{"version header twice", request{target: "greet", header: header("MCP-Protocol-Version", "2026-07-28", "2026-07-28")}, 400, -32020, "2 times"},
		{"method header missing", request{target: "greet", header: header("Mcp-Method")}, 400, -32020, "missing"},
		{"method header differs", request{target: "greet", header: header("Mcp-Method", "tools/list")}, 400, -32020, "match"},
		{"name header missing", request{target: "greet", header: header("Mcp-Name")}, 400, -32020, "missing"},
		{"name header differs", request{target: "greet", header: header("Mcp-Name", "other")}, 400, -32020, "match"},
		{"name header with foreign bytes", request{target: "greet", header: header("Mcp-Name", "gr\xc3\xa9et")}, 400, -32020, "ASCII"},
		{"name header not Base64", request{target: "greet", header: header("Mcp-Name", "=?base64?!!!?=")}, 400, -32020, "Base64"},
		{"unsupported version", request{body: strings.ReplaceAll(modernBody(`"params":{"name":"greet",`+meta+`}`), "2026-07-28", "1900-01-01"), target: "greet",
			header: header("MCP-Protocol-Version", "1900-01-01")}, 400, -32022, "Unsupported"},
		{"unsupported version to come", request{body: strings.ReplaceAll(modernBody(`"params":{"name":"greet",`+meta+`}`), "2026-07-28", "2099-01-01"), target: "greet",
			header: header("MCP-Protocol-Version", "2099-01-01")}, 400, -32022, "Unsupported"},
		{"undeclared capability", request{target: "greet", capabilities: `{}`, arguments: `{"place":"x"}`}, 400, -32021, "elicitation.form"},
		{"inputResponses that are no object", request{target: "greet", responses: `[]`}, 400, -32602, "object of objects"},
		{"inputResponses with a value that is no object", request{target: "greet", responses: `{"login":"octocat"}`}, 400, -32602, "object of objects"},
		{"requestState that is no string", request{body: modernBody(`"params":{"name":"greet","requestState":{},` + meta + `}`), target: "greet"}, 400, -32602, fixedMessage},
		{"unknown method", request{method: "tools/nonsense"}, 404, -32601, ""},
		{"body over the limit", request{target: "greet", arguments: `{"place":"` + strings.Repeat("x", 1<<16) + `"}`}, 413, -32600, "65536"},
	} {
		t.Run(test.name, func(t *testing.T) {
			logger, logged := logs()
			h := newServer(t, &askback.Options{Logger: logger, Limits: askback.Limits{MessageBytes: 1 << 16}}, greet).HTTPHandler(nil)
			message := test.request.send(t, h).refused(t, test.status, test.code)
			if !strings.Contains(message, test.message) {
				t.Errorf("message %q does not say %q", message, test.message)
			}
			if strings.Contains(logged.String(), "evil") {
				t.Errorf("logged: %s", logged)
			}
			// The server is none the worse for it.
			request{target: "greet", arguments: `{"place":"x"}`}.send(t, h).asked(t, "login")
		})
	}
}

// A body whose length is not announced is bounded as well.
func TestBodyOverTheLimitInChunks(t *testing.T) {
	h := newServer(t, &askback.Options{Limits: askback.Limits{MessageBytes: 1 << 10}}, greet).HTTPHandler(nil)
	chunked := func(r *http.Request) *http.Request { r.ContentLength = -1; return r }
	request{target: "greet", arguments: `{"place":"x"}`, ctx: chunked}.send(t, h).asked(t, "login")
	request{target: "greet", arguments: `{"place":"` + strings.Repeat("x", 1<<11) + `"}`, ctx: chunked}.send(t, h).refused(t, 413, -32600)
}

func TestErrorsCarryTheirData(t *testing.T) {
	h := newServer(t, nil, greet).HTTPHandler(nil)
	res := request{target: "greet", capabilities: `{}`, arguments: `{"place":"x"}`}.send(t, h)
	if got := string(res.Error.Data); got != `{"requiredCapabilities":{"elicitation":{"form":{}}}}` {
		t.Errorf("-32021: %s", got)
	}
	body := `{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1900-01-01"}}}`
	res = request{method: "tools/list", body: body, header: http.Header{"MCP-Protocol-Version": {"1900-01-01"}}}.send(t, h)
	res.refused(t, 400, -32022)
	if !strings.Contains(res.raw, `"requested":"1900-01-01"`) || !strings.Contains(res.raw, `"supported":["2026-07-28",`) || !strings.Contains(res.raw, `"id":"a"`) {
		t.Errorf("-32022: %s", res.raw)
	}
}

func TestBadArgumentsAreAToolError(t *testing.T) {
	h := newServer(t, nil, greet).HTTPHandler(nil)
	for _, arguments := range []string{`{}`, `{"place":1}`, `{"place":"x","more":1}`, ``} {
		res := request{target: "greet", arguments: arguments}.send(t, h)
		if res.Result == nil || !res.Result.IsError || res.status != 200 {
			t.Errorf("%s: %s", arguments, res.raw)
		}
	}
}

func TestCapabilitiesGateQuestions(t *testing.T) {
	h := newServer(t, nil, func(srv *askback.Server) {
		for name, ask := range map[string]askback.ToolHandler[struct{}, any]{
			"form": func(_ context.Context, call *askback.Call, _ struct{}) (any, error) {
				return askback.Elicit[login](call, "q", "?")
			},
			"url": func(_ context.Context, call *askback.Call, _ struct{}) (any, error) {
				return nil, askback.ElicitURL(call, "q", "?", "https://example.com")
			},
			"model": func(_ context.Context, call *askback.Call, _ struct{}) (any, error) {
				return askback.Sample(call, "q", sampling("?"))
			},
			"tools": func(_ context.Context, call *askback.Call, _ struct{}) (any, error) {
				p := sampling("?")
				p.Tools = []*mcp.Tool{{Name: "x", InputSchema: map[string]any{"type": "object"}}}
				return askback.Sample(call, "q", p)
			},
			"roots": func(_ context.Context, call *askback.Call, _ struct{}) (any, error) {
				return askback.Roots(call, "q")
			},
		} {
			askback.AddTool(srv, &mcp.Tool{Name: name}, ask)
		}
	}).HTTPHandler(nil)
	for _, test := range []struct{ tool, enough, lacking string }{
		{"form", `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`},
		{"form", `{"elicitation":{"form":{}}}`, `{"sampling":{"tools":{}},"roots":{}}`},
		{"url", `{"elicitation":{"url":{}}}`, `{"elicitation":{}}`},
		{"model", `{"sampling":{}}`, `{"elicitation":{}}`},
		{"tools", `{"sampling":{"tools":{}}}`, `{"sampling":{}}`},
		{"roots", `{"roots":{}}`, `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}}}`},
	} {
		request{target: test.tool, capabilities: test.enough}.send(t, h).asked(t, "q")
		request{target: test.tool, capabilities: test.lacking}.send(t, h).refused(t, 400, -32021)
	}
}

const fixedMessage = "Invalid or expired requestState"

// Whatever is wrong with a state, the client learns only that it was refused, and the
// operator learns why.
func TestStateIsBoundToItsRequest(t *testing.T) {
	logger, logged := logs()
	ring := newRing(t)
	var reasons []seal.Reason
	options := askback.Options{
		Keys: ring, Logger: logger,
		Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
			return extra.Header.Get("X-User"), nil
		},
		ObserveState: func(_ context.Context, e state.Event) { reasons = append(reasons, e.Reason) },
	}
	second := func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "greet2"}, func(ctx context.Context, call *askback.Call, in greeting) (string, error) {
			_, err := askback.Elicit[login](call, "login", "Who are you?")
			return "x", err
		})
		srv.AddPrompt(&mcp.Prompt{Name: "greet"}, func(ctx context.Context, call *askback.Call, _ map[string]string) (*mcp.GetPromptResult, error) {
			_, err := askback.Elicit[login](call, "login", "Who are you?")
			return &mcp.GetPromptResult{}, err
		})
	}
	h := newServer(t, &options, greet, second).HTTPHandler(nil)
	alice := http.Header{"X-User": {"alice"}}
	good := request{target: "greet", arguments: `{"place":"Oslo"}`, header: alice}
	good.state = good.send(t, h).asked(t, "login")
	good.responses = octocat

	other := options
	other.Audience = "another service"
	strangers := options
	strangers.Keys = newRing(t)

	for _, test := range []struct {
		name   string
		reason seal.Reason
		to     http.Handler
		change func(*request)
	}{
		{"other principal", seal.ReasonPrincipal, h, func(r *request) { r.header = http.Header{"X-User": {"mallory"}} }},
		{"no principal", seal.ReasonPrincipal, h, func(r *request) { r.header = nil }},
		{"other tool", seal.ReasonTarget, h, func(r *request) { r.target = "greet2" }},
		{"other method", seal.ReasonMethod, h, func(r *request) { r.method, r.arguments = "prompts/get", `{"place":"Oslo"}` }},
		{"other arguments", seal.ReasonArguments, h, func(r *request) { r.arguments = `{"place":"Rome"}` }},
		{"no arguments", seal.ReasonArguments, h, func(r *request) { r.arguments = `` }},
		{"other server, same keys", seal.ReasonAudience, newServer(t, &other, greet).HTTPHandler(nil), func(*request) {}},
		{"other keys", seal.ReasonUnknownKey, newServer(t, &strangers, greet).HTTPHandler(nil), func(*request) {}},
		{"altered", seal.ReasonAuthentication, h, func(r *request) { r.state = r.state[:60] + flip(r.state[60]) + r.state[61:] }},
		{"cut", seal.ReasonMalformed, h, func(r *request) { r.state = r.state[:20] }},
		{"longer", seal.ReasonMalformed, h, func(r *request) { r.state += "\n" }},
		{"of another version", seal.ReasonVersion, h, func(r *request) { r.state = "ab9" + r.state[3:] }},
		{"hostile", seal.ReasonMalformed, h, func(r *request) { r.state = hostile }},
		{"10 MB", seal.ReasonTooLarge, newServer(t, func() *askback.Options { o := options; o.Limits.MessageBytes = 16 << 20; return &o }(), greet).HTTPHandler(nil),
			func(r *request) { r.state = strings.Repeat("A", 10<<20) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			reasons = nil
			logged.Reset()
			r := good
			test.change(&r)
			if message := r.send(t, test.to).refused(t, 400, -32602); message != fixedMessage {
				t.Errorf("the client is told %q", message)
			}
			if len(reasons) != 1 || reasons[0] != test.reason {
				t.Errorf("reasons %q, want %q", reasons, test.reason)
			}
			if lines := strings.Count(logged.String(), "\n"); lines != 1 || !strings.Contains(logged.String(), string(test.reason)) {
				t.Errorf("logged %d lines: %.300s", lines, logged)
			}
			if log := logged.String(); strings.Contains(log, "alice") || strings.Contains(log, "octocat") || len(log) > 1000 {
				t.Errorf("logged too much: %.300s", log)
			}
		})
	}
	if got := good.send(t, h).text(t); got != "Hello octocat in Oslo" {
		t.Errorf("the untouched request: %q", got)
	}
	empty := request{target: "greet", header: alice, body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"greet","requestState":"","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`}
	if message := empty.send(t, h).refused(t, 400, -32602); message != fixedMessage {
		t.Errorf("empty state: %q", message)
	}
}

func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

func TestStatesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newServer(t, &askback.Options{Limits: askback.Limits{RoundTTL: time.Minute, CallTTL: 90 * time.Second}}, greet).HTTPHandler(nil)
		r := request{target: "greet", arguments: `{"place":"Oslo"}`}
		first := r.send(t, h).asked(t, "login")

		time.Sleep(time.Minute - time.Millisecond)
		r.state = first
		again := r.send(t, h).asked(t, "login") // unanswered, so that the round starts anew
		time.Sleep(time.Millisecond)
		r.responses = octocat
		if message := r.send(t, h).refused(t, 400, -32602); message != fixedMessage {
			t.Errorf("after the round's time: %q", message)
		}
		// The call as a whole is bounded, whatever a round may take.
		r.state = again
		time.Sleep(31 * time.Second)
		r.send(t, h).refused(t, 400, -32602)
	})
}

func TestLimitsNameThemselves(t *testing.T) {
	for _, test := range []struct {
		name   string
		limits askback.Limits
		tool   askback.ToolHandler[struct{}, *mcp.CallToolResult]
	}{
		{"rounds per call", askback.Limits{Rounds: 3}, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			return nil, call.Checkpoint(ctx, fmt.Sprint(call.Round()))
		}},
		{"questions per round", askback.Limits{Questions: 1}, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			_, err1 := askback.Elicit[login](call, "a", "?")
			_, err2 := askback.Elicit[login](call, "b", "?")
			return nil, errors.Join(err1, err2)
		}},
		{"bytes of requestState", askback.Limits{StateBytes: 1000}, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			_, err := askback.Do(ctx, call, "big", func(context.Context) (string, error) { return strings.Repeat("x", 2000), nil })
			if err != nil {
				return nil, err
			}
			return nil, call.Checkpoint(ctx, "c")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newServer(t, &askback.Options{Limits: test.limits}, func(srv *askback.Server) {
				askback.AddTool(srv, &mcp.Tool{Name: "t"}, test.tool)
			}).HTTPHandler(nil)
			r := request{target: "t"}
			for range 10 {
				res := r.send(t, h)
				if res.Error == nil {
					r.state = res.asked(t)
					continue
				}
				if res.refused(t, 200, -32603); !strings.Contains(res.Error.Message, test.name) {
					t.Errorf("message %q", res.Error.Message)
				}
				return
			}
			t.Error("no limit was reached")
		})
	}
}

func TestPanicsAreContained(t *testing.T) {
	logger, logged := logs()
	h := newServer(t, &askback.Options{Logger: logger}, greet, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "p"}, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			panic("boom")
		})
	}).HTTPHandler(nil)
	if message := (request{target: "p"}).send(t, h).refused(t, 200, -32603); message != "internal error" {
		t.Errorf("the client is told %q", message)
	}
	if !strings.Contains(logged.String(), "boom") || !strings.Contains(logged.String(), "wrong_test.go") {
		t.Errorf("logged without panic or stack: %s", logged)
	}
	request{target: "greet", arguments: `{"place":"x"}`}.send(t, h).asked(t, "login")
}

func TestReplayGuardMakesStatesSingleUse(t *testing.T) {
	h := newServer(t, &askback.Options{ReplayGuard: new(state.MemoryGuard)}, greet).HTTPHandler(nil)
	r := request{target: "greet", arguments: `{"place":"Oslo"}`}
	r.state = r.send(t, h).asked(t, "login")
	r.responses = octocat
	r.send(t, h).text(t)
	if message := r.send(t, h).refused(t, 400, -32602); message != fixedMessage {
		t.Errorf("the second use: %q", message)
	}
}

func TestPrincipalComesFromTheToken(t *testing.T) {
	var got []string
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "who"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			got = append(got, call.Principal())
			return "", nil
		})
	}).HTTPHandler(nil)
	verify := func(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "user-" + token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	request{target: "who"}.send(t, h)
	request{target: "who", header: http.Header{"Authorization": {"Bearer 7"}}}.send(t, auth.RequireBearerToken(verify, nil)(h))
	if len(got) != 2 || got[0] != "" || got[1] != "user-7" {
		t.Errorf("principals %q", got)
	}
}

func TestForeignPagesAreRefused(t *testing.T) {
	h := newServer(t, nil, greet).HTTPHandler(&askback.HTTPOptions{TrustedOrigins: []string{"https://app.example.com"}})
	local := func(host string) func(*http.Request) *http.Request {
		return func(r *http.Request) *http.Request {
			r.Host = host
			addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
			return r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr)))
		}
	}
	for _, test := range []struct {
		host, origin string
		status       int
	}{
		{"localhost:8080", "", 200},
		{"127.0.0.1:8080", "http://127.0.0.1:8080", 200},
		{"[::1]:8080", "", 200},
		{"localhost:8080", "https://app.example.com", 200},
		{"localhost:8080", "http://evil.example.com", 403},
		{"localhost:8080", "null", 403},
		{"evil.example.com", "", 403},
		{"evil.example.com:8080", "http://evil.example.com:8080", 403},
	} {
		r := request{target: "greet", arguments: `{"place":"x"}`, ctx: local(test.host), header: http.Header{}}
		if test.origin != "" {
			r.header.Set("Origin", test.origin)
		}
		if res := r.send(t, h); res.status != test.status {
			t.Errorf("Host %s, Origin %q: status %d, want %d", test.host, test.origin, res.status, test.status)
		}
	}
}

func TestMirroredParameterHeaders(t *testing.T) {
	h := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "sql", InputSchema: map[string]any{
			"type": "object",
			"properties": map[string]any{
				"region": map[string]any{"type": "string", "x-mcp-header": "Region"},
				"opts":   map[string]any{"type": "object", "properties": map[string]any{"limit": map[string]any{"type": "integer", "x-mcp-header": "Limit"}}},
			},
		}}, func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
			return "ok", nil
		})
	}).HTTPHandler(nil)
	for _, test := range []struct {
		name, arguments string
		header          http.Header
		ok              bool
	}{
		{"equal", `{"region":"eu","opts":{"limit":42}}`, http.Header{"Mcp-Param-Region": {"eu"}, "Mcp-Param-Limit": {"42.0"}}, true},
		{"Base64", `{"region":"日本"}`, http.Header{"Mcp-Param-Region": {"=?base64?5pel5pys?="}}, true},
		{"both absent", `{"region":null}`, nil, true},
		{"differs", `{"region":"eu"}`, http.Header{"Mcp-Param-Region": {"us"}}, false},
		{"header missing", `{"region":"eu"}`, nil, false},
		{"parameter missing", `{}`, http.Header{"Mcp-Param-Region": {"eu"}}, false},
		{"other number", `{"opts":{"limit":42}}`, http.Header{"Mcp-Param-Limit": {"43"}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			res := request{target: "sql", arguments: test.arguments, header: test.header}.send(t, h)
			if test.ok {
				res.text(t)
			} else {
				res.refused(t, 400, -32020)
			}
		})
	}
}
