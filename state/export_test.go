package state

// Size tells tests how many states a guard holds.
func (g *MemoryGuard) Size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.used)
}

// Size tells tests how many states a store holds, and under how many calls.
func (m *MemoryStore) Size() (rows, calls int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rows), len(m.calls)
}
