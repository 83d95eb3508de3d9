package serving

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/examples/echo"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
)

func TestTasksThatCannotRunEndTheServer(t *testing.T) {
	t.Parallel()
	srv := newServer(t, nil)
	err := WithTasks(t.Context(), RunTasks(srv), atOnce, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	if err == nil || !strings.HasPrefix(err.Error(), "running tasks: ") {
		t.Errorf("got %v", err)
	}
	broken := errors.New("broken")
	err = WithTasks(t.Context(), RunTasks(srv), atOnce, func(context.Context) error { return broken })
	expect.Is(t, "err", err, broken)
}

// A server that stops leaves tasks to other servers, while it still serves.
func TestTasksStopBeforeServingDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store task.MemoryStore
		srv := newServer(t, &store)
		h := srv.HTTPHandler(nil)
		ctx, stop := context.WithCancel(t.Context())
		err := WithTasks(ctx, RunTasks(srv), atOnce, func(ctx context.Context) error {
			run := func() string {
				id := begin(t, h)
				time.Sleep(10 * time.Second)
				body := harness.Message(1, "tasks/get", `"taskId":`+harness.Quote(id), harness.AllCapabilities)
				return harness.Request{Method: "tasks/get", Target: id, Body: body}.Send(t, h).Raw
			}
			expect.Contains(t, "a task of a server that runs", run(), `"completed"`)
			stop()
			<-ctx.Done()
			expect.Contains(t, "a task of a server that stops", run(), `"working"`)
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// newServer makes a server whose callers share the tasks of a store. Nil is a server without tasks.
func newServer(t *testing.T, store task.Store) *askback.Server {
	t.Helper()
	options := new(askback.Options)
	if store != nil {
		options.Tasks = &askback.Tasks{Store: store, Settings: task.Settings{Workers: 1}, ListAnonymous: true}
	}
	return harness.NewServer(t, options, echo.Register)
}

// begin begins a task of echo, and returns its ID.
func begin(t *testing.T, h http.Handler) (id string) {
	t.Helper()
	body := harness.Message(1, "tools/call", `"name":"echo","arguments":{"input":"hi"},"task":{"ttl":600000}`,
		harness.AllCapabilities)
	_, rest, _ := strings.Cut(harness.Request{Target: "echo", Body: body}.Send(t, h).Raw, `"taskId":"`)
	id, _, _ = strings.Cut(rest, `"`)
	return id
}
