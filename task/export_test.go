package task

// Principals returns the number of principals that have something, for tests.
func (s *MemoryStore) Principals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.used)
}

// Save copies what the store holds, and returns a function that puts it back, for tests.
func (s *MemoryStore) Save() (restore func()) {
	copyOf := func(m *memoryTask) *memoryTask {
		c := *m
		c.Task, c.entries = *m.clone(), cloneAll(m.entries)
		return &c
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var saved []*memoryTask
	for _, m := range s.tasks {
		saved = append(saved, copyOf(m))
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		clear(s.tasks)
		clear(s.used)
		s.list, s.due, s.expiry, s.purge = nil, nil, nil, nil
		for _, m := range saved {
			m = copyOf(m)
			s.tasks[m.ID] = m
			s.list.insert(m, newestFirst)
			s.index(m)
		}
	}
}
