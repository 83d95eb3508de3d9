package askback_test

import "github.com/askback-mcp/askback/internal/harness"

type front = harness.Front

const initialize = harness.Initialize

var (
	fronts       = harness.Fronts
	modern       = harness.Modern
	dial         = harness.Dial
	conversation = harness.Converse
	everything   = harness.Everything
	everythingOn = harness.EverythingOn
	eachRequest  = harness.EachRequest
)
