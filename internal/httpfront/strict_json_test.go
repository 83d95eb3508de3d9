package httpfront_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// JSON that two readers could understand differently is refused over every front, anywhere in the message, with an
// answer that the sender can recognise.
func TestAmbiguousMessagesAreRefusedEverywhere(t *testing.T) {
	t.Parallel()
	srv := harness.Everything(t, askback.Options{Limits: askback.Limits{Depth: 12}})
	deep := func(n int) string { return strings.Repeat(`[`, n) + strings.Repeat(`]`, n) }
	requests := map[string]struct{ method, params string }{
		"a name that is there twice": {"tools/call", `"name":"plain","name":"quiet"`},
		"a state that is there twice": {"tools/call",
			`"name":"quiet","requestState":"forged","requestState":""`},
		"an argument that is there twice":               {"tools/call", `"name":"quiet","arguments":{"a":1,"\u0061":2}`},
		"an argument of the SDK's that is so":           {"tools/call", `"name":"plain","arguments":{"a":1,"a":2}`},
		"an id of a task that is there twice":           {"tasks/get", `"taskId":"x","taskId":"y"`},
		"a member of another method":                    {"tools/list", `"cursor":"x","cursor":"y"`},
		"invalid UTF-8":                                 {"prompts/get", `"name":"p","arguments":{"a":"` + "\xff" + `"}`},
		"a lone surrogate":                              {"resources/read", `"uri":"test:r","a":"\ud800"`},
		"nesting beyond the limit":                      {"tools/call", `"name":"quiet","arguments":{"a":` + deep(10) + `}`},
		"nesting beyond the limit, in what is not ours": {"tools/call", `"name":"plain","arguments":{"a":` + deep(10) + `}`},
	}
	for _, f := range append(slices.Clone(harness.Fronts), harness.LineFronts...) {
		for name, r := range requests {
			t.Run(f.Name+" "+name, func(t *testing.T) {
				if got := f.Dial(t, srv, nil)(r.method, r.params); harness.At(got, "error", "code") != -32700.0 ||
					got["id"] == nil {
					t.Errorf("got %v, want -32700 for the request", got)
				}
			})
		}
		t.Run(f.Name+" nesting up to the limit", func(t *testing.T) {
			if got := f.Dial(t, srv, nil)("tools/call",
				`"name":"plain","arguments":{"a":`+deep(9)+`}`); harness.Content(harness.At(got,
				"result").(map[string]any)) != "plain" {
				t.Errorf("got %v", got)
			}
		})
	}
}

// A question with an ambiguous answer fails. Otherwise its call would wait until the session ends.
func TestAmbiguousAnswersFailTheirQuestion(t *testing.T) {
	t.Parallel()
	result := `{"action":"accept","content":{"name":"octocat","name":"mallory"}}`
	check := func(t *testing.T, got map[string]any) {
		t.Helper()
		if said, _ := harness.Content(harness.At(got, "result").(map[string]any)).(string); harness.At(got, "result",
			"isError") != true || !strings.Contains(said, "duplicate member name") {
			t.Errorf("got %v", got)
		}
	}
	t.Run("stdio", func(t *testing.T) {
		c := harness.Pipe(t, harness.NewServer(t, nil, harness.AddGreet))
		c.Call(1, "initialize", harness.Initialize, "")
		c.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		c.Request(2, "tools/call", `"name":"greet","arguments":{"place":"x"}`, "")
		question := c.Until("question", func(m map[string]any) bool { return m["method"] == "elicitation/create" })
		c.Answer(question, result)
		check(t, c.Response(2))
	})
	t.Run("HTTP", func(t *testing.T) {
		web := httptest.NewServer(harness.NewServer(t, nil, harness.AddGreet).HTTPHandler(nil))
		t.Cleanup(web.Close)
		session := ""
		post := func(body string) (*http.Response, *bufio.Scanner) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL, strings.NewReader(body))
			expect.Check(t, err)
			for name, value := range map[string]string{"Content-Type": "application/json",
				"Accept": "application/json, text/event-stream", "Mcp-Session-Id": session} {
				req.Header.Set(name, value)
			}
			res, err := http.DefaultClient.Do(req)
			expect.Check(t, err)
			t.Cleanup(func() { res.Body.Close() })
			return res, bufio.NewScanner(res.Body)
		}
		hello, _ := post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` + harness.Initialize + `}}`)
		session = hello.Header.Get("Mcp-Session-Id")
		post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		_, stream := post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"greet",` +
			`"arguments":{"place":"x"}}}`)
		next := func() map[string]any {
			m := map[string]any{}
			for stream.Scan() {
				if data, ok := strings.CutPrefix(stream.Text(), "data: "); ok && json.Unmarshal([]byte(data), &m) == nil {
					break
				}
			}
			return m
		}
		res, _ := post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, next()["id"], result))
		if res.StatusCode != http.StatusAccepted {
			t.Errorf("status %s for the answer", res.Status)
		}
		check(t, next())
	})
	t.Run("connection", func(t *testing.T) {
		here, there := mcp.NewInMemoryTransports()
		expect.Must(harness.NewServer(t, nil, harness.AddGreet).Connect(t.Context(), there, nil))(t)
		conn, err := here.Connect(t.Context())
		expect.Check(t, err)
		defer conn.Close()
		// next sends a message and returns the next one from the server.
		next := func(message string) map[string]any {
			msg, err := jsonrpc.DecodeMessage([]byte(message))
			if err == nil {
				err = conn.Write(t.Context(), msg)
			}
			if err == nil {
				msg, err = conn.Read(t.Context())
			}
			expect.Check(t, err)
			data, _ := jsonrpc.EncodeMessage(msg)
			m := map[string]any{}
			expect.Check(t, json.Unmarshal(data, &m))
			return m
		}
		next(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{` + harness.Initialize + `}}`)
		// A notification is not answered, even an ambiguous one.
		notification, err := jsonrpc.DecodeMessage([]byte(`{"jsonrpc":"2.0","method":"notifications/x","params":{"a":1,` +
			`"a":2}}`))
		if err == nil {
			err = conn.Write(t.Context(), notification)
		}
		expect.Check(t, err)
		question := next(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"greet","arguments":{"place":"x"}}}`)
		if question["method"] != "elicitation/create" {
			t.Fatalf("got %v, want a question", question)
		}
		check(t, next(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, question["id"], result)))
	})
}

// The brackets of a batch do not count as nesting, and its messages are checked like any other.
func TestNestingOfABatch(t *testing.T) {
	t.Parallel()
	const limit = 5 // the message, params, arguments, and two of ours
	batch := func(depth int) string {
		return `[{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"greet","arguments":{"place":` +
			strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}}}]`
	}
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26",` +
		`"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	opts := &askback.Options{Limits: askback.Limits{Depth: limit}}
	for depth, want := range map[int]string{2: "place", 3: "-32700"} { // an array is not allowed at this place
		t.Run(fmt.Sprint(depth), func(t *testing.T) {
			c := harness.Pipe(t, harness.NewServer(t, opts, harness.AddGreet))
			c.Write(hello)
			<-c.Read
			c.Write(batch(depth))
			expect.Contains(t, "stdio", fmt.Sprint(<-c.Read), want)

			h := harness.NewServer(t, opts, harness.AddGreet).HTTPHandler(nil)
			session := ""
			post := func(body string) string {
				r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
				for name, value := range map[string]string{"Content-Type": "application/json",
					"Accept": "application/json, text/event-stream", "Mcp-Session-Id": session} {
					r.Header.Set(name, value)
				}
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				session = w.Header().Get("Mcp-Session-Id")
				return w.Body.String()
			}
			post(hello)
			expect.Contains(t, "HTTP", post(batch(depth)), want)
		})
	}
}

// Arguments are checked even where the SDK alone serves the connection, and nothing of Askback's has seen the message.
func TestAmbiguousArgumentsOnTheSDKsOwnConnection(t *testing.T) {
	t.Parallel()
	var m *mcp.Server
	harness.Everything(t, askback.Options{Limits: askback.Limits{Depth: 12}}, func(sdk *mcp.Server) { m = sdk })
	c := harness.Connect(t, func(ctx context.Context, line *mcp.IOTransport) error { return m.Run(ctx, line) })
	for name, arguments := range map[string]string{
		"a member that is there twice": `{"a":1,"a":2}`,
		"nesting beyond the limit":     `{"a":` + strings.Repeat("[", 12) + strings.Repeat("]", 12) + `}`,
	} {
		for i, tool := range []string{"quiet", "plain"} {
			t.Run(name+" "+tool, func(t *testing.T) {
				members := fmt.Sprintf(`"name":%q,"arguments":%s`, tool, arguments)
				got := c.Call(i+1, "tools/call", members, harness.WithExtension)
				if harness.At(got, "error", "code") != -32602.0 {
					t.Errorf("got %v, want -32602", got)
				}
			})
		}
	}
}
