// Package terminal puts a server's questions to a person at a terminal. It is the client's part of elicitation and
// sampling for a client that is a command.
//
//	t := &terminal.Terminal{In: os.Stdin, Out: os.Stderr}
//	answer, err := t.Form(ctx, "tracker", "How was this bug resolved?", schema)
//
// Every question shows which server asks, explains an invalid answer beside its field, shows the answers of several
// fields together before they are sent, and can be declined or cancelled at any time, or put off where the caller can
// wait. It is open until it is answered or its context is done. The question, the answers and the decision then stay on
// the terminal.
//
// All text of a server counts as hostile. It is shown apart from the text of this package, so that it cannot pass for
// it, and it cannot act on the terminal:
//
//   - Control characters are spelled out, and invisible characters are dropped.
//   - Addresses are broken up, so that no terminal makes links of them.
//   - Text that is too long is cut, with a note.
//
// See the elicitation and sampling pages of the MCP specification, 2026-07-28.
//
// The form is our own because a library such as huh would need code around it for most of this. Its notes interpret
// markup, so a server could style its text like ours. It has one way out, where a question needs three: decline, cancel
// and interrupt. Its accessible mode takes the defaults when the input ends, so a pipe that closes could accept a form.
// And it cannot scroll a message that is longer than the terminal, so that a person would agree to text out of view.
package terminal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/term"
)

// ErrDeclined is the error of [Terminal.Sample] when the person declines.
var ErrDeclined = errors.New("the person declined to answer")

// ErrCanceled is the error of [Terminal.Sample] when the person leaves without deciding.
var ErrCanceled = errors.New("the person left without an answer")

// ErrLater is the error of every question that the person puts off: see [Terminal.Later].
var ErrLater = errors.New("the person puts the question off")

// ErrInterrupted is the error of every question when the person presses Ctrl-C, or an interrupt or termination signal
// arrives while the question is open. It is not an answer: the caller should stop.
var ErrInterrupted = errors.New("interrupted")

// Terminal asks a person. Its zero value asks on standard input and standard error. It is safe for concurrent use, and
// asks one question at a time.
//
// If both files are terminals, a question is a form in which the person can move. It is drawn below the text that the
// terminal already shows, takes only what is typed from then on (not on Windows), and is replaced by a record of what
// was asked and answered when it ends. If the environment sets NO_COLOR, it has no colours. Otherwise, or if the
// environment sets ACCESSIBLE, or has no TERM or TERM=dumb, the question is asked line by line, in plain text that a
// screen reader can follow. The end of the input then puts the question off, or cancels it where that is not possible.
type Terminal struct {
	In  *os.File // os.Stdin if nil
	Out *os.File // os.Stderr if nil
	Env []string // os.Environ() if nil

	// Later reports whether the question that is put now can be put off. Nil means that none can.
	Later func() bool

	once sync.Once
	open chan struct{} // holds a token while a question is open
	rest []byte        // input that was read line by line and is not used yet
}

// ask puts a question and returns the decision. The answers are in the fields. What was asked and answered stays on the
// terminal.
func (t *Terminal) ask(ctx context.Context, p *prompt) (action, error) {
	t.once.Do(func() { t.open = make(chan struct{}, 1) })
	select {
	case t.open <- struct{}{}:
		defer func() { <-t.open }()
	case <-ctx.Done():
		return cancel, context.Cause(ctx)
	}
	if ctx.Err() != nil {
		return cancel, context.Cause(ctx)
	}

	p.later = t.Later != nil && t.Later()
	// Ctrl-C is a key in raw mode and a signal otherwise. On a signal the terminal must be restored before the process
	// ends.
	asking, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	askOnce := t.askByLine
	if t.canDraw() {
		askOnce = t.askOnScreen
	}
	a, record, err := askOnce(asking, p)
	switch {
	case ctx.Err() != nil:
		return cancel, context.Cause(ctx)
	case asking.Err() != nil, err == nil && a == interrupt:
		return cancel, ErrInterrupted
	case err != nil:
		return cancel, fmt.Errorf("asking on the terminal: %w", err)
	}
	err = t.say("%s\n", record)
	if a == later {
		err = ErrLater // also where the terminal is gone
	}
	return a, err
}

func (t *Terminal) in() *os.File  { return cmp.Or(t.In, os.Stdin) }
func (t *Terminal) out() *os.File { return cmp.Or(t.Out, os.Stderr) }

func (t *Terminal) environ() []string {
	if t.Env != nil {
		return t.Env
	}
	return os.Environ()
}

// getenv returns the value of a variable of the environment.
func (t *Terminal) getenv(name string) (value string) {
	for _, e := range t.environ() {
		if v, found := strings.CutPrefix(e, name+"="); found {
			value = v // the last one counts
		}
	}
	return value
}

// canDraw reports whether both files are terminals, and the environment allows to draw.
func (t *Terminal) canDraw() bool {
	return t.getenv("ACCESSIBLE") == "" && t.getenv("TERM") != "" && t.getenv("TERM") != "dumb" &&
		term.IsTerminal(t.in().Fd()) && term.IsTerminal(t.out().Fd())
}

// colours returns the colours that the terminal has and the environment allows.
func (t *Terminal) colours() colorprofile.Profile {
	if t.getenv("NO_COLOR") != "" { // with any value
		return colorprofile.ASCII
	}
	return colorprofile.Detect(t.out(), t.environ())
}

func (t *Terminal) say(format string, args ...any) error {
	if _, err := fmt.Fprintf(t.out(), format, args...); err != nil {
		return fmt.Errorf("writing to the terminal: %w", err)
	}
	return nil
}
