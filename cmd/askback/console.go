package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// console is standard error while a call runs: notes, the trace, and a line of progress that is rewritten on a
// terminal. Nothing disturbs a question: what comes meanwhile is shown after it.
type console struct {
	w        io.Writer
	terminal bool

	mu      sync.Mutex
	asking  int
	waiting []string // lines for when the question is over
	shown   bool     // a line of progress
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
	_, _ = io.WriteString(c.w, text) // there is nowhere to tell of an error
}

// progress shows how far the server has come.
func (c *console) progress(p *mcp.ProgressNotificationParams) {
	text := strconv.FormatFloat(p.Progress, 'g', 6, 64)
	if p.Total > 0 {
		text = fmt.Sprintf("%s of %s", text, strconv.FormatFloat(p.Total, 'g', 6, 64))
	}
	if p.Message != "" {
		text += ": " + p.Message
	}
	text = "progress: " + harmlessLine(text, columns-len("progress: ")-1)
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

// clear takes the line of progress away.
func (c *console) clear() {
	if c.shown {
		_, _ = io.WriteString(c.w, "\r\x1b[K")
		c.shown = false
	}
}

// ask leaves the terminal to a question, until the function that it returns is called.
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

// done ends the line of progress.
func (c *console) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
}
