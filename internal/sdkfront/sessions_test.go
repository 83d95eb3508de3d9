package sdkfront_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// The same handler serves clients of every revision over every transport, in as many
// rounds as it likes, and its step runs once.
func TestEveryRevisionAndTransport(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} {
		for _, transport := range []string{"memory", "http"} {
			t.Run(version+" "+transport, func(t *testing.T) {
				harness.Counted.Store(0)
				srv := harness.NewServer(t, nil, harness.AddRounds)
				var there mcp.Transport
				if transport == "http" {
					web := httptest.NewServer(srv.HTTPHandler(nil))
					t.Cleanup(web.Close)
					there = &mcp.StreamableClientTransport{Endpoint: web.URL}
				} else {
					here, far := mcp.NewInMemoryTransports()
					expect.Must(srv.Connect(t.Context(), far, nil))(t)
					there = here
				}
				var progress atomic.Int64
				session, err := harness.Answering(&progress).Connect(t.Context(), there,
					&mcp.ClientSessionOptions{ProtocolVersion: version})
				expect.Check(t, err)
				defer session.Close()
				params := &mcp.CallToolParams{Name: "rounds", Arguments: map[string]any{}}
				params.SetProgressToken("tok")
				res, err := session.CallTool(t.Context(), params)
				expect.Check(t, err)
				if got := res.Content[0].(*mcp.TextContent).Text; res.IsError || got != "first file:///src hello other 1" {
					t.Errorf("got %q (error %v)", got, res.IsError)
				}
				expect.Equal(t, "the step ran", harness.Counted.Load(), 1)
				// The SDK's client handles a notification beside the result that comes after it.
				harness.Eventually(t, "progress", func() bool { return progress.Load() > 0 })
			})
		}
	}
}

func TestLegacyClientWithoutCapability(t *testing.T) {
	t.Parallel()
	srv := harness.NewServer(t, nil, harness.AddGreet)
	here, there := mcp.NewInMemoryTransports()
	expect.Must(srv.Connect(t.Context(), there, nil))(t)
	client := mcp.NewClient(&mcp.Implementation{Name: "mute", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
	expect.Check(t, err)
	defer session.Close()
	_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "greet", Arguments: map[string]any{"place": "x"}})
	if fault, ok := errors.AsType[*jsonrpc.Error](err); !ok || fault.Code != -32021 {
		t.Errorf("err = %v, want -32021", err)
	}
}

// A legacy client whose answer does not fit is asked again. One that fails to answer gets an error.
func TestLegacyAnswers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		user func(n int64) (*mcp.ElicitResult, error)
		want string
	}{
		{"unfit, then fit", func(n int64) (*mcp.ElicitResult, error) {
			if n < 3 {
				return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": n}}, nil
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "late"}}, nil
		}, "Hello late in x"},
		{"declined", func(int64) (*mcp.ElicitResult, error) { return &mcp.ElicitResult{Action: "decline"}, nil }, "declined"},
		{"broken", func(int64) (*mcp.ElicitResult, error) { return nil, errors.New("no display") }, "no display"},
		{"never fit", func(n int64) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": n}}, nil
		}, `rounds per call is reached; the last answer to the question "login" does not fit: `},
		{"the same that does not fit", func(int64) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept"}, nil
		}, `the answer to the question "login" does not fit, and to ask again would not help: `},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := harness.NewServer(t, nil, harness.AddGreet)
			here, there := mcp.NewInMemoryTransports()
			expect.Must(srv.Connect(t.Context(), there, nil))(t)
			var n atomic.Int64
			client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult,
					error) {
					return test.user(n.Add(1))
				},
			})
			// The client's own check would hide what other clients may send.
			client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
					if method == "elicitation/create" {
						return test.user(n.Add(1))
					}
					return next(ctx, method, req)
				}
			})
			session, err := client.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			expect.Check(t, err)
			defer session.Close()
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "greet",
				Arguments: map[string]any{"place": "x"}})
			got := fmt.Sprint(err)
			if err == nil {
				got = res.Content[0].(*mcp.TextContent).Text
			}
			expect.Contains(t, "the answer", got, test.want)
		})
	}
}

// raw exchanges messages with a server over an SDK connection, without the SDK's client.
func raw(t *testing.T, srv *askback.Server) func(params string) string {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	expect.Must(srv.Connect(t.Context(), there, nil))(t)
	conn, err := here.Connect(t.Context())
	expect.Check(t, err)
	n := 0
	return func(params string) string {
		t.Helper()
		n++
		msg, err := jsonrpc.DecodeMessage(fmt.Appendf(nil,
			`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s,`+
				`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
				`"io.modelcontextprotocol/clientCapabilities":%s}}}`,
			n, params, harness.AllCapabilities))
		expect.Check(t, err)
		expect.Check(t, conn.Write(t.Context(), msg))
		answer, err := conn.Read(t.Context())
		expect.Check(t, err)
		data, err := jsonrpc.EncodeMessage(answer)
		expect.Check(t, err)
		return string(data)
	}
}

// Over the SDK's transports answers keep all digits, answers of an unknown form are ignored, and a
// state without questions is input required.
func TestSDKTransportsAreExact(t *testing.T) {
	t.Parallel()
	type number struct {
		N int64 `json:"n"`
	}
	srv := harness.NewServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "n"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			if err := call.Checkpoint(ctx, "c"); err != nil {
				return "", err
			}
			n, err := askback.Elicit[number](call, "n", "?")
			return fmt.Sprint(n.N), err
		})
	})
	send := raw(t, srv)
	state := func(answer string) string {
		var res struct {
			Result struct{ RequestState string }
		}
		expect.Check(t, json.Unmarshal([]byte(answer), &res))
		return res.Result.RequestState
	}
	first := send(`"name":"n"`)
	if !strings.Contains(first, `"resultType":"input_required"`) || !strings.Contains(first, `"inputRequests":{}`) ||
		state(first) == "" {
		t.Fatalf("state only: %s", first)
	}
	second := send(`"name":"n","requestState":` + harness.Quote(state(first)))
	if !strings.Contains(second, `"n":{"method":"elicitation/create"`) || strings.Contains(second, "content") {
		t.Fatalf("question: %s", second)
	}
	third := send(`"name":"n","requestState":` + harness.Quote(state(second)) +
		`,"inputResponses":{"odd":{"what":1},"n":{"action":"accept","content":{"n":9007199254740993}}}`)
	if !strings.Contains(third, "9007199254740993") || !strings.Contains(third, `"resultType":"complete"`) {
		t.Errorf("result: %s", third)
	}
	if bad := send(`"name":"n","requestState":"forged"`); !strings.Contains(bad, harness.StateRefused) ||
		!strings.Contains(bad, "-32602") {
		t.Errorf("forged state: %s", bad)
	}
	expect.Contains(t, "empty state", send(`"name":"n","requestState":""`), harness.StateRefused)
	expect.Contains(t, "responses that are no objects", send(`"name":"n","inputResponses":{"n":1}`), "-32602")
}

func TestToolsThatNeverAskAreUntouched(t *testing.T) {
	t.Parallel()
	plain := func() *mcp.Server {
		m := mcp.NewServer(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
		mcp.AddTool(m, &mcp.Tool{Name: "plain"}, func(context.Context, *mcp.CallToolRequest,
			struct{}) (*mcp.CallToolResult, any, error) {
			return harness.Text("plain"), nil, nil
		})
		return m
	}
	m, unwrapped := plain(), plain()
	srv, err := askback.New(m, nil)
	expect.Check(t, err)
	h := srv.HTTPHandler(nil)
	alone := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return unwrapped },
		&mcp.StreamableHTTPOptions{Stateless: true})
	got, want := harness.Request{Target: "plain"}.Send(t, h), harness.Request{Target: "plain"}.Send(t, alone)
	if diff := cmp.Diff(want.Raw, got.Raw); diff != "" || got.Text(t) != "plain" {
		t.Errorf("the response (-SDK alone +Askback):\n%s", diff)
	}
	if message := (harness.Request{Target: "plain", State: "forged"}).Send(t, h).Refused(t, 400,
		-32602); message != harness.StateRefused {
		t.Errorf("a state it never gave: %q", message)
	}
	empty := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plain","requestState":"",` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	if message := (harness.Request{Target: "plain", Body: empty}).Send(t, h).Refused(t, 400,
		-32602); message != harness.StateRefused {
		t.Errorf("an empty state: %q", message)
	}
	// A name in its Base64 form reaches the SDK's handlers as well.
	if got := (harness.Request{Target: "plain", Header: http.Header{"Mcp-Name": {"=?base64?cGxhaW4=?="}}}).Send(t,
		h).Text(t); got != "plain" {
		t.Errorf("got %q", got)
	}
}

// A modern client gets only responses, for every kind of question. A session of a revision without
// requestState gets none.
func TestWhoGetsRequestsOfTheServer(t *testing.T) {
	t.Parallel()
	ask := harness.AddText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		who, err1 := askback.Elicit[harness.Login](call, "login", "?")
		_, err2 := askback.Roots(call, "roots")
		return who.Name, errors.Join(err1, err2)
	})
	modern := harness.TaskPipe(t, ask)
	first := modern.Call(1, "tools/call", `"name":"t"`, `{"elicitation":{},"roots":{}}`)
	state, _ := harness.At(first, "result", "requestState").(string)
	last := modern.Call(2, "tools/call",
		`"name":"t","requestState":`+harness.Quote(state)+`,"inputResponses":{"login":{"action":"accept",`+
			`"content":{"name":"x"}},"roots":{"roots":[]}}`, `{"elicitation":{},"roots":{}}`)
	if result, _ := last["result"].(map[string]any); result == nil || harness.Content(result) != "x" {
		t.Errorf("got %v after %v", last, first)
	}
	for _, m := range modern.Kept {
		t.Errorf("a modern client got %v", m)
	}

	session := harness.TaskPipe(t, ask)
	session.Call(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"roots":{}},`+
		`"clientInfo":{"name":"c","version":"1"}`, "")
	session.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	session.Request(2, "tools/call", `"name":"t"`, "")
	for method, result := range map[string]string{"elicitation/create": `{"action":"accept","content":{"name":"x"}}`,
		"roots/list": `{"roots":[]}`} {
		q := session.Until(method, func(m map[string]any) bool { return m["method"] == method })
		for _, member := range []string{"state", "requestState"} {
			if q[member] != nil || harness.At(q, "params", member) != nil {
				t.Errorf("%s carries %q: %v", method, member, q)
			}
		}
		session.Answer(q, result)
	}
	done := session.Response(2)
	if result, _ := done["result"].(map[string]any); result == nil || harness.Content(result) != "x" ||
		result["requestState"] != nil || result["resultType"] != nil {
		t.Errorf("got %v", done)
	}
}

// A host that gives up its probe begins a session, on the same connection. A request whose revision nobody knows names
// those that the server has. One that is cancelled gets no response, and what comes after it does.
func TestAProbeLeavesNoTrace(t *testing.T) {
	t.Parallel()
	arrived, over := make(chan struct{}), make(chan struct{})
	srv := harness.NewServer(t, nil, harness.AddGreet, func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "slow"}, func(ctx context.Context, _ *askback.Call, _ struct{}) (string, error) {
			close(arrived)
			<-ctx.Done()
			close(over)
			return "", ctx.Err()
		})
	})
	c := harness.Pipe(t, srv)
	meta := func(version string) string {
		return `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + version + `",` +
			`"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	}
	send := func(id int, method, params string) map[string]any {
		c.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, params))
		return c.Response(id)
	}
	for id, version := range []string{"2020-01-01", "2030-01-01", "x"} {
		m := send(id, "tools/list", meta(version))
		supported, _ := harness.At(m, "error", "data", "supported").([]any)
		if harness.At(m, "error", "code") != float64(mcp.CodeUnsupportedProtocolVersion) ||
			!slices.Contains(supported, any("2026-07-28")) {
			t.Errorf("revision %q: %v", version, m)
		}
	}
	if m := send(4, "server/discover", meta("2026-07-28")); harness.At(m, "result", "supportedVersions") == nil {
		t.Errorf("the probe gets %v", m)
	}
	m := send(5, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`)
	if harness.At(m, "result", "protocolVersion") != "2025-11-25" {
		t.Fatalf("after the probe initialize gets %v", m)
	}
	c.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.Write(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"slow","arguments":{}}}`)
	<-arrived
	c.Write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6}}`)
	<-over
	c.Write(`{"jsonrpc":"2.0","id":7,"method":"ping"}`)
	c.Until("the response to what came later", func(m map[string]any) bool {
		if m["id"] == 6.0 {
			t.Errorf("the cancelled request gets %v", m)
		}
		return m["id"] == 7.0
	})
	if err := c.End(); err != nil && !errors.Is(err, io.EOF) {
		t.Errorf("the connection ends with %v", err)
	}
}
