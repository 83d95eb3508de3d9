package journal_test

import (
	"testing"

	"github.com/askback-mcp/askback/internal/journal"
)

//go:noinline
func bottom(f func()) { f() }

var frame = journal.FrameOf(bottom)

// What is on the stack is found however deep it is, and only while it has not returned.
func TestOnStack(t *testing.T) {
	var below func(n int) bool
	below = func(n int) bool {
		if n == 0 {
			return frame.OnStack()
		}
		return below(n - 1)
	}
	for _, n := range []int{0, 50, 55, 60, 64, 100, 1000} {
		found := false
		bottom(func() { found = below(n) })
		if !found || below(n) {
			t.Errorf("%d frames above: found %v, and afterwards %v", n, found, below(n))
		}
	}
	elsewhere := make(chan bool)
	bottom(func() {
		go func() { elsewhere <- frame.OnStack() }()
		if <-elsewhere {
			t.Error("found in another goroutine")
		}
	})
}
