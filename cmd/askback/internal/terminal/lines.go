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
	wordDecline = "/decline"
	wordCancel  = "/cancel"
	wordEmpty   = "/empty"
)

// leaveError says that the person left in the middle of a question.
type leaveError struct{ action }

func (leaveError) Error() string { return "the person left" }

// askByLine puts a question line by line.
func (t *Terminal) askByLine(ctx context.Context, p *prompt) (action, error) {
	keyboard, err := cancelreader.NewReader(t.in())
	if err != nil {
		return cancel, err
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
	l := &byLine{t, keyboard}
	a, err := l.ask(p)
	var left leaveError
	switch {
	case errors.As(err, &left):
		return left.action, nil
	case errors.Is(err, io.EOF), errors.Is(err, cancelreader.ErrCanceled):
		return cancel, t.say("\n")
	}
	return a, err
}

// byLine puts one question line by line.
type byLine struct {
	*Terminal
	keyboard io.Reader
}

func (l *byLine) ask(p *prompt) (action, error) {
	if err := l.say("\n%s %s\n", p.server, p.asks); err != nil {
		return cancel, err
	}
	for _, b := range p.body {
		gutter := "  "
		switch b.kind {
		case theirs:
			gutter = "  | "
		case warning:
			gutter = "  ! "
		case heading:
			b.text += ":"
		}
		put := l.sayWrapped
		if b.kind == address { // on one line, so that it can be copied
			put = func(gutter, text string) error { return l.say("%s%s\n", gutter, text) }
		}
		if err := put(gutter, b.text); err != nil {
			return cancel, err
		}
	}
	if len(p.fields) > 0 {
		if err := l.say("\nType %s or %s to leave at any time.\n", wordDecline, wordCancel); err != nil {
			return cancel, err
		}
	}
	for {
		for i, f := range p.fields {
			if err := l.fill(f, fmt.Sprintf("%d of %d: ", i+1, len(p.fields))); err != nil {
				return cancel, err
			}
		}
		a, err := l.decide(p)
		if err != nil || a != change {
			return a, err
		}
	}
}

// fill asks for one field until the answer is valid.
func (l *byLine) fill(f *field, place string) error {
	about := []string{"optional"}
	if f.required {
		about[0] = "required"
	}
	if f.kind == prose {
		place, about = "", []string{"end with a line that holds nothing but a dot"}
	}
	if f.want != "" {
		about = append(about, f.want)
	}
	if err := l.say("\n%s%s (%s)\n", place, f.label, strings.Join(about, ", ")); err != nil {
		return err
	}
	if f.about != "" {
		if err := l.sayWrapped("  | ", f.about); err != nil {
			return err
		}
	}
	if err := l.sayWrapped("  ! ", f.warning); err != nil {
		return err
	}
	for i, o := range f.options {
		mark := ""
		if f.picked[i] {
			mark = " (chosen)"
		}
		if err := l.say("  %d. %s%s\n", i+1, o.label, mark); err != nil {
			return err
		}
	}
	if err := l.sayWrapped("  ", strings.Join(f.howTo(), " ")); err != nil {
		return err
	}
	for {
		if err := l.take(f); err != nil {
			return err
		}
		problem := f.problem()
		if problem == "" {
			return nil
		}
		if err := l.say("  ! %s\n", problem); err != nil {
			return err
		}
	}
}

// howTo tells how to answer a field where that is not obvious.
func (f *field) howTo() []string {
	var how []string
	kept := f.text != ""
	switch {
	case f.kind == prose:
		return nil
	case f.kind == many:
		how, kept = append(how, "Type the numbers of your choices, such as 1, 2."), slices.Contains(f.picked, true)
	case f.isChoice():
		how, kept = append(how, "Type the number of your choice."), slices.Contains(f.picked, true)
	}
	switch {
	case kept && f.isChoice():
		how = append(how, "Enter keeps what is chosen.")
	case kept:
		how = append(how, fmt.Sprintf("Enter keeps %q.", visible(f.text, maxAbout)))
	case !f.required:
		how = append(how, "Enter leaves it empty.")
	}
	if kept && (!f.required || f.kind == many) && f.kind != one && f.kind != yesNo {
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
		if err := l.say("  ! %s\n", problem); err != nil {
			return err
		}
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

func (l *byLine) decide(p *prompt) (action, error) {
	if p.review {
		if err := l.say("\nThis will be sent:\n"); err != nil {
			return cancel, err
		}
		for _, f := range p.fields {
			if err := l.say("  %s: %s\n", f.label, strings.Join(f.answer(), ", ")); err != nil {
				return cancel, err
			}
		}
	}
	actions := []action{decline, cancel}
	if p.accept != "" {
		actions = []action{accept, decline, cancel}
	}
	if p.accept != "" && len(p.fields) > 0 {
		actions = []action{accept, change, decline, cancel}
	}
	if err := l.say("\n"); err != nil {
		return cancel, err
	}
	for i, a := range actions {
		name := map[action]string{accept: p.accept, change: "Change", decline: "Decline", cancel: "Cancel"}[a]
		if err := l.say("  %d. %s\n", i+1, name); err != nil {
			return cancel, err
		}
	}
	for {
		s, err := l.read("Type the number of your decision: ")
		if err != nil {
			return cancel, err
		}
		if n, err := strconv.Atoi(s); err == nil && n >= 1 && n <= len(actions) {
			return actions[n-1], nil
		}
		if err := l.say("  ! type a number from 1 to %d\n", len(actions)); err != nil {
			return cancel, err
		}
	}
}

// sayWrapped prints text on as many lines as it takes, each behind the gutter.
func (l *byLine) sayWrapped(gutter, text string) error {
	if text == "" {
		return nil
	}
	for _, s := range wrap(text, widest-1-len(gutter)) {
		if err := l.say("%s%s\n", gutter, s); err != nil {
			return err
		}
	}
	return nil
}

// read returns the next line. A line with which the person leaves is a leaveError.
func (l *byLine) read(question string) (string, error) {
	if err := l.say("%s", question); err != nil {
		return "", err
	}
	for {
		if line, rest, found := bytes.Cut(l.rest, []byte{'\n'}); found {
			s := strings.TrimSuffix(strings.ToValidUTF8(string(line), "\ufffd"), "\r")
			l.rest = rest
			if !term.IsTerminal(l.in().Fd()) { // a terminal shows it by itself
				if err := l.say("%s\n", visible(s, maxText)); err != nil {
					return "", err
				}
			}
			switch s {
			case wordDecline:
				return "", leaveError{decline}
			case wordCancel:
				return "", leaveError{cancel}
			}
			return s, nil
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
