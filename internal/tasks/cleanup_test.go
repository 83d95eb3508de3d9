package tasks_test

import (
	"context"
	"fmt"
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

// site is a tool that builds something, works until it is interrupted, and removes what it built.
type site struct {
	register func(call *askback.Call) // registers OnCancel functions before the first step
	before   func(run int32) error    // each run

	runs    atomic.Int32
	working chan struct{}
}

func (s *site) add(srv *askback.Server) {
	s.working = make(chan struct{}, 10)
	askback.AddTaskTool(srv, &mcp.Tool{Name: "build"}, nil, func(ctx context.Context, call *askback.Call,
		_ struct{}) (*mcp.CallToolResult, error) {
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
	srv := harness.NewServer(t, &askback.Options{Tasks: &askback.Tasks{Store: new(task.MemoryStore)}}, s.add)
	ctx, stop := context.WithCancel(context.Background())
	stopped = make(chan struct{})
	go func() { _ = srv.RunTasks(ctx); close(stopped) }()
	t.Cleanup(func() { stop(); <-stopped })
	web := harness.ServeTasks(t, srv)
	id := web.Start(harness.WithExtension, `"name":"build"`)
	<-s.working
	web.Result(harness.WithExtension, "tasks/cancel", id, `"taskId":"`+id+`"`)
	return stop, stopped
}

// come waits for n signals.
func come(t *testing.T, what string, c <-chan struct{}, n int) {
	t.Helper()
	for range n {
		select {
		case <-c:
		case <-time.After(2 * time.Minute):
			t.Fatal("no " + what)
		}
	}
}

func TestCancelledTaskCleansUp(t *testing.T) {
	t.Parallel()
	undone := make(chan string, 100)
	undo := func(ctx context.Context, what string) error {
		select {
		case undone <- what:
		default: // far too often: the end of the test fails
		}
		return ctx.Err()
	}
	var working = make(chan struct{}, 1)
	add := harness.AddTask("build", nil, func(ctx context.Context, call *askback.Call, in struct {
		Ask bool `json:"ask"`
	}) (*mcp.CallToolResult, error) {
		call.OnCancel(func(ctx context.Context) error { return undo(ctx, "ground") })
		ground, err := askback.Do(ctx, call, "ground", func(context.Context) (string, error) { return "ground floor", nil })
		if err != nil {
			return nil, err
		}
		call.OnCancel(func(ctx context.Context) error { return undo(ctx, "above "+ground) })
		if in.Ask {
			_, err = askback.Elicit[harness.Color](call, "color", "Which?")
			return nil, err
		}
		err = call.Do(ctx, "roof", func(ctx context.Context) error {
			working <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		})
		return nil, err
	})
	s := harness.NewTaskServer(t, nil, add)
	for _, ask := range []bool{false, true} {
		id := s.Start(harness.WithExtension, fmt.Sprintf(`"name":"build","arguments":{"ask":%v}`, ask))
		if ask {
			s.Get(harness.WithExtension, id, "input_required")
		} else {
			<-working
		}
		expect.Equal(t, "acknowledged", len(s.Result(harness.WithExtension, "tasks/cancel", id, `"taskId":"`+id+`"`)), 2)
		s.Get(harness.WithExtension, id, "cancelled")
		if a, b := <-undone, <-undone; a != "above ground floor" || b != "ground" {
			t.Errorf("undone %q, %q", a, b)
		}
	}
	s.Stop()
	if len(undone) > 0 {
		t.Error("cleaned up more than once")
	}
}

func TestCleaningUpMayReportProgressAndRegisterMore(t *testing.T) {
	t.Parallel()
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
	synctest.Test(t, testPanicOfOneCleanupDoesNotKeepOthersFromRunning)
}

func testPanicOfOneCleanupDoesNotKeepOthersFromRunning(t *testing.T) {
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
	synctest.Test(t, testCleaningUpIsTriedAgainWhenTheHandlerFails)
}

func testCleaningUpIsTriedAgainWhenTheHandlerFails(t *testing.T) {
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

func TestShutdownInterruptsCleaningUp(t *testing.T) {
	t.Parallel()
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

func TestTaskThatFailsByItsAnswersCleansUp(t *testing.T) {
	t.Parallel()
	undone := make(chan struct{}, 10)
	s := harness.NewTaskServer(t, &askback.Options{Limits: askback.Limits{Rounds: 1}},
		harness.AddText("t", nil, func(ctx context.Context, call *askback.Call) (string, error) {
			call.OnCancel(func(context.Context) error { undone <- struct{}{}; return nil })
			_, err := askback.Elicit[harness.Color](call, "c", "Which?")
			return "", err
		}))
	id := s.Start(harness.WithExtension, `"name":"t"`)
	s.Get(harness.WithExtension, id, "input_required")
	s.Answer(id, `"c":{"action":"accept","content":{}}`)
	s.Get(harness.WithExtension, id, "failed")
	come(t, "cleaning up", undone, 1)
}
