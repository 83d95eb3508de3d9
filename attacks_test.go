package askback_test

import (
	"testing"

	"github.com/askback-mcp/askback/internal/test/desktest"
	"github.com/askback-mcp/askback/task"
)

func TestAttacksOnTheDesk(t *testing.T) { desktest.Attacks(t, new(task.MemoryStore)) }
