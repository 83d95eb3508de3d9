package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

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
	text := strconv.FormatFloat(p.Progress, 'g', 6, 64)
	if p.Total > 0 {
		text = fmt.Sprintf("%s of %s", text, strconv.FormatFloat(p.Total, 'g', 6, 64))
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
