package main

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// The time that a step announces for the next one is when that becomes possible, and not a second earlier.
func TestRotateKeepsItsAnnouncements(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(300 * time.Millisecond)
		file := filepath.Join(t.TempDir(), "my.keys")
		if code, _, stderr := command(t, "keys", "new", file); code != 0 {
			t.Fatal(stderr)
		}
		announced := regexp.MustCompile(`not before (\S+),`)
		for _, step := range []string{"learn", "switch", "forget"} {
			code, stdout, stderr := command(t, "keys", "rotate", "--wait", "90m", file)
			if code != 0 || !strings.HasPrefix(stdout, step+": ") {
				t.Fatalf("%s: exit code %d\n%s%s", step, code, stdout, stderr)
			}
			match := announced.FindStringSubmatch(stdout)
			if (match == nil) != (step == "forget") {
				t.Fatalf("%s announces %q", step, match)
			}
			if match == nil {
				return
			}
			due := expect.Must(time.Parse(time.RFC3339, match[1]))(t)
			time.Sleep(time.Until(due) - time.Second)
			if code, _, stderr := command(t, "keys", "rotate", "--wait", "90m", file); code != cli.ExitFailure ||
				!strings.Contains(stderr, "too early") {
				t.Fatalf("a second before %s: exit code %d\n%s", due, code, stderr)
			}
			time.Sleep(time.Until(due))
		}
	})
}

// command runs a command inside the test's process.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}
