package conversation

import (
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// console writes to standard error while a call runs: notes, the trace, and how the work goes on. On a terminal the
// latter is one line, which is drawn again for every change and every second, with the time since the work began. It
// stays where the work ends or the person is asked something. Elsewhere every change is a line. While the person
// answers a question, notes wait, and how the work goes on is not shown.
type console struct {
	w        io.Writer
	terminal bool // can draw a line again
	columns  int

	mu      sync.Mutex
	asking  int
	ended   bool     // the call has; a notification may come later
	waiting []string // lines to print after the question
	last    string   // what was shown last

	shown bool // the cursor stands in the line of the work
	begun time.Time
	bar   string // empty where nobody knows how much work there is
	text  string
	tick  *time.Timer // draws the line again
}

func newConsole(w io.Writer) *console {
	c := &console{w: w, columns: cli.Columns}
	// A screen reader would read a line that changes every second again and again.
	if cli.IsTerminal(w) && os.Getenv("TERM") != "" && os.Getenv("TERM") != "dumb" && os.Getenv("ACCESSIBLE") == "" {
		c.terminal = true
		c.columns = min(cli.TerminalColumns(w), cli.Columns)
	}
	return c
}

// line prints lines of text, above the line of the work.
func (c *console) line(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := cli.Harmless(fmt.Sprintf(format, args...)) + "\n"
	if c.asking > 0 {
		c.waiting = append(c.waiting, text)
		return
	}
	if c.shown {
		text = "\r\x1b[K" + text
	}
	_, _ = io.WriteString(c.w, text) // there is nowhere to report an error
	c.draw()
}

// progress shows a notification of progress.
func (c *console) progress(p *mcp.ProgressNotificationParams) {
	text := fmt.Sprintf("%.6g", p.Progress)
	if p.Total > 0 {
		text += fmt.Sprintf(" of %.6g", p.Total)
	}
	switch {
	case p.Message == "":
	case p.Total <= 0 && p.Progress != math.Trunc(p.Progress):
		// Progress must grow, so a server that waits sends small fractions. They mean nothing to a person.
		text = p.Message
	default:
		text += ": " + p.Message
	}
	if !c.terminal {
		c.status("", "progress: "+text)
	} else if p.Total > 0 {
		c.status(progressBar(p.Progress/p.Total), text)
	} else {
		c.status("", "progress "+text)
	}
}

// progressBar draws the part of the work that is done.
func progressBar(part float64) string {
	const width = 20
	part = max(0, min(part, 1))
	full := int(part * width)
	return fmt.Sprintf("%s%s %3d%%  ", strings.Repeat("█", full), strings.Repeat("░", width-full),
		int(math.Floor(part*100)))
}

// status shows how the work goes on.
func (c *console) status(bar, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking > 0 || c.ended || bar+text == c.last {
		return
	}
	c.last, c.bar, c.text = bar+text, bar, text
	if !c.terminal {
		_, _ = io.WriteString(c.w, cli.HarmlessLine(text, c.columns-1)+"\n")
		return
	}
	if !c.shown {
		c.shown, c.begun = true, time.Now()
		c.tick = time.AfterFunc(time.Second, c.redraw)
	}
	c.draw()
}

// redraw shows the time that has gone by.
func (c *console) redraw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shown {
		c.draw()
		c.tick.Reset(time.Second)
	}
}

// draw draws the line of the work, if there is one.
func (c *console) draw() {
	if c.shown {
		text := c.bar + elapsed(time.Since(c.begun)) + "  " + cli.HarmlessLine(c.text, cli.MaxLine)
		_, _ = io.WriteString(c.w, "\r\x1b[K"+ansi.Truncate(text, c.columns-1, "…"))
	}
}

// elapsed shows a duration as a clock does: 0:07, 12:30, 1:00:00.
func elapsed(d time.Duration) string {
	s := int(d.Seconds())
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// ask reserves the terminal for a question until the caller calls the function that it returns.
func (c *console) ask() (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave()
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

// done ends the line of the work at the end of the call.
func (c *console) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave()
	c.ended = true
}

// leave lets the line of the work stay as it is. The next one is below it.
func (c *console) leave() {
	if c.shown {
		c.tick.Stop()
		c.draw()
		_, _ = io.WriteString(c.w, "\n")
	}
	c.shown, c.last = false, ""
}
