package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/charmbracelet/x/term"
	"github.com/modelcontextprotocol/go-sdk/mcp"
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

// console writes to standard error while a call runs: notes, the trace, and a line of progress that a terminal shows in
// one place. While the person answers a question, notes wait and progress is not shown.
type console struct {
	w        io.Writer
	terminal bool

	mu      sync.Mutex
	asking  int
	waiting []string // lines to print after the question
	shown   bool     // the terminal shows a line of progress
	last    string
}

func newConsole(w io.Writer) *console { return &console{w: w, terminal: isTerminal(w)} }

// line prints lines of text.
func (c *console) line(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := harmless(fmt.Sprintf(format, args...)) + "\n"
	if c.asking > 0 {
		c.waiting = append(c.waiting, text)
		return
	}
	c.clear()
	_, _ = io.WriteString(c.w, text) // there is nowhere to report an error
}

// progress shows a notification of progress.
func (c *console) progress(p *mcp.ProgressNotificationParams) {
	text := fmt.Sprintf("%.6g", p.Progress)
	if p.Total > 0 {
		text += fmt.Sprintf(" of %.6g", p.Total)
	}
	if p.Message != "" {
		text += ": " + p.Message
	}
	c.status("progress: " + text)
}

// clear removes the line of progress.
func (c *console) clear() {
	if c.shown {
		_, _ = io.WriteString(c.w, "\r\x1b[K")
		c.shown = false
	}
}

// ask reserves the terminal for a question until the caller calls the function that it returns.
func (c *console) ask() (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	c.asking++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.asking--; c.asking == 0 {
			_, _ = io.WriteString(c.w, strings.Join(c.waiting, ""))
			c.waiting = nil
		}
	}
}

// done removes the line of progress at the end of the call.
func (c *console) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
}

// status shows a line in place of the line of progress.
func (c *console) status(text string) {
	text = harmlessLine(text, columns-1)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking > 0 || text == c.last {
		return
	}
	c.last = text
	if !c.terminal {
		_, _ = io.WriteString(c.w, text+"\n")
		return
	}
	_, _ = io.WriteString(c.w, "\r\x1b[K"+text)
	c.shown = true
}
