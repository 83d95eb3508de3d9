package calls

import (
	"slices"
	"time"

	"github.com/askback-mcp/askback/bridge/internal/names"
	"github.com/askback-mcp/askback/internal/question"
)

// Approval says which calls a person approves before they are passed on to the server.
type Approval struct {
	// Tools are patterns of the names of tools, as path.Match has them, except that * is any text and case makes no
	// difference. They are compared with a tool's name at the server, with that one behind its prefix, and with the name
	// that hosts see.
	Tools []string
	// For says who may approve, each made by askback.User or askback.Group. Empty means the caller.
	For []string
	// Votes is how many of them must approve. Zero is one.
	Votes int
	// Edit lets them edit the arguments, as far as the tool's input schema allows it.
	Edit bool
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

// policy is what a process wants of a call before it passes it on. The zero value lets it pass.
type policy struct {
	For   []string `json:"for,omitempty"` // who approves, in order
	Votes int      `json:"votes,omitempty"`
	Edit  bool     `json:"edit,omitempty"`
}

func (p policy) asks() bool { return len(p.For) > 0 }

func (p policy) equal(other policy) bool {
	return slices.Equal(p.For, other.For) && p.Votes == other.Votes && p.Edit == other.Edit
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
	Form    bool   `json:"form,omitempty"` // the arguments can be edited
}
