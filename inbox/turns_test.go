package inbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A crowd of one peer has its share of the places and waits in the queue; somebody else has a place at once. A crowd of
// many peers has all places, and somebody else has one as soon as each of them has had one.
func TestTurns(t *testing.T) {
	for _, peers := range []int{1, 10} {
		synctest.Test(t, func(t *testing.T) {
			turns := turns{places: 8, each: 4, queue: 20}
			results, running := make(chan error, 1000), 0
			ctx, stop := context.WithCancel(t.Context())
			for i := range 300 {
				go func() { results <- turns.take(ctx, fmt.Sprint("stranger ", i%peers)) }()
			}
			synctest.Wait()
			refused := 0
			for len(results) > 0 {
				switch err := <-results; {
				case err == nil:
					running++
				case errors.Is(err, errCrowded):
					refused++
				default:
					t.Error(err)
				}
			}
			if want := min(8, 4*peers); running != want || refused != 300-want-20 {
				t.Fatalf("%d peers: %d run and %d are refused", peers, running, refused)
			}
			came := make(chan error, 1)
			go func() { came <- turns.take(ctx, "ada") }()
			synctest.Wait()
			for n := 0; peers > 1 && len(came) == 0 && n < peers; n++ {
				for peer, is := range turns.peers {
					if is.running > 0 {
						turns.leave(peer)
						break
					}
				}
				synctest.Wait()
			}
			select {
			case err := <-came:
				expect.Check(t, err)
			default:
				t.Fatalf("%d peers: ada has no place", peers)
			}
			stop()
			synctest.Wait()
			for peer, is := range turns.peers {
				for range is.running {
					turns.leave(peer)
				}
			}
			if len(turns.waiting)+len(turns.peers)+turns.taken > 0 {
				t.Errorf("%d still wait, and %d peers are known", len(turns.waiting), len(turns.peers))
			}
		})
	}
}

// A turn that comes when its owner has just gone is the turn of the next one.
func TestTurnOfSomebodyWhoHasGone(t *testing.T) {
	turns := turns{places: 1, each: 1, queue: 1}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	for range 1000 {
		if err := turns.take(ctx, "ada"); err == nil {
			turns.leave("ada")
		}
	}
	if err := turns.take(t.Context(), "bob"); err != nil {
		t.Error(err)
	}
}

// The peer is the connection's, unless that is a proxy: nobody chooses their own.
func TestPeers(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}
	for _, c := range []struct{ at, forwarded, want string }{
		{"192.0.2.1:5", "", "192.0.2.1"},
		{"192.0.2.1:5", "203.0.113.7", "192.0.2.1"},
		{"10.0.0.7:5", "203.0.113.7", "203.0.113.7"},
		{"[::ffff:10.0.0.7]:5", "192.0.2.9, 203.0.113.7, 10.0.0.8", "203.0.113.7"},
		{"10.0.0.7:5", "", "10.0.0.7"},
		{"10.0.0.7:5", "203.0.113.7, nonsense", "10.0.0.7"},
		{"[2001:db8::1]:5", "", "2001:db8::/64"},
		{"10.0.0.7:5", "2001:db8::2%eth0", "2001:db8::/64"},
		{"@", "203.0.113.7", "@"},
	} {
		r := &http.Request{RemoteAddr: c.at, Header: http.Header{}}
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		expect.Equal(t, fmt.Sprint(c), peerOf(r, proxies), c.want)
	}
}
