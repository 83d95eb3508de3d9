package task

import "maps"

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

// Save copies what the store holds, except notices, and returns a function that puts it back, for tests.
func (s *MemoryStore) Save() (restore func()) {
	copyOf := func(m *memoryTask) *memoryTask {
		c := *m
		c.Task, c.entries = *m.clone(), cloneAll(m.entries)
		c.questions = maps.Clone(m.questions)
		for key, q := range c.questions {
			copied := *q
			copied.Question = *q.clone()
			c.questions[key] = &copied
		}
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
		clear(s.waiting)
		s.list, s.due, s.expiry, s.purge, s.reminders, s.changes, s.named = nil, nil, nil, nil, nil, nil, nil
		s.outbox = memoryOutbox{}
		for _, m := range saved {
			m = copyOf(m)
			s.tasks[m.ID] = m
			insert(&s.list, m, newestFirst)
			s.index(m)
			for _, q := range m.questions {
				s.eachQuestionIndex(q, insert)
			}
			if m.questions != nil {
				insert(&s.named, m, firstNamed)
			}
		}
	}
}
