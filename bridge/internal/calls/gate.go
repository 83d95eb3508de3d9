package calls

import (
	"slices"

	"github.com/askback-mcp/askback/bridge/internal/names"
	"github.com/askback-mcp/askback/internal/consent"
)

// Approval has the meaning of bridge.Approval.
type Approval struct {
	Tools, For []string
	Votes      int
	Edit       bool
}

// Check returns an error for a pattern that is malformed, or that no name can match.
func (a *Approval) Check() error {
	for _, pattern := range a.Tools {
		if err := names.CheckPattern(pattern); err != nil {
			return err
		}
	}
	return nil
}

// Of returns the approval that a tool with these names needs, or nil.
func (a *Approval) Of(all []string) *Approval {
	if a != nil && names.MatchAny(a.Tools, all) {
		return a
	}
	return nil
}

// equal reports whether two policies of flags demand the same.
func equal(p, other consent.Policy) bool {
	return slices.Equal(p.For, other.For) && p.Votes == other.Votes && p.Edit == other.Edit
}

// stricter reports whether p asks for all that the other policy asks for, and for more: an approval where there was
// none, or more votes of the same people on the same arguments. Other people are not more.
func stricter(p, other consent.Policy) bool {
	if !other.Asks() {
		return p.Asks()
	}
	return slices.Equal(p.For, other.For) && !p.Edit && !other.Edit && p.Votes > other.Votes
}
