package conversation

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestNothingDisturbsAQuestion(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	c := &console{w: &out, terminal: true, columns: cli.Columns}
	c.progress(&mcp.ProgressNotificationParams{Progress: 1, Total: 3, Message: "reading"})
	first, second := c.ask(), c.ask()
	drawn := "\r\x1b[K██████░░░░░░░░░░░░░░  33%  0:00  1 of 3: reading"
	want := drawn + drawn + "\n"
	expect.Diff(t, "before the question", want, out.String())
	c.line("note %d", 1)
	c.progress(&mcp.ProgressNotificationParams{Progress: 2})
	first()
	expect.Diff(t, "while one is asked", want, out.String())
	second()
	c.line("note 2")
	want += "note 1\nnote 2\n"
	expect.Diff(t, "after it", want, out.String())
}

// A server that waits sends small numbers that grow, and says in words what it waits for.
func TestWaitingHasNoNumber(t *testing.T) {
	t.Parallel()
	for want, p := range map[string]*mcp.ProgressNotificationParams{
		"progress: Waiting for user:ada.\n": {Progress: 0.00113, Message: "Waiting for user:ada."},
		"progress: 0.5 of 1: copying\n":     {Progress: 0.5, Total: 1, Message: "copying"},
		"progress: 2: copying\n":            {Progress: 2, Message: "copying"},
		"progress: 0.5\n":                   {Progress: 0.5},
	} {
		var out bytes.Buffer
		(&console{w: &out, columns: cli.Columns}).progress(p)
		if out.String() != want {
			t.Errorf("%+v: %q, want %q", p, &out, want)
		}
	}
}

// What a person sees of the work: each line as it was drawn last.
func TestWorkHasABarAndATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := &console{w: &out, terminal: true, columns: cli.Columns}
		sees := func(want string) {
			t.Helper()
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			var screen []string
			for line := range strings.SplitSeq(out.String(), "\n") {
				screen = append(screen, line[strings.LastIndex(line, "\x1b[K")+1:])
			}
			expect.Diff(t, "the value", want, strings.ReplaceAll(strings.Join(screen, "\n"), "[K", ""))
		}
		c.progress(&mcp.ProgressNotificationParams{Progress: 5, Total: 4, Message: "more than\nall"})
		sees("████████████████████ 100%  0:00  5 of 4: more than all")
		c.progress(&mcp.ProgressNotificationParams{Progress: 1, Total: 4, Message: strings.Repeat("日本", 40)})
		sees("█████░░░░░░░░░░░░░░░  25%  0:00  1 of 4: " + strings.Repeat("日本", 9) +
			"…")
		time.Sleep(61*time.Second + time.Second/2) // nothing but time goes on
		c.line("a note")
		c.progress(&mcp.ProgressNotificationParams{Progress: 2, Total: 4})
		sees("a note\n██████████░░░░░░░░░░  50%  1:01  2 of 4")
		c.ask()()
		c.status("", "task working: disk")
		time.Sleep(time.Hour)
		sees("a note\n██████████░░░░░░░░░░  50%  1:01  2 of 4\n1:00:00  task working: disk")
		c.progress(&mcp.ProgressNotificationParams{Progress: 7, Message: "seven"})
		c.done()
		c.status("", "too late")
		time.Sleep(time.Hour)
		sees("a note\n██████████░░░░░░░░░░  50%  1:01  2 of 4\n1:00:00  progress 7: seven\n")
	})
}

func TestBars(t *testing.T) {
	t.Parallel()
	for part, want := range map[float64]string{-1: "░░ 0%", 0: "░░ 0%", 0.999: "█░ 99%", 1: "██ 100%",
		1e300: "██ 100%"} {
		bar := progressBar(part)
		short := fmt.Sprintf("%c%c %s", []rune(bar)[0], []rune(bar)[19], strings.TrimSpace(string([]rune(bar)[20:])))
		if short != want {
			t.Errorf("%g: %q, want %q", part, bar, want)
		}
	}
}
