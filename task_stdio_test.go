package askback_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/task"
)

// conversation is one in messages, one a line or an event.
type conversation struct {
	t     *testing.T
	write func(message string)
	read  chan map[string]any
	kept  []map[string]any
}

// taskPipe serves a server with tasks over standard input and output.
func taskPipe(t *testing.T, register ...func(*askback.Server)) *conversation {
	t.Helper()
	store := new(task.MemoryStore)
	srv := newServer(t, &askback.Options{Tasks: &askback.Tasks{Store: store}}, register...)
	in, client := io.Pipe()
	answers, out := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = srv.RunTasks(ctx) })
	all.Go(func() { _ = srv.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out}); out.Close() })
	c := &conversation{t: t, read: make(chan map[string]any, 100)}
	c.write = func(message string) { _, _ = io.WriteString(client, strings.ReplaceAll(message, "\n", " ")+"\n") }
	all.Go(func() { c.scan(answers, "") })
	t.Cleanup(func() {
		client.Close()
		cancel()
		all.Wait()
	})
	return c
}

func (c *conversation) scan(r io.Reader, prefix string) {
	defer close(c.read)
	scanner := bufio.NewScanner(r)
	for scanner.Scan() {
		data, ok := strings.CutPrefix(scanner.Text(), prefix)
		var message map[string]any
		if ok && json.Unmarshal([]byte(data), &message) == nil {
			c.read <- message
		}
	}
}

// until returns the next message that is accepted, and keeps those before for later.
func (c *conversation) until(what string, accept func(m map[string]any) bool) map[string]any {
	c.t.Helper()
	for i, m := range c.kept {
		if accept(m) {
			c.kept = append(c.kept[:i], c.kept[i+1:]...)
			return m
		}
	}
	timeout := time.After(20 * time.Second)
	for {
		select {
		case m, ok := <-c.read:
			if !ok {
				c.t.Fatalf("the connection ended before %s; before it came %v", what, c.kept)
			}
			if accept(m) {
				return m
			}
			c.kept = append(c.kept, m)
		case <-timeout:
			c.t.Fatalf("no %s; there is %v", what, c.kept)
		}
	}
}

// call sends a request and returns its response.
func (c *conversation) call(id int, method, members, capabilities string) map[string]any {
	c.t.Helper()
	c.request(id, method, members, capabilities)
	return c.response(id)
}

func (c *conversation) request(id int, method, members, capabilities string) {
	c.t.Helper()
	if capabilities != "" {
		if members != "" {
			members += ","
		}
		members += `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":` + capabilities + `}`
	}
	c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s}}`, id, method, members))
}

func (c *conversation) response(id int) map[string]any {
	c.t.Helper()
	return c.until(fmt.Sprintf("response %d", id), func(m map[string]any) bool {
		return m["id"] == float64(id) && m["method"] == nil
	})
}

func notification(method, status string) (string, func(m map[string]any) bool) {
	return method + " " + status, func(m map[string]any) bool {
		return m["method"] == method && (status == "" || at(m, "params", "status") == status)
	}
}

func TestTasksOverStdio(t *testing.T) {
	c := taskPipe(t, addEcho)
	// The extension.
	created := c.call(1, "tools/call", `"name":"echo"`, withExtension)
	id, _ := at(created, "result", "taskId").(string)
	if at(created, "result", "resultType") != "task" || id == "" {
		t.Fatalf("%v", created)
	}
	for at(c.call(2, "tasks/get", `"taskId":"`+id+`"`, withExtension), "result", "status") != "input_required" {
	}
	if ack := c.call(3, "tasks/update", `"taskId":"`+id+`","inputResponses":{"echo_input":{"action":"accept","content":{"input":"x"}}}`, withExtension); at(ack, "result", "resultType") != "complete" {
		t.Errorf("%v", ack)
	}
	for at(c.call(4, "tasks/get", `"taskId":"`+id+`"`, withExtension), "result", "result", "isError") != false {
	}
	if gone := c.call(5, "tasks/result", `"taskId":"`+id+`"`, withExtension); at(gone, "error", "code") != -32601.0 {
		t.Errorf("%v", gone)
	}
	if none := c.call(6, "tasks/get", `"taskId":"none"`, proposalOnly); at(none, "error", "code") != -32021.0 {
		t.Errorf("%v", none)
	}
	// The proposals' dialect.
	created = c.call(7, "tools/call", `"name":"echo","task":{"ttl":60000}`, proposalOnly)
	id, _ = at(created, "result", "task", "taskId").(string)
	if id == "" {
		t.Fatalf("%v", created)
	}
	asked := c.call(8, "tasks/result", `"taskId":"`+id+`"`, proposalOnly) // waits until the task asks
	if at(asked, "result", "inputRequests", "echo_input") == nil {
		t.Fatalf("%v", asked)
	}
	c.call(9, "tasks/input_response", `"taskId":"`+id+`","inputResponses":{"echo_input":{"action":"accept","content":{"input":"y"}}}`, proposalOnly)
	final := c.call(10, "tasks/result", `"taskId":"`+id+`"`, proposalOnly)
	if at(final, "result", "content").([]any)[0].(map[string]any)["text"] != "Echo: y" {
		t.Errorf("%v", final)
	}
	if found := c.call(11, "server/discover", "", proposalOnly); at(found, "result", "capabilities", "extensions", "io.modelcontextprotocol/tasks") == nil {
		t.Errorf("%v", found)
	}
}

func TestTasksInASessionBefore20260728(t *testing.T) {
	required := func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: "required"}, &askback.TaskSupport{Required: true},
			func(context.Context, *askback.Call, struct{}) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{}, nil
			})
	}
	c := taskPipe(t, addEcho, required, greet)
	testSession(t, c)
	// Over this transport the session tells of changes by itself.
	c.until(notification("notifications/tasks/status", "completed"))
}

func TestTasksInASessionBefore20260728OverHTTP(t *testing.T) {
	required := func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: "required"}, &askback.TaskSupport{Required: true},
			func(context.Context, *askback.Call, struct{}) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{}, nil
			})
	}
	s := newTaskServer(t, nil, addEcho, required, greet)
	c := &conversation{t: t, read: make(chan map[string]any, 100)}
	var session string
	var all sync.WaitGroup
	post := func(message string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url, strings.NewReader(message))
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
			t.Error(err)
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
				c.read <- m
			}
		}
	}
	c.write = func(message string) {
		if session == "" {
			post(message)
			return
		}
		all.Go(func() { post(message) })
	}
	defer all.Wait()
	testSession(t, c)
}

// testSession has a whole task in a session of 2025-11-25.
func testSession(t *testing.T, c *conversation) {
	t.Helper()
	hello := c.call(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}`, "")
	if at(hello, "result", "capabilities", "tasks", "requests", "tools", "call") == nil || at(hello, "result", "capabilities", "tasks", "cancel") == nil {
		t.Errorf("initialize: %v", hello)
	}
	if at(hello, "result", "capabilities", "tasks", "list") != nil {
		t.Error("a server that cannot tell callers apart offers lists")
	}
	c.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	support := map[any]any{}
	for _, tool := range at(c.call(2, "tools/list", "", ""), "result", "tools").([]any) {
		support[at(tool, "name")] = at(tool, "execution", "taskSupport")
	}
	if fmt.Sprint(support) != "map[echo:optional greet:<nil> required:required]" {
		t.Errorf("tools/list: %v", support)
	}
	for i, refused := range []string{`"name":"required"`, `"name":"greet","arguments":{"place":"x"},"task":{}`} {
		if res := c.call(10+i, "tools/call", refused, ""); at(res, "error", "code") != -32601.0 {
			t.Errorf("%s: %v", refused, res)
		}
	}
	created := c.call(3, "tools/call", `"name":"echo","task":{"ttl":60000}`, "")
	id, _ := at(created, "result", "task", "taskId").(string)
	if id == "" || at(created, "result", "resultType") != nil {
		t.Fatalf("created: %v", created)
	}
	for {
		now := c.call(4, "tasks/get", `"taskId":"`+id+`"`, "")
		if at(now, "result", "status") == "input_required" {
			break
		}
		if at(now, "result", "status") != "working" {
			t.Fatalf("%v", now)
		}
	}
	c.request(5, "tasks/result", `"taskId":"`+id+`"`, "")
	question := func() map[string]any {
		return c.until("question", func(m map[string]any) bool { return m["method"] == "elicitation/create" })
	}
	first := question()
	if at(first, "params", "_meta", "io.modelcontextprotocol/related-task", "taskId") != id {
		t.Errorf("question: %v", first)
	}
	answer := func(q map[string]any, result string) {
		qid, err := json.Marshal(q["id"])
		if err != nil {
			t.Fatal(err)
		}
		c.write(`{"jsonrpc":"2.0","id":` + string(qid) + `,` + result + `}`)
	}
	answer(first, `"result":{"action":"accept","content":{"input":"z"}}`)
	final := c.response(5)
	content, _ := at(final, "result", "content").([]any)
	if len(content) != 1 || at(content[0], "text") != "Echo: z" || at(final, "result", "_meta", "io.modelcontextprotocol/related-task", "taskId") != id {
		t.Errorf("final: %v", final)
	}
	if res := c.call(6, "tasks/update", `"taskId":"`+id+`","inputResponses":{}`, ""); at(res, "error", "code") != -32601.0 {
		t.Errorf("tasks/update: %v", res)
	}
	if res := c.call(7, "tasks/get", `"taskId":"none"`, ""); at(res, "error", "code") != -32602.0 {
		t.Errorf("an unknown task: %v", res)
	}
	for i, method := range []string{"tasks/get", "tasks/result", "tasks/cancel", "tasks/list", "tasks/input_response", "tasks/update"} {
		c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q}`, 20+i, method))
		if res := c.response(20 + i); at(res, "error", "code") == nil {
			t.Errorf("%s without params: %v", method, res)
		}
	}

	ask := func(call int) string {
		created := c.call(call, "tools/call", `"name":"echo","task":{}`, "")
		id, _ := at(created, "result", "task", "taskId").(string)
		c.request(call+1, "tasks/result", `"taskId":"`+id+`"`, "")
		return id
	}
	// An answer that does not fit is asked for again.
	ask(30)
	answer(question(), `"result":{"action":"accept","content":{"input":7}}`)
	answer(question(), `"result":{"action":"accept","content":{"input":"fits"}}`)
	if res := c.response(31); at(res, "result", "isError") != false {
		t.Errorf("after an answer that does not fit: %v", res)
	}
	// A task that ends while the user is asked ends the wait for it, too.
	id = ask(32)
	question()
	c.call(34, "tasks/cancel", `"taskId":"`+id+`"`, "")
	if res := c.response(33); at(res, "error", "message") != "the task was cancelled" {
		t.Errorf("after it was cancelled: %v", res)
	}
	// A client that has no answer ends the wait, but not the task.
	id = ask(35)
	answer(question(), `"error":{"code":-32603,"message":"nobody is here"}`)
	if res := c.response(36); !strings.Contains(fmt.Sprint(at(res, "error", "message")), "nobody is here") {
		t.Errorf("after an error of the client: %v", res)
	}
	if res := c.call(37, "tasks/get", `"taskId":"`+id+`"`, ""); at(res, "result", "status") != "input_required" {
		t.Errorf("after an error of the client: %v", res)
	}

	created = c.call(8, "tools/call", `"name":"echo","task":{}`, "")
	id, _ = at(created, "result", "task", "taskId").(string)
	if res := c.call(9, "tasks/cancel", `"taskId":"`+id+`"`, ""); at(res, "result", "status") != "cancelled" || at(res, "result", "taskId") != id {
		t.Errorf("cancelled: %v", res)
	}
}

func TestSubscriptionToTasks(t *testing.T) {
	for _, others := range []string{"", `,"toolsListChanged":true`} {
		for _, transport := range []string{"stdio", "http"} {
			t.Run(transport+others, func(t *testing.T) {
				var c, listening *conversation
				var end func()
				if transport == "stdio" {
					c = taskPipe(t, addEcho)
					listening = c
					end = func() {
						c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":50}}`)
					}
				} else {
					c, listening, end = listenOverHTTP(t)
				}
				id, _ := at(c.call(1, "tools/call", `"name":"echo"`, withExtension), "result", "taskId").(string)
				filter := `"notifications":{"taskIds":["` + id + `","none"]` + others + `}`
				if res := c.call(2, "subscriptions/listen", filter, proposalOnly); at(res, "error", "code") != -32021.0 {
					t.Errorf("without the extension: %v", res)
				}
				listening.request(50, "subscriptions/listen", filter, withExtension)
				ack := listening.until(notification("notifications/subscriptions/acknowledged", ""))
				if ids := at(ack, "params", "notifications", "taskIds"); fmt.Sprint(ids) != "["+id+"]" || at(ack, "params", "_meta", "io.modelcontextprotocol/subscriptionId") != 50.0 {
					t.Errorf("acknowledged %v", ack)
				}
				if at(ack, "params", "notifications", "toolsListChanged") != nil && others == "" || others != "" && at(ack, "params", "notifications", "toolsListChanged") != true {
					t.Errorf("acknowledged %v", ack)
				}
				parked := listening.until(notification("notifications/tasks", "input_required"))
				if at(parked, "params", "inputRequests", "echo_input") == nil || at(parked, "params", "_meta", "io.modelcontextprotocol/subscriptionId") != 50.0 || at(parked, "params", "resultType") != nil {
					t.Errorf("parked %v", parked)
				}
				c.call(3, "tasks/update", `"taskId":"`+id+`","inputResponses":{"echo_input":{"action":"accept","content":{"input":"x"}}}`, withExtension)
				done := listening.until(notification("notifications/tasks", "completed"))
				if at(done, "params", "result", "isError") != false || at(done, "params", "taskId") != id {
					t.Errorf("done %v", done)
				}
				if others != "" {
					end() // the rest would go on
					return
				}
				if res := listening.response(50); at(res, "result", "resultType") != "complete" || at(res, "result", "_meta", "io.modelcontextprotocol/subscriptionId") != 50.0 {
					t.Errorf("ended with %v", res)
				}
			})
		}
	}
}

// listenOverHTTP returns a conversation for calls, and one for a subscription's stream.
func listenOverHTTP(t *testing.T) (calls, stream *conversation, end func()) {
	t.Helper()
	s := newTaskServer(t, nil, addEcho)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(cancel)
	talk := func(wait bool) *conversation {
		c := &conversation{t: t, read: make(chan map[string]any, 100)}
		c.write = func(message string) {
			var m map[string]any
			_ = json.Unmarshal([]byte(message), &m)
			name, _ := at(m, "params", "name").(string)
			if name == "" {
				name, _ = at(m, "params", "taskId").(string)
			}
			run := func() {
				req := httptest.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(message))
				req.RequestURI = ""
				for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
					"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": m["method"].(string), "Mcp-Name": name} {
					req.Header.Set(key, value)
				}
				res, err := http.DefaultClient.Do(req)
				if err != nil {
					return // cancelled
				}
				defer res.Body.Close()
				scanner := bufio.NewScanner(res.Body)
				for scanner.Scan() {
					var m map[string]any
					if json.Unmarshal([]byte(strings.TrimPrefix(scanner.Text(), "data: ")), &m) == nil {
						c.read <- m
					}
				}
			}
			if wait {
				run()
			} else {
				all.Go(run)
			}
		}
		return c
	}
	return talk(true), talk(false), cancel
}
