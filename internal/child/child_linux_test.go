package child_test

import (
	"os/exec"
	"testing"

	"github.com/askback-mcp/askback/internal/child"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A server that prints more than a pipe holds goes on.
func TestWhatIsPrintedAfterTheFirstLine(t *testing.T) {
	t.Parallel()
	p := expect.Must(child.Start(exec.Command("sh", "-c", "echo ready; head -c 300000 /dev/zero")))(t)
	<-p.Dead
	expect.Equal(t, "the first line", p.Line, "ready")
}
