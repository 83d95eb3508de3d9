package serving

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/examples/echo"
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
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
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
				created := post(h, "tools/call", `"name": "echo", "arguments": {"input": "hi"}, "task": {"ttl": 60000},`)
				_, rest, _ := strings.Cut(created, `"taskId":"`)
				id, _, _ := strings.Cut(rest, `"`)
				time.Sleep(10 * time.Second)
				return post(h, "tasks/get", `"taskId": "`+id+`",`)
			}
			if got := run(); !strings.Contains(got, `"completed"`) {
				t.Errorf("a task of a server that runs: %s", got)
			}
			stop()
			<-ctx.Done()
			if got := run(); !strings.Contains(got, `"working"`) {
				t.Errorf("a task of a server that stops: %s", got)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// newServer makes a server whose anonymous callers share the tasks of a store. Nil is a server without tasks.
func newServer(t *testing.T, store task.Store) *askback.Server {
	t.Helper()
	var tasks *askback.Tasks
	if store != nil {
		tasks = &askback.Tasks{Store: store, Settings: task.Settings{Workers: 1}, ListAnonymous: true}
	}
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1.0.0"}, nil), &askback.Options{
		Tasks: tasks, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	echo.Register(srv)
	return srv
}

func post(h http.Handler, method, params string) string {
	r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc": "2.0", "id": 1,
		"method": "`+method+`",
		"params": {`+params+`"_meta": {
			"io.modelcontextprotocol/protocolVersion": "2026-07-28",
			"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}
		}}}`))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": method,
	} {
		r.Header.Set(name, value)
	}
	if method == "tools/call" {
		r.Header.Set("Mcp-Name", "echo")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Body.String()
}
