package client

import (
	"testing"
	"time"
)

// The client follows a server's interval within bounds.
func TestIntervals(t *testing.T) {
	for told, want := range map[time.Duration]time.Duration{
		0: time.Second, 1: 100 * time.Millisecond, 5 * time.Second: 5 * time.Second, 365 * 24 * time.Hour: 5 * time.Minute,
	} {
		w := &await{Session: &Session{opts: &New(nil).opts}, task: &Task{PollInterval: told}}
		if got := w.interval(); got != want {
			t.Errorf("told %v, looks every %v, want %v", told, got, want)
		}
	}
}
