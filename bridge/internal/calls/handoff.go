package calls

import (
	"maps"
	"sync"
	"time"
)

// Handoffs are the calls that this process has left to another one, and since when. The zero value is ready to use.
type Handoffs struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// Expired reports whether a call was left for this time.
func (h *Handoffs) Expired(call string, d time.Duration) bool {
	began, known := h.leave(call, 60*d)
	return known && time.Since(began) >= d
}

// First reports whether a call is left for the first time within a while.
func (h *Handoffs) First(call string, d time.Duration) bool {
	_, known := h.leave(call, d)
	return !known
}

// leave returns since when a call is left, and whether that was known before. Calls of longer ago are forgotten.
func (h *Handoffs) leave(call string, after time.Duration) (since time.Time, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.since == nil {
		h.since = make(map[string]time.Time)
	}
	now := time.Now()
	maps.DeleteFunc(h.since, func(_ string, t time.Time) bool { return now.Sub(t) > after })
	since, known = h.since[call]
	if !known {
		h.since[call] = now
	}
	return since, known
}
