package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A target passes if it ends well. The fuzzer's own deadline is no failure once or twice, and no success in the end.
func TestATargetThatNeverEndsWellFails(t *testing.T) {
	const (
		progress = "echo 'fuzz: elapsed: 1s, execs: 7 (7/sec)'\n"
		deadline = progress + "echo '--- FAIL: FuzzX (1.00s)'; echo '    context deadline exceeded'; exit 1\n"
		failing  = progress + "echo '--- FAIL: FuzzX (1.00s)'; echo '    context deadline exceeded'; " +
			"echo '    Failing input written to x'; exit 1\n"
	)
	first := func(n string, script string) string {
		return `[ "$(wc -l <runs)" -le ` + n + " ] && {\n" + script + "}\n"
	}
	for _, c := range []struct {
		says, script string
		runs         int
		failure      string
	}{
		{"it ends well", progress, 1, ""},
		{"its deadline once", first("1", deadline) + progress, 2, ""},
		{"its deadline twice", first("2", deadline) + progress, 3, ""},
		{"its deadline each time", deadline, 3, "context deadline exceeded"},
		{"a failing input", failing, 1, "Failing input written"},
		{"a failing input after its deadline", first("1", deadline) + failing, 2, "Failing input written"},
		{"it cannot start", "echo oops; exit 2\n", 1, "oops"},
	} {
		t.Run(c.says, func(t *testing.T) {
			dir := t.TempDir()
			program := filepath.Join(dir, "test")
			expect.Check(t, os.WriteFile(program, []byte("#!/bin/sh\necho run >>runs\n"+c.script), 0o700))
			f := &fuzzer{cache: dir, work: dir, duration: time.Second}
			summary, err := f.fuzz(program, &pkg{Dir: dir, ImportPath: "x"}, "FuzzX")
			if c.failure == "" && (err != nil || summary != "1s, execs: 7 (7/sec)") ||
				c.failure != "" && (err == nil || !strings.Contains(err.Error(), c.failure)) {
				t.Errorf("%q, %v; want the failure %q", summary, err, c.failure)
			}
			runs, err := os.ReadFile(filepath.Join(dir, "runs"))
			if n := strings.Count(string(runs), "\n"); n != c.runs || err != nil {
				t.Errorf("%d runs, want %d, %v", n, c.runs, err)
			}
		})
	}
}
