package main

import (
	"sync"
	"time"
)

// rotation knows which states no server can open any more. It is safe for concurrent use.
type rotation struct {
	mu       sync.Mutex
	switchAt time.Time // since when no server seals with the old key; zero before
	over     bool      // servers forget the old key
}

func (r *rotation) switched() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.switchAt = time.Now()
}

func (r *rotation) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.over = true
}

// forgotten reports whether a state that came at this time may be refused.
func (r *rotation) forgotten(came time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.over && came.Before(r.switchAt)
}
