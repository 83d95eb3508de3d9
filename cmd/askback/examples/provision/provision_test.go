package provision_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/cmd/askback/examples/provision"
)

var allSteps = []string{
	"create-directories", "write-disk", "write-config", "verify-files", "configure-network", "boot", "write-manifest",
}

// run calls provision_vm for a client without tasks. A first round that is sent twice is two calls, and this tool has
// begun its work by then: no response may be lost.
func run(t *testing.T, host *provision.Host, arguments map[string]any,
	answers map[string]askbacktest.Answer) *askbacktest.Result {
	t.Helper()
	return askbacktest.Run(t, func(s *askback.Server) { provision.Register(s, host) }, askbacktest.Call{
		Tool: "provision_vm", Arguments: arguments, Answers: answers, Lossless: true,
	})
}

func network(name, hostname string) map[string]askbacktest.Answer {
	return map[string]askbacktest.Answer{
		"network": askbacktest.Accept(map[string]string{"network": name, "hostname": hostname}),
	}
}

func TestAMachineIsMade(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	res := run(t, host, map[string]any{"name": "web-1", "cpus": 4, "diskMiB": 2}, network("bridge", "www"))
	dir := filepath.Join(host.Root, "web-1")
	want := "web-1 is running: 4 CPUs, 1024 MiB of memory, 2 MiB of disk, network bridge, " +
		"host name www.\nIts files are in " + dir + "."
	if diff := cmp.Diff(want, res.Text()); diff != "" {
		t.Fatalf("text (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][]string{{"network"}}, res.Asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(allSteps, effects(t, host)); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
	checkMachine(t, structured(t, res), dir)

	var settings map[string]string
	readJSON(t, filepath.Join(dir, "config", "network.json"), &settings)
	if diff := cmp.Diff(map[string]string{"network": "bridge", "hostname": "www"}, settings); diff != "" {
		t.Errorf("network.json (-want +got):\n%s", diff)
	}
	if log := readFile(t, filepath.Join(dir, "boot.log")); !strings.HasPrefix(log, "www: 4 CPUs, 1024 MiB of memory, "+
		"network bridge\n") ||
		strings.Count(log, "\n") < 3 {
		t.Errorf("boot.log: %q", log)
	}
	if _, err := ssh.ParsePrivateKey([]byte(readFile(t,
		filepath.Join(dir, "config", "ssh_host_ed25519_key")))); err != nil {
		t.Error(err)
	}
}

// checkMachine compares a result with what is on the disk, to the last file.
func checkMachine(t *testing.T, out provision.Outcome, dir string) {
	t.Helper()
	if out.State != "running" || out.Path != dir || len(out.ID) != 32 {
		t.Errorf("got %+v, want a running machine in %s", out, dir)
	}
	want := map[string]string{"machine.json": out.SHA256}
	for _, f := range out.Files {
		want[f.Name] = f.SHA256
		if info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(f.Name))); err != nil || info.Size() != f.Size {
			t.Errorf("%s: %v, %v; want %d bytes", f.Name, info, err, f.Size)
		}
	}
	got := make(map[string]string)
	for _, name := range files(t, dir) {
		if name != "claim" {
			sum := sha256.Sum256([]byte(readFile(t, filepath.Join(dir, filepath.FromSlash(name)))))
			got[name] = hex.EncodeToString(sum[:])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files with their hashes (-in the result +on the disk):\n%s", diff)
	}
	var manifest struct {
		provision.Outcome
		Begun time.Time
	}
	readJSON(t, filepath.Join(dir, "machine.json"), &manifest)
	out.SHA256 = "" // a file cannot hold its own
	if diff := cmp.Diff(out, manifest.Outcome); diff != "" {
		t.Errorf("machine.json (-result +file):\n%s", diff)
	}
	if age := time.Since(manifest.Begun); age < -time.Second || age > time.Minute {
		t.Errorf("begun at %v", manifest.Begun)
	}
}

func TestTheHostNameIsTheMachinesUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	for _, answer := range []map[string]string{{"network": "nat"}, {"network": "nat", "hostname": ""}} {
		res := run(t, newHost(t), map[string]any{"name": "db", "diskMiB": 1},
			map[string]askbacktest.Answer{"network": askbacktest.Accept(answer)})
		if out := structured(t, res); out.Hostname != "db" || out.Network != "nat" {
			t.Errorf("%v: got %+v", answer, out)
		}
	}
}

func TestAHostNameThatCannotBeIsAskedForAgain(t *testing.T) {
	t.Parallel()
	answers := network("nat", "Web Server")
	answers["hostname-1"] = askbacktest.Accept(map[string]string{"hostname": "-"})
	answers["hostname-2"] = askbacktest.Accept(map[string]string{"hostname": "web"})
	res := run(t, newHost(t), map[string]any{"name": "web-1", "diskMiB": 1}, answers)
	if out := structured(t, res); out.Hostname != "web" {
		t.Errorf("got %+v", out)
	}
	if diff := cmp.Diff([][]string{{"network"}, {"hostname-1"}, {"hostname-2"}}, res.Asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestAQuestionDeclinedRemovesTheMachine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		answer askbacktest.Answer
		why    string
	}{
		{askbacktest.Decline(), "the user declined to answer"},
		{askbacktest.Cancel(), "was dismissed without an answer"},
	} {
		host := newHost(t)
		res := run(t, host, map[string]any{"name": "web-1", "diskMiB": 1},
			map[string]askbacktest.Answer{"network": tt.answer})
		if res.Tool.IsError || !strings.HasPrefix(res.Text(), "web-1 was not provisioned: ") ||
			!strings.Contains(res.Text(), tt.why) {
			t.Errorf("got %q", res.Text())
		}
		if diff := cmp.Diff(provision.Outcome{Name: "web-1", State: "removed"}, structured(t, res)); diff != "" {
			t.Errorf("result (-want +got):\n%s", diff)
		}
		wantOnly(t, host, "effects.log")
		if diff := cmp.Diff(append(allSteps[:4:4], "remove"), effects(t, host)); diff != "" {
			t.Errorf("effects (-want +got):\n%s", diff)
		}
		// The name is free again.
		if out := structured(t, run(t, host, map[string]any{"name": "web-1", "diskMiB": 1},
			network("nat", ""))); out.State != "running" {
			t.Errorf("got %+v", out)
		}
	}
}

func TestAMachineIsNotMadeTwice(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	before := structured(t, run(t, host, map[string]any{"name": "web-1", "diskMiB": 1}, network("nat", "")))
	res := run(t, host, map[string]any{"name": "web-1", "diskMiB": 2}, nil)
	dir := filepath.Join(host.Root, "web-1")
	want := "create-directories: there is a machine web-1 already: choose another name, or remove " + dir + " first"
	if !res.Tool.IsError || res.Text() != want {
		t.Errorf("got %q, want the tool error %q", res.Text(), want)
	}
	checkMachine(t, before, dir)
}

func TestADirectoryOfSomebodyElseIsLeftAlone(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	theirs := filepath.Join(host.Root, "web-1", "precious")
	if err := os.MkdirAll(theirs, 0o700); err != nil {
		t.Fatal(err)
	}
	res := run(t, host, map[string]any{"name": "web-1"}, nil)
	if !res.Tool.IsError || !strings.Contains(res.Text(),
		"is there, and no machine: choose another name, or move it away") {
		t.Errorf("got %q", res.Text())
	}
	if diff := cmp.Diff([]string{"web-1"}, entries(t, host)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(theirs); err != nil {
		t.Error(err)
	}
}

func TestArgumentsOutOfBoundsMakeNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		arguments map[string]any
		why       string
	}{
		{map[string]any{}, "name"},
		{map[string]any{"name": ""}, "name"},
		{map[string]any{"name": "../web"}, "name"},
		{map[string]any{"name": "web/1"}, "name"},
		{map[string]any{"name": `web\1`}, "name"},
		{map[string]any{"name": ".."}, "name"},
		{map[string]any{"name": "web\n"}, "name"},
		{map[string]any{"name": "WEB"}, "name"},
		{map[string]any{"name": "web-"}, "name"},
		{map[string]any{"name": strings.Repeat("x", 33)}, "name"},
		{map[string]any{"name": "web", "cpus": 0}, "cpus"},
		{map[string]any{"name": "web", "cpus": 65}, "cpus"},
		{map[string]any{"name": "web", "memoryMiB": 1}, "memoryMiB"},
		{map[string]any{"name": "web", "diskMiB": 257}, "diskMiB"},
		{map[string]any{"name": "web", "diskMiB": 1.5}, "diskMiB"},
	} {
		host := newHost(t)
		res := run(t, host, tt.arguments, nil)
		if res.Tool == nil || !res.Tool.IsError || !strings.Contains(res.Text(), tt.why) {
			t.Errorf("%v: got %q, want a tool error that names %s", tt.arguments, res.Text(), tt.why)
		}
		wantOnly(t, host)
	}
}

func TestAClientThatCannotBeAskedIsToldBeforeTheWork(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	res := askbacktest.Run(t, func(s *askback.Server) { provision.Register(s, host) }, askbacktest.Call{
		Tool: "provision_vm", Arguments: map[string]any{"name": "web-1"}, Cannot: askback.CapabilityForm,
	})
	if res.Err == nil || res.Err.Code != -32021 {
		t.Errorf("got %+v, want the error -32021", res)
	}
	wantOnly(t, host)
}

func TestAProgramThatIsMissingIsNamedBeforeTheWork(t *testing.T) {
	host := newHost(t)
	t.Setenv("PATH", t.TempDir())
	res := run(t, host, map[string]any{"name": "web-1"}, nil)
	if !res.Tool.IsError || !strings.Contains(res.Text(), "the host lacks a program that the boot needs") {
		t.Errorf("got %q", res.Text())
	}
	wantOnly(t, host)
}

func newHost(t *testing.T) *provision.Host {
	return &provision.Host{Root: filepath.Join(t.TempDir(), "machines")}
}

func structured(t *testing.T, res *askbacktest.Result) (out provision.Outcome) {
	t.Helper()
	if res.Tool == nil || res.Tool.IsError {
		t.Fatalf("got %q", res.Text())
	}
	data, err := json.Marshal(res.Tool.StructuredContent)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// effects are the steps done on the host, in order.
func effects(t *testing.T, host *provision.Host) (steps []string) {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(host.Root, "effects.log"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		fields := strings.Fields(line)
		if _, err := time.Parse(time.RFC3339Nano, fields[0]); err != nil || len(fields) != 4 {
			t.Errorf("effects.log: %q", line)
		}
		steps = append(steps, fields[1])
	}
	return steps
}

// wantOnly wants nothing else in the host's directory.
func wantOnly(t *testing.T, host *provision.Host, names ...string) {
	t.Helper()
	if diff := cmp.Diff(names, entries(t, host)); diff != "" {
		t.Errorf("left on the host (-want +got):\n%s", diff)
	}
}

func entries(t *testing.T, host *provision.Host) (names []string) {
	t.Helper()
	all, err := os.ReadDir(host.Root)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

// files are the files below a directory, with slashes in their names.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(readFile(t, name)), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
