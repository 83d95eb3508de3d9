// Package turn has a lock for what may take long, such as a call of a store.
package turn

import "sync"

// Lock is a lock that may be held while its holder waits for something outside. It does what a [sync.Mutex] does, and
// testing/synctest sees that a goroutine waits for it. The zero value is ready for use.
type Lock struct {
	mu   sync.Mutex
	free sync.Cond
	held bool
}

// Lock waits until nobody holds the lock, and takes it.
func (l *Lock) Lock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free.L = &l.mu
	for l.held {
		l.free.Wait()
	}
	l.held = true
}

// Unlock gives the lock back.
func (l *Lock) Unlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = false
	l.free.Signal()
}
