package provision

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/task"
)

// A process can die after each of the changes that a claim and a removal make.
func TestClaimAndRemoveMayBeRepeated(t *testing.T) {
	t.Parallel()
	host := &Host{Root: filepath.Join(t.TempDir(), "machines")}
	m := &machine{host: host, call: anyCall(t), args: args{Name: "web-1"}}
	left := func(want ...string) {
		t.Helper()
		entries, err := os.ReadDir(host.Root)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range entries {
			got = append(got, e.Name())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
	}
	if err := m.remove(t.Context()); err != nil {
		t.Fatal(err)
	}

	work := filepath.Base(m.workDir())
	died := filepath.Join(m.workDir(), "new-died")
	if err := os.MkdirAll(died, 0o700); err != nil {
		t.Fatal(err)
	}
	first, err := m.claim()
	if err != nil {
		t.Fatal(err)
	}
	left(work, "web-1")
	if again, err := m.claim(); err != nil || !again.Equal(first) {
		t.Errorf("claimed again at %v, %v; want %v", again, err, first)
	}
	left(work, "web-1")

	if err := os.Rename(m.dir(), filepath.Join(m.workDir(), "removed")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.remove(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	left("effects.log")
}

// A worker that was out of reach for longer than its lease is somewhere in a step when another has taken over. Whatever
// it does then, the machine stays as the other one made it.
func TestAWorkerOfYesterdayChangesNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		late func(m *machine, takeOver func()) error
	}{
		{"in the middle of a file", func(m *machine, takeOver func()) error {
			_, err := m.write("disk.img", func(w io.Writer) error {
				takeOver()
				_, err := io.WriteString(w, "of yesterday")
				return err
			})
			return err
		}},
		{"before a file", func(m *machine, takeOver func()) error {
			takeOver()
			_, err := m.writeBytes("disk.img", []byte("of yesterday"))
			return err
		}},
		{"before it removes the machine", func(m *machine, takeOver func()) error {
			takeOver()
			return m.remove(context.Background())
		}},
		{"in the middle of removing it", func(m *machine, takeOver func()) error {
			takeOver()
			return os.Rename(m.dir(), filepath.Join(m.workDir(), "removed"))
		}},
		{"before it claims the name", func(m *machine, takeOver func()) error {
			takeOver()
			_, err := m.claim()
			return err
		}},
		{"before it begins a step", func(m *machine, takeOver func()) error {
			takeOver()
			return m.takeOver()
		}},
	} {
		for _, finished := range []bool{false, true} {
			host := &Host{Root: t.TempDir()}
			call := anyCall(t)
			worker := func(fence int64) *machine {
				return &machine{host: host, call: call, token: task.Claim{Fence: fence, Nonce: rand.Text()},
					args: args{Name: "web-1"}}
			}
			late, now := worker(1), worker(2)
			do := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			do(late.takeOver())
			_, err := late.claim()
			do(err)
			err = tt.late(late, func() {
				do(now.takeOver())
				_, err := now.writeBytes("disk.img", []byte("of today"))
				do(err)
				if finished {
					_, err = now.writeManifest(time.Now(), Outcome{})
					do(err)
				}
			})
			if err == nil {
				t.Errorf("%s, finished %v: the late worker got no error", tt.name, finished)
			}
			if disk, err := os.ReadFile(now.path("disk.img")); string(disk) != "of today" {
				t.Errorf("%s, finished %v: the disk holds %q, %v", tt.name, finished, disk, err)
			}
			if _, err := os.Stat(late.workDir()); err == nil {
				t.Errorf("%s, finished %v: the late worker has a working directory again", tt.name, finished)
			}
			do(worker(3).remove(t.Context()))
			if left, _ := filepath.Glob(filepath.Join(host.Root, "*")); len(left) != 1 { // effects.log
				t.Errorf("%s, finished %v: %q is left", tt.name, finished, left)
			}
		}
	}
}

// The database has lost a claim, and given its number again: the worker that came later waits for a higher number, and
// that one shuts out both. Then neither of the two changes the machine, whether one of them has a directory or both.
func TestTwoWorkersWithOneNumber(t *testing.T) {
	t.Parallel()
	host := &Host{Root: t.TempDir()}
	call := anyCall(t)
	worker := func(fence int64) *machine {
		return &machine{host: host, call: call, token: task.Claim{Fence: fence, Nonce: rand.Text()},
			args: args{Name: "web-1"}}
	}
	lost, again, next := worker(2), worker(2), worker(3)
	if err := lost.takeOver(); err != nil {
		t.Fatal(err)
	}
	if _, err := lost.claim(); err != nil {
		t.Fatal(err)
	}
	if err := again.takeOver(); !errors.Is(err, task.ErrLeaseLost) {
		t.Errorf("the second worker with the number gets %v, want it to leave the task to the next claim", err)
	}
	if err := os.Mkdir(again.workDir(), 0o700); err != nil { // as if both had looked at the same time
		t.Fatal(err)
	}
	if err := next.takeOver(); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*machine{lost, again} {
		if _, err := m.writeBytes("disk.img", []byte("late")); err == nil {
			t.Error("a worker with the lower number writes to the machine")
		}
		if err := m.takeOver(); !errors.Is(err, task.ErrLeaseLost) {
			t.Errorf("it takes over again: %v", err)
		}
	}
	if _, err := next.writeBytes("disk.img", []byte("now")); err != nil {
		t.Error(err)
	}
}

// anyCall is a call of a tool that does nothing.
func anyCall(t *testing.T) (call *askback.Call) {
	t.Helper()
	askbacktest.Run(t, func(s *askback.Server) {
		askback.AddTool(s, &mcp.Tool{Name: "tool"}, func(_ context.Context, c *askback.Call, _ struct{}) (string, error) {
			call = c
			return "", nil
		})
	}, askbacktest.Call{Tool: "tool"})
	return call
}
