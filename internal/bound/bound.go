// Package bound shares out what a server has little of, such as memory for the bodies of requests:
//
//	pool := bound.NewPool("requests in progress", bound.Share{Total: 1000, PerPrincipal: 250, Anonymous: 500})
//	hold, err := pool.Take(principal, 1)
//	if err != nil {
//		return err // a *FullError, which names the limit and whose it is
//	}
//	defer hold.Release()
//
// A pool takes constant time, and remembers only the principals that hold something.
package bound

import (
	"fmt"
	"sync"
)

// Share says how much there is of something: in all, for each principal, and for all anonymous callers together.
type Share struct{ Total, PerPrincipal, Anonymous int }

// Pool shares something out. It is safe for concurrent use. A nil Pool has no limit.
type Pool struct {
	what  string
	share Share

	mu   sync.Mutex
	used int
	held map[string]int // by principal; the empty one stands for all anonymous callers
}

// NewPool returns a pool of what, which errors name, such as "requests in progress".
func NewPool(what string, share Share) *Pool {
	return &Pool{what: what, share: share, held: make(map[string]int)}
}

// Hold is what a caller has taken from a pool. The zero Hold is of nothing. It is not safe for concurrent use.
type Hold struct {
	pool      *Pool
	principal string
	n         int
}

// Take takes n for a principal, or for an anonymous caller if it is empty. The error is a [*FullError].
func (p *Pool) Take(principal string, n int) (Hold, error) {
	if p == nil {
		return Hold{}, nil
	}
	h := Hold{pool: p, principal: principal}
	err := h.Resize(n)
	return h, err
}

// Resize makes the Hold one of n. The error is a [*FullError], after which the Hold is what it was; to give back
// succeeds.
func (h *Hold) Resize(n int) error {
	p := h.pool
	if p == nil {
		return nil
	}
	own, whose := p.share.PerPrincipal, Principal
	if h.principal == "" {
		own, whose = p.share.Anonymous, Anonymous
	}
	more := n - h.n
	if more == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	held := p.held[h.principal] + more
	switch {
	case more > 0 && held > own:
		return &FullError{p.what, own, whose}
	case more > 0 && p.used+more > p.share.Total:
		return &FullError{p.what, p.share.Total, Everybody}
	}
	h.n = n
	p.used += more
	if held == 0 {
		delete(p.held, h.principal)
	} else {
		p.held[h.principal] = held
	}
	return nil
}

// Release gives back all that the Hold has taken. It may be called again.
func (h *Hold) Release() { _ = h.Resize(0) }

// Whose says whose limit was reached.
type Whose string

// The owners of limits.
const (
	Everybody Whose = "the server is at its"
	Principal Whose = "the caller is at its"
	Anonymous Whose = "anonymous callers together are at their"
)

// FullError says that a limit is reached.
type FullError struct {
	What  string
	Max   int
	Whose Whose
}

func (e *FullError) Error() string {
	return fmt.Sprintf("%s limit of %d %s: try again later", e.Whose, e.Max, e.What)
}
