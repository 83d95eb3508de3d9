package askback

// Size tells tests how many states a guard holds.
func (g *MemoryReplayGuard) Size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.used)
}

// StandIns tells tests how many sessions stand in for those that clients do not have.
func StandIns(s *Server) int {
	n := 0
	s.standIns().runs.Range(func(any, any) bool { n++; return true })
	for range s.standIns().server.Sessions() {
		n++
	}
	return n
}

// Size tells tests how many states a store holds, and under how many calls.
func (m *MemoryStateStore) Size() (rows, calls int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rows), len(m.calls)
}
