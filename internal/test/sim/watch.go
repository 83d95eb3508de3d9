package sim

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"
)

// Play lets a simulation run in a bubble. On one processor, and with the same random numbers, most seeds repeat their
// run exactly: what Go's scheduler chooses between two seams is all that differs.
func Play(t *testing.T, name string, seed uint64, run func(t *testing.T)) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // for up to half of the processor
	defer Watch(func(stacks string) { panic("a lock is held across a seam:\n\n" + stacks) })()
	t.Run(name, func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		synctest.Test(t, run)
	})
}

// Watch looks, outside of all bubbles and until stop, for a bubble that stands still: a goroutine there waits for a
// lock, which does not count as waiting for time or for the scheduler, and no other one can go on. Whoever holds the
// lock waits at a seam, then. Without Watch, nothing would be said until the time for all tests is over.
func Watch(stuck func(stacks string)) (stop func()) {
	ended := make(chan struct{})
	go func() {
		var before string
		for {
			select {
			case <-ended:
				return
			case <-time.After(time.Second):
			}
			buf := make([]byte, 1<<20)
			now := lockedUp(string(buf[:runtime.Stack(buf, true)]))
			if now != "" && now == before {
				stuck(now)
			}
			before = now
		}
	}()
	return func() { close(ended) }
}

var inBubble = regexp.MustCompile(`^goroutine \d+ \[([^],]+)[^]]*synctest bubble`)

// lockedUp returns the stacks of a bubble's goroutines, without the minutes that they have waited, if nobody in it can
// go on and one waits for a lock.
func lockedUp(stacks string) (stuck string) {
	locked := false
	for _, stack := range strings.Split(stacks, "\n\n") {
		state := inBubble.FindStringSubmatch(stack)
		switch {
		case state == nil:
			continue
		case strings.HasPrefix(state[1], "run") || state[1] == "syscall":
			return ""
		}
		locked = locked || strings.HasPrefix(state[1], "sync.Mutex") || strings.HasPrefix(state[1], "sync.RWMutex")
		_, frames, _ := strings.Cut(stack, "\n")
		stuck += state[1] + ":\n" + frames + "\n\n"
	}
	if !locked {
		return ""
	}
	return stuck
}
