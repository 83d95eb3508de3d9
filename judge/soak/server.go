package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

// ttl is short, so that what a client has abandoned must be gone many times during a run.
const ttl = 20 * time.Second

type login struct {
	Name string `json:"name"`
}

// runServer serves the subject until standard input ends. It prints its URL when it listens.
func runServer() error {
	dir, err := os.MkdirTemp("", "askback-soak")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // it ends when the parent process does
		stop()
	}()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "tasks.db"))
	if err != nil {
		return err
	}
	defer store.Close()
	srv, err := newServer(store)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", srv.HTTPHandler(&askback.HTTPOptions{Streamable: mcp.StreamableHTTPOptions{SessionTimeout: ttl}}))
	mux.HandleFunc("GET /usage", usage)
	web := &http.Server{ // as docs/security.md and askback serve have it
		Handler:           mux,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
	}
	defer web.Close()
	defer context.AfterFunc(ctx, func() { web.Close() })()
	fmt.Printf("http://%s\n", listener.Addr())
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	if err := srv.RunTasks(ctx); err != nil {
		return err
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
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
	askback.AddTool(srv, &mcp.Tool{Name: "ask"}, func(_ context.Context, call *askback.Call, _ map[string]any) (string, error) {
		l, err := askback.Elicit[login](call, "login", "Who are you?")
		return "Hello " + l.Name, err
	})
	askback.AddTool(srv, &mcp.Tool{Name: "hold"}, func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(5 * time.Second):
			return "held", nil
		}
	})
	news := strings.Repeat("news ", 4<<10)
	askback.AddTool(srv, &mcp.Tool{Name: "talk"}, func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
		for i := range 1000 {
			if err := call.Progress(ctx, float64(i+1), 1000, news); err != nil {
				return "", err
			}
		}
		return "said", nil
	})
	askback.AddTaskTool(srv, &mcp.Tool{Name: "build"}, nil, func(ctx context.Context, call *askback.Call, _ map[string]any) (string, error) {
		ground, err := askback.Do(ctx, call, "ground", func(context.Context) (string, error) { return "ground floor", nil })
		if err != nil {
			return "", err
		}
		l, err := askback.Elicit[login](call, "login", "Whose is it?")
		if err != nil {
			return "", err
		}
		return ground + " of " + l.Name, nil
	})
	return srv, nil
}

// process is what a process tells of itself.
type process struct {
	Heap       int64 // bytes that are in use after a collection
	Goroutines int
}

func usage(w http.ResponseWriter, _ *http.Request) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	_ = json.NewEncoder(w).Encode(process{int64(m.HeapAlloc), runtime.NumGoroutine()}) // the other side looks
}
