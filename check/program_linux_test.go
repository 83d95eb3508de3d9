package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// Programs that are no servers end with the run, and so do the children that they leave behind.
func TestProgramsThatDoNotEnd(t *testing.T) {
	t.Parallel()
	expect.Must(exec.LookPath("sh"))(t)
	for name, script := range map[string]string{
		"never reads":     `sleep 300`,
		"keeps a child":   `sleep 300 & exit 0`,
		"ignores its end": `trap "" TERM; sleep 300 & while :; do sleep 1; done`,
		"writes garbage":  `while :; do echo "{garbage"; done`,
		"crashes":         `kill -SEGV $$`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Each process of the program holds the pipe open for writing.
			pipe := filepath.Join(t.TempDir(), "pipe")
			expect.Check(t, syscall.Mkfifo(pipe, 0o600))
			ended := make(chan error, 1)
			go func() {
				_, err := os.ReadFile(pipe)
				ended <- err
			}()
			report, err := runPatiently(t.Context(), Options{patience: 300 * time.Millisecond,
				Server: Endpoint{Program: []string{"sh", "-c", `exec 9>"$0"; ` + script, pipe}}})
			expect.Check(t, err)
			if report.Judged() || report.Stopped == "" {
				t.Errorf("%q, %d verdicts", report.Stopped, len(report.Verdicts))
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
