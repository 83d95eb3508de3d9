package tasks_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

func TestTasksOverStdio(t *testing.T) {
	t.Parallel()
	c := harness.TaskPipe(t, harness.AddEcho)
	// The extension.
	created := c.Call(1, "tools/call", `"name":"echo"`, harness.WithExtension)
	id, _ := harness.At(created, "result", "taskId").(string)
	if harness.At(created, "result", "resultType") != "task" || id == "" {
		t.Fatalf("%v", created)
	}
	for harness.At(c.Call(2, "tasks/get", `"taskId":"`+id+`"`, harness.WithExtension), "result",
		"status") != "input_required" {
	}
	harness.Want(t, "the result", c.Call(3, "tasks/update",
		`"taskId":"`+id+`","inputResponses":{"echo_input":{"action":"accept","content":{"input":"x"}}}`,
		harness.WithExtension), "complete", "result", "resultType")
	for harness.At(c.Call(4, "tasks/get", `"taskId":"`+id+`"`, harness.WithExtension), "result", "result",
		"isError") != false {
	}
	harness.Want(t, "the result", c.Call(5, "tasks/result", `"taskId":"`+id+`"`, harness.WithExtension), -32601.0,
		"error", "code")
	harness.Want(t, "the result", c.Call(6, "tasks/get", `"taskId":"none"`, harness.ProposalOnly), -32021.0, "error",
		"code")
	// The proposals' dialect.
	created = c.Call(7, "tools/call", `"name":"echo","task":{"ttl":60000}`, harness.ProposalOnly)
	id, _ = harness.At(created, "result", "task", "taskId").(string)
	if id == "" {
		t.Fatalf("%v", created)
	}
	asked := c.Call(8, "tasks/result", `"taskId":"`+id+`"`, harness.ProposalOnly) // waits until the task asks
	if harness.At(asked, "result", "inputRequests", "echo_input") == nil {
		t.Fatalf("%v", asked)
	}
	c.Call(9, "tasks/input_response",
		`"taskId":"`+id+`","inputResponses":{"echo_input":{"action":"accept","content":{"input":"y"}}}`, harness.ProposalOnly)
	final := c.Call(10, "tasks/result", `"taskId":"`+id+`"`, harness.ProposalOnly)
	expect.Equal(t, "the result", harness.At(final, "result", "content").([]any)[0].(map[string]any)["text"], "Echo: y")
	if found := c.Call(11, "server/discover", "", harness.ProposalOnly); harness.At(found, "result", "capabilities",
		"extensions", "io.modelcontextprotocol/tasks") == nil {
		t.Errorf("%v", found)
	}
}

// Through the SDK, too, a task belongs to its principal, and parameters are checked.
func TestPrincipalsOverStdio(t *testing.T) {
	t.Parallel()
	store := new(task.MemoryStore)
	var who atomic.Value
	who.Store("alice")
	srv := harness.NewServer(t, &askback.Options{
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return who.Load().(string), nil },
		Tasks:     &askback.Tasks{Store: store},
	}, harness.AddEcho)
	c := harness.Pipe(t, srv)
	id, _ := harness.At(c.Call(1, "tools/call", `"name":"echo"`, harness.WithExtension), "result", "taskId").(string)
	listen := func(request int) any {
		c.Request(request, "subscriptions/listen", `"notifications":{"taskIds":["`+id+`"]}`, harness.WithExtension)
		ack := c.Until("acknowledgment", func(m map[string]any) bool {
			return m["method"] == "notifications/subscriptions/acknowledged" &&
				harness.At(m, "params", "_meta", "io.modelcontextprotocol/subscriptionId") == float64(request)
		})
		return fmt.Sprint(harness.At(ack, "params", "notifications", "taskIds"))
	}
	harness.Want(t, "the result", c.Call(2, "tasks/get", `"taskId":"`+id+`"`, harness.WithExtension), "working",
		"result", "status")
	expect.Equal[any](t, "agreed", listen(3), "["+id+"]")
	harness.Want(t, "a member that is there twice",
		c.Call(4, "tasks/get", `"taskId":"`+id+`","taskId":"x"`, harness.WithExtension), -32700.0, "error", "code")
	who.Store("bob")
	harness.Want(t, "the result", c.Call(5, "tasks/get", `"taskId":"`+id+`"`, harness.WithExtension), -32602.0, "error",
		"code")
	expect.Equal(t, "agreed to", listen(6), "[]")
	// A server that can tell callers apart offers the list of tasks.
	old := harness.Pipe(t, srv)
	hello := old.Call(1, "initialize",
		`"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`, "")
	if harness.At(hello, "result", "capabilities", "tasks", "list") == nil {
		t.Errorf("%v", hello)
	}
}

func TestTasksInASessionBefore20260728(t *testing.T) {
	t.Parallel()
	c := harness.TaskPipe(t, harness.AddEcho, harness.AddRequired, harness.AddGreet)
	testSession(t, c)
	// Over this transport the session sends status notifications.
	c.Until(harness.Notification("notifications/tasks/status", "completed"))
}

func TestTasksInASessionBefore20260728OverHTTP(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, nil, harness.AddEcho, harness.AddRequired, harness.AddGreet)
	testSession(t, overHTTP(t, s.URL()))
}

// overHTTP is a session with the server at this URL. The first message that is written must open it.
func overHTTP(t *testing.T, url string) *harness.Conversation {
	c := harness.NewConversation(t)
	var session string
	var all sync.WaitGroup
	post := func(message string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(message))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
			req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			if t.Context().Err() == nil { // what nobody waits for may be under way at the end of the test
				t.Error(err)
			}
			return
		}
		defer res.Body.Close()
		if session == "" {
			session = res.Header.Get("Mcp-Session-Id")
		}
		scanner := bufio.NewScanner(res.Body)
		for scanner.Scan() {
			data := strings.TrimPrefix(scanner.Text(), "data: ")
			var m map[string]any
			if json.Unmarshal([]byte(data), &m) == nil {
				c.Read <- m
			}
		}
	}
	c.Write = func(message string) {
		if session == "" {
			post(message)
			return
		}
		all.Go(func() { post(message) })
	}
	t.Cleanup(all.Wait)
	return c
}

// A server that stops ends the waits for results in its sessions, with an error after which clients try again, and
// does not wait for those who wait.
func TestAWaitInASessionEndsWhenTheServerStops(t *testing.T) {
	t.Parallel()
	logger := slog.New(slog.DiscardHandler)
	var waits atomic.Int32
	opts := &askback.Options{Tasks: &askback.Tasks{Store: new(task.MemoryStore)},
		Authorize: func(_ context.Context, a askback.Access) error {
			if a.Method == "tasks/result" {
				waits.Add(1)
			}
			return nil
		}}
	srv := harness.NewServer(t, opts, harness.AddEcho,
		harness.AddText("wait", nil, func(ctx context.Context, _ *askback.Call) (string, error) {
			<-ctx.Done()
			return "", ctx.Err()
		}))
	listener := expect.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = srv.RunTasks(t.Context()) }) // goes on, so that only the stop ends what waits
	ended := make(chan error, 1)
	all.Go(func() {
		ended <- drain.Serve(ctx, listener, &http.Server{Handler: srv.HTTPHandler(nil)},
			&drain.Options{Delay: -1, Grace: time.Hour, Logger: logger})
	})
	t.Cleanup(func() { stop(); all.Wait() })

	c := overHTTP(t, "http://"+listener.Addr().String())
	c.Open(harness.Initialize)
	for i, tool := range []string{"wait", "echo"} {
		created := c.Call(10+i, "tools/call", `"name":"`+tool+`","task":{}`, "")
		id, _ := harness.At(created, "result", "task", "taskId").(string)
		c.Request(20+i, "tasks/result", `"taskId":"`+id+`"`, "")
	}
	c.Asked() // nobody answers it
	harness.Eventually(t, "both waits", func() bool { return waits.Load() == 2 })
	stop()
	for i := range 2 {
		res := c.Response(20 + i)
		if message, _ := harness.At(res, "error", "message").(string); harness.At(res, "error", "code") != -32603.0 ||
			!strings.Contains(message, "send the request again") {
			t.Errorf("%v", res)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// testSession runs a task from start to end in a session of 2025-11-25.
func testSession(t *testing.T, c *harness.Conversation) {
	t.Helper()
	hello := c.Call(1, "initialize",
		`"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}`, "")
	if harness.At(hello, "result", "capabilities", "tasks", "requests", "tools", "call") == nil ||
		harness.At(hello, "result", "capabilities", "tasks", "cancel") == nil {
		t.Errorf("initialize: %v", hello)
	}
	if harness.At(hello, "result", "capabilities", "tasks", "list") != nil {
		t.Error("a server that cannot tell callers apart offers lists")
	}
	c.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	support := map[any]any{}
	for _, tool := range harness.At(c.Call(2, "tools/list", "", ""), "result", "tools").([]any) {
		support[harness.At(tool, "name")] = harness.At(tool, "execution", "taskSupport")
	}
	expect.Equal(t, "tools/list", fmt.Sprint(support), "map[echo:optional greet:<nil> required:required]")
	for i, refused := range []string{`"name":"required"`, `"name":"greet","arguments":{"place":"x"},"task":{}`} {
		harness.Want(t, refused, c.Call(10+i, "tools/call", refused, ""), -32601.0, "error", "code")
	}
	created := c.Call(3, "tools/call", `"name":"echo","task":{"ttl":60000}`, "")
	id, _ := harness.At(created, "result", "task", "taskId").(string)
	if id == "" || harness.At(created, "result", "resultType") != nil {
		t.Fatalf("created: %v", created)
	}
	for {
		now := c.Call(4, "tasks/get", `"taskId":"`+id+`"`, "")
		if harness.At(now, "result", "status") == "input_required" {
			break
		}
		if harness.At(now, "result", "status") != "working" {
			t.Fatalf("%v", now)
		}
	}
	c.Request(5, "tasks/result", `"taskId":"`+id+`"`, "")
	question := func() map[string]any {
		return c.Asked()
	}
	first := question()
	harness.Want(t, "question", first, id, "params", "_meta", "io.modelcontextprotocol/related-task", "taskId")
	answer := func(q map[string]any, result string) {
		qid := expect.Must(json.Marshal(q["id"]))(t)
		c.Write(`{"jsonrpc":"2.0","id":` + string(qid) + `,` + result + `}`)
	}
	answer(first, `"result":{"action":"accept","content":{"input":"z"}}`)
	final := c.Response(5)
	content, _ := harness.At(final, "result", "content").([]any)
	if len(content) != 1 || harness.At(content[0], "text") != "Echo: z" ||
		harness.At(final, "result", "_meta", "io.modelcontextprotocol/related-task", "taskId") != id {
		t.Errorf("final: %v", final)
	}
	harness.Want(t, "tasks/update", c.Call(6, "tasks/update", `"taskId":"`+id+`","inputResponses":{}`, ""), -32601.0,
		"error", "code")
	harness.Want(t, "an unknown task", c.Call(7, "tasks/get", `"taskId":"none"`, ""), -32602.0, "error", "code")
	for i, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/list", "tasks/input_response",
		"tasks/update"} {
		c.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, 20+i, method))
		if res := c.Response(20 + i); harness.At(res, "error", "code") == nil {
			t.Errorf("%s without params: %v", method, res)
		}
	}

	ask := func(call int) string {
		created := c.Call(call, "tools/call", `"name":"echo","task":{}`, "")
		id, _ := harness.At(created, "result", "task", "taskId").(string)
		c.Request(call+1, "tasks/result", `"taskId":"`+id+`"`, "")
		return id
	}
	// If an answer does not fit, the question is asked again.
	ask(30)
	answer(question(), `"result":{"action":"accept","content":{"input":7}}`)
	answer(question(), `"result":{"action":"accept","content":{"input":"fits"}}`)
	harness.Want(t, "after an answer that does not fit", c.Response(31), false, "result", "isError")
	// A task that ends while the user is asked also ends the wait for its result.
	id = ask(32)
	question()
	c.Call(34, "tasks/cancel", `"taskId":"`+id+`"`, "")
	harness.Want(t, "after it was cancelled", c.Response(33), "the task was cancelled", "error", "message")
	// A client without an answer ends the wait, and the task continues.
	id = ask(35)
	answer(question(), `"error":{"code":-32603,"message":"nobody is here"}`)
	expect.Contains(t, "after an error of the client", fmt.Sprint(harness.At(c.Response(36), "error", "message")),
		"nobody is here")
	harness.Want(t, "after an error of the client", c.Call(37, "tasks/get", `"taskId":"`+id+`"`, ""), "input_required",
		"result", "status")

	created = c.Call(8, "tools/call", `"name":"echo","task":{}`, "")
	id, _ = harness.At(created, "result", "task", "taskId").(string)
	if res := c.Call(9, "tasks/cancel", `"taskId":"`+id+`"`, ""); harness.At(res, "result", "status") != "cancelled" ||
		harness.At(res, "result", "taskId") != id {
		t.Errorf("cancelled: %v", res)
	}
}

func TestSessionGetsATaskThoughItsToolDetachesLater(t *testing.T) {
	t.Parallel()
	var first, second atomic.Int32
	c := harness.TaskPipe(t, addPainter(&first, &second))
	c.Open(harness.Initialize)
	harness.Want(t, "the result", c.Call(3, "tools/call", `"name":"paint","task":{"ttl":1000}`, ""), "working", "result",
		"task", "status")
}

// All open questions of a task are sent together, and only the client answers them.
func TestSessionIsAskedAllQuestionsOfATask(t *testing.T) {
	t.Parallel()
	c := harness.TaskPipe(t, harness.AddText("two", nil, asksColors("a", "b")))
	c.Open(harness.Initialize)
	id, _ := harness.At(c.Call(2, "tools/call", `"name":"two","task":{}`, ""), "result", "task", "taskId").(string)
	c.Request(3, "tasks/result", `"taskId":"`+id+`"`, "")
	keys := map[any]bool{}
	for range 2 {
		q := c.Asked()
		keys[harness.At(q, "params", "_meta", "io.github.askback-mcp/key")] = true
		message := fmt.Sprint(harness.At(q, "params", "message"))
		c.Answer(q, `{"action":"accept","content":{"color":"`+message[:1]+`"}}`)
	}
	if !keys["a"] || !keys["b"] {
		t.Errorf("asked under the keys %v", keys)
	}
	expect.Equal(t, "the result", harness.Content(harness.At(c.Response(3), "result").(map[string]any)), "AB")
}

// Each request of the server in a session names its task.
func TestQuestionsOfASessionSayTheirTask(t *testing.T) {
	t.Parallel()
	c := harness.TaskPipe(t, harness.AddText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		if _, err := askback.Sample(call, "sample", &mcp.CreateMessageWithToolsParams{MaxTokens: 1,
			Messages: []*mcp.SamplingMessageV2{{Role: "user",
				Content: []mcp.Content{&mcp.TextContent{Text: "?"}}}}}); err != nil {
			return "", err
		}
		_, err := askback.Roots(call, "roots")
		return "done", err
	}))
	c.Call(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{"sampling":{},"roots":{}},`+
		`"clientInfo":{"name":"c","version":"1"}`, "")
	c.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	id, _ := harness.At(c.Call(2, "tools/call", `"name":"t","task":{}`, ""), "result", "task", "taskId").(string)
	c.Request(3, "tasks/result", `"taskId":"`+id+`"`, "")
	for _, step := range [][2]string{
		{"sampling/createMessage", `{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}`},
		{"roots/list", `{"roots":[]}`},
	} {
		q := c.Until(step[0], func(m map[string]any) bool { return m["method"] == step[0] })
		harness.Want(t, "the result", q, id, "params", "_meta", "io.modelcontextprotocol/related-task", "taskId")
		c.Answer(q, step[1])
	}
	harness.Want(t, "the result", c.Response(3), false, "result", "isError")
}
