package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/examples/echo"
	"github.com/askback-mcp/askback/task"
)

func TestNamesOfDatabasesHaveNoSecrets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ url, want string }{
		{"postgres://user:hunter2@db.example:5432/tasks?sslmode=disable", "postgres://db.example:5432/tasks"},
		{"postgresql://db.example/tasks?password=hunter2", "postgres://db.example/tasks"},
		{"postgres:///tasks?host=/run/postgresql", "postgres:///tasks"},
		{"postgres://user:hunt%er2@db.example/tasks", "postgres"},
	} {
		if got := databaseName(tt.url); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.url, got, tt.want)
		}
	}
}

func TestTheStateDirectory(t *testing.T) {
	home, xdg := t.TempDir(), t.TempDir()
	for _, name := range []string{"HOME", "AppData"} {
		t.Setenv(name, home)
	}
	for _, tt := range []struct{ xdg, in string }{
		{"", home},
		{"relative", home}, // the convention wants it ignored
		{xdg, xdg},
	} {
		t.Setenv("XDG_STATE_HOME", tt.xdg)
		if got, err := stateDir(); err != nil || !strings.HasPrefix(got, tt.in) || filepath.Base(got) != "askback" {
			t.Errorf("%q: got %s, %v; want it in %s", tt.xdg, got, err, tt.in)
		}
	}
}

func TestTasksThatCannotRunEndTheServer(t *testing.T) {
	t.Parallel()
	srv := newServer(t, nil)
	err := serveWithTasks(t.Context(), runTasks(srv), atOnce, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	if err == nil || !strings.HasPrefix(err.Error(), "running tasks: ") {
		t.Errorf("got %v", err)
	}
	broken := errors.New("broken")
	err = serveWithTasks(t.Context(), runTasks(srv), atOnce, func(context.Context) error { return broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// A server that stops leaves tasks to other servers, while it still serves.
func TestTasksStopBeforeServingDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var store task.MemoryStore
		srv := newServer(t, (&storage{tasks: &store}).options(1))
		h := srv.HTTPHandler(nil)
		ctx, stop := context.WithCancel(t.Context())
		err := serveWithTasks(ctx, runTasks(srv), atOnce, func(ctx context.Context) error {
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

func newServer(t *testing.T, tasks *askback.Tasks) *askback.Server {
	t.Helper()
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
