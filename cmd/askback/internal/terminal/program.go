package terminal

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/muesli/cancelreader"
)

// askOnScreen puts a question by drawing it on the terminal.
func (t *Terminal) askOnScreen(ctx context.Context, p *prompt) (a action, record string, err error) {
	s := newScreen(p)
	discardTyped(t.in())
	keys, err := cancelreader.NewReader(t.in())
	if err != nil {
		return cancel, "", err
	}
	from, to := io.Pipe()
	colours := t.colours()
	program := tea.NewProgram(s, tea.WithInput(&keyboard{from, t.in()}), tea.WithOutput(t.out()),
		tea.WithEnvironment(t.environ()), tea.WithColorProfile(colours), tea.WithoutSignalHandler())
	typing := make(chan struct{})
	go func() {
		defer close(typing)
		_, _ = io.Copy(to, keys)
		program.Send(stop{}) // the keyboard is gone
	}()
	// tea.WithContext would leave the last drawing on the terminal.
	release := context.AfterFunc(ctx, func() { program.Send(stop{}) })
	defer release()

	_, err = program.Run()
	from.Close()
	if keys.Cancel() {
		<-typing
	}
	final := new(strings.Builder) // writing to it does not fail
	_, _ = io.WriteString(&colorprofile.Writer{Forward: final, Profile: colours}, s.record())
	return s.result, final.String(), errors.Join(err, keys.Close())
}

// keyboard is a terminal whose input askOnScreen reads. If Bubble Tea read it, its goroutine could outlive the question
// and take keys of the next one.
type keyboard struct {
	*io.PipeReader
	tty *os.File
}

func (k *keyboard) Fd() uintptr { return k.tty.Fd() }

func (k *keyboard) Write(p []byte) (int, error) { return k.tty.Write(p) }
