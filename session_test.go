package askback_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
)

// rounds asks in three rounds, runs a step between them, and reports progress.
func rounds(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "rounds"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
		who, err1 := askback.Elicit[login](call, "login", "Who are you?")
		roots, err2 := askback.Roots(call, "roots")
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		n, err := askback.Do(ctx, call, "count", func(context.Context) (int64, error) { return counted.Add(1), nil })
		if err != nil {
			return "", err
		}
		if err := call.Progress(ctx, 1, 2, "halfway"); err != nil {
			return "", err
		}
		model, err := askback.Sample(call, "model", sampling("Hi "+who.Name))
		if err != nil {
			return "", err
		}
		second, err := askback.Elicit[login](call, "second", "And who else?")
		if err != nil {
			return "", err
		}
		return fmt.Sprint(who.Name, " ", roots[0].URI, " ", model.Content[0].(*mcp.TextContent).Text, " ", second.Name, " ", n), nil
	})
}

var counted atomic.Int64

// answering is a client of the Go SDK whose user and model answer everything.
func answering(progress *atomic.Int64) *mcp.Client {
	client := mcp.NewClient(&mcp.Implementation{Name: "client", Version: "1.0.0"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			name := "first"
			if strings.Contains(req.Params.Message, "else") {
				name = "other"
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": name}}, nil
		},
		CreateMessageWithToolsHandler: func(_ context.Context, req *mcp.CreateMessageWithToolsRequest) (*mcp.CreateMessageWithToolsResult, error) {
			return &mcp.CreateMessageWithToolsResult{Role: "assistant", Model: "m", Content: []mcp.Content{&mcp.TextContent{Text: "hello"}}}, nil
		},
		ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { progress.Add(1) },
	})
	client.AddRoots(&mcp.Root{URI: "file:///src"})
	return client
}

// The same handler serves clients of every revision over every transport, in as many
// rounds as it likes, and its step runs once.
func TestEveryRevisionAndTransport(t *testing.T) {
	for _, version := range []string{"2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"} {
		for _, transport := range []string{"memory", "http"} {
			t.Run(version+" "+transport, func(t *testing.T) {
				counted.Store(0)
				srv := newServer(t, nil, rounds)
				var there mcp.Transport
				if transport == "http" {
					web := httptest.NewServer(srv.HTTPHandler(nil))
					t.Cleanup(web.Close)
					there = &mcp.StreamableClientTransport{Endpoint: web.URL}
				} else {
					here, far := mcp.NewInMemoryTransports()
					if _, err := srv.Connect(t.Context(), far, nil); err != nil {
						t.Fatal(err)
					}
					there = here
				}
				var progress atomic.Int64
				session, err := answering(&progress).Connect(t.Context(), there, &mcp.ClientSessionOptions{ProtocolVersion: version})
				if err != nil {
					t.Fatal(err)
				}
				defer session.Close()
				params := &mcp.CallToolParams{Name: "rounds", Arguments: map[string]any{}}
				params.SetProgressToken("tok")
				res, err := session.CallTool(t.Context(), params)
				if err != nil {
					t.Fatal(err)
				}
				if got := res.Content[0].(*mcp.TextContent).Text; res.IsError || got != "first file:///src hello other 1" {
					t.Errorf("got %q (error %v)", got, res.IsError)
				}
				if counted.Load() != 1 {
					t.Errorf("the step ran %d times", counted.Load())
				}
				// The SDK's client handles a notification beside the result that comes after it.
				eventually(t, "progress", func() bool { return progress.Load() > 0 })
			})
		}
	}
}

func TestLegacyClientWithoutCapability(t *testing.T) {
	srv := newServer(t, nil, greet)
	here, there := mcp.NewInMemoryTransports()
	if _, err := srv.Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "mute", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: "2025-06-18"})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	_, err = session.CallTool(t.Context(), &mcp.CallToolParams{Name: "greet", Arguments: map[string]any{"place": "x"}})
	if fault, ok := errors.AsType[*jsonrpc.Error](err); !ok || fault.Code != -32021 {
		t.Errorf("err = %v, want -32021", err)
	}
}

// A legacy client whose answer does not fit is asked again, and one that fails is told.
func TestLegacyAnswers(t *testing.T) {
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
		{"never fit", func(int64) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": 1}}, nil
		}, "rounds per call"},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := newServer(t, nil, greet)
			here, there := mcp.NewInMemoryTransports()
			if _, err := srv.Connect(t.Context(), there, nil); err != nil {
				t.Fatal(err)
			}
			var n atomic.Int64
			client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(context.Context, *mcp.ElicitRequest) (*mcp.ElicitResult, error) { return test.user(n.Add(1)) },
			})
			// The client's own check would hide what a less careful one sends.
			client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
				return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
					if method == "elicitation/create" {
						return test.user(n.Add(1))
					}
					return next(ctx, method, req)
				}
			})
			session, err := client.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "greet", Arguments: map[string]any{"place": "x"}})
			got := fmt.Sprint(err)
			if err == nil {
				got = res.Content[0].(*mcp.TextContent).Text
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q in it", got, test.want)
			}
		})
	}
}

// raw speaks to a server over an SDK connection without the SDK's client.
func raw(t *testing.T, srv *askback.Server) func(params string) string {
	t.Helper()
	here, there := mcp.NewInMemoryTransports()
	if _, err := srv.Connect(t.Context(), there, nil); err != nil {
		t.Fatal(err)
	}
	conn, err := here.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	return func(params string) string {
		t.Helper()
		n++
		msg, err := jsonrpc.DecodeMessage(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{%s,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}}`,
			n, params, allCapabilities))
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Write(t.Context(), msg); err != nil {
			t.Fatal(err)
		}
		answer, err := conn.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		data, err := jsonrpc.EncodeMessage(answer)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
}

// Over the SDK's transports answers keep all digits, those of unknown form are ignored,
// and a state without questions is input required.
func TestSDKTransportsAreExact(t *testing.T) {
	type number struct {
		N int64 `json:"n"`
	}
	srv := newServer(t, nil, func(srv *askback.Server) {
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
		if err := json.Unmarshal([]byte(answer), &res); err != nil {
			t.Fatal(err)
		}
		return res.Result.RequestState
	}
	first := send(`"name":"n"`)
	if !strings.Contains(first, `"resultType":"input_required"`) || strings.Contains(first, "inputRequests") || state(first) == "" {
		t.Fatalf("state only: %s", first)
	}
	second := send(`"name":"n","requestState":` + quote(state(first)))
	if !strings.Contains(second, `"n":{"method":"elicitation/create"`) || strings.Contains(second, "content") {
		t.Fatalf("question: %s", second)
	}
	third := send(`"name":"n","requestState":` + quote(state(second)) + `,"inputResponses":{"odd":{"what":1},"n":{"action":"accept","content":{"n":9007199254740993}}}`)
	if !strings.Contains(third, "9007199254740993") || !strings.Contains(third, `"resultType":"complete"`) {
		t.Errorf("result: %s", third)
	}
	if bad := send(`"name":"n","requestState":"forged"`); !strings.Contains(bad, fixedMessage) || !strings.Contains(bad, "-32602") {
		t.Errorf("forged state: %s", bad)
	}
	if bad := send(`"name":"n","requestState":""`); !strings.Contains(bad, fixedMessage) {
		t.Errorf("empty state: %s", bad)
	}
	if bad := send(`"name":"n","inputResponses":{"n":1}`); !strings.Contains(bad, "-32602") {
		t.Errorf("responses that are no objects: %s", bad)
	}
}

func TestToolsThatNeverAskAreUntouched(t *testing.T) {
	plain := func() *mcp.Server {
		m := mcp.NewServer(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
		mcp.AddTool(m, &mcp.Tool{Name: "plain"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
			return text("plain"), nil, nil
		})
		return m
	}
	m, unwrapped := plain(), plain()
	srv, err := askback.New(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := srv.HTTPHandler(nil)
	alone := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return unwrapped }, &mcp.StreamableHTTPOptions{Stateless: true})
	got, want := request{target: "plain"}.send(t, h), request{target: "plain"}.send(t, alone)
	if diff := cmp.Diff(want.raw, got.raw); diff != "" || got.text(t) != "plain" {
		t.Errorf("the response (-SDK alone +Askback):\n%s", diff)
	}
	if message := (request{target: "plain", state: "forged"}).send(t, h).refused(t, 400, -32602); message != fixedMessage {
		t.Errorf("a state it never gave: %q", message)
	}
	empty := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plain","requestState":"","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	if message := (request{target: "plain", body: empty}).send(t, h).refused(t, 400, -32602); message != fixedMessage {
		t.Errorf("an empty state: %q", message)
	}
	// A name in its Base64 form reaches the SDK's handlers as well.
	if got := (request{target: "plain", header: http.Header{"Mcp-Name": {"=?base64?cGxhaW4=?="}}}).send(t, h).text(t); got != "plain" {
		t.Errorf("got %q", got)
	}
}

// manualTool is written in the SDK's manual style: its state is its own text.
func manualTool(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	ask := func(state string) *mcp.CallToolResult {
		return &mcp.CallToolResult{RequestState: state, InputRequests: mcp.InputRequestMap{
			"login": &mcp.ElicitParams{Message: "Who " + state + "?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`)},
		}}
	}
	answer := ""
	if r, ok := req.Params.InputResponses["login"].(*mcp.ElicitResult); ok {
		answer = fmt.Sprint(r.Content["name"])
	}
	switch req.Params.RequestState {
	case "":
		return ask("one"), nil
	case "one":
		return ask("two:" + answer), nil
	case "shed":
		return text("resumed"), nil
	}
	if _, rest, ok := strings.Cut(req.Params.RequestState, "two:"); ok {
		if answer == "shed" {
			return &mcp.CallToolResult{RequestState: "shed"}, nil
		}
		return text(rest + "+" + answer), nil
	}
	return nil, fmt.Errorf("forged state %q", req.Params.RequestState)
}

func TestManualStyleIsSealed(t *testing.T) {
	schema := json.RawMessage(`{"type":"object"}`)
	for name, register := range map[string]func(*mcp.Server, *askback.Server){
		"on the SDK's server": func(m *mcp.Server, _ *askback.Server) {
			m.AddTool(&mcp.Tool{Name: "manual", InputSchema: schema}, manualTool)
		},
		"on Askback's": func(_ *mcp.Server, srv *askback.Server) {
			askback.AddTool(srv, &mcp.Tool{Name: "manual", InputSchema: schema}, func(ctx context.Context, call *askback.Call, _ map[string]any) (*mcp.CallToolResult, error) {
				res, err := manualTool(ctx, call.Request().(*mcp.CallToolRequest))
				return res, err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := mcp.NewServer(&mcp.Implementation{Name: "m", Version: "1"}, nil)
			srv, err := askback.New(m, nil)
			if err != nil {
				t.Fatal(err)
			}
			register(m, srv)
			h := srv.HTTPHandler(nil)
			answer := func(name string) string {
				return `{"login":{"action":"accept","content":{"name":"` + name + `"}},"other":{"action":"decline"}}`
			}
			r := request{target: "manual", arguments: `{"a":1}`}
			first := r.send(t, h)
			r.state = first.asked(t, "login")
			if strings.Contains(r.state, "one") || !strings.HasPrefix(r.state, "ab1.") {
				t.Errorf("the state is not sealed: %s", r.state)
			}
			if strings.Contains(first.raw, `"content"`) || strings.Contains(first.raw, "ttlMs") {
				t.Errorf("more than an input required result: %s", first.raw)
			}
			r.responses = answer("x")
			r.state = r.send(t, h).asked(t, "login")
			r.responses = answer("y")
			if got := r.send(t, h).text(t); got != "x+y" {
				t.Errorf("got %q", got)
			}
			r.responses = answer("shed")
			res := r.send(t, h)
			if state := res.asked(t); state == "" || strings.Contains(res.raw, "inputRequests") {
				t.Errorf("state only: %s", res.raw)
			}
			if got := (request{target: "manual", arguments: `{"a":1}`, state: res.Result.State}).send(t, h).text(t); got != "resumed" {
				t.Errorf("got %q", got)
			}
			// Forged, plain and foreign states never reach the handler.
			for _, state := range []string{"two:admin", "one"} {
				request{target: "manual", state: state}.send(t, h).refused(t, 400, -32602)
			}
			request{target: "manual", arguments: `{"a":2}`, state: r.state}.send(t, h).refused(t, 400, -32602)
			request{target: "manual", capabilities: `{}`}.send(t, h).refused(t, 400, -32021)

			// A legacy client gets all rounds inline.
			here, there := mcp.NewInMemoryTransports()
			if _, err := srv.Connect(t.Context(), there, nil); err != nil {
				t.Fatal(err)
			}
			var messages []string
			client := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, &mcp.ClientOptions{
				ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
					messages = append(messages, req.Params.Message)
					return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "z"}}, nil
				},
			})
			session, err := client.Connect(t.Context(), here, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			if err != nil {
				t.Fatal(err)
			}
			defer session.Close()
			legacy, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "manual"})
			if err != nil {
				t.Fatal(err)
			}
			if got := legacy.Content[0].(*mcp.TextContent).Text; got != "z+z" || !cmp.Equal(messages, []string{"Who one?", "Who two:z?"}) {
				t.Errorf("legacy: got %q after %q", got, messages)
			}
		})
	}
}

// A client that goes away cancels its request.
func TestDisconnectCancelsTheHandler(t *testing.T) {
	started, cancelled := make(chan struct{}), make(chan struct{})
	srv := newServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "wait"}, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			close(started)
			<-ctx.Done()
			close(cancelled)
			return nil, ctx.Err()
		})
	})
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	ctx, cancel := context.WithCancel(t.Context())
	template := request{target: "wait"}.http(t)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, web.URL, template.Body)
	if err != nil {
		t.Fatal(err)
	}
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
	case <-time.After(10 * time.Second):
		t.Error("the handler went on")
	}
}

func TestHandlersRunConcurrently(t *testing.T) {
	h := newServer(t, nil, greet, rounds).HTTPHandler(nil)
	done := make(chan string)
	const n = 32
	for i := range n {
		go func() {
			place := fmt.Sprint("p", i)
			r := request{target: "greet", arguments: `{"place":"` + place + `"}`}
			r.state = r.send(t, h).asked(t, "login")
			r.responses = octocat
			if got := r.send(t, h).text(t); got != "Hello octocat in "+place {
				done <- got
				return
			}
			done <- ""
		}()
	}
	for range n {
		if got := <-done; got != "" {
			t.Errorf("got %q", got)
		}
	}
}
