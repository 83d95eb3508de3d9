package taskrun

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A task that is left is looked at soon, then ever later, and soon again after a pause. Many that are left crowd out
// none that was left before, and cost no more looks than one each five seconds.
func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l left
		for range 2 {
			var due []time.Duration
			for range 8 {
				d := l.due("a", time.Second)
				due = append(due, d)
				time.Sleep(d)
			}
			if got, want := fmt.Sprint(due), "[200ms 400ms 800ms 1.6s 3.2s 5s 5s 5s]"; got != want {
				t.Errorf("due after %s, want %s", got, want)
			}
			time.Sleep(time.Minute)
		}
		for i := range mostLeft {
			l.due(fmt.Sprint(i), time.Second)
		}
		if d := l.due("one more", time.Second); d != 5*time.Second || len(l.tasks) > mostLeft {
			t.Errorf("one of %d is due after %v", len(l.tasks), d)
		}
		expect.Equal(t, "the time until one that is known is due", l.due("1", time.Second), 400*time.Millisecond)
		time.Sleep(time.Minute)
		expect.Equal(t, "later it is due after", l.due("one more", time.Second), 200*time.Millisecond)
	})
}
