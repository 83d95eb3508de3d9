package task_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/storetest"
)

// Instances in one process share a MemoryStore, and each of them may close it.
func TestMemoryStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) func(*testing.T) task.Store {
		store := new(task.MemoryStore)
		return func(*testing.T) task.Store { return store }
	})
}

func TestMemoryStoreThatLosesCommits(t *testing.T) {
	storetest.RunLostCommits(t, func(*testing.T) (func(*testing.T) task.Store, func(*testing.T) func(*testing.T)) {
		store := new(task.MemoryStore)
		return func(*testing.T) task.Store { return store }, func(*testing.T) func(*testing.T) {
			restore := store.Save()
			return func(*testing.T) { restore() }
		}
	})
}

// A principal whose tasks were all deleted takes no memory.
func TestMemoryStoreForgetsPrincipals(t *testing.T) {
	s := new(task.MemoryStore)
	for i := range 3 {
		n := &task.Task{ID: fmt.Sprint(i), Principal: fmt.Sprint("p", i), Status: task.Completed}
		if err := s.Create(t.Context(), n, -time.Hour, 0, []byte("call"), nil, task.Quota{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Update(t.Context(), n, task.Update{Due: -1}); err != nil {
			t.Fatal(err)
		}
	}
	before := s.Principals()
	if n, err := s.Purge(t.Context(), 0, 2); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if before != 3 || s.Principals() != 1 {
		t.Errorf("%d principals have something, and later %d; want 3 and 1", before, s.Principals())
	}
}

func ExampleMemoryStore() {
	store := new(task.MemoryStore)
	engine, err := task.NewEngine(store, &task.Options{
		Handler: func(_ context.Context, w *task.Work) (task.Verdict, error) {
			return task.Verdict{Status: task.Completed, Outcome: append([]byte("deployed "), w.Call...)}, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = engine.Run(ctx) })
	defer running.Wait()
	defer cancel()

	t, err := engine.Create(ctx, &task.New{Principal: "alice", Target: "deploy", Call: []byte("shop")})
	for err == nil && !t.Status.Terminal() {
		t, err = engine.Wait(ctx, "alice", t.ID, t.Version)
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Status, string(t.Outcome))
	// Output: completed deployed shop
}
