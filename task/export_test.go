package task

// Principals returns the number of principals that have something, for tests.
func (s *MemoryStore) Principals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.used)
}

// Asking returns the number of entries that the store keeps for questions and notices, for tests.
func (s *MemoryStore) Asking() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting) + len(s.named) + len(s.outbox.tasks) + len(s.outbox.counts) + len(s.outbox.refused) +
		len(s.reminders)
}
