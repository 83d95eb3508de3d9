package taskrun

import (
	"maps"
	"sync"
	"time"
)

// left are the tasks that this process has left to another one. Chance decides which process looks at a task next, and
// so it looks soon again at first, for the other one to come by, and later every five times [Options.Look].
type left struct {
	mu    sync.Mutex
	tasks map[string]leave
}

// leave is how often a task was left, one time after the other, and when for the last time.
type leave struct {
	times int
	at    time.Time
}

// mostLeft bounds the tasks that are remembered. All others are looked at as late as at last.
const mostLeft = 1000

// due returns after what time a task is due that is left.
func (l *left) due(id string, look time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := func(v leave) bool { return time.Since(v.at) > 10*look }
	v := l.tasks[id]
	if old(v) {
		v.times = 0
	}
	if v.times == 0 && len(l.tasks) >= mostLeft {
		if maps.DeleteFunc(l.tasks, func(_ string, v leave) bool { return old(v) }); len(l.tasks) >= mostLeft {
			return 5 * look
		}
	}
	if l.tasks == nil {
		l.tasks = make(map[string]leave)
	}
	due := look / 5 << min(v.times, 5)
	l.tasks[id] = leave{v.times + 1, time.Now()}
	return min(due, 5*look)
}
