package child_test

import (
	"os/exec"
	"testing"

	"github.com/askback-mcp/askback/internal/child"
)

// A server that prints more than a pipe holds goes on.
func TestWhatIsPrintedAfterTheFirstLine(t *testing.T) {
	t.Parallel()
	p, err := child.Start(exec.Command("sh", "-c", "echo ready; head -c 300000 /dev/zero"))
	if err != nil {
		t.Fatal(err)
	}
	<-p.Dead
	if p.Line != "ready" {
		t.Errorf("the first line is %q", p.Line)
	}
}
