package calls

import (
	"slices"
	"time"

	"github.com/askback-mcp/askback/bridge/internal/names"
	"github.com/askback-mcp/askback/internal/question"
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

// policy says which approval a process demands before it passes a call on. The zero value demands none.
type policy struct {
	For   []string `json:"for,omitempty"` // who approves, in order
	Votes int      `json:"votes,omitempty"`
	Edit  bool     `json:"edit,omitempty"`
	// Within bounds the wait for them. The deadline of a question stays as it was first put.
	Within time.Duration `json:"within,omitempty"`
	Deny   string        `json:"deny,omitempty"` // why the call is not passed on
	Rule   string        `json:"rule,omitempty"` // that has decided
}

func (p policy) asks() bool { return len(p.For) > 0 }

func (p policy) equal(other policy) bool {
	return slices.Equal(p.For, other.For) && p.Votes == other.Votes && p.Edit == other.Edit
}

// covers reports whether who met p has met the other policy, too.
func (p policy) covers(other policy) bool {
	return !other.asks() || slices.Equal(p.For, other.For) && p.Votes >= other.Votes && (other.Edit || !p.Edit)
}

// stricter reports whether p asks for all that the other policy asks for, and for more: an approval where there was
// none, or more votes of the same people on the same arguments. Other people are not more.
func (p policy) stricter(other policy) bool {
	if !other.asks() {
		return p.asks()
	}
	return slices.Equal(p.For, other.For) && !p.Edit && !other.Edit && p.Votes > other.Votes
}

func (p policy) String() string {
	if !p.asks() {
		return "asks nobody to approve it"
	}
	text := "asks " + question.Awaited(p.For, p.Votes, time.Time{}) + " to approve it"
	if p.Edit {
		text += ", with edits"
	}
	return text
}

// gate is a record of the policy under which a call passes, and of the question that it asks.
type gate struct {
	Server string `json:"server"` // the identity of the server that the call is for
	Tool   string `json:"tool"`   // the tool's name there: another one may get the name that hosts see
	Policy policy `json:"policy"`
	// Message is what is asked. The server's title and the tool's schema may change while the call lives.
	Message string `json:"message,omitempty"`
	Rules   string `json:"rules,omitempty"` // the digest of the rules that have decided, or empty
	Form    bool   `json:"form,omitempty"`  // the arguments can be edited
}
