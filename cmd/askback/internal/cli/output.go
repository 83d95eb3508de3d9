package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"
)

// Output writes text. Its error keeps a full disk or a closed pipe from looking like success.
func Output(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// IsTerminal reports whether a reader or writer is a terminal.
func IsTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(file.Fd())
}

// TerminalColumns returns how many columns the terminal has that is written to, or zero if it is none.
func TerminalColumns(w io.Writer) int {
	if !IsTerminal(w) {
		return 0
	}
	if width, _, err := term.GetSize(w.(*os.File).Fd()); err == nil && width > 0 {
		return width
	}
	return Columns // it does not say
}

// OutputForeign writes a server's text: made harmless for a terminal, and unchanged elsewhere.
func OutputForeign(w io.Writer, text string) error {
	if IsTerminal(w) {
		text = Harmless(text)
	}
	return Output(w, text)
}

// OutputJSON writes a value as JSON, for programs.
func OutputJSON(w io.Writer, v any) error {
	text, err := IndentedJSON(v)
	if err != nil {
		return err
	}
	return Output(w, text)
}

// Warn prints a warning, if there is one.
func Warn(cmd *cobra.Command, message string) {
	if message != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "askback: warning: %s\n", message)
	}
}

// LineWriter calls each for every line that is written to it.
type LineWriter struct {
	Each func(line string)

	mu   sync.Mutex
	text []byte // the line that is not complete yet
}

// MaxLine is the length in bytes from which a line is broken.
const MaxLine = 4096

func (w *LineWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text...)
	for {
		at := bytes.IndexByte(w.text, '\n')
		rest := at + 1
		if at < 0 {
			if len(w.text) < MaxLine {
				return len(text), nil
			}
			at, rest = MaxLine, MaxLine
		}
		w.Each(strings.TrimRight(string(w.text[:at]), "\r"))
		w.text = w.text[rest:]
	}
}

// Flush calls each for a last line that is not complete.
func (w *LineWriter) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.text) > 0 {
		w.Each(string(w.text))
		w.text = nil
	}
}

// MaxListed is how many tasks or questions a list shows to people.
const MaxListed = 10000
