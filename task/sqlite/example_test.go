package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

// A server keeps its tasks in a file. Other processes of the machine may serve and run the same tasks.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "tasks.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "deployer", Version: "1.0.0"}, nil), &askback.Options{
		Tasks:  &askback.Tasks{Store: store},
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	askback.AddTaskTool(srv, &mcp.Tool{Name: "deploy"}, nil,
		func(_ context.Context, _ *askback.Call, in struct{ Service string }) (string, error) {
			return in.Service + " is deployed.", nil
		})
	ran := make(chan error)
	go func() { ran <- srv.RunTasks(ctx) }()
	// Serve srv.HTTPHandler(nil) meanwhile.
	stop()
	fmt.Println("stopped:", <-ran)
	// Output: stopped: <nil>
}

// A task outlives the process that created it: here the store is closed and opened again.
func ExampleOpen() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "tasks.db")

	store, err := sqlite.Open(ctx, path)
	if err != nil {
		log.Fatal(err)
	}
	t := &task.Task{ID: "5d41402abc4b2a76b9719d911017c592", Principal: "alice", Target: "deploy", Status: task.Working}
	if err := store.Create(ctx, t, 24*time.Hour, 0, []byte(`{"name":"deploy"}`), nil,
		task.Quota{Unfinished: 10}); err != nil {
		log.Fatal(err)
	}
	if err := store.Close(); err != nil {
		log.Fatal(err)
	}

	store, err = sqlite.Open(ctx, path)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	claimed, err := store.Claim(ctx, "", nil, time.Minute, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range claimed {
		fmt.Printf("%s of %s is %s: %s\n", t.Target, t.Principal, t.Status, t.Call)
	}
	// Output: deploy of alice is working: {"name":"deploy"}
}

// Each requestState is accepted once only, whatever process has the file open.
func ExampleStore_Guard() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := sqlite.Open(ctx, filepath.Join(dir, "used.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "vouchers", Version: "1.0.0"}, nil), &askback.Options{
		ReplayGuard: store.Guard(),
		Logger:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	_ = srv // add its tools, and serve srv.HTTPHandler(nil)

	for range 2 {
		fresh, err := store.Guard().Use(ctx, "the ID of a state", time.Now().Add(time.Hour))
		fmt.Println(fresh, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}
