package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

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
	if err := store.Create(ctx, t, 24*time.Hour, []byte(`{"name":"deploy"}`), nil, task.Quota{Unfinished: 10}); err != nil {
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
	claimed, err := store.Claim(ctx, "", nil, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	call, _, err := store.Journal(ctx, claimed.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s of %s is %s: %s\n", claimed.Target, claimed.Principal, claimed.Status, call)
	// Output: deploy of alice is working: {"name":"deploy"}
}
