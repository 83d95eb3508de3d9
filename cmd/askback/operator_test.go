package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// An operator sees what waits in a store, and for what, and cancels it.
func TestAnOperatorSeesAndCancelsTasks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := "sqlite:" + filepath.Join(dir, "tasks.db")
	url := startServe(t, "--store", store, "--data", dir, "--as", "carol")
	code, id, stderr := command(t, "call", url, "provision_vm", "name=web-1", "diskMiB=1", "--detach")
	if code != 0 {
		t.Fatal(stderr)
	}
	id = strings.TrimSpace(id)
	list := func(args ...string) (tasks []desk.Task) {
		t.Helper()
		code, stdout, stderr := command(t, append([]string{"task", "list", store, "--json"}, args...)...)
		if code != 0 {
			t.Fatal(stderr)
		}
		var got struct{ Tasks []desk.Task }
		expect.Check(t, json.Unmarshal([]byte(stdout), &got))
		if strings.Contains(stdout, id) {
			t.Errorf("the id is told: %s", stdout)
		}
		return got.Tasks
	}
	until := func(what string, happened func() bool) {
		t.Helper()
		for range 3000 {
			if happened() {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Fatal("it never came about that " + what)
	}
	var waits []desk.Task
	until("the task waits", func() bool { waits = list("--status", "input_required"); return len(waits) == 1 })
	if w := waits[0]; w.Name != task.Name(id) || w.Target != "provision_vm" || w.Principal != "carol" ||
		len(w.Questions) != 1 || w.Questions[0].Key != "network" ||
		!strings.Contains(w.Questions[0].Message, "Which network") || time.Since(w.Created) > time.Hour {
		t.Errorf("%+v", w)
	}
	for _, none := range [][]string{{"--status", "working"}, {"--caller", "bob"}, {"--tool", "other"}} {
		if got := list(none...); len(got) != 0 {
			t.Errorf("%v: %+v", none, got)
		}
	}
	if got := list("--caller", "carol", "--tool", "provision_vm", "--status", "working,input_required"); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	_, text, _ := command(t, "task", "list", store)
	for _, want := range []string{"WAITS FOR", "input_required", "carol", "network: The files of web-1 are ready"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}

	if code, _, stderr := command(t, "task", "cancel", store, task.Name(id)[:5], "--reason", "?"); code != 1 ||
		!strings.Contains(stderr, "at least 6 characters") {
		t.Errorf("a short name: %d %s", code, stderr)
	}
	name := task.Name(id)[:8]
	if code, stdout, stderr := command(t, "task", "get", store, name); code != 0 || strings.Contains(stdout, id) ||
		!strings.Contains(stdout, task.Name(id)) || !strings.Contains(stdout, "network: The files of web-1 are ready") {
		t.Errorf("%d %s %s", code, stdout, stderr)
	}
	code, stdout, stderr := command(t, "task", "cancel", store, name, "--as", "alice", "--reason", "the host is replaced")
	if code != 0 || !strings.Contains(stdout, "is cancelled") {
		t.Fatalf("%d %s %s", code, stdout, stderr)
	}
	if got := list("--status", "cancelled"); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	code, _, stderr = command(t, "task", "cancel", store, name, "--reason", "again")
	if code != 1 || !strings.Contains(stderr, "none that has not ended") {
		t.Errorf("again: %d %s", code, stderr)
	}
	// What runs such tasks removes what was made.
	until("the machine is gone", func() bool {
		found, err := filepath.Glob(filepath.Join(dir, "machines", "web-1*"))
		return err == nil && len(found) == 0
	})
	// Who cancelled it is known afterwards, and not to its client.
	if _, text, _ := command(t, "task", "get", store, name); !strings.Contains(text, "by alice: the host is replaced") {
		t.Errorf("the operator sees\n%s", text)
	}
	if code, text, stderr := command(t, "task", "get", url, id); code != 0 || strings.Contains(text, "alice") {
		t.Errorf("the client sees %d %s %s", code, text, stderr)
	}
}

func TestOperatorsMistakes(t *testing.T) {
	t.Parallel()
	absent := "sqlite:" + filepath.Join(t.TempDir(), "absent.db")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"list", "--status", "working", "http://127.0.0.1:1/mcp"}, 2, "are for a store"},
		{[]string{"list", "--status", "wrking", absent}, 2, "want working, input_required"},
		{[]string{"list", "--status", "none", absent}, 2, "none"},
		{[]string{"list", absent}, 1, "no such file"},
		{[]string{"cancel", absent, "abcdef", "--reason", "?"}, 1, "no such file"},
		{[]string{"cancel", absent, "abcdef"}, 2, "needs --reason"},
		{[]string{"cancel", "sqlite:", "abcdef", "--reason", "?"}, 2, "sqlite:PATH"},
		{[]string{"cancel", "http://127.0.0.1:1/mcp", "abcdef", "--as", "me"}, 2, "are for a store"},
		{[]string{"get", absent, "abcdef"}, 1, "no such file"},
	} {
		if code, _, stderr := command(t, append([]string{"task"}, c.args...)...); code != c.code ||
			!strings.Contains(stderr, c.want) {
			t.Errorf("%q: %d %s", c.args, code, stderr)
		}
	}
}
