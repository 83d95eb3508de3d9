package httpfront_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

func TestWrongInput(t *testing.T) {
	t.Parallel()
	modernBody := func(members string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call",` + members + `}`
	}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
	header := func(name string, values ...string) http.Header { return http.Header{name: values} }

	for _, test := range []struct {
		name    string
		request harness.Request
		status  int
		code    int
		message string // a part of the message
	}{
		{"malformed JSON", harness.Request{Body: `{"jsonrpc":`}, 400, -32700, "parse error"},
		{"malformed JSON without a version header", harness.Request{Body: `{"jsonrpc":`,
			Header: header("MCP-Protocol-Version")}, 400, -32700, "parse error"},
		{"no body", harness.Request{Body: ` `}, 400, -32700, "parse error"},
		{"two values", harness.Request{Body: `{} {}`}, 400, -32700, "parse error"},
		{"duplicate member", harness.Request{Body: modernBody(`"params":{},"params":{}`)}, 400, -32700, "duplicate"},
		{"invalid UTF-8", harness.Request{Body: modernBody("\"params\":{\"name\":\"\xff\"}")}, 400, -32700, "UTF-8"},
		{"lone surrogate", harness.Request{Body: modernBody(`"params":{"name":"\ud800"}`)}, 400, -32700, "surrogate"},
		{"too deep", harness.Request{Body: strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)}, 400, -32700, "64"},
		{"not an object", harness.Request{Body: `"tools/call"`}, 400, -32600, "object"},
		{"batch", harness.Request{Body: `[{"jsonrpc":"2.0","id":1,"method":"tools/call"}]`}, 400, -32600, "batch"},
		{"missing method", harness.Request{Body: `{"jsonrpc":"2.0","id":1,"params":{}}`}, 400, -32600, "method"},
		{"method that is no string", harness.Request{Body: `{"jsonrpc":"2.0","id":1,"method":7}`}, 400, -32600, "method"},
		{"wrong jsonrpc", harness.Request{Body: `{"jsonrpc":"1.0","id":1,"method":"tools/call"}`}, 400, -32600, "jsonrpc"},
		{"null id", harness.Request{Body: `{"jsonrpc":"2.0","id":null,"method":"tools/call"}`}, 400, -32600, "id"},
		{"id with an exponent", harness.Request{Body: `{"jsonrpc":"2.0","id":1e3,"method":"tools/call"}`}, 400, -32600, "id"},
		{"fractional id", harness.Request{Body: `{"jsonrpc":"2.0","id":1.5,"method":"tools/call"}`}, 400, -32600, "id"},
		{"params that are no object", harness.Request{Body: modernBody(`"params":[]`)}, 400, -32600, "params"},
		{"no _meta", harness.Request{Target: "greet", Body: modernBody(`"params":{"name":"greet"}`)}, 400, -32602,
			"protocolVersion"},
		{"no capabilities", harness.Request{Target: "greet",
			Body: modernBody(`"params":{"name":"greet","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`)}, 400,
			-32602, "clientCapabilities"},
		{"capabilities that are no object", harness.Request{Target: "greet", Capabilities: `[]`}, 400, -32602,
			"clientCapabilities"},
		{"no name", harness.Request{Body: modernBody(`"params":{` + meta + `}`)}, 400, -32602, "name"},
		{"unknown tool", harness.Request{Target: "none"}, 400, -32602, "unknown tool"},
		{"arguments that are no object", harness.Request{Target: "greet", Arguments: `[1]`}, 400, -32602, "arguments"},
		{"version header missing", harness.Request{Target: "greet", Header: header("MCP-Protocol-Version")}, 400, -32020,
			"missing"},
		{"version header legacy, body modern", harness.Request{Target: "greet", Header: header("MCP-Protocol-Version",
			"2025-11-25")}, 400, -32020, "match"},
		{"version header twice", harness.Request{Target: "greet", Header: header("MCP-Protocol-Version", "2026-07-28",
			"2026-07-28")}, 400, -32020, "2 times"},
		{"method header missing", harness.Request{Target: "greet", Header: header("Mcp-Method")}, 400, -32020, "missing"},
		{"method header differs", harness.Request{Target: "greet", Header: header("Mcp-Method", "tools/list")}, 400, -32020,
			"match"},
		{"name header missing", harness.Request{Target: "greet", Header: header("Mcp-Name")}, 400, -32020, "missing"},
		{"name header differs", harness.Request{Target: "greet", Header: header("Mcp-Name", "other")}, 400, -32020, "match"},
		{"name header with foreign bytes", harness.Request{Target: "greet", Header: header("Mcp-Name", "gr\xc3\xa9et")}, 400,
			-32020, "ASCII"},
		{"name header with bits behind its Base64", harness.Request{Target: "greet",
			Header: header("Mcp-Name", "=?base64?Z3JlZXR=?=")}, 400, -32020, "Base64"},
		{"name header not Base64", harness.Request{Target: "greet", Header: header("Mcp-Name", "=?base64?!!!?=")}, 400,
			-32020, "Base64"},
		{"unsupported version", harness.Request{Body: strings.ReplaceAll(modernBody(`"params":{"name":"greet",`+meta+`}`),
			"2026-07-28", "1900-01-01"), Target: "greet",
			Header: header("MCP-Protocol-Version", "1900-01-01")}, 400, -32022, "Unsupported"},
		{"unsupported version to come",
			harness.Request{Body: strings.ReplaceAll(modernBody(`"params":{"name":"greet",`+meta+`}`), "2026-07-28",
				"2099-01-01"), Target: "greet",
				Header: header("MCP-Protocol-Version", "2099-01-01")}, 400, -32022, "Unsupported"},
		{"undeclared capability", harness.Request{Target: "greet", Capabilities: `{}`, Arguments: `{"place":"x"}`}, 400,
			-32021, "elicitation.form"},
		{"progress token that is no string", harness.Request{Target: "greet", Meta: `,"progressToken":{}`}, 400, -32602,
			"progressToken"},
		{"inputResponses that are no object", harness.Request{Target: "greet", Responses: `[]`}, 400, -32602,
			"object of objects"},
		{"inputResponses with a value that is no object", harness.Request{Target: "greet", Responses: `{"login":"octocat"}`},
			400, -32602, "object of objects"},
		{"requestState that is no string", harness.Request{Body: modernBody(`"params":{"name":"greet","requestState":{},` +
			meta + `}`), Target: "greet"}, 400, -32602, harness.StateRefused},
		{"unknown method", harness.Request{Method: "tools/nonsense"}, 404, -32601, ""},
		{"body over the limit", harness.Request{Target: "greet", Arguments: `{"place":"` + strings.Repeat("x", 1<<16) + `"}`},
			413, -32600, "65536"},
	} {
		t.Run(test.name, func(t *testing.T) {
			logger, logged := harness.Logs()
			h := harness.NewServer(t, &askback.Options{Logger: logger, Limits: askback.Limits{MessageBytes: 1 << 16}},
				harness.AddGreet).HTTPHandler(nil)
			message := test.request.Send(t, h).Refused(t, test.status, test.code)
			expect.Contains(t, "message", message, test.message)
			if strings.Contains(logged.String(), "evil") {
				t.Errorf("logged: %s", logged)
			}
			// The server still works.
			harness.Request{Target: "greet", Arguments: `{"place":"x"}`}.Send(t, h).Asked(t, "login")
		})
	}
}

func TestContentTypes(t *testing.T) {
	t.Parallel()
	h := harness.NewServer(t, nil, harness.AddGreet).HTTPHandler(nil)
	for contentType, ok := range map[string]bool{
		"application/json":                true,
		"application/json; charset=utf-8": true,
		"Application/JSON ;Charset=x":     true,
		"":                                false,
		"text/plain":                      false, // which pages send to other origins without asking
		"text/plain; application/json":    false,
		"application/jsonp":               false,
		"application/json; charset":       false,
		"multipart/form-data; boundary=x": false,
	} {
		res := harness.Request{Target: "greet", Arguments: `{"place":"x"}`,
			Header: http.Header{"Content-Type": {contentType}}}.Send(t, h)
		if ok {
			res.Asked(t, "login")
		} else if message := res.Refused(t, http.StatusUnsupportedMediaType, -32600); !strings.Contains(message,
			"application/json") {
			t.Errorf("%q: %s", contentType, message)
		}
	}
}

func TestErrorsCarryTheirData(t *testing.T) {
	t.Parallel()
	h := harness.NewServer(t, nil, harness.AddGreet).HTTPHandler(nil)
	res := harness.Request{Target: "greet", Capabilities: `{}`, Arguments: `{"place":"x"}`}.Send(t, h)
	expect.Equal(t, "the data of -32021", string(res.Error.Data), `{"requiredCapabilities":{"elicitation":{"form":{}}}}`)
	body := `{"jsonrpc":"2.0","id":"a","method":"tools/list",` +
		`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1900-01-01"}}}`
	res = harness.Request{Method: "tools/list", Body: body,
		Header: http.Header{"MCP-Protocol-Version": {"1900-01-01"}}}.Send(t, h)
	res.Refused(t, 400, -32022)
	if !strings.Contains(res.Raw, `"requested":"1900-01-01"`) ||
		!strings.Contains(res.Raw, `"supported":["2026-07-28",`) || !strings.Contains(res.Raw, `"id":"a"`) {
		t.Errorf("-32022: %s", res.Raw)
	}
}

func TestErrorsThatCannotBeSent(t *testing.T) {
	t.Parallel()
	register := func(srv *askback.Server) {
		for name, fault := range map[string]*jsonrpc.Error{
			"data": {Code: 7, Message: "x", Data: json.RawMessage("no JSON")}, "nil": nil,
		} {
			askback.AddTool(srv, &mcp.Tool{Name: name}, func(context.Context, *askback.Call,
				struct{}) (*mcp.CallToolResult, error) {
				return nil, fault
			})
		}
	}
	h := harness.NewServer(t, nil, register).HTTPHandler(nil)
	harness.Request{Target: "data"}.Send(t, h).Refused(t, 200, 7)
	harness.Request{Target: "nil"}.Send(t, h).Refused(t, 200, -32603)

	here, there := mcp.NewInMemoryTransports()
	expect.Must(harness.NewServer(t, nil, register).Connect(t.Context(), there, nil))(t)
	session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), here, nil)
	expect.Check(t, err)
	defer session.Close()
	_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "nil"})
	if fault, ok := errors.AsType[*jsonrpc.Error](err); !ok || fault.Code != -32603 {
		t.Errorf("nil error over the SDK: %v", err)
	}
}

func TestMirroredParameterHeaders(t *testing.T) {
	t.Parallel()
	h := harness.NewServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "sql", InputSchema: map[string]any{
			"type": "object",
			"properties": map[string]any{
				"region": map[string]any{"type": "string", "x-mcp-header": "Region"},
				"opts": map[string]any{"type": "object", "properties": map[string]any{"limit": map[string]any{"type": "integer",
					"x-mcp-header": "Limit"}}},
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
		{"equal", `{"region":"eu","opts":{"limit":42}}`, http.Header{"Mcp-Param-Region": {"eu"}, "Mcp-Param-Limit": {"42.0"}},
			true},
		{"Base64", `{"region":"日本"}`, http.Header{"Mcp-Param-Region": {"=?base64?5pel5pys?="}}, true},
		{"both absent", `{"region":null}`, nil, true},
		{"differs", `{"region":"eu"}`, http.Header{"Mcp-Param-Region": {"us"}}, false},
		{"header missing", `{"region":"eu"}`, nil, false},
		{"parameter missing", `{}`, http.Header{"Mcp-Param-Region": {"eu"}}, false},
		{"other number", `{"opts":{"limit":42}}`, http.Header{"Mcp-Param-Limit": {"43"}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			res := harness.Request{Target: "sql", Arguments: test.arguments, Header: test.header}.Send(t, h)
			if test.ok {
				res.Text(t)
			} else {
				res.Refused(t, 400, -32020)
			}
		})
	}
}

func TestForeignPagesAreRefused(t *testing.T) {
	t.Parallel()
	h := harness.NewServer(t, nil,
		harness.AddGreet).HTTPHandler(&askback.HTTPOptions{TrustedOrigins: []string{"https://app.example.com"}})
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
		r := harness.Request{Target: "greet", Arguments: `{"place":"x"}`, Context: local(test.host), Header: http.Header{}}
		if test.origin != "" {
			r.Header.Set("Origin", test.origin)
		}
		if res := r.Send(t, h); res.Status != test.status {
			t.Errorf("Host %s, Origin %q: status %d, want %d", test.host, test.origin, res.Status, test.status)
		}
	}
}

func TestForeignPagesAreRefusedWhateverTheMethod(t *testing.T) {
	t.Parallel()
	h := harness.NewServer(t, nil).HTTPHandler(nil)
	for _, method := range []string{"GET", "POST", "DELETE"} {
		r := httptest.NewRequest(method, "http://localhost/mcp", nil)
		r.Header.Set("Origin", "https://evil.example")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		expect.Equal(t, method+": status", w.Code, http.StatusForbidden)
		// A page whose name was rebound to this machine needs no other origin.
		r = httptest.NewRequest(method, "http://evil.example/mcp", nil)
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey,
			net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80})))
		w = httptest.NewRecorder()
		h.ServeHTTP(w, r)
		// The SDK would refuse some of them, too, but only with its own options.
		if w.Code != http.StatusForbidden ||
			!strings.Contains(w.Body.String(), "the Host header is not one of this local server") {
			t.Errorf("%s under a foreign name: status %d, %s", method, w.Code, w.Body)
		}
	}
}

func TestProgressMakesAStream(t *testing.T) {
	t.Parallel()
	h := harness.NewServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "slow"}, func(ctx context.Context, call *askback.Call,
			_ struct{}) (string, error) {
			for _, p := range []float64{1, 2, 2, 1, 3} {
				if err := call.Progress(ctx, p, 3, "working\n"); err != nil {
					return "", err
				}
			}
			return "done", nil
		})
	}).HTTPHandler(nil)
	if res := (harness.Request{Target: "slow"}).Send(t, h); res.Header.Get("Content-Type") != "application/json" ||
		res.Text(t) != "done" {
		t.Errorf("without a token: %s", res.Raw)
	}
	// A client that does not accept events gets none.
	noEvents := harness.Request{Target: "slow", Meta: `,"progressToken":"tok"`,
		Header: http.Header{"Accept": {"application/json"}}}
	if res := noEvents.Send(t, h); res.Header.Get("Content-Type") != "application/json" || res.Text(t) != "done" {
		t.Errorf("without events: %s", res.Raw)
	}
	res := harness.Request{Target: "slow", Meta: `,"progressToken":"tok"`}.Send(t, h)
	expect.Equal(t, "content type", res.Header.Get("Content-Type"), "text/event-stream")
	expect.Equal(t, "what proxies are told of buffers", res.Header.Get("X-Accel-Buffering"), "no")
	if got := strings.Count(res.Raw, "notifications/progress"); got != 3 {
		t.Errorf("%d notifications, want the 3 that grow: %s", got, res.Raw)
	}
	if !strings.Contains(res.Raw, `{"progressToken":"tok","progress":3,"total":3,"message":"working\n"}`) ||
		res.Text(t) != "done" {
		t.Errorf("got %s", res.Raw)
	}
}

// An input-required result is the last message of a stream. Progress that a handler reports after it
// has returned is not sent.
func TestInputRequiredEndsItsStream(t *testing.T) {
	t.Parallel()
	late := make(chan error, 1)
	returned := make(chan struct{})
	h := harness.NewServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "slow"}, func(ctx context.Context, call *askback.Call,
			_ struct{}) (*mcp.CallToolResult, error) {
			if err := call.Progress(ctx, 1, 2, "looking"); err != nil {
				return nil, err
			}
			go func() {
				<-returned
				late <- call.Progress(context.WithoutCancel(ctx), 2, 2, "too late")
			}()
			_, err := askback.Elicit[harness.Login](call, "login", "Who are you?")
			return nil, err
		})
	}).HTTPHandler(nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, harness.Request{Target: "slow", Meta: `,"progressToken":1`}.HTTP(t))
	close(returned)
	if err := <-late; err == nil {
		t.Error("progress after the response was sent, or said to be")
	}
	events := strings.Split(strings.TrimSpace(w.Body.String()), "\n\n")
	if len(events) != 2 || !strings.Contains(events[0], "notifications/progress") ||
		!strings.Contains(events[1], `"resultType":"input_required"`) {
		t.Errorf("got %d events: %s", len(events), w.Body)
	}

	// Without progress it is a single response.
	res := harness.Request{Target: "slow"}.Send(t, h)
	if res.Asked(t, "login"); res.Header.Get("Content-Type") != "application/json" {
		t.Errorf("content type %q", res.Header.Get("Content-Type"))
	}
	<-late
}

// A client that disconnects cancels its request.
func TestDisconnectCancelsTheHandler(t *testing.T) {
	t.Parallel()
	started, cancelled := make(chan struct{}), make(chan struct{})
	srv := harness.NewServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "wait"}, func(ctx context.Context, call *askback.Call,
			_ struct{}) (*mcp.CallToolResult, error) {
			close(started)
			<-ctx.Done()
			close(cancelled)
			return nil, ctx.Err()
		})
	})
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	ctx, cancel := context.WithCancel(t.Context())
	template := harness.Request{Target: "wait"}.HTTP(t)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL, template.Body)
	expect.Check(t, err)
	req.Header = template.Header
	go func() {
		<-started
		cancel()
	}()
	if _, err := http.DefaultClient.Do(req); err == nil {
		t.Error("the request was answered")
	}
	select {
	case <-cancelled:
	case <-time.After(2 * time.Minute):
		t.Error("the handler went on")
	}
}

// Nothing is sent for a request whose client has disconnected.
func TestNothingIsSentForACancelledRequest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	h := harness.NewServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "gone"}, func(context.Context, *askback.Call, struct{}) (string, error) {
			cancel()
			return "too late", nil
		})
	}).HTTPHandler(nil)
	res := harness.Request{Target: "gone",
		Context: func(r *http.Request) *http.Request { return r.WithContext(ctx) }}.Send(t, h)
	expect.Equal(t, "sent", res.Raw, "")
}

// For any body the server answers with JSON or a stream, and keeps working.
func FuzzHTTP(f *testing.F) {
	h := harness.NewServer(f, nil, harness.AddGreet, harness.AddRounds).HTTPHandler(nil)
	for _, r := range []harness.Request{
		{Target: "greet", Arguments: `{"place":"x"}`},
		{Target: "rounds", Responses: `{"login":{"action":"accept"}}`, State: "ab1.aaaaaaaa.AAAA"},
	} {
		body := expect.Must(io.ReadAll(r.HTTP(f).Body))(f)
		f.Add(r.Target, string(body))
	}
	f.Fuzz(func(t *testing.T, target, body string) {
		res := harness.Request{Target: "greet", Body: body, Header: http.Header{"Mcp-Name": {target}}}.Send(t, h)
		if kind := res.Header.Get("Content-Type"); res.Status >= 500 || kind == "application/json" &&
			!json.Valid([]byte(res.Raw)) {
			t.Fatalf("status %d, %s: %q", res.Status, kind, res.Raw)
		}
	})
}
