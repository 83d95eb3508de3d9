//go:build unix

package checkcmd

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// Transcripts are for their owner only, also where a file for everybody was before.
func TestTranscriptsArePrivate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "state-forged-tools-call-book.txt")
	expect.Check(t, os.WriteFile(file, nil, 0o644))
	cmd := new(cobra.Command)
	cmd.SetOut(io.Discard)
	f := reportFlags{transcripts: dir, failOn: "fail"}
	err := f.write(cmd, &findings.Report{Verdicts: []findings.Verdict{{Probe: "state-forged", Target: "tools/call book",
		Level: findings.Fail, Transcript: "Title: a transcript\n"}}})
	if err == nil {
		t.Error("a failure has no exit code")
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Errorf("%s: %v, %v", file, info, err)
	}
}
