// Package broadcast wakes everybody who waits for the next change of something.
package broadcast

import "sync"

// Signal is what they wait for. It is safe for concurrent use. The zero value is ready for use.
type Signal struct {
	mu   sync.Mutex
	next chan struct{} // nil if nobody waits
}

// Next returns a channel that the next change closes. Who looks for changes calls it before looking, and misses none.
func (s *Signal) Next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = make(chan struct{})
	}
	return s.next
}

// Send wakes those who wait.
func (s *Signal) Send() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != nil {
		close(s.next)
		s.next = nil
	}
}
