package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/journal"
	"github.com/askback-mcp/askback/internal/question"
	"github.com/askback-mcp/askback/internal/taskrun"
)

// Whether a call is approved before it is passed on belongs to the call, and not to the process that happens to run it:
//
//  1. The first record of each call is a gate, with the policy under which it began. It is there before anything is
//     sent.
//  2. A process continues a call only if its own policy for the tool is the same, or stricter. A stricter one adds a
//     gate of its own before it sends anything more. Any other process leaves the call.
//  3. Every run asks what all gates ask, in the words that they have recorded. So a decision is found again whatever
//     has changed since: the flags, the server's title or the tool's schema.

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
		if err := checkPattern(pattern); err != nil {
			return err
		}
	}
	return nil
}

// of returns the approval that a tool with these names needs, or nil.
func (a *Approval) of(names []string) *Approval {
	if a != nil && matchesAny(a.Tools, names) {
		return a
	}
	return nil
}

// anyText folds what is compared, so that the * of path.Match is any text, which may have a slash.
func anyText(s string) string { return strings.ReplaceAll(strings.ToLower(s), "/", "\x00") }

func matches(pattern string, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		match, _ := path.Match(anyText(pattern), anyText(name))
		return match
	})
}

// policy is what a process wants of a call before it passes it on. The zero value lets it pass.
type policy struct {
	For   []string `json:"for,omitempty"` // who approves, in order
	Votes int      `json:"votes,omitempty"`
	Edit  bool     `json:"edit,omitempty"`
}

// policy is the policy of this process for the call.
func (p *passage) policy() policy {
	a := p.approval
	if a == nil {
		return policy{}
	}
	own := policy{For: slices.Compact(slices.Sorted(slices.Values(a.For))), Votes: max(a.Votes, 1), Edit: a.Edit}
	if len(own.For) == 0 {
		own.For = []string{askback.User(p.call.Principal())}
	}
	return own
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

// newGate makes a gate of the policy of this process. With edits, people get a form for the arguments, if these can be
// checked.
func (p *passage) newGate(ctx context.Context, edits bool) (*gate, error) {
	g := &gate{Server: p.identity, Tool: p.name, Policy: p.policy()}
	if g.Policy.asks() {
		g.Message = fmt.Sprintf("Call the tool %q of the server %q?", p.name, p.title)
	}
	if !edits {
		return g, nil
	}
	found, err := p.judge(ctx, nil)
	if err != nil {
		return nil, err
	}
	if g.Form = found.Unable == ""; !g.Form {
		g.Message += fmt.Sprintf("\n\nThe arguments cannot be edited: %s.", oneLine(found.Unable, 300))
	}
	return g, nil
}

// errRaise says that a stricter policy than the one under which the call began has to be met before more is sent.
var errRaise = errors.New("the call has to be approved before more is sent")

// admit records the policy of a call that begins, and finds out whether this process continues one that has begun.
func (p *passage) admit(ctx context.Context) error {
	if err := p.reviewed(ctx); err != nil {
		return err
	}
	h := taskrun.HolderOf(ctx) // nil if nobody has stored the call
	var entries [][]byte
	if h != nil {
		entries = h.Entries()
	}
	began, begins := p.call.Round() > 1 || len(entries) > 0, false
	out := p.gone.Load() || p.hidden.Load() // a handler without a tool is there for the calls that have begun
	if out && !began {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("unknown tool %q", p.as)}
	}
	var first *gate
	recorded, err := askback.Do(ctx, p.call, gateName(1), func(ctx context.Context) (_ json.RawMessage, err error) {
		if began {
			return nil, p.notCalled("its journal does not say whether it has to be approved; call the tool again")
		}
		if err := p.guard.refuses(p.upstream); err != nil {
			return nil, p.notCalled(err.Error())
		}
		begins = true
		if first, err = p.newGate(ctx, p.policy().Edit); err != nil {
			return nil, err
		}
		return json.Marshal(first)
	})
	if err != nil || begins {
		p.gates = []*gate{first}
		return err
	}
	later, err := laterGates(entries)
	if err != nil || json.Unmarshal(recorded, &first) != nil || first == nil {
		return p.notCalled("what its journal says of approvals cannot be read; call the tool again")
	}
	p.gates = append([]*gate{first}, later...)
	if h != nil && h.Stopped() { // what was begun is cleaned up, and nothing else is done
		return nil
	}
	last := p.gates[len(p.gates)-1]
	if out || last.Server != p.identity || last.Tool != p.name {
		meant := p.madeFor(last)
		if meant == nil {
			return p.leave(ctx, "it waits for a bridge in front of the server that it is for")
		}
		p.target, p.single = meant, !meant.repeatable
	}
	own := p.policy()
	p.raises = own.stricter(last.Policy)
	if !p.raises && !own.equal(last.Policy) {
		return p.leave(ctx, fmt.Sprintf("it waits for a bridge that %v; the bridge that has looked at it %v",
			last.Policy, own))
	}
	if err := p.guard.refuses(p.upstream); err != nil {
		return p.leave(ctx, fmt.Sprintf("it waits for a bridge whose approvals fit its tools: %v", err))
	}
	return nil
}

// madeFor returns the tool that a call is for, whatever its name is for hosts now, or nil if its server is not here.
func (b *Bridge) madeFor(g *gate) *target {
	for _, u := range b.servers {
		if u.identity != g.Server || u.offered.Load() == nil {
			continue
		}
		if t, _ := b.tools.from(u, g.Tool); t != nil {
			return t
		}
		gone := u.tool(g.Tool, "")
		gone.gone.Store(true)
		return gone
	}
	return nil
}

// laterGates reads the gates behind the first one from the entries of a journal.
func laterGates(entries [][]byte) (gates []*gate, err error) {
	for _, data := range entries {
		e, err := journal.DecodeEntry(data)
		if err != nil {
			return nil, err
		}
		if e.Kind != journal.Step || e.Key != gateName(len(gates)+2) {
			continue
		}
		g := new(gate)
		if err := json.Unmarshal(e.Value, g); err != nil {
			return nil, err
		}
		gates = append(gates, g)
	}
	return gates, nil
}

// gateName is the name of the step that records the gate with a number.
func gateName(n int) string { return fmt.Sprint("gate ", n) }

// raise adds a gate with the policy of this process, which is stricter, and asks what it asks. What was sent has fixed
// the arguments, so that nobody can edit them.
func (p *passage) raise(ctx context.Context) error {
	g, err := askback.Do(ctx, p.call, gateName(len(p.gates)+1), func(ctx context.Context) (*gate, error) {
		return p.newGate(ctx, false)
	})
	if err != nil {
		return err
	}
	p.raises = false
	p.gates = append(p.gates, g)
	_, err = p.ask(ctx, g, nil)
	return cmp.Or(err, askback.ErrInputRequired) // the next run goes through all gates
}

// leave leaves a call to another process, for the reason that its caller is told.
func (p *passage) leave(ctx context.Context, why string) error {
	if p.call.Nonce() == "" {
		return p.notCalled(why)
	}
	if p.behind.left.first(p.call.ID()+why, time.Hour) {
		p.log.WarnContext(ctx, "bridge: leaving a call to another bridge", "tool", p.name, "call", p.call.ID(), "reason", why)
	}
	return taskrun.Held(strings.ToUpper(why[:1]) + why[1:] + ".")
}

// notCalled ends the call with the reason why it is not passed on. More gates than one say that some of it was.
func (p *passage) notCalled(reason string) error {
	if len(p.gates) > 1 {
		return words(fmt.Sprintf("The call of the tool %q had begun, and was not continued: %s.", p.name, reason))
	}
	return words(fmt.Sprintf("The tool %q was not called: %s.", p.name, reason))
}
