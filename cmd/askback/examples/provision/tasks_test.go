package provision_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/cmd/askback/examples/provision"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

func TestATaskMakesTheMachine(t *testing.T) {
	t.Parallel()
	i := newInstance(t, t.TempDir(), 0)
	id := i.create()
	if asked := i.get(id, "input_required"); harness.At(asked, "inputRequests", "network") == nil {
		t.Errorf("got %+v, want the question network", asked)
	}
	i.answer(id, `"action": "accept", "content": {"network": "isolated", "hostname": "www"}`)
	machine := i.outcome(t, id)
	checkMachine(t, machine, i.machine())
	if machine.Network != "isolated" {
		t.Errorf("got %+v", machine)
	}
	if diff := cmp.Diff(allSteps, effects(t, i.host)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

func TestATaskSaysWhatItDoesAndStopsAtOnce(t *testing.T) {
	t.Parallel()
	i := newInstance(t, t.TempDir(), time.Hour)
	id := i.create()
	harness.Eventually(t, "it says what it does", func() bool {
		return i.get(id, "working")["statusMessage"] == "Creating the directories (0 of 8)"
	})
	i.Stop()             // and does not wait for an hour
	i.get(id, "working") // another process continues it
}

func TestATaskThatIsDeclinedLeavesNothing(t *testing.T) {
	t.Parallel()
	i := newInstance(t, t.TempDir(), 0)
	id := i.create()
	i.get(id, "input_required")
	i.answer(id, `"action": "decline"`)
	result := harness.At(i.get(id, "completed"), "result")
	text, _ := harness.Content(result.(map[string]any)).(string)
	if harness.At(result, "isError") == true || harness.At(result, "structuredContent", "state") != "removed" ||
		!strings.HasPrefix(text, "web-1 was not provisioned: ") {
		t.Errorf("got %+v", result)
	}
	wantOnly(t, i.host, "effects.log")
}

func TestACancelledTaskLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		delay time.Duration
		reach func(t *testing.T, i *instance, id string) *instance
	}{
		{"while it asks", 0, func(_ *testing.T, i *instance, id string) *instance {
			i.get(id, "input_required")
			return i
		}},
		{"while it works", 300 * time.Millisecond, func(t *testing.T, i *instance, id string) *instance {
			harness.Eventually(t, "the disk image is being written", i.working)
			return i
		}},
		{"after a restart", 0, func(t *testing.T, i *instance, id string) *instance {
			i.get(id, "input_required")
			i.Stop()
			return newInstance(t, filepath.Dir(i.host.Root), 0)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			i := newInstance(t, t.TempDir(), tt.delay)
			id := i.create()
			i = tt.reach(t, i, id)
			i.Result(harness.WithExtension, "tasks/cancel", id, `"taskId": "`+id+`"`)
			i.get(id, "cancelled")
			harness.Eventually(t, "what was made is removed",
				func() bool { return slices.Contains(effects(t, i.host), "remove") })
			wantOnly(t, i.host, "effects.log")
			i.get(i.create(), "input_required") // the name is free again
		})
	}
}

func TestFilesThatWereChangedEndTheTask(t *testing.T) {
	t.Parallel()
	i := newInstance(t, t.TempDir(), 300*time.Millisecond)
	id := i.create()
	harness.Eventually(t, "the disk image is written",
		func() bool { return slices.Contains(effects(t, i.host), "write-disk") })
	if err := os.WriteFile(i.machine("disk.img"), []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	result := harness.At(i.get(id, "completed"), "result")
	text, _ := harness.Content(result.(map[string]any)).(string)
	if harness.At(result, "isError") != true ||
		!strings.HasPrefix(text, "verify-files: "+i.machine("disk.img")+" is not as it was written: 14 bytes") {
		t.Errorf("got %+v, want a tool error", result)
	}
	wantOnly(t, i.host, "effects.log")
}

// A process that stops gives the task back in the middle of a step, and another goes on with it.
func TestAnotherProcessGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one := newInstance(t, dir, 300*time.Millisecond)
	id := one.create()
	harness.Eventually(t, "the disk image is being written", one.working)
	one.Stop()
	if diff := cmp.Diff(allSteps[:1], effects(t, one.host)); diff != "" {
		t.Fatalf("effects (-want +got):\n%s", diff)
	}

	two := newInstance(t, dir, 0)
	two.get(id, "input_required")
	two.answer(id, `"action": "accept", "content": {"network": "nat"}`)
	checkMachine(t, two.outcome(t, id), two.machine())
	if diff := cmp.Diff(allSteps, effects(t, two.host)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// instance is one process, as far as the tool can tell.
type instance struct {
	*harness.TaskServer
	host *provision.Host
}

func newInstance(t *testing.T, dir string, delay time.Duration) *instance {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "tasks.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	host := &provision.Host{Root: filepath.Join(dir, "machines"), Delay: delay}
	settings := task.Settings{Lease: 2 * time.Second}
	return &instance{harness.NewTaskServerOn(t, store, &askback.Options{Tasks: &askback.Tasks{Settings: settings}},
		func(s *askback.Server) { provision.Register(s, host) }), host}
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

// create calls the tool and returns the id of the task.
func (i *instance) create() string {
	created := i.Result(harness.WithExtension, "tools/call", "provision_vm",
		`"name": "provision_vm", "arguments": {"name": "web-1", "diskMiB": 2}`)
	return created["taskId"].(string)
}

func (i *instance) get(id, status string) map[string]any {
	return i.Get(harness.WithExtension, id, status)
}

func (i *instance) answer(id, response string) {
	i.Result(harness.WithExtension, "tasks/update", id, harness.Answered(id, `"network": {`+response+`}`))
}

// outcome waits for the machine.
func (i *instance) outcome(t *testing.T, id string) (machine provision.Outcome) {
	t.Helper()
	data, err := json.Marshal(harness.At(i.get(id, "completed"), "result", "structuredContent"))
	if err == nil {
		err = json.Unmarshal(data, &machine)
	}
	if err != nil {
		t.Fatal(err)
	}
	return machine
}
