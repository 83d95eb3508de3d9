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

// turns has some run at once, and has the others wait: next is the one whose peer runs least, and of those the oldest.
// No peer has all places, and when too many wait the one goes that came last, of the peer that has most of them. So
// somebody else's place and turn come whatever one peer does.
type turns struct {
	places, each, queue int // at once, of them for one peer, and how many wait

	mu      sync.Mutex
	running map[string]int // by peer
	taken   int
	waiting []*turn // the oldest first
}

// turn is the turn of somebody who waits.
type turn struct {
	peer string
	is   chan error // nil says that it has come
}

var errCrowded = errors.New("too many wait already")

// take waits for a turn. Leave must follow if there is no error.
func (t *turns) take(ctx context.Context, peer string) error {
	w := &turn{peer, make(chan error, 1)}
	t.mu.Lock()
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
	i := slices.Index(t.waiting, w)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	t.mu.Unlock()
	if i < 0 && <-w.is == nil { // it came in the meantime
		t.leave(peer)
	}
	return context.Cause(ctx)
}

func (t *turns) leave(peer string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
	if t.running[peer]--; t.running[peer] == 0 {
		delete(t.running, peer)
	}
	t.admit()
}

// admit gives away the places that are free.
func (t *turns) admit() {
	if t.running == nil {
		t.running = make(map[string]int)
	}
	for t.taken < t.places && len(t.waiting) > 0 {
		w := slices.MinFunc(t.waiting, func(a, b *turn) int { return cmp.Compare(t.running[a.peer], t.running[b.peer]) })
		if t.running[w.peer] >= t.each {
			return
		}
		t.waiting = slices.DeleteFunc(t.waiting, func(o *turn) bool { return o == w })
		t.running[w.peer]++
		t.taken++
		w.is <- nil
	}
}

// shed refuses one of those who wait, if there are too many.
func (t *turns) shed() {
	if len(t.waiting) <= t.queue {
		return
	}
	each := make(map[string]int)
	for _, w := range t.waiting {
		each[w.peer]++
	}
	most := 0
	for i, w := range t.waiting {
		if each[w.peer] >= each[t.waiting[most].peer] {
			most = i
		}
	}
	t.waiting[most].is <- errCrowded
	t.waiting = slices.Delete(t.waiting, most, most+1)
}

// peerOf returns who sends a request, as bounds tell people apart who are not known yet: the address of the connection
// or, if that is a proxy, the address that the proxies name. Addresses of one IPv6 network of 64 bits are one peer.
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
	for _, text := range slices.Backward(forwarded) { // each proxy adds the address from which it was reached
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
