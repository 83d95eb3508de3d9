package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/storetest"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) func(t *testing.T) task.Store {
		path := filepath.Join(t.TempDir(), "tasks.db")
		return func(t *testing.T) task.Store { return open(t, path) }
	})
}

// A backup of the file is put back.
func TestStoreThatLosesCommits(t *testing.T) {
	t.Parallel()
	storetest.RunLostCommits(t, func(t *testing.T) (func(*testing.T) task.Store, func(*testing.T) func(*testing.T)) {
		path := filepath.Join(t.TempDir(), "tasks.db")
		return func(t *testing.T) task.Store { return open(t, path) }, func(t *testing.T) func(*testing.T) {
			backup, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			return func(t *testing.T) {
				if left, err := filepath.Glob(path + "-*"); len(left) > 0 || err != nil {
					t.Fatalf("beside the file there is still %q, %v", left, err)
				}
				if err := os.WriteFile(path, backup, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// A release before nonces claims a task: it raises the number, and leaves the nonce of the claim before as it is.
func TestAClaimOfTheReleaseBeforeNonces(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "tasks.db"))
	defer s.Close()
	ctx := t.Context()
	n := &task.Task{ID: "id", Status: task.Working}
	if err := s.Create(ctx, n, time.Hour, time.Hour, nil, nil, task.Quota{}); err != nil {
		t.Fatal(err)
	}
	lost := n.Claim
	if _, err := s.conn.ExecContext(ctx, "UPDATE task SET fence = fence + 1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(ctx, "id", lost, 0, nil); !errors.Is(err, task.ErrLeaseLost) {
		t.Errorf("Append under the claim before: %v", err)
	}
	renewed, err := s.Renew(ctx, []task.Leased{{ID: "id", Claim: lost}}, time.Hour)
	if err != nil || !errors.Is(renewed[0].Err, task.ErrLeaseLost) {
		t.Errorf("Renew of the claim before: %v, %v", renewed, err)
	}
	if err := s.Update(ctx, n, task.Update{Leased: true}); !errors.Is(err, task.ErrLeaseLost) {
		t.Errorf("Update under the claim before: %v", err)
	}
}

func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
