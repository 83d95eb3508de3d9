package inbox

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// turns has some run at once, and the others wait. A free place goes to the peer that runs least, and of those to the
// one that had no turn for longest. No peer has all places. When too many wait, the peer that has most of them loses
// its newest. So one peer cannot keep the others from their turn.
type turns struct {
	places, each, queue int // at once, of them for one peer, and how many wait

	mu      sync.Mutex
	peers   map[string]*peerTurns
	taken   int
	count   int     // turns that have come
	waiting []*turn // the oldest first
}

// peerTurns are the turns of a peer that runs or waits.
type peerTurns struct{ running, waiting, last int }

// turn is the turn of somebody who waits.
type turn struct {
	peer string
	is   chan error // gets nil when the turn has come; it has room for one, so that admit never waits
}

var errCrowded = errors.New("too many wait already")

// take waits for a turn. Leave must follow if there is no error.
func (t *turns) take(ctx context.Context, peer string) error {
	w := &turn{peer, make(chan error, 1)}
	t.mu.Lock()
	if t.peers == nil {
		t.peers = make(map[string]*peerTurns)
	}
	if t.peers[peer] == nil {
		t.peers[peer] = new(peerTurns)
	}
	t.peers[peer].waiting++
	t.waiting = append(t.waiting, w)
	t.admit()
	t.shed()
	t.mu.Unlock()
	select {
	case err := <-w.is:
		return err
	case <-ctx.Done():
	}
	t.mu.Lock()
	waits := slices.Contains(t.waiting, w)
	if waits {
		t.remove(w)
	}
	t.mu.Unlock()
	if !waits && <-w.is == nil { // it came in the meantime
		t.leave(peer)
	}
	return context.Cause(ctx)
}

func (t *turns) leave(peer string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
	t.peers[peer].running--
	t.forget(peer)
	t.admit()
}

// remove takes one out of the queue.
func (t *turns) remove(w *turn) {
	t.waiting = slices.DeleteFunc(t.waiting, func(o *turn) bool { return o == w })
	t.peers[w.peer].waiting--
	t.forget(w.peer)
}

func (t *turns) forget(peer string) {
	if is := t.peers[peer]; is.running == 0 && is.waiting == 0 {
		delete(t.peers, peer)
	}
}

// admit gives away the places that are free.
func (t *turns) admit() {
	for t.taken < t.places && len(t.waiting) > 0 {
		w := slices.MinFunc(t.waiting, func(a, b *turn) int {
			x, y := t.peers[a.peer], t.peers[b.peer]
			return cmp.Or(cmp.Compare(x.running, y.running), cmp.Compare(x.last, y.last))
		})
		is := t.peers[w.peer]
		if is.running >= t.each { // the peer that runs least has all it may have, and so has every other one
			return
		}
		t.taken++
		t.count++
		is.running, is.last = is.running+1, t.count
		t.remove(w)
		w.is <- nil
	}
}

// shed refuses one of those who wait, if there are too many: the newest of the peer that has most. A crowd so drives
// out its own requests, and never those of a single person.
func (t *turns) shed() {
	if len(t.waiting) <= t.queue {
		return
	}
	last := t.waiting[0]
	for _, w := range t.waiting {
		if t.peers[w.peer].waiting >= t.peers[last.peer].waiting {
			last = w
		}
	}
	t.remove(last)
	last.is <- errCrowded
}

// peerOf returns the peer of a request, by which bounds tell people apart before they have a name: the address of the
// connection or, if that is a proxy, the address that the proxies name. Addresses of one IPv6 network of 64 bits are
// one peer, because a subscriber has them all.
func peerOf(r *http.Request, proxies []netip.Prefix) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	is := func(a netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	peer := at.Addr().Unmap().WithZone("")
	forwarded := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	// Each proxy adds the address from which it was reached, so the end of the list is believed and its beginning is the
	// client's to invent.
	for _, text := range slices.Backward(forwarded) {
		next, err := netip.ParseAddr(strings.TrimSpace(text))
		if !is(peer) || err != nil {
			break
		}
		peer = next.Unmap().WithZone("")
	}
	if peer.Is6() {
		return netip.PrefixFrom(peer, 64).Masked().String()
	}
	return peer.String()
}
