package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// command runs a command inside the test's process.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = execute(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

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
			due, err := time.Parse(time.RFC3339, match[1])
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(due) - time.Second)
			if code, _, stderr := command(t, "keys", "rotate", "--wait", "90m", file); code != exitFailure ||
				!strings.Contains(stderr, "too early") {
				t.Fatalf("a second before %s: exit code %d\n%s", due, code, stderr)
			}
			time.Sleep(time.Until(due))
		}
	})
}

// A failure on the way leaves the old file, and no other one.
func TestRotateReplacesInOneGo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "my.keys")
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := replaceKeyFile(file, "new"); err == nil {
		t.Fatal("a directory was replaced")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}
