// Package terminal asks a person at a terminal what a server wants to know: the client's half of elicitation and
// sampling, when the client is a command and its user sits in front of it.
//
//	t := &terminal.Terminal{In: os.Stdin, Out: os.Stderr}
//	answer, err := t.Form(ctx, "tracker", "How was this bug resolved?", schema)
//
// It always shows which server asks, explains an invalid answer where it was given, shows what will be sent before it
// is, and offers to decline and to cancel at every moment. A question can be on the screen for as long as its context
// lives.
//
// Everything a server says is hostile until shown otherwise. Its text cannot act on the terminal: control characters
// are spelled out, invisible ones dropped, addresses in it broken so that no terminal makes links of them, and what is
// too long is cut with a note. It stands apart from this package's own words, so that it cannot pretend to be them.
//
// See the elicitation and sampling pages of the MCP specification, 2026-07-28.
package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/charmbracelet/x/term"
)

// ErrDeclined is what [Terminal.Sample] returns when the person declines.
var ErrDeclined = errors.New("the person declined to answer")

// ErrCanceled is what [Terminal.Sample] returns when the person leaves without deciding.
var ErrCanceled = errors.New("the person left without an answer")

// ErrInterrupted is what all questions return when the person presses Ctrl-C, or an interrupt or a termination signal
// comes while they are open. It is no answer: whoever asks is to stop.
var ErrInterrupted = errors.New("interrupted")

// Terminal asks a person. Its zero value asks on standard input and standard error. It is safe for concurrent use:
// questions are asked one after the other.
//
// Where both files are a terminal, a question is a form to move about in, drawn below what the terminal already shows
// and wiped when it ends. Where one is not, or the environment sets NO_COLOR or ACCESSIBLE or a TERM that can do
// nothing, the question is asked line by line, in plain text that a screen reader follows; the end of the input then
// cancels.
type Terminal struct {
	In  *os.File // os.Stdin if nil
	Out *os.File // os.Stderr if nil
	Env []string // os.Environ() if nil

	once sync.Once
	free chan struct{} // holds a token while nobody is asked
	rest []byte        // read from In line by line, and not used yet
}

// action is what a person decides about a question.
type action int

const (
	cancel action = iota // also what happens to a person who does nothing
	decline
	accept
	change // what the review shows, before deciding
	interrupt
)

func (a action) String() string {
	return [...]string{"cancel", "decline", "accept", "change", "interrupt"}[a]
}

// prompt is one question, however it is put.
type prompt struct {
	server string // may be shown
	asks   string // what it does, to follow its name
	body   []block
	fields []*field
	accept string // what accepting is called; empty if there is nothing to accept
	review bool   // show the answers once more before they are accepted
}

// ask puts a question and says what became of it. The answers are in the fields.
func (t *Terminal) ask(ctx context.Context, p *prompt) (action, error) {
	t.once.Do(func() {
		t.free = make(chan struct{}, 1)
		t.free <- struct{}{}
	})
	select {
	case <-t.free:
		defer func() { t.free <- struct{}{} }()
	case <-ctx.Done():
		return cancel, context.Cause(ctx)
	}
	if ctx.Err() != nil {
		return cancel, context.Cause(ctx)
	}

	// In raw mode Ctrl-C is a key. Everywhere else, and when somebody else ends this process, it is a signal, on which
	// the terminal must be restored before anything else happens.
	asking, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	put := t.askByLine
	if t.canDraw() {
		put = t.askOnScreen
	}
	a, err := put(asking, p)
	switch {
	case ctx.Err() != nil:
		return cancel, context.Cause(ctx)
	case asking.Err() != nil, err == nil && a == interrupt:
		return cancel, ErrInterrupted
	case err != nil:
		return cancel, fmt.Errorf("asking on the terminal: %w", err)
	}
	done := map[action]string{cancel: "canceled", decline: "declined", accept: "answered"}[a]
	return a, t.say("%s: %s\n", p.server, done)
}

func (t *Terminal) in() *os.File {
	if t.In != nil {
		return t.In
	}
	return os.Stdin
}

func (t *Terminal) out() *os.File {
	if t.Out != nil {
		return t.Out
	}
	return os.Stderr
}

func (t *Terminal) environ() []string {
	if t.Env != nil {
		return t.Env
	}
	return os.Environ()
}

// canDraw says whether there is a terminal to draw on, and nothing was said against it.
func (t *Terminal) canDraw() bool {
	env := map[string]string{}
	for _, e := range t.environ() {
		name, value, _ := strings.Cut(e, "=")
		env[name] = value
	}
	return env["NO_COLOR"] == "" && env["ACCESSIBLE"] == "" && env["TERM"] != "" && env["TERM"] != "dumb" &&
		term.IsTerminal(t.in().Fd()) && term.IsTerminal(t.out().Fd())
}

func (t *Terminal) say(format string, args ...any) error {
	_, err := io.WriteString(t.out(), fmt.Sprintf(format, args...))
	if err != nil {
		return fmt.Errorf("writing to the terminal: %w", err)
	}
	return nil
}
