package tasks_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// taskUpdateDue makes a claimed task due, as if its lease had ended.
var taskUpdateDue = task.Update{}

func TestAnotherInstanceGoesOn(t *testing.T) {
	t.Parallel()
	store := new(task.MemoryStore)
	var first, second atomic.Int32
	ring := harness.NewRing(t)
	a := harness.NewTaskServerOn(t, store, &askback.Options{Keys: ring}, addPainter(&first, &second))
	b := harness.NewTaskServerOn(t, store, &askback.Options{Keys: ring}, addPainter(&first, &second))
	asked := a.Result(harness.WithExtension, "tools/call", "paint", `"name":"paint"`)
	created := b.Result(harness.WithExtension, "tools/call", "paint",
		`"name":"paint","inputResponses":{"base":{"action":"accept","content":{"color":"red"}}},`+
			`"requestState":"`+asked["requestState"].(string)+`"`)
	id := created["taskId"].(string)
	a.Get(harness.WithExtension, id, "input_required")
	b.Result(harness.WithExtension, "tasks/update", id,
		`"taskId":"`+id+`","inputResponses":{"top":{"action":"accept","content":{"color":"blue"}}}`)
	expect.Equal(t, "the result", harness.At(a.Get(harness.WithExtension, id, "completed"), "result",
		"content").([]any)[0].(map[string]any)["text"], "red+white/blue")
	if first.Load() != 1 || second.Load() != 1 {
		t.Errorf("mixed %d times, painted %d times", first.Load(), second.Load())
	}
}

// One worker runs one task at a time, beside another one for first runs.
func TestOptionsReachTheWorkers(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int32
	s := harness.NewTaskServer(t, &askback.Options{Tasks: &askback.Tasks{Settings: task.Settings{Workers: 1}}},
		harness.AddText("t", nil, func(context.Context, *askback.Call) (string, error) {
			n := running.Add(1)
			most.Store(max(most.Load(), n))
			time.Sleep(10 * time.Millisecond) // work
			running.Add(-1)
			return "", nil
		}))
	var ids []string
	for range 5 {
		ids = append(ids, s.Start(harness.WithExtension, `"name":"t"`))
	}
	for _, id := range ids {
		s.Get(harness.WithExtension, id, "completed")
	}
	if most.Load() > 2 {
		t.Errorf("%d ran at once", most.Load())
	}
}

func TestProcessThatRunsTasksDoesNotWarn(t *testing.T) {
	t.Parallel()
	log := new(harness.Log)
	s := harness.NewTaskServer(t, &askback.Options{Logger: slog.New(slog.NewJSONHandler(log, nil))},
		harness.AddText("t", nil, func(context.Context, *askback.Call) (string, error) { return "", nil }))
	// It runs the others once one is completed.
	for range 2 {
		s.Get(harness.WithExtension, s.Start(harness.WithExtension, `"name":"t"`),
			"completed")
	}
	if strings.Count(log.String(), "call Server.RunTasks") > 1 {
		t.Errorf("the log has %s", log)
	}
}

func TestToolThatIsNoTaskToolHereIsLeftToOthers(t *testing.T) {
	synctest.Test(t, testToolThatIsNoTaskToolHereIsLeftToOthers)
}

func testToolThatIsNoTaskToolHereIsLeftToOthers(t *testing.T) {
	// each instance polls at its own time; a write does not wake both
	store := struct{ task.Store }{new(task.MemoryStore)}
	log := new(harness.Log)
	plain := harness.AddTool("t", func(context.Context, *askback.Call, struct{}) (string, error) {
		return "plain", nil
	})
	harness.NewTaskServerOn(t, store, &askback.Options{Logger: slog.New(slog.NewJSONHandler(log, nil))}, plain)
	srv := harness.NewServer(t, &askback.Options{Tasks: &askback.Tasks{Store: store}},
		harness.AddText("t", nil, func(context.Context, *askback.Call) (string, error) { return "a task", nil }))
	s := harness.ServeTasks(t, srv)
	id := s.Start(harness.WithExtension, `"name":"t"`)
	log.Has(t, "leaving tasks of this target to other processes")
	harness.Eventually(t, "update", func() bool { // skips the pause
		now, err := store.Get(t.Context(), id)
		return err == nil && now.Version > 0 && store.Update(t.Context(), now, taskUpdateDue) == nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = srv.RunTasks(ctx) })
	defer all.Wait()
	defer cancel()
	expect.Equal(t, "the result", s.Text(harness.WithExtension, id), "a task")
}

func TestStepsEndWithTheLease(t *testing.T) {
	t.Parallel()
	claimed := make(chan struct{})
	ran := make(chan string, 10)
	var runs atomic.Int32
	store := struct{ task.Store }{new(task.MemoryStore)} // it does not notify the worker
	add := harness.AddTask("two", nil, func(ctx context.Context, call *askback.Call,
		_ struct{}) (*mcp.CallToolResult, error) {
		if runs.Add(1) > 1 {
			<-ctx.Done() // this is the next worker's run
			return nil, ctx.Err()
		}
		first := call.Do(ctx, "one", func(context.Context) error {
			claimed <- struct{}{}
			<-claimed
			return nil
		})
		// The second step does not run, although the handler ignores the error of the first.
		second := call.Do(ctx, "two", func(context.Context) error { ran <- "two"; return nil })
		ran <- fmt.Sprint(first != nil, second != nil)
		return nil, second
	})
	s := harness.NewTaskServerOn(t, store, nil, add)
	id := s.Start(harness.WithExtension, `"name":"two"`)
	<-claimed
	now, err := store.Get(t.Context(), id)
	expect.Check(t, err)
	fence := now.Fence
	expect.Check(t, store.Update(t.Context(), now, taskUpdateDue))
	for now.Fence == fence {
		if now, err = store.Get(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	claimed <- struct{}{}
	expect.Equal(t, "after the lease was lost", <-ran, "true true")
}

// appendFails is a store whose Append fails while it is switched on.
type appendFails struct {
	task.Store
	failing atomic.Bool
}

func (a *appendFails) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	if a.failing.Load() {
		return errors.New("out of reach")
	}
	return a.Store.Append(ctx, id, claim, there, entry)
}

func TestRunWhoseStepWasNotRecordedCountsForNothing(t *testing.T) {
	synctest.Test(t, testRunWhoseStepWasNotRecordedCountsForNothing)
}

func testRunWhoseStepWasNotRecordedCountsForNothing(t *testing.T) {
	store := &appendFails{Store: new(task.MemoryStore)}
	store.failing.Store(true)
	s := harness.NewTaskServerOn(t, store,
		&askback.Options{Tasks: &askback.Tasks{Settings: task.Settings{Lease: 300 * time.Millisecond}}},
		harness.AddText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
			n, err := askback.Do(ctx, call, "step", func(context.Context) (int, error) { return 7, nil })
			if err != nil {
				store.failing.Store(false)
				return "", err
			}
			return fmt.Sprint(n), nil
		}))
	id := s.Start(harness.WithExtension, `"name":"t"`)
	expect.Equal(t, "the result", s.Text(harness.WithExtension, id), "7")
}

// Serving and running tasks begin at once, so a task may be created before RunTasks is called. Only a process that
// still does not run any a while later is told so.
func TestAProcessThatRunsNoTasksIsTold(t *testing.T) {
	t.Parallel()
	for says, runs := range map[string]bool{"it runs tasks soon": true, "it runs none": false} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				logger, log := harness.Logs()
				srv := harness.NewServer(t, &askback.Options{Logger: logger, Tasks: &askback.Tasks{Store: new(task.MemoryStore)}},
					harness.AddEcho)
				r := httptest.NewRequest(http.MethodPost, "/mcp",
					strings.NewReader(harness.Message(1, "tools/call", `"name":"echo"`, harness.WithExtension)))
				for name, value := range map[string]string{
					"Content-Type":         "application/json",
					"Accept":               "application/json, text/event-stream",
					"MCP-Protocol-Version": "2026-07-28",
					"Mcp-Method":           "tools/call",
					"Mcp-Name":             "echo",
				} {
					r.Header.Set(name, value)
				}
				w := httptest.NewRecorder()
				srv.HTTPHandler(nil).ServeHTTP(w, r)
				if !strings.Contains(w.Body.String(), "taskId") {
					t.Fatalf("no task was created: %s", w.Body)
				}
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				if runs {
					running.Go(func() { _ = srv.RunTasks(ctx) })
				}
				time.Sleep(time.Minute)
				stop()
				running.Wait()
				if told := strings.Contains(log.String(), "call Server.RunTasks"); told == runs {
					t.Errorf("the log has %q", log.String())
				}
			})
		})
	}
}

// addPainter adds a tool that asks in a round, detaches, does a step, asks again and does
// another step. It counts how often each step runs.
func addPainter(first, second *atomic.Int32) func(s *askback.Server) {
	return harness.AddText("paint", &askback.TaskSupport{AtDetach: true},
		func(ctx context.Context, call *askback.Call) (string, error) {
			base, err := askback.Elicit[harness.Color](call, "base", "Which base?")
			if err != nil {
				return "", err
			}
			mixed, err := askback.Do(ctx, call, "mix", func(context.Context) (string, error) {
				first.Add(1)
				return base.Color + "+white", nil
			})
			if err != nil {
				return "", err
			}
			if err := call.Detach(); err != nil {
				return "", err
			}
			top, err := askback.Elicit[harness.Color](call, "top", "Which top?")
			if err != nil {
				return "", err
			}
			return askback.Do(ctx, call, "paint", func(context.Context) (string, error) {
				second.Add(1)
				return mixed + "/" + top.Color, nil
			})
		})
}
