package tasks

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/task"
)

// A task goes on after a run that did not end if that run recorded nothing, or a step last.
func TestWhatIsARecovery(t *testing.T) {
	entry := func(kind journal.Kind) []byte {
		e := journal.Entry{Kind: kind, Key: "k", Value: []byte(`{"action":"accept"}`)}
		return e.Append(nil)
	}
	step, answer := entry(journal.Step), entry(journal.Unread)
	for _, c := range []struct {
		says      string
		attempts  int
		fence     int64
		entries   [][]byte
		recovered bool
	}{
		{"the first run", 1, 1, nil, false},
		{"the first run of a call that did steps before it was a task", 1, 1, [][]byte{step}, false},
		{"a run after the task was parked and answered", 1, 2, [][]byte{step, answer}, false},
		{"a run after the task was parked before it did anything", 1, 2, nil, false},
		{"a run after one that recorded a step", 1, 2, [][]byte{answer, step}, true},
		{"a run after one that recorded nothing", 2, 2, nil, true},
		{"a run after one that recorded nothing, and an answer before", 2, 3, [][]byte{step, answer}, true},
		{"a run after many", 5, 5, [][]byte{step}, true},
		{"an entry of a newer release", 1, 2, [][]byte{{2, 0xff}}, false},
	} {
		var log bytes.Buffer
		s := &Service{Log: slog.New(slog.NewTextHandler(&log, nil))}
		w := &taskrun.Work{Entries: c.entries, Task: &task.Task{
			ID: "ABCDEFGHIJ", Target: "deploy", Attempts: c.attempts, Claim: task.Claim{Fence: c.fence}}}
		if got := (&running{Service: s, work: w, callID: "call"}).logRecovered(t.Context()); got != c.recovered {
			t.Errorf("%s: a recovery: %v, want %v", c.says, got, c.recovered)
		}
		if said := strings.Contains(log.String(), "a run that did not end"); said != c.recovered ||
			strings.Contains(log.String(), "ABCDEFGHIJ") {
			t.Errorf("%s: logged %q", c.says, &log)
		}
	}
}

// How long a task was due is measured for its first run, and never less than nothing: the clock of the store may be
// ahead.
func TestHowLongATaskWasDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			ago       time.Duration
			recovered bool
			want      time.Duration
		}{{time.Minute, false, time.Minute}, {time.Minute, true, 0}, {-time.Minute, false, 0}} {
			if got := dueFor(t.Context(), &task.Task{Updated: time.Now().Add(-c.ago)}, c.recovered); got != c.want {
				t.Errorf("written %v ago, recovered %v: due for %v", c.ago, c.recovered, got)
			}
		}
	})
}
