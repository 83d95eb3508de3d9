package bridge

import (
	"testing"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/input"
)

// The result of a call stands although the host has not yet said what its roots are: servers ask that when a session
// begins. A form that nobody answered is why a call failed.
func TestUnansweredQuestions(t *testing.T) {
	for method, fails := range map[string]bool{input.MethodElicit: true, input.MethodListRoots: false} {
		c := &openCall{questions: []*openQuestion{{Question: &client.Question{Method: method}, sure: true}}}
		if got := c.unanswered() != nil; got != fails {
			t.Errorf("%s is why a call failed: %v", method, got)
		}
	}
}
