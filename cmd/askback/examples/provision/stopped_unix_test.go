//go:build unix

package provision_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/askback-mcp/askback/task"
)

// A process is stopped for longer than its lease, at some moment of its work. When it goes on, another has finished the
// machine, which stays as its manifest says.
func TestAProcessThatIsStoppedBeyondItsLease(t *testing.T) {
	t.Parallel()
	for n := range 5 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			i := newInstance(t, t.TempDir(), 0)
			id := i.create(t)
			worker, _ := startWorker(t, i.parent)
			wait(t, "the machine is begun", func() bool { return slices.Contains(effects(t, i.host), "create-directories") })
			// to stop it elsewhere in the disk image, or in the step after it
			time.Sleep(time.Duration(n) * 75 * time.Millisecond)
			i.stop(t, worker.Process)

			i.run(t)
			i.until(t, id, "input_required")
			i.answer(t, id, `"action": "accept", "content": {"network": "nat"}`)
			done := i.until(t, id, "completed").Result.StructuredContent
			before := effects(t, i.host)

			sendSignal(t, worker.Process, syscall.SIGCONT)
			time.Sleep(100 * time.Millisecond) // it goes on, if it can
			sendSignal(t, worker.Process, syscall.SIGTERM)
			if err := worker.Wait(); err != nil { // until no handler runs
				t.Error(err)
			}
			checkMachine(t, done, i.machine())
			wantOnly(t, i.host, "effects.log", "web-1")
			if after := effects(t, i.host); len(after) != len(before) {
				t.Errorf("effects %q, of which the last were made without a lease", after)
			}
		})
	}
}

// stop stops a process at a moment at which it does not hold the lock of the database.
func (i *instance) stop(t *testing.T, process *os.Process) {
	t.Helper()
	wait(t, "the process is stopped outside of a transaction", func() bool {
		sendSignal(t, process, syscall.SIGSTOP)
		// Until all of its threads have stopped, one may still take the lock.
		if _, err := syscall.Wait4(process.Pid, nil, syscall.WUNTRACED, nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := i.store.Renew(ctx, []task.Leased{{ID: "no task"}}, time.Second); err == nil {
			return true
		}
		sendSignal(t, process, syscall.SIGCONT)
		return false
	})
}

func sendSignal(t *testing.T, process *os.Process, s os.Signal) {
	t.Helper()
	if err := process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
