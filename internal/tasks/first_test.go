package tasks_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

// noInserts is a store in which no task can be added.
type noInserts struct{ *task.MemoryStore }

func (noInserts) Insert(context.Context, *task.Task, time.Duration, []byte, task.Update, task.Quota) error {
	return errors.New("the disk is full")
}

// No step of a task begins before the store has the task: in another call, which its client would make after an error,
// it would run again.
func TestAStepWaitsForItsTask(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]func(ctx context.Context, call *askback.Call, run func()) error{
		"Do": func(ctx context.Context, call *askback.Call, run func()) error {
			_, err := askback.Do(ctx, call, "step", func(context.Context) (int, error) { run(); return 1, nil })
			return err
		},
		"AtMostOnce": func(ctx context.Context, call *askback.Call, run func()) error {
			_, err := askback.AtMostOnce(ctx, call, "step", func(context.Context) (int, error) { run(); return 1, nil })
			return err
		},
	} {
		var ran atomic.Int32
		book := harness.AddText("book", nil, func(ctx context.Context, call *askback.Call) (string, error) {
			return "booked", step(ctx, call, func() { ran.Add(1) })
		})
		for _, store := range []task.Store{noInserts{new(task.MemoryStore)}, new(task.MemoryStore)} {
			synctest.Test(t, func(t *testing.T) {
				created := inBubble(t, store, book).Call(2, "tools/call", `"name":"book","task":{}`, "")
				_, full := store.(noInserts)
				synctest.Wait()
				if fault := created["error"] != nil; fault != full || full == (ran.Load() > 0) {
					t.Errorf("%s: %v, and the step ran %d times", name, created, ran.Load())
				}
			})
		}
	}
}

// inBubble returns a session with a server that runs its tasks.
func inBubble(t *testing.T, store task.Store, add ...func(*askback.Server)) *harness.Conversation {
	t.Helper()
	srv := harness.NewServer(t, &askback.Options{Tasks: &askback.Tasks{Store: store}}, add...)
	c := harness.Pipe(t, srv)
	c.Call(1, "initialize", harness.Initialize, "")
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go srv.RunTasks(ctx)
	synctest.Wait()
	return c
}

// A client sees a task that works, whatever its first run has come to by then, and the rest when it asks.
func TestATaskBeginsAsWorking(t *testing.T) {
	harness.Bubble(t, func(t *testing.T) {
		ends := harness.AddText("ends", nil, func(context.Context, *askback.Call) (string, error) { return "at once", nil })
		fails := harness.AddText("fails", nil, func(context.Context, *askback.Call) (string, error) {
			return "", errors.New("no luck")
		})
		asks := harness.AddText("asks", nil, asksColors("color"))
		c := inBubble(t, new(task.MemoryStore), ends, fails, asks)
		for name, later := range map[string]string{"ends": "completed", "fails": "failed", "asks": "input_required"} {
			created := c.Call(2, "tools/call", `"name":"`+name+`","task":{}`, "")
			if shown := harness.At(created, "result", "task"); harness.At(shown, "status") != "working" {
				t.Errorf("%s begins as %v", name, created)
			}
			id, _ := harness.At(created, "result", "task", "taskId").(string)
			got := c.Call(3, "tasks/get", `"taskId":"`+id+`"`, "")
			harness.Want(t, name, got, later, "result", "status")
		}
	})
}

// counted counts what is written.
type counted struct {
	*task.MemoryStore
	writes atomic.Int32
}

func (s *counted) Insert(
	ctx context.Context, t *task.Task, ttl time.Duration, call []byte, u task.Update, quota task.Quota,
) error {
	s.writes.Add(1)
	return s.MemoryStore.Insert(ctx, t, ttl, call, u, quota)
}

func (s *counted) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	s.writes.Add(1)
	return s.MemoryStore.Append(ctx, id, claim, there, entry)
}

func (s *counted) Update(ctx context.Context, t *task.Task, u task.Update) error {
	s.writes.Add(1)
	return s.MemoryStore.Update(ctx, t, u)
}

// A step is one write besides those of its task, and one that never runs twice is two.
func TestWhatAStepWrites(t *testing.T) {
	t.Parallel()
	one := func(context.Context) (int, error) { return 1, nil }
	for name, test := range map[string]struct {
		step func(ctx context.Context, call *askback.Call) (int, error)
		want int32
	}{
		"none": {func(context.Context, *askback.Call) (int, error) { return 1, nil }, 1},
		"Do": {func(ctx context.Context, call *askback.Call) (int, error) {
			return askback.Do(ctx, call, "step", one)
		}, 3},
		"AtMostOnce": {func(ctx context.Context, call *askback.Call) (int, error) {
			return askback.AtMostOnce(ctx, call, "step", one)
		}, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &counted{MemoryStore: new(task.MemoryStore)}
			book := harness.AddText("book", nil, func(ctx context.Context, call *askback.Call) (string, error) {
				_, err := test.step(ctx, call)
				return "booked", err
			})
			inBubble(t, s, book).Call(2, "tools/call", `"name":"book","task":{}`, "")
			synctest.Wait()
			expect.Equal(t, name+": writes", s.writes.Load(), test.want)
		})
	}
}
