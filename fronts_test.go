package askback_test

import "github.com/askback-mcp/askback/internal/harness"

type front = harness.Front

const initialize = harness.Initialize

var (
	fronts       = harness.Fronts
	modern       = harness.Modern
	everything   = harness.Everything
	everythingOn = harness.EverythingOn
)
