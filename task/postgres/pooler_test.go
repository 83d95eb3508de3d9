package postgres_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/postgres"
)

// A pooler that lends its sessions is found out when the store is opened: what does not work behind it is refused then,
// with the setting that helps, and all that can be opened works.
func TestBehindAPooler(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"session", "transaction", "statement"} {
		t.Run(mode, func(t *testing.T) {
			url := pgtest.Pooler(t, pgtest.DSN(t), mode)
			for _, exec := range []string{"", "cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"} {
				t.Run(exec, func(t *testing.T) {
					ours := with(url, "search_path=s"+exec)
					if exec != "" {
						ours = with(ours, "default_query_exec_mode="+exec)
					}
					s, err := postgres.Open(t.Context(), ours)
					refused := mode == "statement" ||
						mode == "transaction" && (exec == "" || exec == "cache_statement" || exec == "describe_exec")
					if refused {
						want := "default_query_exec_mode=exec"
						if mode == "statement" {
							want = "transaction or session mode"
						}
						expect.Fails(t, "Open", err, want)
						return
					}
					expect.Check(t, err)
					defer s.Close()
					// Callers at the same time take each other's sessions.
					var callers sync.WaitGroup
					for range 4 {
						callers.Go(func() { runThrough(t, s) })
					}
					callers.Wait()
				})
			}
		})
	}
}

// runThrough creates a task, and runs it with a recorded step.
func runThrough(t *testing.T, s *postgres.Store) {
	ctx := t.Context()
	for range 5 {
		n := newTask()
		if err := s.Create(ctx, n, time.Hour, time.Minute, nil, nil, task.Quota{Unfinished: 100}); err != nil {
			t.Error(err)
			return
		}
		if err := s.Append(ctx, n.ID, n.Claim, 0, []byte("step")); err != nil {
			t.Error(err)
		}
		n.Status = task.Completed
		if err := s.Update(ctx, n, task.Update{Leased: true, Due: -1}); err != nil {
			t.Error(err)
		}
		if got, err := s.Get(ctx, n.ID); err != nil || got.Status != task.Completed {
			t.Errorf("Get: %v, %v", got, err)
		}
	}
}

// Behind a pooler in transaction mode no notification arrives, which Watch says at once and for all times.
func TestWatchBehindAPooler(t *testing.T) {
	t.Parallel()
	dsn := pgtest.DSN(t)
	for _, tt := range []struct {
		mode string
		want error
	}{{"transaction", errors.ErrUnsupported}, {"session", context.Canceled}} {
		s := open(t, with(pgtest.Pooler(t, dsn, tt.mode), "default_query_exec_mode=exec"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		expect.Is(t, tt.mode+": Watch", s.Watch(ctx, cancel, func(string, bool) {}), tt.want)
	}
}
