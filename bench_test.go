package askback_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/harness"
)

// BenchmarkInteraction is a call that asks and its retry with the answer, through the
// HTTP handler without a network. The program in
// internal/bench compares its cost with that of a plain net/http handler.
func BenchmarkInteraction(b *testing.B) {
	benchmarkInteraction(b, harness.NewServer(b, nil, harness.AddGreet).HTTPHandler(nil), greeting)
}

const greeting = `{"place":"New York"}`

// benchmarkInteraction calls greet, and answers its question under any key.
func benchmarkInteraction(b *testing.B, h http.Handler, arguments string) {
	ask := harness.Request{Target: "greet", Arguments: arguments}
	template := ask.HTTP(b)
	first, err := io.ReadAll(template.Body)
	if err != nil {
		b.Fatal(err)
	}
	retry := ask
	asked := ask.Send(b, h).Result
	retry.State = asked.State
	for key := range asked.Requests {
		retry.Responses = strings.Replace(harness.Octocat, "login", key, 1)
	}
	second, err := io.ReadAll(retry.HTTP(b).Body)
	if err != nil {
		b.Fatal(err)
	}
	serve := func(body []byte) *httptest.ResponseRecorder {
		r := template.WithContext(b.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		w := httptest.NewRecorder()
		h.ServeHTTP(withDeadlines{w}, r)
		return w
	}
	b.ReportAllocs()
	for b.Loop() {
		if w := serve(first); w.Code != http.StatusOK {
			b.Fatal(w.Body)
		}
		if w := serve(second); w.Code != http.StatusOK || !bytes.Contains(w.Body.Bytes(), []byte("Hello octocat")) {
			b.Fatal(w.Body)
		}
	}
}

// withDeadlines is a recorder whose deadlines can be set, as those of a connection.
type withDeadlines struct{ *httptest.ResponseRecorder }

func (withDeadlines) SetReadDeadline(time.Time) error  { return nil }
func (withDeadlines) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkLargeArguments is the interaction of BenchmarkInteraction with arguments of several shapes and sizes, which
// the tool takes as they are.
func BenchmarkLargeArguments(b *testing.B) {
	h := harness.NewServer(b, nil, func(srv *askback.Server) {
		type arguments struct {
			Items []json.RawMessage `json:"items"`
		}
		tool := &mcp.Tool{Name: "greet", InputSchema: json.RawMessage(`{"type":"object"}`)}
		askback.AddTool(srv, tool, func(_ context.Context, c *askback.Call, _ arguments) (string, error) {
			login, err := askback.Elicit[harness.Login](c, "login", "Who are you?")
			return "Hello " + login.Name, err
		})
	}).HTTPHandler(nil)
	for _, shape := range []struct{ name, item string }{
		{"strings", `"Crash on save, naïve path, after the second attempt to write"`},
		{"arrays", strings.Repeat("[", 32) + "1" + strings.Repeat("]", 32)},
		{"objects", `{"workItemId":4711,"state":"Resolved","effort":2.5,"title":"Crash on save, naïve path","tags":["bug",null]}`},
	} {
		for _, size := range []int{1 << 10, 32 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dKB", shape.name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				benchmarkInteraction(b, h, `{"items":[`+strings.Repeat(shape.item+",", size/(len(shape.item)+1))+`0]}`)
			})
		}
	}
}

// BenchmarkTaskGet is a tasks/get of the extension for a parked task. The response includes the
// task's question.
func BenchmarkTaskGet(b *testing.B) {
	s := harness.NewTaskServer(b, nil, harness.AddEcho)
	id := s.Result(harness.WithExtension, "tools/call", "echo", `"name":"echo"`)["taskId"].(string)
	s.Get(harness.WithExtension, id, "input_required")
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"` + id + `","_meta":{` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + harness.WithExtension + `}}}`)
	template := harness.Request{Method: "tasks/get", Target: id, Body: string(body)}.HTTP(b)
	b.ReportAllocs()
	for b.Loop() {
		r := template.WithContext(b.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		w := httptest.NewRecorder()
		if s.Handler.ServeHTTP(w, r); !bytes.Contains(w.Body.Bytes(), []byte("echo_input")) {
			b.Fatal(w.Body)
		}
	}
}

// BenchmarkInlineInteraction is the interaction of BenchmarkInteraction with a handler
// that asks through a session.
func BenchmarkInlineInteraction(b *testing.B) {
	h := harness.NewServer(b, nil, func(srv *askback.Server) {
		askback.AddInlineTool(srv, &mcp.Tool{Name: "greet"}, func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (*mcp.CallToolResult, any, error) {
			res, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Who are you?", RequestedSchema: loginSchema})
			if err != nil {
				return nil, nil, err
			}
			return harness.Text(fmt.Sprint("Hello ", res.Content["name"], " in ", in.Place)), nil, nil
		})
	}).HTTPHandler(nil)
	benchmarkInteraction(b, h, greeting)
}

var loginSchema = json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)
