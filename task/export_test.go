package task

import (
	"context"
	"time"
)

// UnderLease returns a context under a lease that was taken at the given time, for tests.
func UnderLease(ctx context.Context, length time.Duration, sent time.Time) (leased context.Context, done func()) {
	ctx, interrupt := context.WithCancelCause(ctx)
	return newLease(length, sent).bound(ctx, interrupt)
}

// Settle writes the last update of a run, for tests.
func (e *Engine) Settle(ctx context.Context, t *Task, u Update) error { return e.settle(ctx, t, u) }

// Waiting returns the number of tasks that callers wait for, for tests.
func (e *Engine) Waiting() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.waiting)
}

// Scheduled returns the number of tasks that are due now or later, for tests.
func (s *MemoryStore) Scheduled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.due)
}

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
