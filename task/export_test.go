package task

// Waiting returns the number of tasks that callers wait for, for tests.
func (e *Engine) Waiting() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.waiting)
}
