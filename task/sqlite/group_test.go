package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// Writes that wait for the connection share a transaction. One that fails, or whose caller leaves, concerns no other.
func TestWritesTogether(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	ctx := t.Context()
	first := newTask("alice")
	expect.Check(t, s.Create(ctx, first, time.Hour, 0, benchCall, nil, task.Quota{}))

	commits := countCommits(t, s)
	s.writing <- struct{}{} // so that all wait
	const n = 20
	var all sync.WaitGroup
	waiting := func(want int) {
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
			s.mu.Lock()
			got := len(s.waiting)
			s.mu.Unlock()
			if got == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d writes wait, want %d", got, want)
			}
		}
	}
	created := make([]*task.Task, n)
	for i := range n {
		created[i] = newTask("bob")
		all.Go(func() {
			err := s.Create(ctx, created[i], time.Hour, 0, benchCall, [][]byte{[]byte(fmt.Sprint(i))}, task.Quota{})
			if err != nil {
				t.Errorf("Create: %v", err)
			}
		})
	}
	all.Go(func() {
		again := *first
		if err := s.Create(ctx, &again, time.Hour, 0, nil, nil, task.Quota{}); !errors.Is(err, task.ErrExists) {
			t.Errorf("Create of a task that exists: %v", err)
		}
	})
	all.Go(func() {
		if err := s.Append(ctx, first.ID, task.Claim{Fence: 7}, 0, []byte("x")); !errors.Is(err, task.ErrLeaseLost) {
			t.Errorf("Append under another fence: %v", err)
		}
	})
	all.Go(func() {
		stale := *first
		stale.Version = 9
		if err := s.Update(ctx, &stale, task.Update{Entries: [][]byte{[]byte("stale")}}); !errors.Is(err, task.ErrConflict) {
			t.Errorf("Update of another version: %v", err)
		}
	})
	all.Go(func() {
		large := *first
		large.Status, large.Outcome = task.Completed, []byte("refused")
		u := task.Update{Entries: [][]byte{[]byte("too many bytes")}, Quota: task.Quota{Bytes: 1}}
		expect.Is(t, "Update beyond the quota of bytes", s.Update(ctx, &large, u), task.ErrQuota)
	})
	waiting(n + 4)
	leaving, leave := context.WithCancel(ctx)
	left := make(chan error)
	gone := newTask("bob")
	go func() { left <- s.Create(leaving, gone, time.Hour, 0, nil, nil, task.Quota{}) }()
	waiting(n + 5)
	leave()
	expect.Is(t, "Create whose caller leaves", <-left, context.Canceled)
	<-s.writing
	all.Wait()
	expect.Equal(t, "transactions", commits.Load(), 1)

	for i, c := range created {
		_, entries, err := s.Journal(ctx, c.ID, -1)
		if err != nil || len(entries) != 1 || string(entries[0]) != fmt.Sprint(i) {
			t.Errorf("task %d has the entries %q, %v", i, entries, err)
		}
	}
	if _, err := s.Get(ctx, gone.ID); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("the task whose caller left: %v", err)
	}
	if _, entries, err := s.Journal(ctx, first.ID, -1); err != nil || len(entries) != 0 {
		t.Errorf("the first task has the entries %q, %v", entries, err)
	}
	// The refused writes had changed rows before they were refused.
	if now, err := s.Get(ctx, first.ID); err != nil || now.Version != first.Version || now.Status != first.Status {
		t.Errorf("the first task is %+v, %v: a write that was refused has changed it", now, err)
	}
}

// countCommits counts the transactions of the writer that change something.
func countCommits(t *testing.T, s *Store) *atomic.Int64 {
	n := new(atomic.Int64)
	err := s.conn.Raw(func(conn any) error {
		conn.(driver.HookRegisterer).RegisterCommitHook(func() int32 { n.Add(1); return 0 })
		return nil
	})
	expect.Check(t, err)
	return n
}
