package call

import (
	"context"
	"time"

	"github.com/askback-mcp/askback/internal/consent"
)

// Desk has the meaning of askback.DeskOptions.
type Desk struct {
	Fallback bool
	NotShown time.Duration

	Rules  func(context.Context, *consent.ToolCall) *consent.Verdict // or nil
	Server string                                                    // what rules call the server
	Memory Memory
}
