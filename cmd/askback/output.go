package main

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

// output writes text. Its error keeps a full disk or a closed pipe from looking like success.
func output(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// isTerminal reports whether a reader or writer is a terminal.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(file.Fd())
}

// outputForeign writes a server's text: made harmless for a terminal, and unchanged elsewhere.
func outputForeign(w io.Writer, text string) error {
	if isTerminal(w) {
		text = harmless(text)
	}
	return output(w, text)
}

// outputJSON writes a value as JSON, for programs.
func outputJSON(w io.Writer, v any) error {
	text, err := indentedJSON(v)
	if err != nil {
		return err
	}
	return output(w, text)
}

// warn prints a warning, if there is one.
func warn(cmd *cobra.Command, message string) {
	if message != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "askback: warning: %s\n", message)
	}
}

// lineWriter calls each for every line that is written to it.
type lineWriter struct {
	each func(line string)

	mu   sync.Mutex
	text []byte // the line that is not complete yet
}

const maxLine = 4096

func (w *lineWriter) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text...)
	for {
		at := bytes.IndexByte(w.text, '\n')
		rest := at + 1
		if at < 0 {
			if len(w.text) < maxLine {
				return len(text), nil
			}
			at, rest = maxLine, maxLine
		}
		w.each(strings.TrimRight(string(w.text[:at]), "\r"))
		w.text = w.text[rest:]
	}
}

// flush calls each for a last line that is not complete.
func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.text) > 0 {
		w.each(string(w.text))
		w.text = nil
	}
}
