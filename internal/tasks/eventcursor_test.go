package tasks

import (
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/task"
)

// A cursor has one spelling, so that what is accepted was made by encode or by somebody who knows its form.
func FuzzEventCursor(f *testing.F) {
	made := cursor{minted: time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC)}
	f.Add(made.encode())
	made.moveTo(&task.Event{Position: 1<<63 - 1, Kind: task.EventEnded, Task: "task"})
	for _, text := range []string{made.encode(), made.encode() + "=", strings.ToLower(made.encode()), "", "MC4w", "MC4wLg",
		"LTEuMC4", "MDEuMC4", "MC4xZTkuWA", "\xff", strings.Repeat("M", 129)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, ok := parseEventCursor(text)
		if ok && (c.encode() != text || c.position < 0 || c.minted.UnixMilli() < 0 || len(text) > longestCursor) {
			t.Errorf("%q is read as %+v", text, c)
		}
		again, same := parseEventCursor(c.encode())
		if ok && (!same || again.position != c.position || again.mark != c.mark || !again.minted.Equal(c.minted)) {
			t.Errorf("%q is read as %+v, and this as %+v", text, c, again)
		}
	})
}
