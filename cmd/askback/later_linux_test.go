package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// putOff returns the file that a command which ended has left, as its message names it.
func putOff(t *testing.T, s *screen) (file string) {
	t.Helper()
	found := regexp.MustCompile(`Go on with 'askback resume (\S+)', not later than `).FindStringSubmatch(s.text())
	if found == nil {
		t.Fatalf("it does not say how to go on:\n%s", s.text())
	}
	return found[1]
}

// wordsServer serves the tool two, which asks two words in one round.
func wordsServer(t *testing.T) string {
	t.Helper()
	srv := expect.Must(newAsker(nil))(t)
	web := httptest.NewServer(srv.HTTPHandler(nil))
	t.Cleanup(web.Close)
	return web.URL
}

// A call that was put off keeps the answers, asks the rest later, and leaves nothing behind.
func TestLaterParksTheCall(t *testing.T) {
	t.Parallel()
	url, state := wordsServer(t), t.TempDir()
	drawn := []string{"TERM=xterm", "NO_COLOR=", "ACCESSIBLE=", "XDG_STATE_HOME=" + state}
	s := onTerminalWith(t, drawn, "call", url, "two")
	s.waitFor(t, "The first word?")
	s.types(t, "Good\r")
	s.waitFor(t, "The second word?")
	s.types(t, "\t\t\r")
	code := s.end()
	file := putOff(t, s)
	if code != cli.ExitWaits || !strings.Contains(s.text(), `askback: the call waits for answers to "a"`) {
		t.Errorf("exit code %d:\n%s", code, s.text())
	}
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 || filepath.Dir(file) != state+"/askback/parked" ||
		!strings.HasPrefix(filepath.Base(file), "two-") {
		t.Fatalf("%s: %v, %v", file, info, err)
	}

	s = onTerminalWith(t, drawn, "resume", file) // put off again, in the same place
	s.waitFor(t, "The second word?")
	s.types(t, "\x1b")
	s.waitFor(t, "Leave without an answer?")
	s.types(t, "\x1b[C\r")
	if code := s.end(); code != cli.ExitWaits || putOff(t, s) != file || strings.Contains(s.text(), "The first word?") {
		t.Errorf("exit code %d:\n%s", code, s.text())
	}

	s = onTerminalWith(t, append(drawn, "TERM=dumb"), "resume", file)
	s.enter(t, "The second word?", "morning")
	if code := s.end(); code != 0 || !strings.HasSuffix(s.text(), "\nGood morning\n") {
		t.Errorf("exit code %d:\n%s", code, s.text())
	}
	if left, _ := filepath.Glob(state + "/askback/parked/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// Ctrl-C is a key where a form is drawn, and a signal elsewhere. After an answer it keeps the call, and before it ends
// it.
func TestAnInterruptionKeepsTheAnswers(t *testing.T) {
	t.Parallel()
	url := wordsServer(t)
	for _, tt := range []struct{ term, enter string }{{"TERM=xterm", "\r"}, {"TERM=dumb", "\n"}} {
		state := t.TempDir()
		env := []string{tt.term, "NO_COLOR=", "ACCESSIBLE=", "XDG_STATE_HOME=" + state}
		s := onTerminalWith(t, env, "call", url, "two")
		s.waitFor(t, "The first word?")
		s.types(t, "Good"+tt.enter)
		s.waitFor(t, "The second word?")
		if tt.enter == "\r" {
			s.types(t, "\x03")
		} else if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if code := s.end(); code != cli.ExitInterrupted ||
			!strings.Contains(s.text(), `askback: interrupted: the call waits for answers to "a"`) {
			t.Errorf("%s: exit code %d:\n%s", tt.term, code, s.text())
		}
		s = onTerminalWith(t, append(env, "TERM=dumb"), "resume", putOff(t, s))
		s.enter(t, "The second word?", "morning")
		if code := s.end(); code != 0 || !strings.HasSuffix(s.text(), "\nGood morning\n") {
			t.Errorf("%s: exit code %d:\n%s", tt.term, code, s.text())
		}

		s = onTerminalWith(t, env, "call", url, "two")
		s.waitFor(t, "The first word?")
		if tt.enter == "\r" {
			s.types(t, "\x03")
		} else if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if code := s.end(); code != cli.ExitInterrupted || !strings.HasSuffix(s.text(), "askback: interrupted\n") {
			t.Errorf("%s: exit code %d:\n%s", tt.term, code, s.text())
		}
		if left, _ := filepath.Glob(state + "/askback/parked/*"); len(left) > 0 {
			t.Errorf("%s: left: %v", tt.term, left)
		}
	}
}

// A sampler that runs beside the question does not keep a person who leaves.
func TestLaterDoesNotWaitForTheSampler(t *testing.T) {
	t.Parallel()
	s := onTerminalWith(t, []string{"TERM=dumb", "XDG_STATE_HOME=" + t.TempDir()}, "call", wordsServer(t), "everything",
		"--root", ".", "--sampler", "sleep 3600")
	s.enter(t, "Who are you?", "/later")
	if code := s.end(); code != cli.ExitWaits || !strings.Contains(s.text(), `waits for answers to "who", "hello"`) {
		t.Errorf("exit code %d:\n%s", code, s.text())
	}
	putOff(t, s)
}

// A task is the server's to keep: it gets the answers that there are, and the message says its id.
func TestLaterLeavesATask(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	const form = `{"method":"elicitation/create","params":{"message":"%s?","requestedSchema":` +
		`{"type":"object","properties":{"a":{"type":"string"}}}}}`
	url := scripted(t, func(method string) string {
		switch method {
		case "tools/call":
			return `"resultType":"task","taskId":"abc","status":"working","pollIntervalMs":10`
		case "tasks/get":
			return `"taskId":"abc","status":"input_required","inputRequests":{"A":` +
				strings.Replace(form, "%s", "First", 1) + `,"B":` + strings.Replace(form, "%s", "Second", 1) + `}`
		case "tasks/update", "tasks/cancel":
			got <- method
			return `"resultType":"complete"`
		}
		return ""
	})
	state := t.TempDir()
	env := []string{"TERM=dumb", "XDG_STATE_HOME=" + state}
	s := onTerminalWith(t, env, "call", url, "t")
	s.enter(t, "First?", "/later")
	want := "the task \"abc\" waits for answers to \"A\", \"B\"\nGo on with 'askback task result " + url + " abc'\n"
	if code := s.end(); code != cli.ExitWaits || !strings.HasSuffix(s.text(), want) || len(got) > 0 ||
		strings.Contains(s.text(), "Second?") {
		t.Errorf("exit code %d, %d sent:\n%s", code, len(got), s.text())
	}
	s = onTerminalWith(t, env, "task", "result", url, "abc")
	s.enter(t, "First?", "yes")
	s.enter(t, "Second?", "/later")
	want = "the task \"abc\" waits for answers to \"B\"\nGo on with 'askback task result " + url + " abc'\n"
	if code := s.end(); code != cli.ExitWaits || !strings.HasSuffix(s.text(), want) || len(got) != 1 ||
		<-got != "tasks/update" {
		t.Errorf("exit code %d:\n%s", code, s.text())
	}
	if left, _ := filepath.Glob(state + "/askback/parked/*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A session of an earlier revision waits inside its call, which cannot be parked.
func TestNoLaterInASession(t *testing.T) {
	t.Parallel()
	s := onTerminal(t, "call", "asker --stdio", "two", "--protocol-version", "2025-11-25")
	s.enter(t, "word?", "/later")
	s.enter(t, "word?", "/cancel")
	s.end()
	if strings.Contains(s.text(), "leaves the question open") {
		t.Error(s.text())
	}
}
