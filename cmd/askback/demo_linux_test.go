package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/ptytest"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// terminalDemo is `askback demo` on a terminal, where it waits for a person.
type terminalDemo struct {
	cmd    *exec.Cmd
	keys   *os.File // what the person types
	tmp    string   // its directory for temporary files
	closed chan struct{}

	mu     sync.Mutex
	screen bytes.Buffer
}

// startDemo starts the demo on a terminal that does no more than lines.
func startDemo(t *testing.T) *terminalDemo {
	t.Helper()
	ptmx, tty := ptytest.Open(t, 40, 80)
	d := &terminalDemo{cmd: exec.Command("askback", "demo"), keys: ptmx, tmp: t.TempDir(), closed: make(chan struct{})}
	d.cmd.Stdin, d.cmd.Stdout, d.cmd.Stderr = tty, tty, tty
	d.cmd.Env = append(os.Environ(), "TERM=dumb", "TMPDIR="+d.tmp)
	// Not as its controlling terminal, which would end the servers with the demo, whatever they do themselves.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	expect.Check(t, d.cmd.Start())
	tty.Close()
	go func() {
		defer close(d.closed)
		_, _ = io.Copy(d, ptmx) // until every process has closed the terminal
	}()
	t.Cleanup(func() {
		_ = d.cmd.Process.Kill()
		<-d.closed
		ptmx.Close()
	})
	return d
}

func (d *terminalDemo) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.screen.Write(p)
}

// shown is what the terminal has shown so far.
func (d *terminalDemo) shown() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.ReplaceAll(d.screen.String(), "\r\n", "\n")
}

// waitFor waits until the terminal shows the text.
func (d *terminalDemo) waitFor(t *testing.T, text string) {
	t.Helper()
	ended := false
	eventually(func() bool {
		select {
		case <-d.closed:
			ended = true
		default:
		}
		return ended || strings.Contains(d.shown(), text)
	})
	if !strings.Contains(d.shown(), text) {
		t.Fatalf("the terminal does not show %q, but\n%s", text, d.shown())
	}
}

// eventually polls the outside world, which has a clock of its own.
func eventually(ok func() bool) bool {
	for range 3000 {
		if ok() {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

var fleetLine = regexp.MustCompile(`(?m)─ server \d   port \d+ +pid (\d+)$`)

// fleet is the process ids of the servers that the demo says it has.
func (d *terminalDemo) fleet(t *testing.T) []string {
	t.Helper()
	var pids []string
	for _, match := range fleetLine.FindAllStringSubmatch(d.shown(), -1) {
		pids = append(pids, match[1])
	}
	if len(pids) != 3 {
		t.Fatalf("no %d servers in\n%s", 3, d.shown())
	}
	return pids
}

// serving reports whether a process of this id runs `serve`. A process that ended, and that nobody waits for, does not.
func serving(pid string) bool {
	arguments, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	return err == nil && bytes.Contains(arguments, []byte("\x00serve\x00"))
}

func kill(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err == nil {
		err = syscall.Kill(n, syscall.SIGKILL)
	}
	expect.Check(t, err)
}

// Whatever ends the demo in the middle, no server outlives it; and if it can do anything about it, no file.
func TestDemoLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(unix.SignalName(signal), func(t *testing.T) {
			t.Parallel()
			d := startDemo(t)
			d.waitFor(t, "How was this bug resolved?")
			servers := d.fleet(t)
			if serving(servers[0]) {
				t.Errorf("server 1 asked, and was not killed:\n%s", d.shown())
			}
			for _, pid := range servers[1:] {
				if !serving(pid) {
					t.Errorf("no server is process %s:\n%s", pid, d.shown())
				}
			}
			if files, err := filepath.Glob(filepath.Join(d.tmp, "askback-demo-*", "*")); err != nil || len(files) == 0 {
				t.Errorf("the demo keeps its files elsewhere than in %s", d.tmp)
			}

			expect.Check(t, d.cmd.Process.Signal(signal))
			err := d.cmd.Wait()
			for _, pid := range servers {
				if !eventually(func() bool { return !serving(pid) }) {
					t.Errorf("process %s outlives the demo", pid)
					kill(t, pid)
				}
			}
			if signal == syscall.SIGKILL {
				return
			}
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != cli.ExitInterrupted {
				t.Errorf("ended with %v", err)
			}
			<-d.closed
			if !strings.HasSuffix(d.shown(), "askback: interrupted\n") {
				t.Errorf("said at the end:\n%s", d.shown())
			}
			if left, err := os.ReadDir(d.tmp); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// A reader that goes away ends the demo like any failure, not like a signal.
func TestDemoCleansUpWithoutAReader(t *testing.T) {
	t.Parallel()
	reader, writer, err := os.Pipe()
	expect.Check(t, err)
	reader.Close()
	tmp := t.TempDir()
	var stderr strings.Builder
	cmd := exec.Command("askback", "demo")
	cmd.Stdout, cmd.Stderr = writer, &stderr
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	err = cmd.Run()
	writer.Close()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != cli.ExitFailure {
		t.Errorf("ended with %v", err)
	}
	if !strings.HasPrefix(stderr.String(), "askback: writing the output: ") {
		t.Error(stderr.String())
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A person's answers count, and each comes after the server that asked is gone.
func TestDemoAsksThePerson(t *testing.T) {
	t.Parallel()
	d := startDemo(t)
	d.waitFor(t, "How was this bug resolved?")
	d.enter(t, "3") // Duplicate
	d.waitFor(t, "which work item is the original?")
	servers := d.fleet(t)
	if serving(servers[0]) || serving(servers[1]) || !serving(servers[2]) {
		t.Errorf("at the second question, only server 3 should be alive:\n%s", d.shown())
	}
	d.enter(t, "4302")
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, d.shown())
	}
	<-d.closed
	shown := strings.Join(strings.Fields(d.shown()), " ")
	for _, want := range []string{
		"resolution: Duplicate Sent.",
		"duplicateOfId: 4302 Sent.",
		"✓ Bug #4522 resolved as Duplicate of Bug #4302. State set to Resolved and duplicate link created.",
		"Duplicate Of (none) → 4302",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not in\n%s", want, d.shown())
		}
	}
}

// Servers that the person kills as well are passed over, and the last one is spared.
func TestDemoSparesTheLastServer(t *testing.T) {
	t.Parallel()
	d := startDemo(t)
	d.waitFor(t, "How was this bug resolved?")
	victim := d.fleet(t)[1]
	kill(t, victim)
	noticed := func() bool { // the demo has waited for its child
		_, err := os.Stat(filepath.Join("/proc", victim))
		return errors.Is(err, fs.ErrNotExist)
	}
	if !eventually(noticed) {
		t.Fatal("the demo does not notice that server 2 is dead")
	}
	d.enter(t, "3", "4301")
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, d.shown())
	}
	<-d.closed
	if shown := d.shown(); !strings.Contains(shown, "server 3 is the last one alive, and is spared") ||
		!strings.Contains(shown, "✓ Bug #4522 resolved as Duplicate of Bug #4301.") {
		t.Error(shown)
	}
}

// enter types lines.
func (d *terminalDemo) enter(t *testing.T, lines ...string) {
	t.Helper()
	expect.Must(io.WriteString(d.keys, strings.Join(lines, "\n")+"\n"))(t)
}
