package task_test

import (
	"regexp"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// Operators look for the names in old logs.
func TestTheNameOfATaskStaysTheSame(t *testing.T) {
	const id = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	name := task.Name(id)
	expect.Equal(t, "the name", name, "23WGRGG6Q7O2Y3S3GYIXBCT2UE")
	if name == task.Name(id+"A") || !regexp.MustCompile(`^[A-Z2-7]{26}$`).MatchString(name) {
		t.Errorf("the name is %q", name)
	}
}
