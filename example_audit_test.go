package askback_test

import (
	"cmp"
	"context"
	"fmt"

	"github.com/askback-mcp/askback"
)

// An audit log says who was asked what, who answered, which steps ran, and how the call ended. A service writes the
// principal and the call's ID, too.
func ExampleOptions_audit() {
	callInTurn(closeBugOf(100, &askback.Options{
		Audit: func(_ context.Context, e askback.AuditEvent) {
			fmt.Printf("round %d: %s %s\n", e.Round, e.Kind, cmp.Or(e.Key, e.Reason))
		},
	}))
	// Output:
	// round 1: step report
	// round 1: asked resolution
	// round 2: answered resolution
	// round 2: ended completed
	// Bug #7 closed as Fixed.
}
