package bridge

import (
	"testing"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/input"
)

// A question beside a call of a tool that has never asked may be that call's, and is sure to be nobody's. With one call
// there is nobody else.
func TestTheOwnerOfAQuestion(t *testing.T) {
	s := &pooled{pool: new(pool), kind: sessionKind{can: abilities{form: true}}, changed: make(chan struct{})}
	s.pool.habits.note("quiet", false)
	calls := make(map[string]*openCall)
	for _, tool := range []string{"loud", "quiet"} {
		c := new(openCall)
		c.seat.Store(&seat{pooled: s, tool: tool})
		calls[tool] = c
	}
	q := &client.Question{Method: input.MethodElicit}
	for _, beside := range []bool{false, true} {
		s.join(calls["loud"])
		if beside {
			s.join(calls["quiet"])
		}
		c, sure, err := s.owner(t.Context(), q)
		if c != calls["loud"] || sure == beside || err != nil {
			t.Errorf("beside another call %v: got %p, sure %v, %v", beside, c, sure, err)
		}
		s.leave(calls["loud"])
		if c, sure, err = s.owner(t.Context(), q); beside && (c != calls["quiet"] || !sure) || !beside && err == nil {
			t.Errorf("when that has ended, beside %v: got %p, sure %v, %v", beside, c, sure, err)
		}
	}
}
