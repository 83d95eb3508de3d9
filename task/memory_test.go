package task_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
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
			restore := harness.Backup(store)
			return func(*testing.T) { restore() }
		}
	})
}

// A principal whose tasks were all deleted takes no memory.
func TestMemoryStoreForgetsPrincipals(t *testing.T) {
	s := new(task.MemoryStore)
	for i := range 3 {
		n := &task.Task{ID: fmt.Sprint(i), Principal: fmt.Sprint("p", i), Status: task.Completed}
		expect.Check(t, s.Create(t.Context(), n, -time.Hour, 0, []byte("call"), nil, task.Quota{}))
		expect.Check(t, s.Update(t.Context(), n, task.Update{Due: -1}))
	}
	before := s.Principals()
	if n, err := s.Purge(t.Context(), 0, 2); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if before != 3 || s.Principals() != 1 {
		t.Errorf("%d principals have something, and later %d; want 3 and 1", before, s.Principals())
	}
}

// Questions of tasks that were deleted take no memory, however they were told apart. Neither do notices that were
// settled or refused.
func TestMemoryStoreForgetsQuestions(t *testing.T) {
	s := new(task.MemoryStore)
	expect.Check(t, s.Listen(t.Context(), time.Hour, 1, 1))
	var tasks []*task.Task
	for i := range 3 {
		n := &task.Task{ID: fmt.Sprint(i), Target: fmt.Sprint("tool", i), Status: task.InputRequired}
		expect.Check(t, s.Create(t.Context(), n, -time.Hour, time.Hour, nil, nil, task.Quota{}))
		ask := &task.Question{Key: "key", For: []string{fmt.Sprint("user:", i)}, Equal: fmt.Sprint(i), Within: time.Hour,
			Remind: time.Hour}
		u := task.Update{Leased: true, Due: -1, Ask: []*task.Question{ask, {Key: "timer", Within: time.Hour}}}
		expect.Check(t, s.Update(t.Context(), n, u))
		tasks = append(tasks, n)
	}
	before := s.Asking()
	for _, n := range tasks {
		n.Status = task.Cancelled
		expect.Check(t, s.Update(t.Context(), n, task.Update{Due: -1}))
	}
	if n, err := s.Evict(t.Context(), "", -time.Second, 10); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	notices, err := s.Notices(t.Context(), task.NoticeClaim{Free: 10, Lease: time.Hour})
	if err != nil || len(notices) != 1 {
		t.Fatal(notices, err)
	}
	expect.Check(t, s.Settle(t.Context(), notices[0], 0))
	if refused, err := s.Refused(t.Context(), 10); err != nil || len(refused) != 5 {
		t.Fatal(refused, err)
	}
	if after := s.Asking(); before == 0 || after != 0 {
		t.Errorf("the store kept %d entries for questions, and later %d; want some, and none", before, after)
	}
}

// A server creates a task, a worker claims it, records a step, and completes it.
func ExampleMemoryStore() {
	ctx, store := context.Background(), new(task.MemoryStore)
	created := &task.Task{ID: rand.Text(), Principal: "alice", Target: "deploy", Status: task.Working}
	err := store.Create(ctx, created, 24*time.Hour, 0, []byte("shop"), nil, task.Quota{Unfinished: 10})
	if err != nil {
		log.Fatal(err)
	}

	claimed, err := store.Claim(ctx, "", nil, 10*time.Second, 1)
	if err != nil || len(claimed) != 1 {
		log.Fatal(len(claimed), err)
	}
	c := claimed[0]
	if err := store.Append(ctx, c.ID, c.Claim, len(c.Entries), []byte("uploaded")); err != nil {
		log.Fatal(err)
	}
	c.Status, c.Outcome = task.Completed, append([]byte("deployed "), c.Call...)
	if err := store.Update(ctx, c.Task, task.Update{Leased: true, Due: -1}); err != nil {
		log.Fatal(err)
	}

	t, err := store.Get(ctx, created.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Status, string(t.Outcome))
	// Output: completed deployed shop
}
