package askback_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
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

// pipeOn is taskPipe for a server of its own making, which runs no tasks by itself.
func pipeOn(t *testing.T, srv *askback.Server) *conversation {
	t.Helper()
	in, client := io.Pipe()
	answers, out := io.Pipe()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = srv.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out}); out.Close() })
	c := &conversation{t: t, read: make(chan map[string]any, 1000)}
	c.write = func(message string) { _, _ = io.WriteString(client, strings.ReplaceAll(message, "\n", " ")+"\n") }
	all.Go(func() { c.scan(answers, "") })
	t.Cleanup(func() { client.Close(); cancel(); all.Wait() })
	return c
}

// safeBuffer is a log that a server may still write to.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *safeBuffer) has(t *testing.T, what string) {
	t.Helper()
	eventually(t, "log of "+what, func() bool { return strings.Contains(s.String(), what) })
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no " + what)
		}
	}
}

func answered(id, answers string) string {
	return `"taskId":"` + id + `","inputResponses":{` + answers + `}`
}

func content(res map[string]any) any {
	list, _ := res["content"].([]any)
	if len(list) != 1 {
		return nil
	}
	return at(list[0], "text")
}

func addText(name string, support *askback.TaskSupport, run func(ctx context.Context, call *askback.Call) (string, error)) func(*askback.Server) {
	return func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: name}, support, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			said, err := run(ctx, call)
			if err != nil {
				return "", err
			}
			return said, nil
		})
	}
}

func TestCanTellsWhetherThereWillBeATask(t *testing.T) {
	can := func(_ context.Context, call *askback.Call) (string, error) {
		return fmt.Sprint(call.Can(askback.CapabilityTasks)), nil
	}
	plain := func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "plain"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			said, err := can(ctx, call)
			return said, err
		})
	}
	detaching := addText("detaching", &askback.TaskSupport{AtDetach: true}, can)
	s := newTaskServer(t, nil, plain, detaching)
	for _, c := range []struct{ capabilities, params, want string }{
		{withExtension, `"name":"plain"`, "false"},
		{withExtension, `"name":"detaching"`, "true"},
		{proposalOnly, `"name":"detaching"`, "false"},
		{proposalOnly, `"name":"detaching","task":{}`, "true"},
	} {
		name := strings.Split(c.params, `"`)[3]
		if got := content(s.result(c.capabilities, "tools/call", name, c.params)); got != c.want {
			t.Errorf("%s: %v, want %s", c.params, got, c.want)
		}
	}
	// A server without a store has no tasks, whatever the client can take.
	none := serveTasks(t, newServer(t, nil, addText("detaching", &askback.TaskSupport{AtDetach: true}, func(ctx context.Context, call *askback.Call) (string, error) {
		return "no task", call.Detach()
	})))
	if got := content(none.result(withExtension, "tools/call", "detaching", `"name":"detaching"`)); got != "no task" {
		t.Errorf("without Options.Tasks: %v", got)
	}
}

func TestTaskGoesOnWithTheRequestAndTheRoundsOfItsCall(t *testing.T) {
	s := newTaskServer(t, nil, addText("t", &askback.TaskSupport{AtDetach: true}, func(ctx context.Context, call *askback.Call) (string, error) {
		if _, err := askback.Elicit[color](call, "c", "Which?"); err != nil {
			return "", err
		}
		if err := call.Detach(); err != nil {
			return "", err
		}
		req := call.Request().(*mcp.CallToolRequest)
		return fmt.Sprintf("%d %v %s %v", call.Round(), req.Params.Meta["example.com/own"], req.Params.Name, req.Extra == nil), nil
	}))
	asked := s.result(withExtension, "tools/call", "t", `"name":"t"`)
	created := s.result(withExtension, "tools/call", "t", `"name":"t","inputResponses":{"c":{"action":"accept","content":{"color":"red"}}},"requestState":"`+
		asked["requestState"].(string)+`","_meta":{"example.com/own":"mine"}`)
	done := s.get(withExtension, created["taskId"].(string), "completed")
	if got := content(at(done, "result").(map[string]any)); got != "3 mine t true" {
		t.Errorf("%v", got)
	}
}

func TestReplayByAClientWithoutTasksIsRefused(t *testing.T) {
	var first, second atomic.Int32
	s := newTaskServer(t, &askback.Options{ReplayGuard: new(state.MemoryGuard)}, addPainter(&first, &second))
	asked := s.result(proposalOnly, "tools/call", "paint", `"name":"paint","task":{}`)
	again := `"name":"paint","inputResponses":{"base":{"action":"accept","content":{"color":"red"}}},"requestState":"` + asked["requestState"].(string) + `"`
	s.result(proposalOnly, "tools/call", "paint", again+`,"task":{}`)
	if code, message := s.fault(proposalOnly, "tools/call", "paint", again); code != -32602 {
		t.Errorf("%d %s", code, message)
	}
}

// appendFails is a store that records nothing while it is said so.
type appendFails struct {
	task.Store
	failing atomic.Bool
}

func (a *appendFails) Append(ctx context.Context, id string, fence int64, entry []byte) error {
	if a.failing.Load() {
		return errors.New("out of reach")
	}
	return a.Store.Append(ctx, id, fence, entry)
}

func TestRunWhoseStepWasNotRecordedCountsForNothing(t *testing.T) {
	store := &appendFails{Store: new(task.MemoryStore)}
	store.failing.Store(true)
	s := newTaskServerOn(t, store, &askback.Options{Tasks: &askback.Tasks{Settings: task.Settings{Lease: 300 * time.Millisecond}}}, addText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		n, err := askback.Do(ctx, call, "step", func(context.Context) (int, error) { return 7, nil })
		if err != nil {
			store.failing.Store(false)
			return "", err
		}
		return fmt.Sprint(n), nil
	}))
	id := s.result(withExtension, "tools/call", "t", `"name":"t"`)["taskId"].(string)
	if done := s.get(withExtension, id, "completed"); content(at(done, "result").(map[string]any)) != "7" {
		t.Errorf("%v", done)
	}
}

func TestToolThatIsNoTaskToolHereIsLeftToOthers(t *testing.T) {
	store := struct{ task.Store }{new(task.MemoryStore)} // each instance looks when it likes, and not both when either writes
	log := new(safeBuffer)
	plain := func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "t"}, func(context.Context, *askback.Call, struct{}) (string, error) {
			return "plain", nil
		})
	}
	newTaskServerOn(t, store, &askback.Options{Logger: slog.New(slog.NewJSONHandler(log, nil))}, plain)
	srv := newServer(t, &askback.Options{Tasks: &askback.Tasks{Store: store}}, addText("t", nil, func(context.Context, *askback.Call) (string, error) { return "a task", nil }))
	s := serveTasks(t, srv)
	id := s.result(withExtension, "tools/call", "t", `"name":"t"`)["taskId"].(string)
	log.has(t, "leaving tasks of this target to other processes")
	eventually(t, "update", func() bool { // without the pause
		now, err := store.Get(t.Context(), id)
		return err == nil && now.Version > 0 && store.Update(t.Context(), now, taskUpdateDue) == nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = srv.RunTasks(ctx) })
	defer all.Wait()
	defer cancel()
	if done := s.get(withExtension, id, "completed"); content(at(done, "result").(map[string]any)) != "a task" {
		t.Errorf("%v", done)
	}
}

// A key that was answered is not used for another question of the same name, and such a
// question's answer is found.
func TestKeysOfATaskAreNeverUsedAgain(t *testing.T) {
	s := newTaskServer(t, nil, addText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		all := ""
		for i := range 3 {
			got, err := askback.Elicit[color](call, "c", fmt.Sprintf("Which, for the %d. time?", i+1))
			if err != nil {
				return "", err
			}
			all += got.Color
		}
		return all, nil
	}))
	id := s.result(withExtension, "tools/call", "t", `"name":"t"`)["taskId"].(string)
	for i, key := range []string{"c", "c#2", "c#3"} {
		eventually(t, "question "+key, func() bool {
			return at(s.result(withExtension, "tasks/get", id, `"taskId":"`+id+`"`), "inputRequests", key) != nil
		})
		s.result(withExtension, "tasks/update", id, answered(id, fmt.Sprintf(`%q:{"action":"accept","content":{"color":"%d"}}`, key, i)))
	}
	if done := s.get(withExtension, id, "completed"); content(at(done, "result").(map[string]any)) != "012" {
		t.Errorf("%v", done)
	}
}

// A fresh key is not one that another question has.
func TestFreshKeyIsNotAnotherQuestions(t *testing.T) {
	s := newTaskServer(t, nil, addText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		a, err1 := askback.Elicit[color](call, "k", "K?")
		b, err2 := askback.Elicit[color](call, "k#2", "K2?")
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		return a.Color + b.Color, nil
	}))
	id := s.result(withExtension, "tools/call", "t", `"name":"t"`)["taskId"].(string)
	s.get(withExtension, id, "input_required")
	s.result(withExtension, "tasks/update", id, answered(id, `"k":{"action":"accept","content":{}}`))
	requests := s.get(withExtension, id, "input_required")["inputRequests"].(map[string]any)
	if len(requests) != 2 || at(requests, "k#2", "params", "message") != "K2?" || at(requests, "k#3", "params", "message") != "K?" {
		t.Fatalf("%v", requests)
	}
	s.result(withExtension, "tasks/update", id, answered(id, `"k#2":{"action":"accept","content":{"color":"2"}},"k#3":{"action":"accept","content":{"color":"1"}}`))
	if done := s.get(withExtension, id, "completed"); content(at(done, "result").(map[string]any)) != "12" {
		t.Errorf("%v", done)
	}
}

func TestAnswersThatChangeNothing(t *testing.T) {
	store := new(task.MemoryStore)
	var runs atomic.Int32
	s := newTaskServerOn(t, store, nil, addText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		runs.Add(1)
		a, err1 := askback.Elicit[color](call, "a", "A?")
		b, err2 := askback.Elicit[color](call, "b", "B?")
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		return a.Color + b.Color, nil
	}))
	id := s.result(withExtension, "tools/call", "t", `"name":"t"`)["taskId"].(string)
	s.get(withExtension, id, "input_required")
	version := func() int64 {
		now, err := store.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return now.Version
	}
	before := version()
	s.result(withExtension, "tasks/update", id, answered(id, `"unknown":{"action":"accept"}`))
	if now := version(); now != before {
		t.Errorf("an answer to no question was written")
	}
	// While a question is open the handler does not run: nothing could come of it.
	s.result(withExtension, "tasks/update", id, answered(id, `"a":{"action":"accept","content":{"color":"1"}}`))
	if claimed, err := store.Claim(t.Context(), "", time.Minute); err != nil || claimed != nil {
		t.Errorf("a task that still asks is due: %v, %v", claimed, err)
	}
	s.result(withExtension, "tasks/update", id, answered(id, `"b":{"action":"accept","content":{"color":"2"}}`))
	s.get(withExtension, id, "completed")
	if n := runs.Load(); n != 2 {
		t.Errorf("%d runs", n)
	}
}

func TestTaskThatFailsByItsAnswersCleansUp(t *testing.T) {
	undone := make(chan struct{}, 10)
	s := newTaskServer(t, &askback.Options{Limits: askback.Limits{Rounds: 1}}, addText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		call.OnCancel(func(context.Context) error { undone <- struct{}{}; return nil })
		_, err := askback.Elicit[color](call, "c", "Which?")
		return "", err
	}))
	id := s.result(withExtension, "tools/call", "t", `"name":"t"`)["taskId"].(string)
	s.get(withExtension, id, "input_required")
	s.result(withExtension, "tasks/update", id, answered(id, `"c":{"action":"accept","content":{}}`))
	s.get(withExtension, id, "failed")
	come(t, "cleaning up", undone, 1)
}

// The last refused answer that a call's rounds pay for is asked again.
func TestEveryRoundOfATaskMayBeUsed(t *testing.T) {
	s := newTaskServer(t, &askback.Options{Limits: askback.Limits{Rounds: 2}}, addEcho)
	id := s.result(withExtension, "tools/call", "echo", `"name":"echo"`)["taskId"].(string)
	s.get(withExtension, id, "input_required")
	s.result(withExtension, "tasks/update", id, answered(id, `"echo_input":{"action":"accept","content":{}}`))
	s.get(withExtension, id, "input_required")
	s.result(withExtension, "tasks/update", id, answered(id, `"echo_input#2":{"action":"accept","content":{"input":"x"}}`))
	s.get(withExtension, id, "completed")
}

func TestTimeToLiveOfACallThatIsATask(t *testing.T) {
	s := newTaskServer(t, nil, addText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		_, err := askback.Elicit[color](call, "c", "Which?")
		return "", err
	}))
	id := at(s.result(proposalOnly, "tools/call", "t", `"name":"t","task":{"ttl":300}`), "task", "taskId").(string)
	now := s.get(withExtension, id, "failed") // the same task, to a client of the extension
	if at(now, "error", "code") != -32603.0 || !strings.Contains(fmt.Sprint(at(now, "error", "message")), "time to live of 300ms") || now["statusMessage"] != at(now, "error", "message") {
		t.Errorf("%v", now)
	}
	if code, message := s.fault(proposalOnly, "tasks/result", "", `"taskId":"`+id+`"`); code != -32603 || !strings.Contains(message, "time to live") {
		t.Errorf("tasks/result: %d %s", code, message)
	}
}

func TestOptionsReachTheWorkers(t *testing.T) {
	var running, most atomic.Int32
	s := newTaskServer(t, &askback.Options{Tasks: &askback.Tasks{Settings: task.Settings{Workers: 1}}}, addText("t", nil, func(context.Context, *askback.Call) (string, error) {
		n := running.Add(1)
		most.Store(max(most.Load(), n))
		time.Sleep(10 * time.Millisecond) // work
		running.Add(-1)
		return "", nil
	}))
	var ids []string
	for range 5 {
		ids = append(ids, s.result(withExtension, "tools/call", "t", `"name":"t"`)["taskId"].(string))
	}
	for _, id := range ids {
		s.get(withExtension, id, "completed")
	}
	if most.Load() != 1 {
		t.Errorf("%d ran at once", most.Load())
	}
}

func TestProcessThatRunsTasksDoesNotWarn(t *testing.T) {
	log := new(safeBuffer)
	s := newTaskServer(t, &askback.Options{Logger: slog.New(slog.NewJSONHandler(log, nil))}, addText("t", nil, func(context.Context, *askback.Call) (string, error) { return "", nil }))
	// It runs them once one is completed.
	for range 2 {
		s.get(withExtension, s.result(withExtension, "tools/call", "t", `"name":"t"`)["taskId"].(string), "completed")
	}
	if strings.Count(log.String(), "call Server.RunTasks") > 1 {
		t.Errorf("the log has %s", log)
	}
}

func TestProgressOfATask(t *testing.T) {
	for _, c := range []struct {
		total         float64
		message, want string
	}{{0, "", "1"}, {3, "", "1 of 3"}, {0, "laying bricks", "laying bricks"}, {3, "laying bricks", "laying bricks (1 of 3)"}} {
		gate := make(chan struct{})
		s := newTaskServer(t, nil, addText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
			err := call.Progress(ctx, 1, c.total, c.message)
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return "", err
		}))
		id := s.result(withExtension, "tools/call", "t", `"name":"t"`)["taskId"].(string)
		eventually(t, c.want, func() bool {
			return s.result(withExtension, "tasks/get", id, `"taskId":"`+id+`"`)["statusMessage"] == c.want
		})
		close(gate)
	}
}

// A round that becomes a task at once takes the answers that it brings.
func TestRoundThatBecomesATaskKeepsItsAnswers(t *testing.T) {
	s := newTaskServer(t, nil, addEcho)
	asked := s.result(proposalOnly, "tools/call", "echo", `"name":"echo"`)
	created := s.result(withExtension, "tools/call", "echo", `"name":"echo","inputResponses":{"echo_input":{"action":"accept","content":{"input":"x"}}},"requestState":"`+asked["requestState"].(string)+`"`)
	if done := s.get(withExtension, created["taskId"].(string), "completed"); content(at(done, "result").(map[string]any)) != "Echo: x" {
		t.Errorf("%v", done)
	}
}

func TestManualStyleIsNoTask(t *testing.T) {
	s := newTaskServer(t, nil, func(s *askback.Server) {
		askback.AddTaskTool(s, &mcp.Tool{Name: "manual"}, nil, func(context.Context, *askback.Call, struct{}) (*mcp.CallToolResult, error) {
			return &mcp.CallToolResult{RequestState: "mine"}, nil
		})
	})
	id := s.result(withExtension, "tools/call", "manual", `"name":"manual"`)["taskId"].(string)
	if done := s.get(withExtension, id, "completed"); at(done, "result", "isError") != true || !strings.Contains(fmt.Sprint(done), "manual style") {
		t.Errorf("%v", done)
	}
}

func TestDetachDoesNotPassAnOpenQuestion(t *testing.T) {
	passed := make(chan error, 10)
	s := newTaskServer(t, nil, addText("t", &askback.TaskSupport{AtDetach: true}, func(ctx context.Context, call *askback.Call) (string, error) {
		_, err := askback.Elicit[color](call, "c", "Which?") // not looked at before the Detach
		detached := call.Detach()
		passed <- detached
		return "", errors.Join(err, detached)
	}))
	for _, capabilities := range []string{proposalOnly, withExtension} {
		if got := s.result(capabilities, "tools/call", "t", `"name":"t"`); got["resultType"] != "input_required" {
			t.Errorf("%v", got)
		}
		if err := <-passed; !errors.Is(err, askback.ErrInputRequired) {
			t.Errorf("%s: Detach: %v", capabilities, err)
		}
	}
}

func TestProposalTaskForAClientWithoutTheExtension(t *testing.T) {
	gate := make(chan struct{})
	s := newTaskServer(t, nil, addText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		got, err := askback.Elicit[color](call, "c", "Which?")
		if err == nil {
			select {
			case <-gate:
			case <-ctx.Done():
			}
		}
		return got.Color, err
	}))
	created := s.result(proposalOnly, "tools/call", "t", `"name":"t","task":{"ttl":null}`)
	id, _ := at(created, "task", "taskId").(string)
	if at(created, "task", "ttl") != 86400000.0 || at(created, "_meta", "io.modelcontextprotocol/serverInfo", "name") != "test" {
		t.Errorf("created %v", created)
	}
	s.get(proposalOnly, id, "input_required")
	if code, _ := s.fault(proposalOnly, "tasks/update", "", answered(id, `"c":{"action":"decline"}`)); code != -32021 {
		t.Errorf("tasks/update: %d", code)
	}
	if code, _ := s.fault(proposalOnly, "tasks/get", "another", `"taskId":"`+id+`"`); code != -32020 {
		t.Errorf("with another Mcp-Name: %d", code)
	}
	s.result(proposalOnly, "tasks/input_response", "", answered(id, `"c":{"action":"accept","content":{"color":"red"}}`))
	if now := s.get(proposalOnly, id, "working"); now["statusMessage"] != "The operation is now in progress." {
		t.Errorf("%v", now)
	}
	close(gate)
	if final := s.result(proposalOnly, "tasks/result", "", `"taskId":"`+id+`"`); at(final, "_meta", "io.modelcontextprotocol/serverInfo", "name") != "test" {
		t.Errorf("%v", final)
	}
}

func TestRoundThatIsRepeatedLaterTellsHowItsTaskStands(t *testing.T) {
	var first, second atomic.Int32
	s := newTaskServer(t, nil, addPainter(&first, &second))
	asked := s.result(withExtension, "tools/call", "paint", `"name":"paint"`)
	again := `"name":"paint","inputResponses":{"base":{"action":"accept","content":{"color":"red"}}},"requestState":"` + asked["requestState"].(string) + `"`
	id := s.result(withExtension, "tools/call", "paint", again)["taskId"].(string)
	s.get(withExtension, id, "input_required")
	if got := s.result(withExtension, "tools/call", "paint", again); got["status"] != "input_required" || got["statusMessage"] != nil {
		t.Errorf("%v", got)
	}
}

// counting is a store that counts how often a row is read.
type counting struct {
	task.Store
	gets atomic.Int32
}

func (c *counting) Get(ctx context.Context, id string) (*task.Task, error) {
	c.gets.Add(1)
	return c.Store.Get(ctx, id)
}

func TestWaitingForAResultCostsNothing(t *testing.T) {
	store := &counting{Store: new(task.MemoryStore)}
	gate := make(chan struct{})
	log := new(safeBuffer)
	s := newTaskServerOn(t, store, &askback.Options{Logger: slog.New(slog.NewJSONHandler(log, nil))}, addText("t", nil, func(context.Context, *askback.Call) (string, error) {
		<-gate
		return "", nil
	}))
	defer close(gate)
	id := at(s.result(proposalOnly, "tools/call", "t", `"name":"t","task":{}`), "task", "taskId").(string)
	before := store.gets.Load()
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r := request{method: "tasks/result", header: http.Header{"Mcp-Name": nil},
			body: `{"jsonrpc":"2.0","id":1,"method":"tasks/result","params":{"taskId":"` + id + `","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
			ctx:  func(r *http.Request) *http.Request { return r.WithContext(ctx) }}
		r.send(t, s.handler)
	}()
	eventually(t, "look", func() bool { return store.gets.Load() >= before+2 })
	before = store.gets.Load()
	const others = 50
	for range others { // while other requests are served
		s.result(proposalOnly, "tasks/get", "", `"taskId":"`+id+`"`)
	}
	if n := store.gets.Load() - before; n > others+20 {
		t.Errorf("%d rows were read for %d requests", n, others)
	}
	leave()
	<-gone
	// What a client leaves is no failure of the store.
	if strings.Contains(log.String(), "waiting for a task failed") {
		t.Errorf("the log has %s", log)
	}
}

func TestEveryKindOfQuestionInATask(t *testing.T) {
	sampling := &mcp.CreateMessageWithToolsParams{MaxTokens: 1, Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "?"}}}}}
	tools := *sampling
	tools.Tools = []*mcp.Tool{{Name: "hammer", InputSchema: map[string]any{"type": "object"}}}
	add := addText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		var sampled, used *mcp.CreateMessageWithToolsResult
		var roots []*mcp.Root
		var err error
		if err = askback.ElicitURL(call, "url", "Please pay", "https://example.com/pay"); err != nil {
			return "", err
		}
		if sampled, err = askback.Sample(call, "sample", sampling); err != nil {
			return "", err
		}
		if used, err = askback.Sample(call, "use", &tools); err != nil {
			return "", err
		}
		if roots, err = askback.Roots(call, "roots"); err != nil {
			return "", err
		}
		return fmt.Sprint(len(sampled.Content), len(used.Content), len(roots)), nil
	})
	const can = `{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	s := newTaskServer(t, nil, add)
	id := s.result(can, "tools/call", "t", `"name":"t"`)["taskId"].(string)
	const plain, use = `{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}`, `{"role":"assistant","model":"m","content":[{"type":"tool_use","id":"1","name":"hammer","input":{}}]}`
	for _, step := range [][2]string{
		{"url", `{"action":"accept"}`},
		{"sample", use}, {"sample#2", plain}, // tools that were not offered are refused
		{"use", use},
		{"roots", `{"roots":[{"uri":"https://example.com"}]}`}, {"roots#2", `{"roots":[{"uri":"file:///x"}]}`},
	} {
		eventually(t, "question "+step[0], func() bool {
			return at(s.result(can, "tasks/get", id, `"taskId":"`+id+`"`), "inputRequests", step[0]) != nil
		})
		s.result(can, "tasks/update", id, answered(id, `"`+step[0]+`":`+step[1]))
	}
	if done := s.get(can, id, "completed"); content(at(done, "result").(map[string]any)) != "1 1 1" {
		t.Errorf("%v", done)
	}
}

// Each request of the server in a session says of which task it is.
func TestQuestionsOfASessionSayTheirTask(t *testing.T) {
	c := taskPipe(t, addText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		if _, err := askback.Sample(call, "sample", &mcp.CreateMessageWithToolsParams{MaxTokens: 1, Messages: []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{&mcp.TextContent{Text: "?"}}}}}); err != nil {
			return "", err
		}
		_, err := askback.Roots(call, "roots")
		return "done", err
	}))
	c.call(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{"sampling":{},"roots":{}},"clientInfo":{"name":"c","version":"1"}`, "")
	c.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	id, _ := at(c.call(2, "tools/call", `"name":"t","task":{}`, ""), "result", "task", "taskId").(string)
	c.request(3, "tasks/result", `"taskId":"`+id+`"`, "")
	for _, step := range [][2]string{
		{"sampling/createMessage", `{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}`},
		{"roots/list", `{"roots":[]}`},
	} {
		q := c.until(step[0], func(m map[string]any) bool { return m["method"] == step[0] })
		if at(q, "params", "_meta", "io.modelcontextprotocol/related-task", "taskId") != id {
			t.Errorf("%v", q)
		}
		c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":%s}`, quoteID(q["id"]), step[1]))
	}
	if final := c.response(3); at(final, "result", "isError") != false {
		t.Errorf("%v", final)
	}
}

func quoteID(id any) string {
	if s, ok := id.(string); ok {
		return quote(s)
	}
	return fmt.Sprint(id)
}

// Through the SDK, too, a task is its principal's, and parameters are checked.
func TestPrincipalsOverStdio(t *testing.T) {
	store := new(task.MemoryStore)
	var who atomic.Value
	who.Store("alice")
	srv := newServer(t, &askback.Options{
		Principal: func(context.Context, *mcp.RequestExtra) (string, error) { return who.Load().(string), nil },
		Tasks:     &askback.Tasks{Store: store},
	}, addEcho)
	c := pipeOn(t, srv)
	id, _ := at(c.call(1, "tools/call", `"name":"echo"`, withExtension), "result", "taskId").(string)
	listen := func(request int) any {
		c.request(request, "subscriptions/listen", `"notifications":{"taskIds":["`+id+`"]}`, withExtension)
		ack := c.until("acknowledgment", func(m map[string]any) bool {
			return m["method"] == "notifications/subscriptions/acknowledged" && at(m, "params", "_meta", "io.modelcontextprotocol/subscriptionId") == float64(request)
		})
		return fmt.Sprint(at(ack, "params", "notifications", "taskIds"))
	}
	if now := c.call(2, "tasks/get", `"taskId":"`+id+`"`, withExtension); at(now, "result", "status") != "working" {
		t.Errorf("%v", now)
	}
	if got := listen(3); got != "["+id+"]" {
		t.Errorf("agreed to %v", got)
	}
	if twice := c.call(4, "tasks/get", `"taskId":"`+id+`","taskId":"x"`, withExtension); at(twice, "error", "code") != -32700.0 {
		t.Errorf("a member that is there twice: %v", twice)
	}
	who.Store("bob")
	if foreign := c.call(5, "tasks/get", `"taskId":"`+id+`"`, withExtension); at(foreign, "error", "code") != -32602.0 {
		t.Errorf("%v", foreign)
	}
	if got := listen(6); got != "[]" {
		t.Errorf("agreed to %v", got)
	}
	// A server that can tell callers apart offers lists.
	old := pipeOn(t, srv)
	hello := old.call(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`, "")
	if at(hello, "result", "capabilities", "tasks", "list") == nil {
		t.Errorf("%v", hello)
	}
}

func TestSubscriptionToAForeignTask(t *testing.T) {
	principal := func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
		return extra.Header.Get("X-User"), nil
	}
	s := newTaskServer(t, &askback.Options{Principal: principal}, addEcho)
	_, response := s.send(withExtension, "tools/call", "echo", `"name":"echo"`, "X-User: alice")
	id := at(response, "result", "taskId").(string)
	// Of nothing it ends at once, with no word of the task.
	r := request{method: "subscriptions/listen", header: http.Header{"X-User": {"bob"}, "Mcp-Name": nil},
		body: `{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":{"taskIds":["` + id + `"]},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + withExtension + `}}}`,
		ctx: func(r *http.Request) *http.Request {
			ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
			t.Cleanup(cancel)
			return r.WithContext(ctx)
		}}
	if res := r.send(t, s.handler); strings.Contains(res.raw, id) || !strings.Contains(res.raw, `"taskIds":[]`) || res.Result == nil {
		t.Errorf("%s", res.raw)
	}
}

func TestSubscriptionToTooManyTasks(t *testing.T) {
	s := newTaskServer(t, nil, addEcho)
	ids := strings.TrimSuffix(strings.Repeat(`"x",`, 65), ",")
	if code, _ := s.fault(withExtension, "subscriptions/listen", "", `"notifications":{"taskIds":[`+ids+`]}`); code != -32602 {
		t.Errorf("%d", code)
	}
}

// What else a subscription asks for goes on after its tasks have ended, and is told.
func TestRestOfASubscriptionGoesOn(t *testing.T) {
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) {
			store := new(task.MemoryStore)
			var server *askback.Server
			quick := addText("quick", nil, func(context.Context, *askback.Call) (string, error) { return "", nil })
			s := newTaskServerOn(t, store, nil, quick, func(s *askback.Server) { server = s })
			var listening *conversation
			if transport == "stdio" {
				listening = pipeOn(t, server)
			} else {
				listening = streamOf(t, s)
			}
			id := s.result(withExtension, "tools/call", "quick", `"name":"quick"`)["taskId"].(string)
			listening.request(50, "subscriptions/listen", `"notifications":{"taskIds":["`+id+`","`+id+`"],"toolsListChanged":true}`, withExtension)
			ack := listening.until(notification("notifications/subscriptions/acknowledged", ""))
			if ids := at(ack, "params", "notifications", "taskIds"); fmt.Sprint(ids) != "["+id+"]" {
				t.Errorf("acknowledged %v", ack)
			}
			listening.until(notification("notifications/tasks", "completed"))
			addText("another", nil, func(context.Context, *askback.Call) (string, error) { return "", nil })(server)
			listening.until(notification("notifications/tools/list_changed", ""))
		})
	}
}

// streamOf returns a conversation for one subscription over HTTP.
func streamOf(t *testing.T, s *taskServer) *conversation {
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	c := &conversation{t: t, read: make(chan map[string]any, 100)}
	c.write = func(message string) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, strings.NewReader(message))
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range []string{"Content-Type: application/json", "Accept: application/json, text/event-stream", "Mcp-Protocol-Version: 2026-07-28", "Mcp-Method: subscriptions/listen"} {
			key, value, _ := strings.Cut(h, ": ")
			req.Header.Set(key, value)
		}
		all.Go(func() {
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				return // cancelled
			}
			defer res.Body.Close()
			c.scan(res.Body, "data: ")
		})
	}
	t.Cleanup(func() { cancel(); all.Wait() })
	return c
}

// The SDK's refusal of what else a subscription asks for is its answer.
func TestSubscriptionThatTheSDKRefuses(t *testing.T) {
	add := func(s *askback.Server) {
		addEcho(s)
		s.AddResource(&mcp.Resource{Name: "r", URI: "file:///r"}, func(context.Context, *askback.Call, string) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{}, nil
		})
	}
	s := newTaskServer(t, nil, add)
	status, response := s.send(withExtension, "subscriptions/listen", "", `"notifications":{"taskIds":["x"],"toolsListChanged":"no boolean"}`)
	if status != http.StatusBadRequest || at(response, "error", "code") == nil {
		t.Errorf("%d %v", status, response)
	}
}

// Subscriptions that ended, or were refused, make room for others.
func TestSubscriptionsOfOneConnectionOneAfterAnother(t *testing.T) {
	c := taskPipe(t, addText("quick", nil, func(context.Context, *askback.Call) (string, error) { return "", nil }))
	id, _ := at(c.call(1, "tools/call", `"name":"quick"`, withExtension), "result", "taskId").(string)
	for i := range 40 {
		if res := c.call(100+i, "subscriptions/listen", `"notifications":{"taskIds":["`+id+`"]}`, withExtension); at(res, "result", "resultType") != "complete" {
			t.Fatalf("subscription %d: %v", i, res)
		}
	}
	for i := range 40 {
		if res := c.call(200+i, "subscriptions/listen", `"notifications":{"taskIds":[7],"toolsListChanged":true}`, withExtension); at(res, "error", "code") != -32602.0 {
			t.Fatalf("refused subscription %d: %v", i, res)
		}
	}
	for i := range 40 {
		if res := c.call(300+i, "subscriptions/listen", `"notifications":{"taskIds":["`+id+`"],"toolsListChanged":"no boolean"}`, withExtension); at(res, "error", "code") == -32600.0 && strings.Contains(fmt.Sprint(res), "too many") {
			t.Fatalf("subscription %d that the SDK refused: %v", i, res)
		}
	}
}

func TestSubscriptionWithTheIDOfAnother(t *testing.T) {
	c := taskPipe(t, addEcho)
	id, _ := at(c.call(1, "tools/call", `"name":"echo"`, withExtension), "result", "taskId").(string)
	filter := `"notifications":{"taskIds":["` + id + `"]}`
	c.request(50, "subscriptions/listen", filter, withExtension)
	c.until(notification("notifications/tasks", "input_required"))
	if res := c.call(50, "subscriptions/listen", filter, withExtension); at(res, "error", "code") != -32600.0 {
		t.Errorf("%v", res)
	}
	// The first one goes on.
	c.call(3, "tasks/update", answered(id, `"echo_input":{"action":"accept","content":{"input":"x"}}`), withExtension)
	c.until(notification("notifications/tasks", "completed"))
}

// Over stdio a session before 2026-07-28 is told of all its tasks, one after another, and
// of none before it changed; a modern client is told nothing unasked.
func TestWhoIsToldOfTasksUnasked(t *testing.T) {
	quick := addText("quick", nil, func(context.Context, *askback.Call) (string, error) { return "", nil })
	c := taskPipe(t, quick)
	c.call(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}`, "")
	c.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	for i := range 70 {
		id := at(c.call(100+i, "tools/call", `"name":"quick","task":{}`, ""), "result", "task", "taskId")
		c.until(fmt.Sprintf("notification of task %d", i), func(m map[string]any) bool {
			if strings.Contains(fmt.Sprint(at(m, "params", "statusMessage")), "has been created") {
				t.Errorf("told of its creation: %v", m)
			}
			return m["method"] == "notifications/tasks/status" && at(m, "params", "taskId") == id && at(m, "params", "status") == "completed"
		})
	}
	modern := taskPipe(t, quick)
	for i := range 5 {
		id, _ := at(modern.call(100+i, "tools/call", `"name":"quick","task":{}`, proposalOnly), "result", "task", "taskId").(string)
		modern.call(200+i, "tasks/result", `"taskId":"`+id+`"`, proposalOnly)
	}
	for _, m := range modern.kept {
		t.Errorf("a modern client was told unasked: %v", m)
	}
}

func TestModernListOfToolsHasNoExecution(t *testing.T) {
	c := taskPipe(t, addEcho)
	for _, tool := range at(c.call(1, "tools/list", "", withExtension), "result", "tools").([]any) {
		if at(tool, "execution") != nil {
			t.Errorf("%v", tool)
		}
	}
}

// purging is a store that tells how long ended tasks are kept.
type purging struct {
	task.Store
	grace chan time.Duration
}

func (p *purging) Purge(ctx context.Context, grace time.Duration, limit int) (int, error) {
	select {
	case p.grace <- grace:
	default:
	}
	return p.Store.Purge(ctx, grace, limit)
}

// A round that detached can be repeated for as long as its state lives.
func TestTasksAreKeptAsLongAsARoundCanBeRepeated(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{0: time.Hour, time.Minute: 10 * time.Minute, 3 * time.Hour: 3 * time.Hour} {
		store := &purging{new(task.MemoryStore), make(chan time.Duration, 1)}
		newTaskServerOn(t, store, &askback.Options{Limits: askback.Limits{RoundTTL: ttl}}, addEcho)
		if got := <-store.grace; got != want {
			t.Errorf("RoundTTL %v: kept for %v, want %v", ttl, got, want)
		}
	}
}

// All open questions of a task go out together, and none is answered by the server itself.
func TestSessionIsAskedAllQuestionsOfATask(t *testing.T) {
	c := taskPipe(t, addText("two", nil, func(ctx context.Context, call *askback.Call) (string, error) {
		a, err1 := askback.Elicit[color](call, "a", "A?")
		b, err2 := askback.Elicit[color](call, "b", "B?")
		if err := errors.Join(err1, err2); err != nil {
			return "", err
		}
		return a.Color + b.Color, nil
	}))
	c.call(1, "initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"c","version":"1"}`, "")
	c.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	id, _ := at(c.call(2, "tools/call", `"name":"two","task":{}`, ""), "result", "task", "taskId").(string)
	c.request(3, "tasks/result", `"taskId":"`+id+`"`, "")
	keys := map[any]bool{}
	for range 2 {
		q := c.until("question", func(m map[string]any) bool { return m["method"] == "elicitation/create" })
		keys[at(q, "params", "_meta", "io.github.askback-mcp/key")] = true
		message := fmt.Sprint(at(q, "params", "message"))
		c.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%v,"result":{"action":"accept","content":{"color":%q}}}`, quoteID(q["id"]), message[:1]))
	}
	if !keys["a"] || !keys["b"] {
		t.Errorf("asked under the keys %v", keys)
	}
	if final := c.response(3); content(at(final, "result").(map[string]any)) != "AB" {
		t.Errorf("%v", final)
	}
}

// A subscription to tasks does not end because nothing else of it was agreed to.
func TestSubscriptionOutlivesWhatTheServerDoesNotHave(t *testing.T) {
	for _, transport := range []string{"stdio", "http"} {
		for _, more := range []string{`"toolsListChanged":false`, `"promptsListChanged":true`} {
			t.Run(transport+" "+more, func(t *testing.T) {
				var server *askback.Server
				s := newTaskServer(t, nil, addEcho, func(s *askback.Server) { server = s })
				var c *conversation
				if transport == "stdio" {
					c = pipeOn(t, server)
				} else {
					c = streamOf(t, s)
				}
				id := s.result(withExtension, "tools/call", "echo", `"name":"echo"`)["taskId"].(string)
				c.request(50, "subscriptions/listen", `"notifications":{"taskIds":["`+id+`"],`+more+`}`, withExtension)
				c.until(notification("notifications/tasks", "input_required"))
				s.result(withExtension, "tasks/update", id, answered(id, `"echo_input":{"action":"accept","content":{"input":"x"}}`))
				s.get(withExtension, id, "completed")
				timeout := time.After(5 * time.Second)
				var seen []map[string]any
				for {
					select {
					case m := <-c.read:
						seen = append(seen, m)
						if at(m, "params", "status") == "completed" {
							return
						}
					case <-timeout:
						t.Fatalf("not told of the end; there came %v, kept %v", seen, c.kept)
					}
				}
			})
		}
	}
}

// Who cannot be identified gets 403 from every method.
func TestStatusOfARefusedPrincipal(t *testing.T) {
	refuse := false
	s := newTaskServer(t, &askback.Options{Principal: func(context.Context, *mcp.RequestExtra) (string, error) {
		if refuse {
			return "", fmt.Errorf("unknown")
		}
		return "alice", nil
	}}, addEcho)
	id := s.result(withExtension, "tools/call", "echo", `"name":"echo"`)["taskId"].(string)
	refuse = true
	for _, c := range [][3]string{{"tools/call", "echo", `"name":"echo"`}, {"tasks/get", id, `"taskId":"` + id + `"`}, {"subscriptions/listen", "", `"notifications":{"taskIds":["` + id + `"]}`}} {
		status, res := s.send(withExtension, c[0], c[1], c[2])
		if status != 403 {
			t.Errorf("%s: %d %v", c[0], status, strings.TrimSpace(fmt.Sprint(res)))
		}
	}
}
