package legacy

import (
	"testing"

	"github.com/askback-mcp/askback/bridge/internal/upstream"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/input"
)

// A question beside a call of a tool that has never asked may be that call's, and is sure to be nobody's. With one call
// there is nobody else.
func TestTheOwnerOfAQuestion(t *testing.T) {
	s := &pooled{pool: new(pool), kind: sessionKind{can: upstream.Abilities{Form: true}}, changed: make(chan struct{})}
	s.pool.habits.note("quiet", false)
	seats := make(map[string]*seat)
	for _, tool := range []string{"loud", "quiet"} {
		seats[tool] = &seat{pooled: s, tool: tool}
	}
	q := &client.Question{Method: input.MethodElicit}
	for _, beside := range []bool{false, true} {
		seats["loud"].join(new(openCall))
		if beside {
			seats["quiet"].join(new(openCall))
		}
		c, sure, err := s.owner(t.Context(), q)
		if c != seats["loud"] || sure == beside || err != nil {
			t.Errorf("beside another call %v: got %p, sure %v, %v", beside, c, sure, err)
		}
		seats["loud"].leave()
		if c, sure, err = s.owner(t.Context(), q); beside && (c != seats["quiet"] || !sure) || !beside && err == nil {
			t.Errorf("when that has ended, beside %v: got %p, sure %v, %v", beside, c, sure, err)
		}
	}
}
