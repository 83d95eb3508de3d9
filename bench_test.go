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
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// exchange is what a benchmark sends to a handler again and again, without a network.
type exchange struct {
	handler  http.Handler
	requests []benchRequest
}

type benchRequest struct {
	template *http.Request
	body     []byte
	want     string // text in the response
}

func newBenchRequest(tb testing.TB, r harness.Request, want string) benchRequest {
	template := r.HTTP(tb)
	body := expect.Must(io.ReadAll(template.Body))(tb)
	return benchRequest{template, body, want}
}

func (e *exchange) send(tb testing.TB) {
	for _, request := range e.requests {
		r := request.template.WithContext(tb.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(request.body)), int64(len(request.body))
		w := httptest.NewRecorder()
		if e.handler.ServeHTTP(withDeadlines{w}, r); w.Code != http.StatusOK ||
			!bytes.Contains(w.Body.Bytes(), []byte(request.want)) {
			tb.Fatal(w.Code, w.Body)
		}
	}
}

// withDeadlines is a recorder whose deadlines can be set, as those of a connection.
type withDeadlines struct{ *httptest.ResponseRecorder }

func (withDeadlines) SetReadDeadline(time.Time) error  { return nil }
func (withDeadlines) SetWriteDeadline(time.Time) error { return nil }

func (e *exchange) benchmark(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		e.send(b)
	}
}

// BenchmarkInteraction is a call that asks and its retry with the answer. The program in judge/bench compares its cost
// with that of a plain net/http handler and of other libraries.
func BenchmarkInteraction(b *testing.B) { interaction(b).benchmark(b) }

// interaction is served as by askback serve: its caller has a name, calls may become tasks, and there is a desk.
func interaction(tb testing.TB) *exchange {
	srv := harness.NewServer(tb, &askback.Options{
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return "ada", nil },
		Tasks:     &askback.Tasks{Store: new(task.MemoryStore)},
		Desk:      &askback.DeskOptions{},
	}, harness.AddGreet)
	return greeting(tb, srv, newYork)
}

const newYork = `{"place":"New York"}`

// greeting calls greet with arguments, and answers its question under any key.
func greeting(tb testing.TB, srv *askback.Server, arguments string) *exchange {
	handler := srv.HTTPHandler(nil)
	ask := harness.Request{Target: "greet", Arguments: arguments}
	retry := ask
	asked := ask.Send(tb, handler).Result
	retry.State = asked.State
	for key := range asked.Requests {
		retry.Responses = strings.Replace(harness.Octocat, "login", key, 1)
	}
	return &exchange{handler, []benchRequest{newBenchRequest(tb, ask, "Who are you?"),
		newBenchRequest(tb, retry, "Hello octocat")}}
}

// BenchmarkLargeArguments is the interaction of BenchmarkInteraction with arguments of several shapes and sizes, which
// the tool takes as they are.
func BenchmarkLargeArguments(b *testing.B) {
	srv := harness.NewServer(b, nil, func(srv *askback.Server) {
		type arguments struct {
			Items []json.RawMessage `json:"items"`
		}
		tool := &mcp.Tool{Name: "greet", InputSchema: json.RawMessage(`{"type":"object"}`)}
		askback.AddTool(srv, tool, func(_ context.Context, c *askback.Call, _ arguments) (string, error) {
			login, err := askback.Elicit[harness.Login](c, "login", "Who are you?")
			return "Hello " + login.Name, err
		})
	})
	for _, shape := range []struct{ name, item string }{
		{"strings", `"Crash on save, naïve path, after the second attempt to write"`},
		{"arrays", strings.Repeat("[", 32) + "1" + strings.Repeat("]", 32)},
		{"objects", `{"workItemId":4711,"state":"Resolved","effort":2.5,"title":"Crash on save, naïve path",` +
			`"tags":["bug",null]}`},
	} {
		for _, size := range []int{1 << 10, 32 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%dKB", shape.name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(size))
				greeting(b, srv, `{"items":[`+strings.Repeat(shape.item+",", size/(len(shape.item)+1))+`0]}`).benchmark(b)
			})
		}
	}
}

// BenchmarkLargeTypedArguments is the interaction of BenchmarkInteraction with 1 MB of objects, which the tool has
// decoded into structs.
func BenchmarkLargeTypedArguments(b *testing.B) {
	srv := harness.NewServer(b, nil, func(srv *askback.Server) {
		type item struct {
			Name  string   `json:"name"`
			Count int      `json:"count"`
			Tags  []string `json:"tags"`
		}
		askback.AddTool(srv, &mcp.Tool{Name: "greet"}, func(_ context.Context, c *askback.Call, _ struct {
			Items []item `json:"items"`
		}) (string, error) {
			login, err := askback.Elicit[harness.Login](c, "login", "Who are you?")
			return "Hello " + login.Name, err
		})
	})
	const item = `{"name":"a thing of this list","count":1234,"tags":["red","green","blue"]}`
	b.SetBytes(1 << 20)
	greeting(b, srv, `{"items":[`+strings.Repeat(item+",", 1<<20/(len(item)+1))+item+`]}`).benchmark(b)
}

// BenchmarkTasks are requests about a task, in both dialects and all of its statuses that a waiting client meets. The
// task is named after what it does, and a tasks/update answers no question, so that it can be repeated.
func BenchmarkTasks(b *testing.B) {
	for _, r := range taskRequests() {
		b.Run(r.String(), func(b *testing.B) { r.exchange(b).benchmark(b) })
	}
}

// taskRequest is a request about a task that has a status.
type taskRequest struct{ method, dialect, status string }

func (r taskRequest) String() string { return r.method + " " + r.dialect + " " + r.status }

func taskRequests() (all []taskRequest) {
	for _, dialect := range []string{"extension", "proposal"} {
		for _, status := range []string{"working", "input_required", "completed"} {
			all = append(all, taskRequest{"tasks/get", dialect, status})
		}
	}
	return append(all, taskRequest{"tasks/update", "extension", "input_required"})
}

func (r taskRequest) exchange(tb testing.TB) *exchange {
	tb.Helper()
	support := &askback.TaskSupport{PollInterval: 100 * time.Millisecond}
	s := harness.NewTaskServer(tb, nil, harness.AddEcho,
		harness.AddText("working", support, func(ctx context.Context, _ *askback.Call) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}),
		harness.AddText("completed", support, func(context.Context, *askback.Call) (string, error) { return "done", nil }))
	tool := r.status
	if tool == "input_required" {
		tool = "echo"
	}
	capabilities, member, want := harness.WithExtension, "", `"taskId":`
	if r.dialect == "proposal" {
		capabilities, member = harness.ProposalOnly, `,"task":{}`
	}
	created := s.Result(capabilities, "tools/call", tool, `"name":"`+tool+`"`+member)
	if r.dialect == "proposal" {
		created = created["task"].(map[string]any)
	}
	id := created["taskId"].(string)
	s.Get(capabilities, id, r.status)
	members := `"taskId":"` + id + `"`
	if r.method == "tasks/update" {
		members, want = harness.Answered(id, `"nobody_asked":{"action":"accept"}`), `"resultType":"complete"`
	}
	body := harness.Message(1, r.method, members, capabilities)
	return &exchange{s.Handler, []benchRequest{newBenchRequest(tb,
		harness.Request{Method: r.method, Target: id, Body: body}, want)}}
}

// BenchmarkInlineInteraction is the interaction of BenchmarkInteraction with a handler
// that asks through a session.
func BenchmarkInlineInteraction(b *testing.B) { inlineInteraction(b).benchmark(b) }

func inlineInteraction(tb testing.TB) *exchange {
	return greeting(tb, harness.NewServer(tb, nil, func(srv *askback.Server) {
		askback.AddInlineTool(srv, &mcp.Tool{Name: "greet"},
			func(ctx context.Context, req *mcp.CallToolRequest, in harness.Greeting) (*mcp.CallToolResult, any, error) {
				res, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Who are you?", RequestedSchema: loginSchema})
				if err != nil {
					return nil, nil, err
				}
				return harness.Text(fmt.Sprint("Hello ", res.Content["name"], " in ", in.Place)), nil, nil
			})
	}), newYork)
}

var loginSchema = json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)
