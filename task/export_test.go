package task

// Waiting tells tests for how many tasks somebody waits.
func (e *Engine) Waiting() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.waiting)
}
