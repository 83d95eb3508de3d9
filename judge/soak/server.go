package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/judge/process"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

// ttl is short, so that what a client has abandoned must be gone many times during a run.
const ttl = 20 * time.Second

type login struct {
	Name string `json:"name"`
}

// runServer serves the subject until standard input ends.
func runServer() error {
	dir, err := os.MkdirTemp("", "askback-soak")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "tasks.db"))
	if err != nil {
		return err
	}
	defer store.Close()
	srv, err := newServer(store)
	if err != nil {
		return err
	}
	var working sync.WaitGroup
	defer working.Wait()
	defer stop()
	working.Go(func() { _ = srv.RunTasks(ctx) }) // nil, with tasks configured
	web := &http.Server{                         // as docs/production.md and askback serve have it
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
	}
	options := &askback.HTTPOptions{Streamable: mcp.StreamableHTTPOptions{SessionTimeout: ttl}}
	return process.Serve(ctx, web, srv.HTTPHandler(options))
}

// newServer returns the subject. Its callers are named by a header, because the load has no tokens.
func newServer(store task.Store) (*askback.Server, error) {
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "soak", Version: "1.0.0"}, nil), &askback.Options{
		Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
			return extra.Header.Get("X-User"), nil
		},
		Limits: askback.Limits{RoundTTL: ttl},
		Tasks:  &askback.Tasks{Store: store, Settings: task.Settings{TTL: ttl}},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	type handler = func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error)
	for name, tool := range map[string]handler{
		"ask": func(_ context.Context, call *askback.Call, _ map[string]any) (string, error) {
			l, err := askback.Elicit[login](call, "login", "Who are you?")
			return "Hello " + l.Name, err
		},
		"hold": func(ctx context.Context, _ *askback.Call, _ map[string]any) (string, error) {
			return "held", process.Sleep(ctx, 5*time.Second)
		},
		"talk": func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
			news := strings.Repeat("news ", 4<<10)
			for i := range 1000 {
				if err := call.Progress(ctx, float64(i+1), 1000, news); err != nil {
					return "", err
				}
			}
			return "said", nil
		},
	} {
		askback.AddTool(srv, &mcp.Tool{Name: name}, tool)
	}
	var build handler = func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
		ground, err := askback.Do(ctx, call, "ground", func(context.Context) (string, error) { return "ground floor", nil })
		if err != nil {
			return "", err
		}
		l, err := askback.Elicit[login](call, "login", "Whose is it?")
		if err != nil {
			return "", err
		}
		return ground + " of " + l.Name, nil
	}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "build"}, nil, build)
	return srv, nil
}
