package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
	"github.com/askback-mcp/askback/task"
	"github.com/askback-mcp/askback/task/sqlite"
)

// Two calls of deploy wait for people, one of a client that takes tasks and one of a client that does not. Each is
// approved by two, although the server is killed with SIGKILL after the first vote. One of the second votes comes while
// no server runs.
func TestDeployOverAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func() (url string, kill func()) {
		var stderr bytes.Buffer
		cmd := exec.Command("askback", "serve", "--addr", "127.0.0.1:0", "--drain-delay", "0s", "--lease", "1s", "--wait",
			"1ms", "--as", "carol", "--data", dir)
		cmd.Env, cmd.Stderr = append(os.Environ(), "GORACE=atexit_sleep_ms=1"), &stderr
		p, err := child.Start(cmd)
		expect.Check(t, err)
		t.Cleanup(func() {
			p.Kill()
			if t.Failed() {
				t.Logf("the server wrote:\n%s", &stderr)
			}
		})
		line, err := p.Wait(time.Minute)
		expect.Check(t, err)
		return strings.TrimPrefix(line, "listening on "), p.Kill
	}
	run := func(args ...string) string {
		t.Helper()
		code, stdout, stderr := command(t, args...)
		if code != cli.ExitOK {
			t.Fatalf("%q: exit code %d: %s", args, code, stderr)
		}
		return strings.TrimSpace(stdout)
	}

	url, kill := start()
	id := run("call", url, "deploy", "version=4.2", "--detach")
	words := run("call", url, "deploy", "version=4.3", "--tasks", "off")
	named := regexp.MustCompile(`"([A-Z2-7]{26})"`).FindStringSubmatch(words)
	if named == nil {
		t.Fatalf("no name in %q", words)
	}

	store, err := sqlite.Open(t.Context(), filepath.Join(dir, "tasks.db"))
	expect.Check(t, err)
	defer store.Close()
	d, err := desk.Open(store, nil)
	expect.Check(t, err)
	vote := func(name, version string) {
		t.Helper()
		by := desk.Person{Name: name, Groups: []string{"release"}}
		harness.Eventually(t, fmt.Sprintf("%s can vote on %s", name, version), func() bool {
			for q, err := range d.Waiting(t.Context(), desk.Waiting{As: &by}) {
				expect.Check(t, err)
				if q.Message != "Deploy version "+version+"?" {
					continue
				}
				expect.Must(d.Answer(t.Context(), q.Name, q.Key, desk.Answer{By: by, Action: "accept"}))(t)
				return true
			}
			return false
		})
	}
	vote("ada", "4.2")
	vote("ada", "4.3")
	kill()
	run("inbox", "answer", "sqlite:"+filepath.Join(dir, "tasks.db"), task.Name(id), "approve", "--as", "bob", "--groups",
		"release", "--accept", "{}")
	url, _ = start()
	vote("bob", "4.3")

	const approved = "Version %s is deployed, approved by ada and bob."
	expect.Equal(t, "the client that takes tasks gets", run("task", "result", url, id), fmt.Sprintf(approved, "4.2"))
	harness.Eventually(t, "the client that takes none gets its result", func() bool {
		return run("call", url, "askback_result", "name="+named[1], "--tasks", "off") == fmt.Sprintf(approved, "4.3")
	})
}

// Nobody can be asked for a caller without a name, or without a store or a state: then the server has no tool that
// would.
func TestServersWithoutADesk(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--as", ""}, {"--bare"}, {"--store", "none"}} {
		url := startServe(t, append([]string{"--data", t.TempDir()}, args...)...)
		code, stdout, stderr := command(t, "tools", url)
		if code != cli.ExitOK || !strings.Contains(stdout, "provision_vm") {
			t.Fatalf("%q: exit code %d: %s", args, code, stderr)
		}
		for _, tool := range []string{"deploy", "askback_result"} {
			if strings.Contains(stdout, tool) {
				t.Errorf("%q: there is a tool %s", args, tool)
			}
		}
		if args[0] == "--as" {
			if code, _, stderr := command(t, "task", "list", "--tasks", "proposal", url); code != cli.ExitOK {
				t.Errorf("a caller without a name cannot list the tasks: %s", stderr)
			}
		}
	}
}
