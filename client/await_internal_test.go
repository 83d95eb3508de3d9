package client

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
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

// A server that reports without end does not make the client ask without end.
func TestReportsDoNotMakeAClientAskWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &await{Session: &Session{opts: &New(nil).opts}, task: &Task{PollInterval: time.Hour},
			subscription: newSubscription(nil, "t")}
		began := time.Now()
		for n := range 100 {
			w.subscription.signal()
			expect.Must(w.rest(t.Context()))(t)
			slow := max(0, n+1-33) // after as many as a task may report in a burst
			if want := time.Duration(slow) * w.opts.Limits.MinPoll; time.Since(began) != want || len(w.subscription.wake) > 0 {
				t.Fatalf("%d reports took %v, want %v, and %d are left", n+1, time.Since(began), want, len(w.subscription.wake))
			}
		}
	})
}
