package askback

// Size tells tests how many states a guard holds.
func (g *MemoryReplayGuard) Size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.used)
}
