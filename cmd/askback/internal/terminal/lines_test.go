package terminal

import (
	"context"
	"io"
	"os"
	"testing"

	"github.com/charmbracelet/x/term"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestByLine(t *testing.T) {
	for _, env := range []string{"TERM=dumb", "ACCESSIBLE=1"} {
		t.Run(env, func(t *testing.T) {
			p := newPerson(t)
			a := askForm(t, p.terminal(env), "How was this bug resolved?", bug)
			p.sees("tracker asks:\n  | How was this bug resolved?", "Type /decline to tell the server no, "+
				"or /cancel to leave without a decision.",
				"1 of 12: Resolution (required)", "  | What became of the bug", "  2. Duplicate of another bug (dup)")
			p.types("\n")
			p.sees("! choose one")
			p.types("7\n")
			p.sees("! type a number from 1 to 2")
			p.types("2\n", "x\n")
			p.sees("! must be a whole number")
			p.types("42\n")
			p.sees(`Enter keeps "ada@example.com".`)
			p.types("\n", "\n", "\n", "\n", "\n", "2\n", "\n", "2\n")
			p.sees("Tags (optional, 1 to 2 to choose)", "2. db (chosen)")
			p.types("1, 3\n", "hello\n")
			p.sees("This will be sent:", "Tags: ui, net", "Seen at: (left empty)")
			p.types("2\n") // change
			p.types("\n\n", "/empty\n")
			p.sees("! must be answered")
			p.types("a@b.c\n\n\n\n\n\n\n\n\n\n")
			p.sees("Contact: a@b.c", "number of your decision:")
			p.types("1\n")
			wants(t, a, &mcp.ElicitResult{Action: "accept", Content: map[string]any{
				"zeta": "dup", "alpha": 42.0, "mail": "a@b.c", "colour": "r", "loud": true, "public": false,
				"tags": []any{"ui", "net"}, "note": "hello",
			}})
			if p.everSaw("\x1b") {
				t.Error("an escape sequence reached a terminal that cannot take it")
			}
			p.gotItBack()
		})
	}
}

func TestByLineLeaving(t *testing.T) {
	for keys, want := range map[string]string{"/decline\n": "decline", "/cancel\n": "cancel", "\x04": "cancel",
		"1\n\x04": "cancel"} {
		p := newPerson(t)
		a := askForm(t, p.terminal("TERM=dumb"), "How was this bug resolved?", bug)
		p.sees("Resolution")
		p.types(keys)
		wants(t, a, &mcp.ElicitResult{Action: want})
	}
}

func TestByLineSampleAndURL(t *testing.T) {
	p := newPerson(t)
	on := p.terminal("TERM=dumb")
	s := askSample(t, on)
	p.sees("System prompt:\n  | Be brief.", "Your completion (end with a line that holds nothing but a dot)")
	p.types("It is wrong.\nVery.\n.\n")
	p.sees("  1. Send\n  2. Change\n  3. Decline\n  4. Cancel")
	p.types("1\n")
	wants(t, s, written)

	opened := ""
	u := ask(t, func(ctx context.Context) (*mcp.ElicitResult, error) {
		return on.URL(ctx, "tracker", "Sign in", "http://example.com/", func(url string) error { opened = url; return nil })
	})
	p.sees("  http://example.com/\n  Host: example.com\n  ! It is not https", "  1. Open\n  2. Decline\n  3. Cancel")
	p.types("\n", "1\n")
	wants(t, u, &mcp.ElicitResult{Action: "accept"})
	expect.Equal(t, "opened", opened, "http://example.com/")
}

func TestFromAPipe(t *testing.T) {
	in, feed, err := os.Pipe()
	expect.Check(t, err)
	defer in.Close()
	shown, out, err := os.Pipe()
	expect.Check(t, err)
	defer shown.Close()
	go io.Copy(io.Discard, shown)
	defer out.Close()
	on := &Terminal{In: in, Out: out}
	if term.IsTerminal(in.Fd()) {
		t.Fatal("a pipe is a terminal")
	}
	const schema = `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`
	// Both answers are there at once; the second question must find its own.
	expect.Must(io.WriteString(feed, "Ada\nGrace\n"))(t)
	feed.Close()
	for _, want := range []string{"Ada", "Grace"} {
		wants(t, askForm(t, on, "Who?", schema), &mcp.ElicitResult{Action: "accept", Content: map[string]any{"name": want}})
	}
	wants(t, askForm(t, on, "Who?", schema), &mcp.ElicitResult{Action: "cancel"})
}
