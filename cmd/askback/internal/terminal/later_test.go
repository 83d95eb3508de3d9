package terminal

import (
	"context"
	"errors"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// laterPerson has a terminal whose questions can be put off.
func laterPerson(t *testing.T, env ...string) (*person, *Terminal) {
	p := newPerson(t)
	on := p.terminal(env...)
	on.Later = func() bool { return true }
	return p, on
}

func isPutOff[T comparable](t *testing.T, a *asked[T]) {
	t.Helper()
	var none T
	if result, err := a.end(); result != none || !errors.Is(err, ErrLater) {
		t.Errorf("got %v, %v", result, err)
	}
}

const name = `{"type":"object","properties":{"name":{"type":"string"}}}`

func TestLater(t *testing.T) {
	p, on := laterPerson(t)
	a := askForm(t, on, "Who?", name)
	p.sees("name · optional", "  Send    Later    Decline    Cancel", "esc leave")
	p.types("Ada", tab, tab)
	p.sees("▸ Later", "later leaves the question open · ")
	p.types(enter)
	isPutOff(t, a)
	p.showsOnly("tracker asks:\n│ Who?\n… Put off: the question stays open.")
	p.gotItBack()
}

// Esc asks where a question can be put off: nobody cancels a call that could wait by mistake.
func TestEscOffersLater(t *testing.T) {
	p, on := laterPerson(t)
	a := askForm(t, on, "Who?", name)
	p.sees("name · optional")
	p.types(esc)
	p.sees("Leave without an answer?", "  Later leaves the question open.\n  Decline tells the server no.\n"+
		"  Cancel leaves without a decision.", "▸ Go back", "Later    Decline    Cancel")
	p.types(right, enter)
	isPutOff(t, a)
	p.gotItBack()
}

func TestLaterInEveryQuestion(t *testing.T) {
	p, on := laterPerson(t)
	isPutOff(t, func() *asked[*mcp.ElicitResult] {
		a := askForm(t, on, "Sure?", `{"type":"object","properties":{}}`)
		p.sees("Accept  ▸ Later") // one Enter too many does no harm
		p.types(enter)
		return a
	}())
	isPutOff(t, func() *asked[*mcp.ElicitResult] {
		a := ask(t, func(ctx context.Context) (*mcp.ElicitResult, error) {
			return on.URL(ctx, "tracker", "Sign in", "https://example.com/", func(string) error { return nil })
		})
		p.sees("wants you to open", "▸ Later")
		p.types(enter)
		return a
	}())
	isPutOff(t, func() *asked[*mcp.CreateMessageWithToolsResult] {
		a := ask(t, func(ctx context.Context) (*mcp.CreateMessageWithToolsResult, error) {
			return on.Sample(ctx, "tracker", nil)
		})
		p.sees("asks for a completion")
		p.types("some words", tab, tab)
		p.sees("▸ Later")
		p.types(enter)
		return a
	}())
	isPutOff(t, func() *asked[*mcp.ElicitResult] { // from the review
		a := askForm(t, on, "Both?", `{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`)
		p.sees("b · optional")
		p.types("1", enter, "2", enter)
		p.sees("This will be sent:", "▸ Send    Change    Later    Decline    Cancel")
		p.types(right, right, enter)
		return a
	}())
	p.gotItBack()
}

func TestLaterByLine(t *testing.T) {
	for _, keys := range []string{"/later\n", "\x04"} { // and a person who has gone has not cancelled
		p, on := laterPerson(t, "ACCESSIBLE=1")
		a := askForm(t, on, "Who?", name)
		p.sees("or /cancel to leave without a decision.\n/later leaves the question open.", "leaves it empty.\n>")
		p.types(keys)
		isPutOff(t, a)
		p.sees("Put off: the question stays open.")
	}
	p, on := laterPerson(t)
	a := askForm(t, on, "Who?", name)
	p.sees("name · optional")
	p.leaves()
	isPutOff(t, a)
}

// Where a call cannot wait, later is a word like any other.
func TestNoLater(t *testing.T) {
	p := newPerson(t)
	on := p.terminal("ACCESSIBLE=1")
	on.Later = func() bool { return false }
	a := askForm(t, on, "Who?", name)
	p.sees("leaves it empty.\n>")
	p.types("/later\n")
	wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": "/later"}})
	if p.everSaw("leaves the question open") {
		t.Error("later was offered")
	}
}
