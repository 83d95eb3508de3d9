package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task"
)

// A gathering keeps writes waiting until they are made together.
type gathering struct {
	*testing.T
	s   *Store
	all sync.WaitGroup
}

func gather(t *testing.T, s *Store) *gathering {
	for { // until the sender of an earlier write has seen that there is no other
		s.group.mu.Lock()
		idle := s.group.sending == 0
		if idle {
			s.group.sending = senders
		}
		s.group.mu.Unlock()
		if idle {
			return &gathering{T: t, s: s}
		}
		time.Sleep(time.Millisecond)
	}
}

// begin begins a write, and returns when it waits.
func (g *gathering) begin(write func() error, want error) {
	g.Helper()
	before := g.waiting()
	g.all.Go(func() {
		if err := write(); !errors.Is(err, want) {
			g.Errorf("the error is %v, want %v", err, want)
		}
	})
	for deadline := time.Now().Add(20 * time.Second); g.waiting() == before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			g.Fatal("the write does not wait")
		}
	}
}

func (g *gathering) waiting() int {
	g.s.group.mu.Lock()
	defer g.s.group.mu.Unlock()
	return len(g.s.group.waiting)
}

// make makes the writes that wait.
func (g *gathering) make() {
	g.s.group.mu.Lock()
	g.s.group.sending = 1
	g.s.group.mu.Unlock()
	g.s.send()
}

func groupTask(principal string) *task.Task {
	return &task.Task{ID: rand.Text(), Principal: principal, Method: "tools/call", Target: "deploy", Dialect: "proposal",
		Status: task.Working}
}

// Writes that wait share a transaction. One that is refused, or whose caller leaves, concerns no other.
func TestWritesTogether(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.DSN(t))
	ctx := t.Context()
	first := groupTask("alice")
	expect.Check(t, s.Create(ctx, first, time.Hour, 0, []byte("call"), nil, task.Quota{}))
	bound := task.Quota{Unfinished: 10}
	g := gather(t, s)
	again, stale, gone := *first, *first, groupTask("bob")
	stale.Version = 9
	g.begin(func() error { return s.Create(ctx, &again, time.Hour, 0, nil, nil, bound) }, task.ErrExists)
	g.begin(func() error { return s.Update(ctx, &stale, task.Update{Entries: [][]byte{[]byte("stale")}}) },
		task.ErrConflict)
	g.begin(func() error {
		return s.Update(ctx, first, task.Update{Entries: [][]byte{[]byte("large")}, Quota: task.Quota{Bytes: 8}})
	}, task.ErrQuota)
	for i := range 10 {
		g.begin(func() error {
			return s.Create(ctx, groupTask("bob"), time.Hour, 0, nil, [][]byte{fmt.Append(nil, i)}, bound)
		}, nil)
	}
	leaving, leave := context.WithCancel(ctx)
	g.begin(func() error { return s.Create(leaving, gone, time.Hour, 0, nil, nil, task.Quota{}) }, context.Canceled)
	leave()
	g.make()
	g.all.Wait()
	expect.Is(t, "beyond the quota", s.Create(ctx, groupTask("bob"), time.Hour, 0, nil, nil, bound), task.ErrQuota)
	if _, err := s.Get(ctx, gone.ID); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("the task whose caller left: %v", err)
	}
	if _, entries, err := s.Journal(ctx, first.ID, -1); err != nil || len(entries) != 0 {
		t.Errorf("the first task has the entries %q, %v", entries, err)
	}
	var tasks, transactions int
	err := s.pool.QueryRow(ctx, inSchema(`SELECT count(*), count(DISTINCT xmin::text) FROM {schema}.task
		WHERE principal = 'bob'`, s.schema)).Scan(&tasks, &transactions)
	if tasks != 10 || transactions != 1 || err != nil {
		t.Errorf("%d tasks in %d transactions, %v; want 10 in one", tasks, transactions, err)
	}
}

// A row that somebody keeps locked keeps the writes of its task, and no others.
func TestALockedTaskKeepsNoOthers(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.DSN(t))
	ctx := t.Context()
	locked := groupTask("alice")
	expect.Check(t, s.Create(ctx, locked, time.Hour, 0, nil, nil, task.Quota{}))
	tx, err := s.pool.Begin(ctx)
	expect.Check(t, err)
	defer tx.Rollback(ctx)
	expect.Must(tx.Exec(ctx, inSchema(`SELECT FROM {schema}.task FOR UPDATE`, s.schema)))(t)
	g := gather(t, s)
	var others sync.WaitGroup
	g.begin(func() error { return s.Update(ctx, locked, task.Update{Due: -1}) }, nil)
	for range 3 {
		others.Add(1)
		g.begin(func() error {
			defer others.Done()
			return s.Create(ctx, groupTask("bob"), time.Hour, 0, nil, nil, task.Quota{Unfinished: 9})
		}, nil)
	}
	g.make()
	others.Wait()
	expect.Check(t, tx.Rollback(ctx))
	g.all.Wait()
	expect.Equal(t, "the locked task has version", locked.Version, 1)
}
