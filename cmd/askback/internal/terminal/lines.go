package terminal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/muesli/cancelreader"
)

// The words that a person can type in place of an answer.
const (
	wordLater   = "/later"
	wordDecline = "/decline"
	wordCancel  = "/cancel"
	wordEmpty   = "/empty"
)

// leaveError is the decision of a person who leaves in the middle of a question.
type leaveError action

func (e leaveError) Error() string { return "the person left: " + string(e) }

// askByLine puts a question line by line.
func (t *Terminal) askByLine(ctx context.Context, p *prompt) (a action, record string, err error) {
	keyboard, err := cancelreader.NewReader(t.in())
	if err != nil {
		return cancel, "", err
	}
	canceled := make(chan struct{})
	release := context.AfterFunc(ctx, func() {
		defer close(canceled)
		keyboard.Cancel()
	})
	defer func() {
		if !release() {
			<-canceled
		}
		keyboard.Close()
	}()
	l := &byLine{Terminal: t, keyboard: keyboard, later: p.later}
	a, err = l.ask(p)
	if left, ok := errors.AsType[leaveError](err); ok {
		a, err = action(left), nil
	} else if errors.Is(err, io.EOF) || errors.Is(err, cancelreader.ErrCanceled) {
		a, err = p.unanswered(), t.say("\n")
	}
	return a, p.outcome(a), err
}

// byLine puts one question line by line.
type byLine struct {
	*Terminal
	keyboard io.Reader
	later    bool  // the question can be put off
	failed   error // the first error of writing, which the next read returns
}

// print writes text.
func (l *byLine) print(format string, args ...any) {
	if l.failed == nil {
		l.failed = l.say(format, args...)
	}
}

func (l *byLine) ask(p *prompt) (action, error) {
	l.print("\n%s %s\n", p.server, p.asks)
	for _, b := range p.body {
		switch b.kind {
		case theirs:
			l.printWrapped("  | ", b.text)
		case warning:
			l.printWrapped("  ! ", b.text)
		case heading:
			l.printWrapped("  ", b.text+":")
		case address:
			l.print("  %s\n", b.text) // on one line, so that it can be copied
		case ours:
			l.printWrapped("  ", b.text)
		}
	}
	if len(p.fields) > 0 {
		words := fmt.Sprintf("Type %s to tell the server no, or %s to leave without a decision.", wordDecline, wordCancel)
		if p.later {
			words += fmt.Sprintf(" %s leaves the question open.", wordLater)
		}
		l.print("\n")
		l.printWrapped("", words)
	}
	for {
		for i, f := range p.fields {
			place := ""
			if len(p.fields) > 1 {
				place = fmt.Sprintf("%d of %d: ", i+1, len(p.fields))
			}
			if err := l.fill(f, place); err != nil {
				return cancel, err
			}
		}
		if len(p.fields) == 1 && p.fields[0].kind != prose { // one line is the whole answer
			l.printAnswers(p)
			return accept, l.failed
		}
		a, err := l.decide(p)
		if err != nil || a != change {
			return a, err
		}
	}
}

// fill asks for one field until the answer is valid.
func (l *byLine) fill(f *field, place string) error {
	about := f.terms()
	if f.kind == prose {
		about = []string{"end with a line that holds nothing but a dot"}
	}
	l.print("\n%s%s (%s)\n", place, f.label, strings.Join(about, ", "))
	l.printWrapped("  | ", f.about)
	l.printWrapped("  ! ", f.warning)
	for i := range f.options {
		if !f.isLong() || f.picked[i] {
			l.printOption(f, i)
		}
	}
	l.printWrapped("  ", strings.Join(f.howTo(), " "))
	for {
		if err := l.take(f); err != nil {
			return err
		}
		problem := f.problem()
		if problem == "" {
			return nil
		}
		l.print("  ! %s\n", problem)
	}
}

func (l *byLine) printOption(f *field, i int) {
	mark := ""
	if f.picked[i] {
		mark = " (chosen)"
	}
	l.print("  %d. %s%s\n", i+1, f.options[i].label, mark)
}

// howTo tells how to answer a field where that is not obvious.
func (f *field) howTo() []string {
	var how []string
	if f.isLong() {
		how = append(how, fmt.Sprintf("Of %d choices, type a part of one to see those that have it.", len(f.options)))
	}
	switch {
	case f.kind == prose:
		return nil
	case f.kind == many:
		how = append(how, "Type the numbers of your choices, such as 1, 2.")
	case f.isChoice():
		how = append(how, "Type the number of your choice.")
	}
	picked := slices.Contains(f.picked, true)
	switch {
	case picked:
		how = append(how, "Enter keeps what is chosen.")
	case f.text != "":
		how = append(how, fmt.Sprintf("Enter keeps %q.", visible(f.text, maxAbout)))
	case !f.Required:
		how = append(how, "Enter leaves it empty.")
	}
	if f.kind == many && picked || !f.Required && f.text != "" {
		how = append(how, fmt.Sprintf("Type %s to leave it empty.", wordEmpty))
	}
	return how
}

// take reads one answer. It explains a mistake and asks again.
func (l *byLine) take(f *field) error {
	if f.kind == prose {
		f.text = ""
		for {
			s, err := l.read("> ")
			if err != nil || s == "." {
				f.text = strings.TrimSuffix(f.text, "\n")
				return err
			}
			f.text += s + "\n"
		}
	}
	for {
		s, err := l.read("> ")
		switch {
		case err != nil:
			return err
		case s == "":
			return nil
		case s == wordEmpty:
			f.text = ""
			clear(f.picked)
			return nil
		case !f.isChoice():
			f.text = s
			return nil
		}
		picked, problem := f.numbers(s)
		if problem == "" {
			f.picked = picked
			return nil
		}
		if found := f.matching(s); f.isLong() && strings.Trim(s, "0123456789, ") != "" && len(found) > 0 {
			for _, i := range found {
				l.printOption(f, i)
			}
			continue
		}
		l.print("  ! %s\n", problem)
	}
}

// numbers reads the numbers of options.
func (f *field) numbers(s string) (picked []bool, problem string) {
	words := strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
	if f.kind != many && len(words) != 1 {
		return nil, "type one number"
	}
	picked = make([]bool, len(f.options))
	for _, w := range words {
		n, err := strconv.Atoi(w)
		if err != nil || n < 1 || n > len(f.options) {
			return nil, fmt.Sprintf("type a number from 1 to %d", len(f.options))
		}
		picked[n-1] = true
	}
	return picked, ""
}

// printAnswers prints what is sent.
func (l *byLine) printAnswers(p *prompt) {
	for _, f := range p.fields {
		l.print("  %s: %s\n", f.label, strings.Join(f.answer(), ", "))
	}
}

func (l *byLine) decide(p *prompt) (action, error) {
	if p.review {
		l.print("\nThis will be sent:\n")
		l.printAnswers(p)
	}
	actions := p.actions(true)
	l.print("\n")
	for i, a := range actions {
		l.print("  %d. %s\n", i+1, p.name(a))
	}
	for {
		s, err := l.read("Type the number of your decision: ")
		if err != nil {
			return cancel, err
		}
		if n, err := strconv.Atoi(s); err == nil && n >= 1 && n <= len(actions) {
			return actions[n-1], nil
		}
		l.print("  ! type a number from 1 to %d\n", len(actions))
	}
}

// printWrapped writes text on as many lines as it takes, each behind the gutter.
func (l *byLine) printWrapped(gutter, text string) {
	if text == "" {
		return
	}
	for _, s := range wrap(text, widest-1-len(gutter)) {
		l.print("%s%s\n", gutter, s)
	}
}

// read returns the next line. A line with which the person leaves is a leaveError.
func (l *byLine) read(question string) (string, error) {
	l.print("%s", question)
	for {
		if line, rest, found := bytes.Cut(l.rest, []byte{'\n'}); found {
			s := strings.TrimSuffix(strings.ToValidUTF8(string(line), "\ufffd"), "\r")
			l.rest = rest
			if !term.IsTerminal(l.in().Fd()) { // a terminal shows it by itself
				l.print("%s\n", visible(s, maxText))
			}
			switch {
			case s == wordDecline:
				return "", leaveError(decline)
			case s == wordCancel:
				return "", leaveError(cancel)
			case s == wordLater && l.later:
				return "", leaveError(later)
			}
			return s, l.failed
		}
		if l.failed != nil {
			return "", l.failed
		}
		if len(l.rest) > maxText {
			return "", fmt.Errorf("a line is longer than %d bytes", maxText)
		}
		buffer := make([]byte, 4096)
		n, err := l.keyboard.Read(buffer)
		l.rest = append(l.rest, buffer[:n]...)
		if n == 0 && err != nil {
			return "", err
		}
	}
}
