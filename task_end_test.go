package askback_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task"
)

// site is a tool that builds something, works until it is interrupted, and takes down what
// it built.
type site struct {
	register func(call *askback.Call) // OnCancel, before anything is done
	before   func(run int32) error    // each run

	runs    atomic.Int32
	working chan struct{}
}

func (s *site) add(srv *askback.Server) {
	s.working = make(chan struct{}, 10)
	askback.AddTaskTool(srv, &mcp.Tool{Name: "build"}, nil, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
		if run := s.runs.Add(1); s.before != nil {
			if err := s.before(run); err != nil {
				return nil, err
			}
		}
		s.register(call)
		if err := call.Do(ctx, "create", func(context.Context) error { return nil }); err != nil {
			return nil, err
		}
		err := call.Do(ctx, "work", func(ctx context.Context) error {
			s.working <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
		return nil, err
	})
}

// cancelled starts the tool on a server of its own and cancels it in the middle.
func (s *site) cancelled(t *testing.T) (stop context.CancelFunc, stopped chan struct{}) {
	t.Helper()
	srv := newServer(t, &askback.Options{Tasks: &askback.Tasks{Store: new(task.MemoryStore)}}, s.add)
	ctx, stop := context.WithCancel(context.Background())
	stopped = make(chan struct{})
	go func() { _ = srv.RunTasks(ctx); close(stopped) }()
	t.Cleanup(func() { stop(); <-stopped })
	web := serveTasks(t, srv)
	id := web.result(withExtension, "tools/call", "build", `"name":"build"`)["taskId"].(string)
	<-s.working
	web.result(withExtension, "tasks/cancel", id, `"taskId":"`+id+`"`)
	return stop, stopped
}

// come waits for n signals.
func come(t *testing.T, what string, c <-chan struct{}, n int) {
	t.Helper()
	for range n {
		select {
		case <-c:
		case <-time.After(20 * time.Second):
			t.Fatal("no " + what)
		}
	}
}

func TestCleaningUpMayReportProgressAndRegisterMore(t *testing.T) {
	undone := make(chan struct{}, 10)
	s := &site{register: func(call *askback.Call) {
		call.OnCancel(func(ctx context.Context) error {
			call.OnCancel(func(context.Context) error { return nil })
			err := call.Progress(ctx, 5, 0, "cleaning up")
			undone <- struct{}{}
			return err
		})
	}}
	stop, stopped := s.cancelled(t)
	come(t, "cleaning up", undone, 1)
	stop()
	come(t, "end of RunTasks", stopped, 1)
}

func TestPanicOfOneCleanupDoesNotKeepOthersFromRunning(t *testing.T) {
	first, second := make(chan struct{}, 100), make(chan struct{}, 100)
	s := &site{register: func(call *askback.Call) {
		call.OnCancel(func(context.Context) error { first <- struct{}{}; return nil })
		call.OnCancel(func(context.Context) error { second <- struct{}{}; panic("x") })
	}}
	s.cancelled(t)
	come(t, "cleaning up", first, 1)
	come(t, "second attempt of what panicked", second, 2)
}

func TestCleaningUpIsTriedAgainWhenTheHandlerFails(t *testing.T) {
	undone := make(chan struct{}, 10)
	s := &site{
		before: func(run int32) error {
			if run == 2 {
				panic("a hiccup")
			}
			return nil
		},
		register: func(call *askback.Call) {
			call.OnCancel(func(context.Context) error { undone <- struct{}{}; return nil })
		},
	}
	s.cancelled(t)
	come(t, "cleaning up after a hiccup", undone, 1)
}

func TestHandlerThatCleansUpHasALivingContext(t *testing.T) {
	undone := make(chan struct{}, 10)
	var live atomic.Bool
	s := &site{register: func(call *askback.Call) {
		call.OnCancel(func(ctx context.Context) error { live.Store(ctx.Err() == nil); undone <- struct{}{}; return nil })
	}}
	s.cancelled(t)
	come(t, "cleaning up", undone, 1)
	if !live.Load() {
		t.Error("the context of cleaning up is done")
	}
}

func TestShutdownInterruptsCleaningUp(t *testing.T) {
	cleaning := make(chan struct{}, 10)
	s := &site{register: func(call *askback.Call) {
		call.OnCancel(func(ctx context.Context) error {
			cleaning <- struct{}{}
			<-ctx.Done() // a slow outside system
			return ctx.Err()
		})
	}}
	stop, stopped := s.cancelled(t)
	come(t, "cleaning up", cleaning, 1)
	stop()
	come(t, "end of RunTasks", stopped, 1)
}

func TestListAgreesWithGet(t *testing.T) {
	add := func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: "bad"}, nil, func(context.Context, *askback.Call, struct{}) (*mcp.CallToolResult, error) {
			return nil, errors.New("API rate limit exceeded")
		})
	}
	s := newTaskServer(t, &askback.Options{Tasks: &askback.Tasks{ListAnonymous: true}}, add)
	id := at(s.result(proposalOnly, "tools/call", "bad", `"name":"bad","task":{}`), "task", "taskId").(string)
	get := s.get(proposalOnly, id, "failed")
	listed := s.result(proposalOnly, "tasks/list", "", "")["tasks"].([]any)[0]
	if at(listed, "status") != "failed" || at(listed, "statusMessage") != get["statusMessage"] {
		t.Errorf("listed as %v, got as %v", listed, get)
	}
}

func TestOtherRequestsIgnoreTheMemberTask(t *testing.T) {
	add := func(s *askback.Server) {
		s.AddPrompt(&mcp.Prompt{Name: "p"}, func(context.Context, *askback.Call, map[string]string) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
		})
	}
	s := newTaskServer(t, nil, add)
	if got := s.result(proposalOnly, "prompts/get", "p", `"name":"p","task":{"ttl":"no number"}`); got["resultType"] != "complete" {
		t.Errorf("%v", got)
	}
}

func TestSessionGetsATaskThoughItsToolDetachesLater(t *testing.T) {
	var first, second atomic.Int32
	c := taskPipe(t, addPainter(&first, &second))
	c.call(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}`, "")
	c.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if res := c.call(3, "tools/call", `"name":"paint","task":{"ttl":1000}`, ""); at(res, "result", "task", "status") != "working" {
		t.Errorf("%v", res)
	}
}

func TestSubscriptionsOfAConnectionAreBounded(t *testing.T) {
	c := taskPipe(t, addEcho)
	var ids []string
	for i := range 8 {
		id, _ := at(c.call(1000+i, "tools/call", `"name":"echo"`, withExtension), "result", "taskId").(string)
		ids = append(ids, `"`+id+`"`)
	}
	before := runtime.NumGoroutine()
	refused := 0
	for i := range 100 {
		c.request(2000+i, "subscriptions/listen", `"notifications":{"taskIds":[`+strings.Join(ids, ",")+`]}`, withExtension)
		m := c.until("answer", func(m map[string]any) bool {
			return m["method"] == "notifications/subscriptions/acknowledged" || m["id"] == float64(2000+i)
		})
		if at(m, "error", "code") == -32600.0 {
			refused++
		}
	}
	if refused != 100-16 {
		t.Errorf("%d of 100 were refused", refused)
	}
	eventually(t, "end of the goroutines of refused requests", func() bool { return runtime.NumGoroutine()-before <= 40 })
	// One that is cancelled makes room for another.
	c.write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2000}}`)
	c.request(3000, "subscriptions/listen", `"notifications":{"taskIds":[`+ids[0]+`]}`, withExtension)
	c.until("acknowledgment", func(m map[string]any) bool {
		return m["method"] == "notifications/subscriptions/acknowledged" && at(m, "params", "_meta", "io.modelcontextprotocol/subscriptionId") == 3000.0
	})
}

func TestReplayedRoundFindsItsTask(t *testing.T) {
	var first, second atomic.Int32
	s := newTaskServer(t, &askback.Options{ReplayGuard: new(state.MemoryGuard)}, addPainter(&first, &second))
	asked := s.result(withExtension, "tools/call", "paint", `"name":"paint"`)
	again := `"name":"paint","inputResponses":{"base":{"action":"accept","content":{"color":"red"}}},"requestState":"` + asked["requestState"].(string) + `"`
	id := s.result(withExtension, "tools/call", "paint", again)["taskId"]
	if got := s.result(withExtension, "tools/call", "paint", again)["taskId"]; got != id {
		t.Errorf("got the task %v, then %v", id, got)
	}
	// A client without the extension gets no task in its form.
	if code, _ := s.fault(proposalOnly, "tools/call", "paint", again+`,"task":{}`); code != -32021 {
		t.Errorf("without the extension: %d", code)
	}
	// One that has ended says so.
	s.result(withExtension, "tasks/cancel", id.(string), fmt.Sprintf(`"taskId":%q`, id))
	if got := s.result(withExtension, "tools/call", "paint", again); got["status"] != "cancelled" || got["statusMessage"] != "The task was cancelled by request." {
		t.Errorf("after its end: %v", got)
	}
}

func TestStepsEndWithTheLease(t *testing.T) {
	claimed := make(chan struct{})
	ran := make(chan string, 10)
	var runs atomic.Int32
	store := struct{ task.Store }{new(task.MemoryStore)} // which does not tell the worker
	add := func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: "two"}, nil, func(ctx context.Context, call *askback.Call, _ struct{}) (*mcp.CallToolResult, error) {
			if runs.Add(1) > 1 {
				<-ctx.Done() // the next worker
				return nil, ctx.Err()
			}
			first := call.Do(ctx, "one", func(context.Context) error {
				claimed <- struct{}{}
				<-claimed
				return nil
			})
			// Though it pays no attention to the error.
			second := call.Do(ctx, "two", func(context.Context) error { ran <- "two"; return nil })
			ran <- fmt.Sprint(first != nil, second != nil)
			return nil, second
		})
	}
	s := newTaskServerOn(t, store, nil, add)
	id := s.result(withExtension, "tools/call", "two", `"name":"two"`)["taskId"].(string)
	<-claimed
	now, err := store.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	fence := now.Fence
	if err := store.Update(t.Context(), now, taskUpdateDue); err != nil {
		t.Fatal(err)
	}
	for now.Fence == fence {
		if now, err = store.Get(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	claimed <- struct{}{}
	if got := <-ran; got != "true true" {
		t.Errorf("after the lease was lost: %s", got)
	}
}

// brokenStore fails from some time on to read and to write tasks.
type brokenStore struct {
	task.Store
	broken atomic.Bool
}

func (s *brokenStore) err() error {
	if s.broken.Load() {
		return errors.New("the disk is on fire")
	}
	return nil
}

func (s *brokenStore) Get(ctx context.Context, id string) (*task.Task, error) {
	if err := s.err(); err != nil {
		return nil, err
	}
	return s.Store.Get(ctx, id)
}

func (s *brokenStore) Update(ctx context.Context, t *task.Task, u task.Update) error {
	if err := s.err(); err != nil {
		return err
	}
	return s.Store.Update(ctx, t, u)
}

func TestIDsAreNotInTheLogWhenTheStoreFails(t *testing.T) {
	var mu sync.Mutex
	var log strings.Builder
	logger := slog.New(slog.NewJSONHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(p)
	}), nil))
	store := &brokenStore{Store: new(task.MemoryStore)}
	s := serveTasks(t, newServer(t, &askback.Options{Logger: logger, Tasks: &askback.Tasks{Store: store}}, addEcho))
	id := s.result(withExtension, "tools/call", "echo", `"name":"echo"`)["taskId"].(string)
	store.broken.Store(true)
	for _, method := range []string{"tasks/get", "tasks/cancel", "tasks/update"} {
		if code, message := s.fault(withExtension, method, id, `"taskId":"`+id+`","inputResponses":{}`); code != -32603 || strings.Contains(message, "disk") {
			t.Errorf("%s: %d %s", method, code, message)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if strings.Contains(log.String(), id) || !strings.Contains(log.String(), "disk") {
		t.Errorf("the log has %s", log.String())
	}
	if !strings.Contains(log.String(), "RunTasks") {
		t.Error("nobody was told that no task will run here")
	}
}

func TestMaxTTLAlone(t *testing.T) {
	s := newTaskServer(t, &askback.Options{Tasks: &askback.Tasks{Settings: task.Settings{MaxTTL: time.Hour}}}, addEcho)
	if got := s.result(withExtension, "tools/call", "echo", `"name":"echo"`); got["ttlMs"] != 3600000.0 {
		t.Errorf("%v", got)
	}
}
