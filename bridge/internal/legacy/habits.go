package legacy

import (
	"sync"

	"github.com/askback-mcp/askback/bridge/internal/upstream"
)

// habits remember which tools of a server ask.
type habits struct {
	mu    sync.Mutex
	asked bool            // the server has asked
	asks  map[string]bool // false for a tool whose calls have succeeded without a question
}

// loud reports whether a call of the tool may ask.
func (h *habits) loud(tool string, can upstream.Abilities) bool {
	if tool == "" || !can.Form && !can.URL && !can.Sampling {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	asks, known := h.asks[tool]
	return asks || !known
}

// note notes that a tool has asked, or has succeeded without that.
func (h *habits) note(tool string, asks bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asks == nil {
		h.asks = make(map[string]bool)
	}
	h.asks[tool] = h.asks[tool] || asks
	h.asked = h.asked || asks
}

func (h *habits) serverAsks() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}
