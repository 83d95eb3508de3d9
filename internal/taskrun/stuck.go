package taskrun

import (
	"errors"
	"sync"
	"time"
)

const (
	// sweepAtOnce bounds the rows that one process sweeps at the same time.
	sweepAtOnce = 8
	// stuckFor is how long a row is left alone that could not be written to.
	stuckFor = 30 * time.Second
	// mostStuck bounds the rows that are remembered as stuck.
	mostStuck = 10_000
)

// stuck remembers rows that could not be written to, such as those that somebody keeps locked, so that the others have
// their turn. A sweep reads so many rows more than it would otherwise. The zero value is ready to use.
type stuck[K comparable] struct {
	mu    sync.Mutex
	until map[K]time.Time
}

// len returns how many rows are stuck, after it has forgotten those whose time has passed.
func (s *stuck[K]) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, until := range s.until {
		if !time.Now().Before(until) {
			delete(s.until, key)
		}
	}
	return len(s.until)
}

func (s *stuck[K]) has(key K) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.until[key]
	return has
}

func (s *stuck[K]) add(key K) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = make(map[K]time.Time)
	}
	if len(s.until) < mostStuck {
		s.until[key] = time.Now().Add(stuckFor)
	}
}

// forEach calls do with each row that is not stuck, with several at the same time. It goes on past those that fail,
// which are stuck then, and returns how many did not, and the errors of the others.
func forEach[R any, K comparable](s *stuck[K], rows []R, key func(R) K, do func(R) error) (n int, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	room := make(chan struct{}, sweepAtOnce)
	for _, row := range rows {
		k := key(row)
		if s.has(k) {
			continue
		}
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			failed := do(row)
			if failed != nil {
				s.add(k)
			}
			mu.Lock()
			defer mu.Unlock()
			if failed == nil {
				n++
			}
			err = errors.Join(err, failed)
		})
	}
	all.Wait()
	return n, err
}
