package main

import (
	"bytes"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/cmd/askback/internal/ptytest"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// screen is what a terminal shows of a command.
type screen struct {
	keys *os.File
	cmd  *exec.Cmd
	done chan struct{}

	mu    sync.Mutex
	shown bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shown.Write(p)
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.ReplaceAll(s.shown.String(), "\r\n", "\n")
}

// onTerminal starts the command on a terminal that does no more than lines.
func onTerminal(t *testing.T, args ...string) *screen {
	t.Helper()
	return onTerminalWith(t, []string{"TERM=dumb"}, args...)
}

func onTerminalWith(t *testing.T, env []string, args ...string) *screen {
	t.Helper()
	ptmx, tty := ptytest.Open(t, 40, 80)
	s := &screen{keys: ptmx, cmd: exec.Command("askback", args...), done: make(chan struct{})}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.Env = append(os.Environ(), env...)
	expect.Check(t, s.cmd.Start())
	tty.Close()
	go func() {
		defer close(s.done)
		_, _ = io.Copy(s, ptmx) // until nobody has the terminal open
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
		ptmx.Close()
	})
	return s
}

// enter types a line when the text is there.
func (s *screen) enter(t *testing.T, after, line string) {
	t.Helper()
	s.waitFor(t, after)
	s.types(t, line+"\n")
}

func (s *screen) types(t *testing.T, keys string) {
	t.Helper()
	expect.Must(io.WriteString(s.keys, keys))(t)
}

func (s *screen) waitFor(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(s.text(), text) {
			return
		}
	}
	t.Fatalf("%q does not come:\n%s", text, s.text())
}

// end is the exit code.
func (s *screen) end() int {
	_ = s.cmd.Wait() // the code tells
	<-s.done
	return s.cmd.ProcessState.ExitCode()
}

func TestAPersonAnswersInTheServersOrder(t *testing.T) {
	t.Parallel()
	srv := expect.Must(newAsker(nil))(t)
	web := httptest.NewServer(srv.HTTPHandler(nil))
	t.Cleanup(web.Close)
	s := onTerminal(t, "call", web.URL, "two", "--trace")
	s.enter(t, "The first word?", "Good")
	s.enter(t, "The second word?", "morning")
	if code := s.end(); code != 0 || !strings.HasSuffix(s.text(), "\nGood morning\n") {
		t.Errorf("exit code %d:\n%s", code, s.text())
	}
	if first, second := strings.Index(s.text(), "The first word?"), strings.Index(s.text(),
		"The second word?"); first > second {
		t.Errorf("out of order:\n%s", s.text())
	}
}

// Only with consent, and with nothing of it read by a shell.
func TestAPageIsOpenedWithConsentOnly(t *testing.T) {
	dir := t.TempDir()
	opened := filepath.Join(dir, "opened")
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
	browser := "#!/bin/sh\nprintf '%s\\n' \"$#\" \"$1\" >'" + opened + ".new'; mv '" + opened + ".new' '" + opened + "'\n"
	expect.Check(t, os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(browser), 0o700))

	s := onTerminal(t, "call", "asker --stdio", "page")
	s.enter(t, "decision", "3") // decline
	if code := s.end(); code != cli.ExitToolError {
		t.Errorf("exit code %d:\n%s", code, s.text())
	}
	if _, err := os.Stat(opened); err == nil {
		t.Error("a page was opened that the person declined")
	}

	s = onTerminal(t, "call", "asker --stdio", "page")
	s.enter(t, "decision", "1")
	if code := s.end(); code != 0 || !strings.HasSuffix(s.text(), "signed in\n") {
		t.Errorf("exit code %d:\n%s", code, s.text())
	}
	var text []byte
	for end := time.Now().Add(2 * time.Minute); text == nil && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		text, _ = os.ReadFile(opened)
	}
	if want := "1\nhttps://example.com/in?a=b&c=$(d)\n"; string(text) != want {
		t.Errorf("opened %q, want %q", text, want)
	}
}

// Where forms are drawn, one Enter sends a form of one field, and it leaves its question and answer behind once.
func TestADrawnFormLeavesARecord(t *testing.T) {
	t.Parallel()
	s := onTerminalWith(t, []string{"TERM=xterm-256color", "NO_COLOR="}, "call", "asker --stdio", "two", "--answer",
		`b={"word":"Good"}`)
	s.waitFor(t, "enter send")
	s.types(t, "morning\r")
	code := s.end()
	record := regexp.MustCompile(`(?s)asks:\n│ The second word\?\n  word  morning\n✓ Sent\.\n(.*)`)
	plain := escapes.ReplaceAllString(s.text(), "")
	if left := record.FindStringSubmatch(plain); code != 0 || left == nil || left[1] != "Good morning\n" {
		t.Errorf("exit code %d:\n%q", code, plain)
	}
	if strings.Contains(plain, "answered") {
		t.Error(plain)
	}
}

func TestAGivenAnswerIsNotAskedFor(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "call", "asker --stdio", "two", "--answer", `b={"word":"Good"}`)
	s.enter(t, "The second word?", "/decline")
	if code := s.end(); code != cli.ExitToolError || strings.Contains(s.text(), "The first word?") {
		t.Errorf("exit code %d:\n%s", code, s.text())
	}
}

func TestAMisspeltAnswerIsNamedBeforeThePersonIsAsked(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "call", "asker --stdio", "page", "--answer", "paeg=accept")
	s.enter(t, "decision", "3")
	s.end()
	named, asked := strings.Index(s.text(),
		"--answer paeg answers no question yet; did you mean page?\n"), strings.Index(s.text(), "Sign in")
	if named < 0 || named > asked {
		t.Error(s.text())
	}
}

func TestParkingAsksNobody(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "call", "asker --stdio", "two", "--park", t.TempDir()+"/parked")
	if code := s.end(); code != cli.ExitWaits || strings.Contains(s.text(), "word?") {
		t.Errorf("exit code %d:\n%s", code, s.text())
	}
}

func TestAServersTextDoesNotActOnATerminal(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"call", "asker --stdio", "hostile"},
		{"call", "asker --stdio", "hostile", "--json"},
		{"call", "asker --stdio", "structured"},
		{"call", "asker --stdio", "fails"},
		{"tools", "asker --stdio"},
	} {
		s := onTerminal(t, args...)
		s.end()
		if text := s.text(); !strings.Contains(text, "gone") || strings.ContainsAny(text, "\x1b\a\r\u009b\u202e") {
			t.Errorf("%v: %q", args, text)
		}
	}
}

// escapes matches the sequences that draw a form.
var escapes = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]`)

// drawn matches what a terminal removes when a line is drawn again.
var drawn = regexp.MustCompile(`[^\n]*\r\x1b\[K`)

func TestProgressIsOneLineOnATerminal(t *testing.T) {
	t.Parallel()
	const lines = "progress: 0 of 3: step\\x1b[2J\nprogress: 1 of 3: step\\x1b[2J\nprogress: 2 of 3: " +
		"step\\x1b[2J\naskback: interrupted\n"
	for env, want := range map[string]string{
		"TERM=xterm":   "█████████████░░░░░░░  66%  0:0N  2 of 3: step\\x1b[2J\naskback: interrupted\n",
		"TERM=dumb":    lines,
		"ACCESSIBLE=1": lines,
	} {
		s := onTerminalWith(t, []string{"TERM=xterm", env}, "call", "asker --stdio", "slow")
		s.waitFor(t, "2 of 3")
		expect.Check(t, s.cmd.Process.Signal(os.Interrupt))
		code := s.end()
		got := regexp.MustCompile(`  0:\d\d  `).ReplaceAllString(drawn.ReplaceAllString(s.text(), ""), "  0:0N  ")
		if code != cli.ExitInterrupted || got != want {
			t.Errorf("%s: exit code %d: got  %q\nwant %q", env, code, got, want)
		}
	}
}

// The work stays above the question that interrupts it, and goes on below it.
func TestProgressStaysAboveAQuestion(t *testing.T) {
	t.Parallel()
	first, second := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "second")
	s := onTerminalWith(t, []string{"TERM=xterm", "NO_COLOR=1"}, "call", "asker --stdio", "steps", "First="+first,
		"Second="+second)
	create := func(file string) {
		expect.Check(t, os.WriteFile(file, nil, 0o600))
	}
	s.waitFor(t, "1 of 2")
	create(first)
	s.waitFor(t, "enter send")
	s.types(t, "Ada\r")
	s.waitFor(t, "progress 2")
	create(second)
	expect.Equal(t, "exit code", s.end(), 0)
	var work []string
	for line := range strings.Lines(escapes.ReplaceAllString(drawn.ReplaceAllString(s.text(), ""), "")) {
		if strings.Contains(line, "copying") || strings.Contains(line, "Who are you?") {
			work = append(work, regexp.MustCompile(`0:\d\d`).ReplaceAllString(strings.TrimSpace(line), "0:0N"))
		}
	}
	work = slices.Compact(work) // the form is drawn more than once
	want := []string{"██████████░░░░░░░░░░  50%  0:0N  1 of 2: copying", "│ Who are you?",
		"0:0N  progress 2: copying"}
	if diff := cmp.Diff(want, work); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, s.text())
	}
}
