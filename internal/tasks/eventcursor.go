package tasks

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/askback-mcp/askback/task"
)

// cursor is a place in the log of a principal, or of an anonymous caller's task: what was written until then was read.
// It is not sealed, because its reader gets nothing by another one: the log is the reader's own.
type cursor struct {
	position int64 // 0 is the beginning
	// mark tells the event at the position from others, because a database that has lost commits gives positions again,
	// and what was lost may happen again, too. It is empty where no event is.
	mark   string
	minted time.Time // by the clock of the store, in milliseconds
}

func (c *cursor) moveTo(e *task.Event) { c.position, c.mark = e.Position, markOf(e) }

func markOf(e *task.Event) string { return fmt.Sprint(e.ID(), "-", e.Written.UnixMilli()) }

// isIn reports whether the log, of which the page was read, is the one that the cursor was made for: it still has the
// event of the cursor, or knows that it was deleted.
func (c *cursor) isIn(page *task.EventPage) bool {
	switch {
	case page.Now.Sub(c.minted) > task.EventGapsKept:
		return false
	case c.position == 0:
		return true
	case page.At != nil:
		return markOf(page.At) == c.mark
	}
	return page.Deleted >= c.position
}

func (c *cursor) encode() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%d.%s", c.position, c.minted.UnixMilli(), c.mark))
}

// longestCursor bounds what is read: three numbers and an ID, in Base64.
const longestCursor = 128

// parseEventCursor reads what encode has made, and nothing else.
func parseEventCursor(text string) (c cursor, ok bool) {
	if len(text) > longestCursor {
		return c, false
	}
	data, err := base64.RawURLEncoding.DecodeString(text)
	position, rest, _ := strings.Cut(string(data), ".")
	minted, mark, _ := strings.Cut(rest, ".")
	c.position, _ = strconv.ParseInt(position, 10, 64)
	ms, _ := strconv.ParseInt(minted, 10, 64)
	c.minted, c.mark = time.UnixMilli(ms), mark
	return c, err == nil && c.position >= 0 && ms >= 0 && ms <= lastCursor && c.encode() == text
}
