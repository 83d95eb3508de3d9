package sdkfront_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

func TestSubscriptionToTasks(t *testing.T) {
	t.Parallel()
	for _, others := range []string{"", `,"toolsListChanged":true`} {
		for _, transport := range []string{"stdio", "http"} {
			t.Run(transport+others, func(t *testing.T) {
				var c, listening *harness.Conversation
				var end func()
				if transport == "stdio" {
					c = harness.TaskPipe(t, harness.AddEcho)
					listening = c
					end = func() {
						c.Write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":50}}`)
					}
				} else {
					c, listening, end = listenOverHTTP(t)
				}
				id, _ := harness.At(c.Call(1, "tools/call", `"name":"echo"`, harness.WithExtension), "result", "taskId").(string)
				filter := `"notifications":{"taskIds":["` + id + `","none"]` + others + `}`
				if res := c.Call(2, "subscriptions/listen", filter, harness.ProposalOnly); harness.At(res, "error",
					"code") != -32021.0 {
					t.Errorf("without the extension: %v", res)
				}
				listening.Request(50, "subscriptions/listen", filter, harness.WithExtension)
				ack := listening.Until(harness.Notification("notifications/subscriptions/acknowledged", ""))
				if ids := harness.At(ack, "params", "notifications", "taskIds"); fmt.Sprint(ids) != "["+id+"]" ||
					harness.At(ack, "params", "_meta", "io.modelcontextprotocol/subscriptionId") != 50.0 {
					t.Errorf("acknowledged %v", ack)
				}
				if harness.At(ack, "params", "notifications", "toolsListChanged") != nil && others == "" || others != "" &&
					harness.At(ack, "params", "notifications", "toolsListChanged") != true {
					t.Errorf("acknowledged %v", ack)
				}
				parked := listening.Until(harness.Notification("notifications/tasks", "input_required"))
				if harness.At(parked, "params", "inputRequests", "echo_input") == nil ||
					harness.At(parked, "params", "_meta", "io.modelcontextprotocol/subscriptionId") != 50.0 ||
					harness.At(parked, "params", "resultType") != nil {
					t.Errorf("parked %v", parked)
				}
				c.Call(3, "tasks/update", `"taskId":"`+id+`","inputResponses":{"echo_input":{"action":"accept",`+
					`"content":{"input":"x"}}}`, harness.WithExtension)
				done := listening.Until(harness.Notification("notifications/tasks", "completed"))
				if harness.At(done, "params", "result", "isError") != false || harness.At(done, "params", "taskId") != id {
					t.Errorf("done %v", done)
				}
				if others != "" {
					end() // the rest would continue
					return
				}
				if res := listening.Response(50); harness.At(res, "result", "resultType") != "complete" ||
					harness.At(res, "result", "_meta", "io.modelcontextprotocol/subscriptionId") != 50.0 {
					t.Errorf("ended with %v", res)
				}
			})
		}
	}
}

// A subscription to tasks alone costs no session of the SDK's, whose goroutines and memory would be as much again.
func TestSubscriptionToTasksAloneHasNoSession(t *testing.T) {
	t.Parallel()
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil)
	srv, err := askback.New(server, &askback.Options{Keys: harness.NewRing(t),
		Tasks: &askback.Tasks{Store: new(task.MemoryStore)}})
	expect.Check(t, err)
	harness.AddEcho(srv)
	h := srv.HTTPHandler(nil)
	var created struct{ Result struct{ TaskID string } }
	if raw := (harness.Request{Target: "echo", Capabilities: harness.WithExtension}.Send(t,
		h)).Raw; json.Unmarshal([]byte(raw), &created) != nil {
		t.Fatal(raw)
	}
	for others, want := range map[string]int{"": 0, `,"toolsListChanged":true`: 1} {
		ctx, cancel := context.WithCancel(t.Context())
		stream := harness.NewBegun()
		var open sync.WaitGroup
		open.Go(func() {
			h.ServeHTTP(stream, harness.Request{Method: "subscriptions/listen", Header: http.Header{"Mcp-Name": nil},
				Body: harness.Message(1, "subscriptions/listen",
					`"notifications":{"taskIds":["`+created.Result.TaskID+`"]`+others+`}`,
					harness.WithExtension)}.HTTP(t).WithContext(ctx))
		})
		harness.Eventually(t, "stream", stream.Began.Load)
		got := 0
		for range server.Sessions() {
			got++
		}
		if got != want {
			t.Errorf("a subscription to tasks%s has %d sessions, want %d", others, got, want)
		}
		cancel()
		open.Wait()
	}
}

func TestSubscriptionToAForeignTask(t *testing.T) {
	t.Parallel()
	principal := func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
		return extra.Header.Get("X-User"), nil
	}
	s := harness.NewTaskServer(t, &askback.Options{Principal: principal}, harness.AddEcho)
	_, response := s.Send(harness.WithExtension, "tools/call", "echo", `"name":"echo"`, "X-User: alice")
	id := harness.At(response, "result", "taskId").(string)
	// A subscription to no task ends at once, without a notification.
	r := harness.Request{Method: "subscriptions/listen", Header: http.Header{"X-User": {"bob"}, "Mcp-Name": nil},
		Body: `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["` + id +
			`"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` +
			harness.WithExtension + `}}}`,
		Context: func(r *http.Request) *http.Request {
			ctx, cancel := context.WithTimeout(r.Context(), 2*time.Minute)
			t.Cleanup(cancel)
			return r.WithContext(ctx)
		}}
	if res := r.Send(t, s.Handler); strings.Contains(res.Raw, id) || !strings.Contains(res.Raw, `"taskIds":[]`) ||
		res.Result == nil {
		t.Errorf("%s", res.Raw)
	}
}

func TestSubscriptionToTooManyTasks(t *testing.T) {
	t.Parallel()
	s := harness.NewTaskServer(t, nil, harness.AddEcho)
	ids := strings.TrimSuffix(strings.Repeat(`"x",`, 65), ",")
	if code, _ := s.Fault(harness.WithExtension, "subscriptions/listen", "",
		`"notifications":{"taskIds":[`+ids+`]}`); code != -32602 {
		t.Errorf("%d", code)
	}
}

func TestSubscriptionsOfAConnectionAreBounded(t *testing.T) {
	c := harness.TaskPipe(t, harness.AddEcho)
	var ids []string
	for i := range 8 {
		id, _ := harness.At(c.Call(1000+i, "tools/call", `"name":"echo"`, harness.WithExtension), "result", "taskId").(string)
		ids = append(ids, `"`+id+`"`)
	}
	before := runtime.NumGoroutine()
	refused := 0
	for i := range 100 {
		c.Request(2000+i, "subscriptions/listen", `"notifications":{"taskIds":[`+strings.Join(ids, ",")+`]}`,
			harness.WithExtension)
		m := c.Until("answer", func(m map[string]any) bool {
			return m["method"] == "notifications/subscriptions/acknowledged" || m["id"] == float64(2000+i)
		})
		if harness.At(m, "error", "code") == -32600.0 {
			refused++
		}
	}
	expect.Equal(t, "of 100 were refused", refused, 100-16)
	harness.Eventually(t, "end of the goroutines of refused requests",
		func() bool { return runtime.NumGoroutine()-before <= 40 })
	// A cancelled subscription makes room for another.
	c.Write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2000}}`)
	c.Request(3000, "subscriptions/listen", `"notifications":{"taskIds":[`+ids[0]+`]}`, harness.WithExtension)
	c.Until("acknowledgment", func(m map[string]any) bool {
		return m["method"] == "notifications/subscriptions/acknowledged" &&
			harness.At(m, "params", "_meta", "io.modelcontextprotocol/subscriptionId") == 3000.0
	})
}

// Subscriptions that have ended or were refused make room for others.
func TestSubscriptionsOfOneConnectionOneAfterAnother(t *testing.T) {
	t.Parallel()
	c := harness.TaskPipe(t, harness.AddText("quick", nil, func(context.Context, *askback.Call) (string,
		error) {
		return "", nil
	}))
	id, _ := harness.At(c.Call(1, "tools/call", `"name":"quick"`, harness.WithExtension), "result", "taskId").(string)
	for i := range 40 {
		if res := c.Call(100+i, "subscriptions/listen", `"notifications":{"taskIds":["`+id+`"]}`,
			harness.WithExtension); harness.At(res, "result", "resultType") != "complete" {
			t.Fatalf("subscription %d: %v", i, res)
		}
	}
	for i := range 40 {
		if res := c.Call(200+i, "subscriptions/listen", `"notifications":{"taskIds":[7],"toolsListChanged":true}`,
			harness.WithExtension); harness.At(res, "error", "code") != -32602.0 {
			t.Fatalf("refused subscription %d: %v", i, res)
		}
	}
	for i := range 40 {
		if res := c.Call(300+i, "subscriptions/listen",
			`"notifications":{"taskIds":["`+id+`"],"toolsListChanged":"no boolean"}`, harness.WithExtension); harness.At(res,
			"error", "code") == -32600.0 && strings.Contains(fmt.Sprint(res), "too many") {
			t.Fatalf("subscription %d that the SDK refused: %v", i, res)
		}
	}
}

func TestSubscriptionWithTheIDOfAnother(t *testing.T) {
	t.Parallel()
	c := harness.TaskPipe(t, harness.AddEcho)
	id, _ := harness.At(c.Call(1, "tools/call", `"name":"echo"`, harness.WithExtension), "result", "taskId").(string)
	filter := `"notifications":{"taskIds":["` + id + `"]}`
	c.Request(50, "subscriptions/listen", filter, harness.WithExtension)
	c.Until(harness.Notification("notifications/tasks", "input_required"))
	if res := c.Call(50, "subscriptions/listen", filter, harness.WithExtension); harness.At(res, "error",
		"code") != -32600.0 {
		t.Errorf("%v", res)
	}
	// The first one continues.
	c.Call(3, "tasks/update", harness.Answered(id, `"echo_input":{"action":"accept","content":{"input":"x"}}`),
		harness.WithExtension)
	c.Until(harness.Notification("notifications/tasks", "completed"))
}

// If the SDK refuses the other parts of a subscription, the refusal is the answer.
func TestSubscriptionThatTheSDKRefuses(t *testing.T) {
	t.Parallel()
	add := func(s *askback.Server) {
		harness.AddEcho(s)
		s.AddResource(&mcp.Resource{Name: "r", URI: "file:///r"},
			func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{}, nil
			})
	}
	s := harness.NewTaskServer(t, nil, add)
	status, response := s.Send(harness.WithExtension, "subscriptions/listen", "",
		`"notifications":{"taskIds":["x"],"toolsListChanged":"no boolean"}`)
	if status != http.StatusBadRequest || harness.At(response, "error", "code") == nil {
		t.Errorf("%d %v", status, response)
	}
}

// The other parts of a subscription continue after its tasks have ended, and send notifications.
func TestRestOfASubscriptionGoesOn(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) {
			store := new(task.MemoryStore)
			var server *askback.Server
			quick := harness.AddText("quick", nil, func(context.Context, *askback.Call) (string, error) { return "", nil })
			s := harness.NewTaskServerOn(t, store, nil, quick, func(s *askback.Server) { server = s })
			var listening *harness.Conversation
			if transport == "stdio" {
				listening = harness.Pipe(t, server)
			} else {
				listening = streamOf(t, s)
			}
			id := s.Result(harness.WithExtension, "tools/call", "quick", `"name":"quick"`)["taskId"].(string)
			listening.Request(50, "subscriptions/listen",
				`"notifications":{"taskIds":["`+id+`","`+id+`"],"toolsListChanged":true}`, harness.WithExtension)
			ack := listening.Until(harness.Notification("notifications/subscriptions/acknowledged", ""))
			if ids := harness.At(ack, "params", "notifications", "taskIds"); fmt.Sprint(ids) != "["+id+"]" {
				t.Errorf("acknowledged %v", ack)
			}
			listening.Until(harness.Notification("notifications/tasks", "completed"))
			harness.AddText("another", nil, func(context.Context, *askback.Call) (string, error) { return "", nil })(server)
			listening.Until(harness.Notification("notifications/tools/list_changed", ""))
		})
	}
}

// A subscription to tasks continues even if its other parts were not accepted.
func TestSubscriptionOutlivesWhatTheServerDoesNotHave(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"stdio", "http"} {
		for _, more := range []string{`"toolsListChanged":false`, `"promptsListChanged":true`} {
			t.Run(transport+" "+more, func(t *testing.T) {
				var server *askback.Server
				s := harness.NewTaskServer(t, nil, harness.AddEcho, func(s *askback.Server) { server = s })
				var c *harness.Conversation
				if transport == "stdio" {
					c = harness.Pipe(t, server)
				} else {
					c = streamOf(t, s)
				}
				id := s.Result(harness.WithExtension, "tools/call", "echo", `"name":"echo"`)["taskId"].(string)
				c.Request(50, "subscriptions/listen", `"notifications":{"taskIds":["`+id+`"],`+more+`}`, harness.WithExtension)
				c.Until(harness.Notification("notifications/tasks", "input_required"))
				s.Result(harness.WithExtension, "tasks/update", id,
					harness.Answered(id, `"echo_input":{"action":"accept","content":{"input":"x"}}`))
				s.Get(harness.WithExtension, id, "completed")
				timeout := time.After(2 * time.Minute)
				var seen []map[string]any
				for {
					select {
					case m := <-c.Read:
						seen = append(seen, m)
						if harness.At(m, "params", "status") == "completed" {
							return
						}
					case <-timeout:
						t.Fatalf("not told of the end; there came %v, kept %v", seen, c.Kept)
					}
				}
			})
		}
	}
}

// Over stdio a session before 2026-07-28 gets notifications for all its tasks, one after another,
// each only after a change. A modern client gets only those that it subscribed to.
func TestWhoIsToldOfTasksUnasked(t *testing.T) {
	t.Parallel()
	quick := harness.AddText("quick", nil, func(context.Context, *askback.Call) (string, error) { return "", nil })
	c := harness.TaskPipe(t, quick)
	c.Call(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`, "")
	c.Write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for i := range 70 {
		id := harness.At(c.Call(100+i, "tools/call", `"name":"quick","task":{}`, ""), "result", "task", "taskId")
		c.Until(fmt.Sprintf("notification of task %d", i), func(m map[string]any) bool {
			if strings.Contains(fmt.Sprint(harness.At(m, "params", "statusMessage")), "has been created") {
				t.Errorf("told of its creation: %v", m)
			}
			return m["method"] == "notifications/tasks/status" && harness.At(m, "params", "taskId") == id &&
				harness.At(m, "params", "status") == "completed"
		})
	}
	modern := harness.TaskPipe(t, quick)
	for i := range 5 {
		id, _ := harness.At(modern.Call(100+i, "tools/call", `"name":"quick","task":{}`, harness.ProposalOnly), "result",
			"task", "taskId").(string)
		modern.Call(200+i, "tasks/result", `"taskId":"`+id+`"`, harness.ProposalOnly)
	}
	for _, m := range modern.Kept {
		t.Errorf("a modern client was told unasked: %v", m)
	}
}

// streamOf returns a conversation for one subscription over HTTP.
func streamOf(t *testing.T, s *harness.TaskServer) *harness.Conversation {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	c := harness.NewConversation(t)
	c.Write = func(message string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL(), strings.NewReader(message))
		expect.Check(t, err)
		for _, h := range []string{"Content-Type: application/json", "Accept: application/json, text/event-stream",
			"Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen"} {
			key, value, _ := strings.Cut(h, ": ")
			req.Header.Set(key, value)
		}
		all.Go(func() {
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return // cancelled
			}
			defer res.Body.Close()
			c.Scan(res.Body, "data: ")
		})
	}
	t.Cleanup(func() { cancel(); all.Wait() })
	return c
}

// listenOverHTTP returns a conversation for calls, and one for a subscription's stream.
func listenOverHTTP(t *testing.T) (calls, stream *harness.Conversation, end func()) {
	t.Helper()
	s := harness.NewTaskServer(t, nil, harness.AddEcho)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(cancel)
	talk := func(wait bool) *harness.Conversation {
		c := harness.NewConversation(t)
		c.Write = func(message string) {
			var m map[string]any
			_ = json.Unmarshal([]byte(message), &m)
			name, _ := harness.At(m, "params", "name").(string)
			if name == "" {
				name, _ = harness.At(m, "params", "taskId").(string)
			}
			run := func() {
				req := httptest.NewRequestWithContext(ctx, http.MethodPost, s.URL(), strings.NewReader(message))
				req.RequestURI = ""
				for key, value := range map[string]string{"Content-Type": "application/json",
					"Accept":               "application/json, text/event-stream",
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
						c.Read <- m
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

// brokenLog is a log whose warnings panic.
type brokenLog struct{ slog.Handler }

func (brokenLog) Enabled(context.Context, slog.Level) bool { return true }

func (brokenLog) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		panic("the log is broken")
	}
	return nil
}

// A panic while a subscription begins costs the request alone: its ID can be used again, as often as the client likes.
func TestASubscriptionThatPanicsGivesItsIDBack(t *testing.T) {
	t.Parallel()
	for name, notifications := range map[string]string{
		"tasks": `"taskIds":["x"]`, "more": `"taskIds":["x"],"toolsListChanged":true`,
	} {
		srv := harness.NewServer(t, &askback.Options{
			Tasks:     &askback.Tasks{Store: new(task.MemoryStore)},
			Logger:    slog.New(brokenLog{slog.DiscardHandler}),
			Authorize: func(context.Context, askback.Access) error { return errors.New("no") }, // is logged
		})
		pipe := harness.Pipe(t, srv)
		for range 40 { // more than one connection may have
			response := pipe.Call(7, "subscriptions/listen", `"notifications":{`+notifications+`}`, harness.WithExtension)
			if harness.At(response, "error", "message") != "internal error" {
				t.Fatalf("%s: %v", name, response)
			}
		}
	}
}
