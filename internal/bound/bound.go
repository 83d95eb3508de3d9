// Package bound shares out what a server has little of, such as memory for the bodies of requests:
//
//	pool := bound.NewPool("requests in progress", bound.Share{Total: 1000, PerPrincipal: 250, Anonymous: 500})
//	hold, err := pool.Take(principal, 1)
//	if err != nil {
//		return err // a *FullError, which names the limit and whose it is
//	}
//	defer hold.Release()
//
// Users of a pool keep one rule: nobody holds a share while a person thinks or a peer is silent. Only bytes that have
// arrived are charged. What waits is counted in a pool of its own. When a pool is full, its largest holder gives way to
// the newcomer.
//
// The pool keeps its part of the rule in two ways. First, a Hold can wait: between [Hold.Wait] and [Hold.Resume] nobody
// works for it, and it gives way to a newcomer who needs room. Of the largest holder's waiting holds, the one with the
// highest cost gives way; the cost is the size times the time that the hold has waited. To drive out a hold, others
// must bring as much as the whole share while it waits. Second, a hold that is being worked on stays; but a principal
// for whom the server already works may take only what the work for others leaves, so that there is room for principals
// who have nothing.
//
// Take needs constant time until the pool is full; then it looks at the holds that wait. A pool remembers only the
// principals that hold something.
package bound

import (
	"fmt"
	"sync"
	"time"
)

// Share says how much there is of something: in all, for each principal, and for all anonymous callers together.
type Share struct{ Total, PerPrincipal, Anonymous int }

// Small is the size, in bytes, up to which a message, or the part of it that is kept, is not counted in a pool of
// bytes. The pool of requests bounds the number of such messages, so there is always room for a small message, however
// full a pool of bytes is.
const Small = 16 << 10

// Pool shares something out. It is safe for concurrent use. A nil Pool has no limit.
type Pool struct {
	what  string
	share Share

	mu   sync.Mutex
	all  holder            // its list stays empty
	held map[string]holder // by principal; the empty one stands for all anonymous callers
}

// holder is a principal who holds something.
type holder struct {
	n       int
	waits   int   // how much of n waits
	waiting *Hold // the head of the list of what waits, which begins with the youngest
}

// works returns the size of the holder's holds that the server works on.
func (o holder) works() int { return o.n - o.waits }

// NewPool returns a pool of what, which errors name, such as "requests in progress".
func NewPool(what string, share Share) *Pool {
	return &Pool{what: what, share: share, held: make(map[string]holder)}
}

// Hold is a part of a pool that a caller has taken. The zero Hold holds nothing. Its methods are safe for concurrent
// use; it must not be copied while it waits.
type Hold struct {
	pool      *Pool
	principal string

	n          int
	gone       *FullError // why it has given way
	waiter     Waiter     // not nil while it waits
	since      time.Time
	next, prev *Hold // the waiting holds of the principal
}

// Waiter is the owner of a Hold that waits.
type Waiter interface {
	// GiveWay ends the Waiter because of a limit, after its Hold was taken from it. It must not wait, and it may be called
	// after Resume and Release, in another goroutine.
	GiveWay(because *FullError)
}

// Take takes n for a principal, or for an anonymous caller if it is empty. The error is a [*FullError]. If others have
// to give way, their GiveWay is called before Take returns.
func (p *Pool) Take(principal string, n int) (Hold, error) {
	if p == nil {
		return Hold{}, nil
	}
	h := Hold{pool: p, principal: principal}
	err := h.Resize(n)
	return h, err
}

// Resize makes the Hold one of n. The error is a [*FullError], after which the Hold has its earlier size. Making a Hold
// smaller always succeeds.
func (h *Hold) Resize(n int) error {
	p := h.pool
	if p == nil {
		return nil
	}
	ended, err := p.resize(h, n)
	for _, e := range ended {
		e.waiter.GiveWay(e.because)
	}
	return err
}

// ending is a Waiter that gives way.
type ending struct {
	waiter  Waiter
	because *FullError
}

func (p *Pool) resize(h *Hold, n int) (ended []ending, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	more := n - h.n
	if h.gone != nil && more > 0 {
		return nil, h.gone
	}
	for more > 0 {
		full := p.full(h, more)
		if full == nil {
			break
		}
		victim := p.victim(h, more, full.Whose)
		if victim == nil {
			return ended, full
		}
		full.GaveWay = true
		ended = append(ended, ending{victim.waiter, full})
		p.drop(victim, full)
	}
	p.add(h, more)
	return ended, nil
}

// drop takes all of a Hold from its holder.
func (p *Pool) drop(h *Hold, because *FullError) {
	h.leave()
	p.add(h, -h.n)
	h.gone = because
}

// add changes the size of a Hold.
func (p *Pool) add(h *Hold, more int) {
	waits := 0
	if h.waiter != nil {
		waits = more
	}
	h.n += more
	p.count(h, more, waits)
}

// count changes what is counted for the holder of a Hold.
func (p *Pool) count(h *Hold, more, waits int) {
	p.all.n += more
	p.all.waits += waits
	own := p.held[h.principal]
	own.n += more
	own.waits += waits
	p.set(h.principal, own)
}

func (p *Pool) set(principal string, own holder) {
	if own == (holder{}) {
		delete(p.held, principal)
	} else {
		p.held[principal] = own
	}
}

// own is the limit of a principal.
func (p *Pool) own(principal string) (limit int, whose Whose) {
	if principal == "" {
		return p.share.Anonymous, Anonymous
	}
	return p.share.PerPrincipal, Principal
}

// full returns the limit that more for a Hold would exceed, or nil.
func (p *Pool) full(h *Hold, more int) *FullError {
	limit, whose := p.own(h.principal)
	switch {
	case p.held[h.principal].n+more > limit:
		return &FullError{p.what, limit, whose, false}
	case p.all.n+more > p.share.Total:
		return &FullError{p.what, p.share.Total, Everybody, false}
	case h.waiter == nil && !p.leavesRoom(h, h.n, more):
		return &FullError{p.what, p.share.Total, Others, false}
	}
	return nil
}

// leavesRoom reports whether the server may work on more for a Hold, when it already works on that much. A principal
// for whom the server also works on something else has at most as much as is left. If the principal's own limit is more
// than half of all, the principal has as much in proportion to what is left as the limit is to the rest, so that a
// principal who is alone can reach the limit.
func (p *Pool) leavesRoom(h *Hold, worked, more int) bool {
	works := p.held[h.principal].works()
	limit, _ := p.own(h.principal)
	left := p.share.Total - p.all.works() - more
	return works == worked || works+more <= left ||
		float64(works+more)*float64(p.share.Total-limit) <= float64(limit)*float64(left)
}

// victim returns the Hold that gives way to h, or nil. It is one of h's own principal if the principal's limit is
// reached, and otherwise one of the largest holder that has a waiting hold.
func (p *Pool) victim(h *Hold, more int, whose Whose) *Hold {
	besides := 0 // the part of it that is h
	if h.waiter != nil {
		besides = h.n
	}
	own := p.held[h.principal]
	switch whose {
	case Principal, Anonymous:
		if limit, _ := p.own(h.principal); own.n+more-(own.waits-besides) > limit {
			return nil // even if all that waits gave way, there would be no room
		}
		return own.costliest(h)
	case Everybody:
		largest, waits := holder{}, 0
		for principal, other := range p.held {
			n := other.waits
			if principal == h.principal {
				n -= besides
			} else if other.n <= own.n {
				continue
			}
			waits += n
			if n > 0 && other.n > largest.n {
				largest = other
			}
		}
		if p.all.n+more-waits > p.share.Total {
			return nil
		}
		return largest.costliest(h)
	}
	return nil
}

// costliest returns the waiting Hold of a holder with the highest cost, or nil.
func (o holder) costliest(besides *Hold) (found *Hold) {
	now := time.Now()
	most := -1.0
	for h := o.waiting; h != nil; h = h.next {
		cost := float64(h.n) * float64(now.Sub(h.since))
		if h != besides && h.n > 0 && cost >= most {
			found, most = h, cost
		}
	}
	return found
}

// Wait is called when nobody works for the Hold any more: until Resume, it gives way to others who need room. If the
// Hold waits already, its time starts again.
func (h *Hold) Wait(w Waiter) {
	p := h.pool
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.gone != nil {
		return
	}
	h.leave()
	own := p.held[h.principal]
	if h.next = own.waiting; h.next != nil {
		h.next.prev = h
	}
	own.waiting = h
	p.set(h.principal, own)
	p.count(h, 0, h.n)
	h.waiter, h.since = w, time.Now()
}

// Resume ends the wait. The error is a [*FullError] if the Hold has given way, or if the server already works on too
// much for its principal. The Hold then holds nothing.
func (h *Hold) Resume() error {
	p := h.pool
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case h.gone != nil:
		return h.gone
	case h.waiter == nil:
		return nil
	case !p.leavesRoom(h, 0, h.n):
		p.drop(h, &FullError{p.what, p.share.Total, Others, true})
		return h.gone
	}
	h.leave()
	return nil
}

// leave takes a Hold off the list of waiting holds.
func (h *Hold) leave() {
	if h.waiter == nil {
		return
	}
	p := h.pool
	if h.next != nil {
		h.next.prev = h.prev
	}
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		own := p.held[h.principal]
		own.waiting = h.next
		p.set(h.principal, own)
	}
	p.count(h, 0, -h.n)
	h.waiter, h.next, h.prev = nil, nil, nil
}

// Release gives back all that the Hold has taken. It may be called again.
func (h *Hold) Release() {
	p := h.pool
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	h.leave()
	p.add(h, -h.n)
}

// Whose is the owner of the limit that was reached.
type Whose string

// The owners of limits.
const (
	Everybody Whose = "the server is at its"
	Others    Whose = "what is left is for callers who hold less of the server's"
	Principal Whose = "the caller is at its"
	Anonymous Whose = "anonymous callers together are at their"
)

// FullError reports that a limit is reached.
type FullError struct {
	What    string
	Max     int
	Whose   Whose
	GaveWay bool // the Hold has given way to others
}

func (e *FullError) Error() string {
	gaveWay := ""
	if e.GaveWay {
		gaveWay = "the request waited, and gave way to others: "
	}
	return fmt.Sprintf("%s%s limit of %d %s: try again later", gaveWay, e.Whose, e.Max, e.What)
}
