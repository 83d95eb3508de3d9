package provision_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/examples/provision"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

// workerVariable makes the test's own program a process that runs tasks, with its directory.
const workerVariable = "PROVISION_TEST_WORKER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(workerVariable); dir != "" {
		workerMain(dir)
	}
	// Most tests wait for other processes, and not for a processor.
	if err := flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func TestATaskMakesTheMachine(t *testing.T) {
	t.Parallel()
	i := newInstance(t, t.TempDir(), 0)
	i.run(t)
	got := i.create(t)
	if asked := i.until(t, got, "input_required"); asked.InputRequests["network"] == nil {
		t.Errorf("got %+v, want the question network", asked)
	}
	i.answer(t, got, `"action": "accept", "content": {"network": "isolated", "hostname": "www"}`)
	done := i.until(t, got, "completed")
	checkMachine(t, done.Result.StructuredContent, i.machine())
	if done.Result.StructuredContent.Network != "isolated" {
		t.Errorf("got %+v", done.Result.StructuredContent)
	}
	if diff := cmp.Diff(allSteps, effects(t, i.host)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

func TestATaskSaysWhatItDoesAndStopsAtOnce(t *testing.T) {
	t.Parallel()
	i := newInstance(t, t.TempDir(), time.Hour)
	i.run(t)
	id := i.create(t)
	wait(t, "it says what it does",
		func() bool { return i.get(t, id).StatusMessage == "Creating the directories (0 of 8)" })
	halted := make(chan struct{})
	go func() { i.halt(); close(halted) }()
	select {
	case <-halted:
	case <-time.After(2 * time.Minute):
		t.Fatal("the step does not stop")
	}
	if got := i.get(t, id); got.Status != "working" {
		t.Errorf("got %+v, want a task that another process goes on with", got)
	}
}

func TestATaskThatIsDeclinedLeavesNothing(t *testing.T) {
	t.Parallel()
	i := newInstance(t, t.TempDir(), 0)
	i.run(t)
	id := i.create(t)
	i.until(t, id, "input_required")
	i.answer(t, id, `"action": "decline"`)
	got := i.until(t, id, "completed").Result
	if got.IsError || got.StructuredContent.State != "removed" ||
		!strings.HasPrefix(got.text(), "web-1 was not provisioned: ") {
		t.Errorf("got %+v", got)
	}
	wantOnly(t, i.host, "effects.log")
}

func TestACancelledTaskLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		delay time.Duration
		reach func(*testing.T, *instance, string)
	}{
		{"while it asks", 0, func(t *testing.T, i *instance, id string) { i.until(t, id, "input_required") }},
		{"while it works", 300 * time.Millisecond, func(t *testing.T, i *instance, id string) {
			wait(t, "the disk image is being written", func() bool { return i.working() })
		}},
		{"after a restart", 0, func(t *testing.T, i *instance, id string) {
			i.until(t, id, "input_required")
			i.halt()
			i.run(t)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			i := newInstance(t, t.TempDir(), tt.delay)
			i.run(t)
			id := i.create(t)
			tt.reach(t, i, id)
			i.post(t, "tasks/cancel", id, `"taskId": "`+id+`"`, new(any))
			if got := i.get(t, id); got.Status != "cancelled" {
				t.Errorf("got %+v", got)
			}
			wait(t, "what was made is removed", func() bool { return slices.Contains(effects(t, i.host), "remove") })
			wantOnly(t, i.host, "effects.log")

			// The name is free again.
			i.until(t, i.create(t), "input_required")
		})
	}
}

func TestFilesThatWereChangedEndTheTask(t *testing.T) {
	t.Parallel()
	i := newInstance(t, t.TempDir(), 300*time.Millisecond)
	i.run(t)
	id := i.create(t)
	wait(t, "the disk image is written", func() bool { return slices.Contains(effects(t, i.host), "write-disk") })
	if err := os.WriteFile(i.machine("disk.img"), []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := i.until(t, id, "completed").Result
	if !got.IsError || !strings.HasPrefix(got.text(),
		"verify-files: "+i.machine("disk.img")+" is not as it was written: 14 bytes") {
		t.Errorf("got %+v, want a tool error", got)
	}
	wantOnly(t, i.host, "effects.log")
}

// A process that stops gives the task back in the middle of a step, and another goes on with it.
func TestAnotherProcessGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one := newInstance(t, dir, 300*time.Millisecond)
	one.run(t)
	id := one.create(t)
	wait(t, "the disk image is being written", func() bool { return one.working() })
	one.halt()
	if diff := cmp.Diff(allSteps[:1], effects(t, one.host)); diff != "" {
		t.Fatalf("effects (-want +got):\n%s", diff)
	}

	two := newInstance(t, dir, 0)
	two.run(t)
	two.until(t, id, "input_required")
	two.answer(t, id, `"action": "accept", "content": {"network": "nat"}`)
	checkMachine(t, two.until(t, id, "completed").Result.StructuredContent, two.machine())
	if diff := cmp.Diff(allSteps, effects(t, two.host)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// Processes are killed in the middle of steps. What was recorded is not done again; what was not, is.
func TestKilledProcesses(t *testing.T) {
	t.Parallel()
	i := newInstance(t, t.TempDir(), 0) // serves, and runs no tasks
	id := i.create(t)

	_, kill := startWorker(t, i.parent)
	wait(t, "the disk image is being written", func() bool { return i.working() })
	kill()

	_, kill = startWorker(t, i.parent)
	i.until(t, id, "input_required")
	i.answer(t, id, `"action": "accept", "content": {"network": "nat"}`)
	wait(t, "it boots", func() bool { return slices.Contains(effects(t, i.host), "configure-network") })
	kill()

	startWorker(t, i.parent)
	checkMachine(t, i.until(t, id, "completed").Result.StructuredContent, i.machine())

	// Between a step's effect and its record lies a moment in which a kill makes it count twice.
	times := make(map[string]int)
	all := effects(t, i.host)
	for _, step := range all {
		times[step]++
	}
	if len(times) != len(allSteps) || len(all) > len(allSteps)+2 {
		t.Errorf("effects %q, want each step once, but for one for each kill", all)
	}
}

// startWorker starts a process that runs tasks. It is killed at the end of the test, or before.
func startWorker(t *testing.T, dir string) (process *exec.Cmd, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVariable+"="+dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		if _ = cmd.Wait(); stderr.Len() > 0 {
			t.Errorf("a worker said: %s", &stderr)
		}
	})
	t.Cleanup(kill)
	return cmd, kill
}

func workerMain(dir string) {
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	i, err := open(ctx, dir, 300*time.Millisecond)
	if err == nil {
		err = i.server.RunTasks(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// instance is one process, as far as the tool can tell.
type instance struct {
	http.Handler
	parent string // of the store and the host
	host   *provision.Host
	store  *sqlite.Store
	server *askback.Server
	halt   func() // stops running tasks
}

func open(ctx context.Context, dir string, delay time.Duration) (*instance, error) {
	store, err := sqlite.Open(ctx, filepath.Join(dir, "tasks.db"))
	if err != nil {
		return nil, err
	}
	i := &instance{parent: dir, host: &provision.Host{Root: filepath.Join(dir, "machines"), Delay: delay}, store: store}
	i.Handler, i.server, err = server(i.host, &askback.Options{
		Tasks: &askback.Tasks{Store: store, Settings: task.Settings{Lease: 2 * time.Second}},
	})
	return i, err
}

func newInstance(t *testing.T, dir string, delay time.Duration) *instance {
	t.Helper()
	i, err := open(t.Context(), dir, delay)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return i
}

// run runs tasks until the test ends or i.halt is called.
func (i *instance) run(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := i.server.RunTasks(ctx); err != nil {
			t.Error(err)
		}
	})
	i.halt = func() { stop(); running.Wait() }
	t.Cleanup(i.halt)
}

// machine is the path of the machine, or of a file in it.
func (i *instance) machine(name ...string) string {
	return filepath.Join(append([]string{i.host.Root, "web-1"}, name...)...)
}

// working reports whether the disk image is being written.
func (i *instance) working() bool {
	found, _ := filepath.Glob(filepath.Join(i.host.Root, ".work-*", "disk.img-*"))
	return len(found) > 0
}

// status is how a task stands, as tasks/get says it.
type status struct {
	TaskID, Status, StatusMessage string
	InputRequests                 map[string]any
	Result                        result
}

func (i *instance) post(t *testing.T, method, name, params string, into any) {
	t.Helper()
	decode(t, request(t, i, method, name, params, "", withTasks), into)
}

// create calls the tool and returns the id of the task.
func (i *instance) create(t *testing.T) string {
	t.Helper()
	var created status
	i.post(t, "tools/call", "provision_vm", web1, &created)
	if created.TaskID == "" {
		t.Fatalf("got %+v, want a task", created)
	}
	return created.TaskID
}

func (i *instance) get(t *testing.T, id string) (now status) {
	t.Helper()
	i.post(t, "tasks/get", id, `"taskId": "`+id+`"`, &now)
	return now
}

func (i *instance) answer(t *testing.T, id, response string) {
	t.Helper()
	i.post(t, "tasks/update", id, `"taskId": "`+id+`", "inputResponses": {"network": {`+response+`}}`, new(any))
}

func (i *instance) until(t *testing.T, id, want string) (now status) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("the task: %+v", now)
		}
	}()
	wait(t, "the task is "+want, func() bool {
		if now = i.get(t, id); now.Status != want && (now.Status == "failed" || now.Status == "completed") {
			t.Fatalf("the task is %s (%s), want %s", now.Status, now.StatusMessage, want)
		}
		return now.Status == want
	})
	return now
}

func wait(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for range 6000 { // a minute: a lease ends in some tests, and machines are busy
		if happened() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("it never came about that %s", what)
}
