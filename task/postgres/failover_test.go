//go:build unix

package postgres_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/askback-mcp/askback/internal/taskrun"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/pgtest"
	"github.com/askback-mcp/askback/task"
)

const (
	failoverTasks = 20

	// The environment of a process of workers.
	workerDSN   = "ASKBACK_TEST_FAILOVER_DSN"
	workerLog   = "ASKBACK_TEST_FAILOVER_LOG" // a file that gets a line for each step that was finished
	workerCount = "ASKBACK_TEST_FAILOVER_WORKERS"
)

var failoverSteps = []string{"create", "boot", "join", "announce"}

// A primary is lost with the claims that its standby has not received, and the standby takes its place. A worker with a
// lost claim continues beside a worker to which the standby gives the same number: two processes never finish steps
// under one claim, and no journal gets a step twice. Another process is killed together with the primary.
func TestFailoverThatLosesClaims(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	primary := pgtest.Start(t)
	s := open(t, primary.DSN())
	var ids []string
	for range failoverTasks {
		ids = append(ids, create(t, s, newTask()).ID)
	}
	expect.Check(t, s.Close())
	standby := expect.Must(primary.Follow())(t) // has the tasks, and receives nothing later
	t.Cleanup(standby.Close)
	query(t, ctx, standby, "ALTER SYSTEM SET primary_conninfo = ''")
	query(t, ctx, standby, "SELECT pg_reload_conf()")
	until(t, ctx, "the standby receives nothing", func() bool {
		return query(t, ctx, standby, "SELECT count(*)::text FROM pg_stat_wal_receiver") == "0"
	})

	log := filepath.Join(t.TempDir(), "finished")
	fleet := fleetURL(t, primary, standby)
	// Most of the tasks are in the hands of a process that survives: of so many workers one is left to other principals.
	killed, survivor := startWorker(t, fleet, log, failoverTasks/4+1), startWorker(t, fleet, log, failoverTasks*3/4+1)
	until(t, ctx, "each task has finished a step", func() bool {
		finished := make(map[string]bool)
		for _, f := range readFinished(t, log) {
			finished[f.task] = true
		}
		return len(finished) == failoverTasks
	})
	before := readFinished(t, log)
	killed.kill()
	survivor.signal(syscall.SIGSTOP) // it reaches the standby after the newcomer has claimed its tasks
	expect.Check(t, primary.Stop())
	if got := query(t, ctx, standby, "SELECT max(fence)::text FROM askback.task"); got != "0" {
		t.Fatalf("the standby has received a claim: the fence is %s", got)
	}
	query(t, ctx, standby, "SELECT pg_promote()::text")
	newcomer := startWorker(t, fleet, log, failoverTasks+1)
	until(t, ctx, "the newcomer has claimed the tasks, under the numbers of lost claims", func() bool {
		claimed := query(t, ctx, standby, "SELECT count(*)::text FROM askback.task WHERE fence = 1")
		return claimed == strconv.Itoa(failoverTasks)
	})
	survivor.signal(syscall.SIGCONT)

	s = open(t, standby.DSN())
	defer s.Close()
	completed := func() (n int) {
		for _, id := range ids {
			if got, err := s.Get(ctx, id); err == nil && got.Status.Terminal() {
				n++
			}
		}
		return n
	}
	until(t, ctx, "all tasks are completed", func() bool { return completed() == failoverTasks })
	newcomer.kill()
	survivor.kill()

	all := readFinished(t, log)
	finished := make(map[[2]string]bool) // the steps of tasks
	again := 0
	byClaim, byNumber := make(map[claimed]map[string]bool), make(map[claimed]map[string]bool) // the processes
	for _, f := range all {
		step := [2]string{f.task, f.step}
		if finished[step] {
			again++
		}
		finished[step] = true
		note(byClaim, f.claimed, f.pid)
		note(byNumber, claimed{task: f.task, fence: f.fence}, f.pid)
	}
	shared, sharedNumbers := ofSeveral(byClaim), ofSeveral(byNumber)
	twice := 0
	for _, id := range ids {
		_, entries, err := s.Journal(ctx, id, -1)
		expect.Check(t, err)
		seen := make(map[string]bool)
		for _, e := range entries {
			step, _, _ := strings.Cut(string(e), " ")
			seen[step] = true
		}
		if len(entries) > len(seen) {
			twice++
			t.Logf("the journal of %.6s: %q", id, entries)
		}
		if len(seen) != len(failoverSteps) {
			t.Errorf("the journal of %.6s has %q, want each of the %d steps", id, entries, len(failoverSteps))
		}
	}
	t.Logf("%d tasks, %d steps finished before the failover and %d after it, %d of them again; %d numbers of claims "+
		"under which two processes finished steps",
		failoverTasks, len(before), len(all)-len(before), again, sharedNumbers)
	if shared > 0 {
		t.Errorf("under %d claims two processes finished steps", shared)
	}
	if twice > 0 {
		t.Errorf("%d of %d journals have a step twice", twice, failoverTasks)
	}
	if sharedNumbers == 0 {
		t.Error("no number of a claim was given again: the failover has lost none")
	}
}

// TestFailoverWorker is a process of workers, which runs until it is killed.
func TestFailoverWorker(t *testing.T) {
	dsn := os.Getenv(workerDSN)
	if dsn == "" {
		t.Skip("for TestFailoverThatLosesClaims")
	}
	s := open(t, dsn)
	log, err := os.OpenFile(os.Getenv(workerLog), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	expect.Check(t, err)
	workers, err := strconv.Atoi(os.Getenv(workerCount))
	expect.Check(t, err)
	e, err := taskrun.NewEngine(s, &taskrun.Options{
		Settings: task.Settings{Workers: workers},
		Look:     100 * time.Millisecond,
		Logger:   slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Handler: func(ctx context.Context, w *taskrun.Work) (taskrun.Verdict, error) {
			done := make(map[string]bool)
			for _, e := range w.Entries {
				step, _, _ := strings.Cut(string(e), " ")
				done[step] = true
			}
			for _, step := range failoverSteps {
				if done[step] {
					continue
				}
				select { // its work
				case <-time.After(500 * time.Millisecond):
				case <-ctx.Done():
					return taskrun.Verdict{}, ctx.Err()
				}
				fmt.Fprintf(log, "%s %s %d %s %d\n", w.Task.ID, step, w.Task.Fence, w.Task.Nonce, os.Getpid())
				if err := w.Record(ctx, fmt.Appendf(nil, "%s %s", step, w.Task.Nonce)); err != nil {
					return taskrun.Verdict{}, err
				}
			}
			return taskrun.Verdict{Status: task.Completed, Outcome: []byte("done")}, nil
		},
	})
	expect.Check(t, err)
	fmt.Println("runs")
	go func() { // it ends with the process that started it
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		os.Exit(0)
	}()
	_ = e.Run(t.Context())
}

// claimed is a claim of a task as a process of workers has seen it.
type claimed struct{ task, fence, nonce string }

// note adds a process to the processes that have finished steps under a claim.
func note(pids map[claimed]map[string]bool, under claimed, pid string) {
	if pids[under] == nil {
		pids[under] = make(map[string]bool)
	}
	pids[under][pid] = true
}

// ofSeveral counts the claims under which several processes have finished steps.
func ofSeveral(pids map[claimed]map[string]bool) (n int) {
	for _, by := range pids {
		if len(by) > 1 {
			n++
		}
	}
	return n
}

type finishedStep struct {
	claimed
	step, pid string
}

// readFinished reads the log of the processes. A line that is being written is left out.
func readFinished(t *testing.T, log string) (all []finishedStep) {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), " "); len(f) == 5 && strings.HasSuffix(line, "\n") {
			all = append(all, finishedStep{claimed{f[0], f[2], f[3]}, f[1], f[4]})
		}
	}
	return all
}

type worker struct {
	t       *testing.T
	process *exec.Cmd
}

// startWorker starts a process of so many workers.
func startWorker(t *testing.T, dsn, log string, workers int) *worker {
	t.Helper()
	w := &worker{t, exec.Command(os.Args[0], "-test.run=^TestFailoverWorker$")}
	w.process.Env = append(os.Environ(), workerDSN+"="+dsn, workerLog+"="+log, workerCount+"="+strconv.Itoa(workers))
	w.process.Stderr = t.Output()
	_, err := w.process.StdinPipe() // ends with this process
	expect.Check(t, err)
	expect.Check(t, w.process.Start())
	t.Cleanup(w.kill)
	return w
}

func (w *worker) signal(s syscall.Signal) {
	w.t.Helper()
	if err := w.process.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

// kill ends the process as a crash does.
func (w *worker) kill() {
	if w.process.ProcessState == nil {
		_ = w.process.Process.Kill()
		_ = w.process.Wait()
	}
}

// fleetURL is the URL of the server that accepts writes.
func fleetURL(t *testing.T, servers ...*pgtest.Server) string {
	t.Helper()
	var hosts []string
	var u *url.URL
	for _, s := range servers {
		var err error
		if u, err = url.Parse(s.DSN()); err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, u.Host)
	}
	u.Host = strings.Join(hosts, ",")
	u.RawQuery = url.Values{"target_session_attrs": {"read-write"}, "connect_timeout": {"2"}}.Encode()
	return u.String()
}

// query returns the first value of a statement, or "".
func query(t *testing.T, ctx context.Context, s *pgtest.Server, sql string) (first string) {
	t.Helper()
	conn, err := pgx.Connect(ctx, s.DSN())
	expect.Check(t, err)
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, sql, pgx.QueryExecModeSimpleProtocol).Scan(&first); err != nil && err != pgx.ErrNoRows &&
		!strings.Contains(err.Error(), "cannot scan") {
		t.Fatalf("%s: %v", sql, err)
	}
	return first
}

// until waits until what is so.
func until(t *testing.T, ctx context.Context, what string, so func() bool) {
	t.Helper()
	for tick := time.NewTicker(20 * time.Millisecond); !so(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waiting until %s: %v", what, context.Cause(ctx))
		}
	}
}
