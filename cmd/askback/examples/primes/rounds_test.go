package primes_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/cmd/askback/examples/primes"
)

// The same count whoever counts it: every request by a server of its own, and sent twice.
func TestServersThatAreLoadedHandCallsOver(t *testing.T) {
	for _, tt := range []struct {
		name   string
		loaded func(server int) bool // servers are numbered from 1; two serve each round, one for the request sent again
		rounds int                   // that end without a result
		want   string
	}{
		{"none", func(int) bool { return false }, 0, "There are 78498 primes below 1000000, counted by 1 server."},
		{"the first", func(n int) bool { return n <= 2 }, 1, "There are 78498 primes below 1000000, counted by 2 servers."},
		// The third server does the rest: clients give up when they are sent away a third time.
		{"all", func(int) bool { return true }, 2, "There are 78498 primes below 1000000, counted by 3 servers."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			servers := 0
			res := askbacktest.Run(t, func(s *askback.Server) {
				servers++
				loaded := tt.loaded(servers)
				primes.Register(s, func() bool { return loaded })
			}, askbacktest.Call{Tool: "count_primes", Arguments: map[string]int{"below": 1000000}})
			if res.Text() != tt.want {
				t.Errorf("got %q, want %q", res.Text(), tt.want)
			}
			if len(res.Asked) != tt.rounds {
				t.Errorf("%d rounds without a result, want %d", len(res.Asked), tt.rounds)
			}
			for _, keys := range res.Asked {
				if len(keys) > 0 {
					t.Errorf("asked %q, want no question", keys)
				}
			}
		})
	}
}

// A server that becomes loaded gives the call away only after it has done something for it.
func TestALoadedServerCountsAPartFirst(t *testing.T) {
	asked := 0
	res := askbacktest.Run(t, func(s *askback.Server) {
		primes.Register(s, func() bool {
			asked++
			return asked >= 3 // after part 3; the next server is not asked for parts that it has not counted
		})
	}, askbacktest.Call{Tool: "count_primes", Arguments: map[string]int{"below": 100}, Lossless: true})
	if want := "There are 25 primes below 100, counted by 2 servers."; res.Text() != want || len(res.Asked) != 1 {
		t.Errorf("got %q in %d rounds, want %q in 2", res.Text(), len(res.Asked)+1, want)
	}
}

func TestTheParts(t *testing.T) {
	loaded := true
	res := askbacktest.Run(t, func(s *askback.Server) {
		primes.Register(s, func() bool { now := loaded; loaded = false; return now })
	}, askbacktest.Call{Tool: "count_primes", Arguments: map[string]int{"below": 102}, Lossless: true})
	want := map[string]any{
		"below": 102.0, "primes": 26.0, "servers": 2.0,
		"parts": []any{
			map[string]any{"from": 2.0, "below": 27.0, "primes": 9.0, "server": 1.0},
			map[string]any{"from": 27.0, "below": 52.0, "primes": 6.0, "server": 2.0},
			map[string]any{"from": 52.0, "below": 77.0, "primes": 6.0, "server": 2.0},
			map[string]any{"from": 77.0, "below": 102.0, "primes": 5.0, "server": 2.0},
		},
	}
	if diff := cmp.Diff(any(want), res.Tool.StructuredContent); diff != "" {
		t.Errorf("structured content (-want +got):\n%s", diff)
	}
}

func TestTheBounds(t *testing.T) {
	for _, tt := range []struct {
		below int
		want  string
	}{
		{1, "invalid arguments: "},
		{2, "There are 0 primes below 2, counted by 1 server."},
		{3, "There is 1 prime below 3, counted by 1 server."},
		{5000000, "There are 348513 primes below 5000000, counted by 1 server."},
		{5000001, "invalid arguments: "},
	} {
		res := askbacktest.Run(t, func(s *askback.Server) { primes.Register(s, func() bool { return false }) },
			askbacktest.Call{
				Tool: "count_primes", Arguments: map[string]int{"below": tt.below},
			})
		if !strings.HasPrefix(res.Text(), tt.want) {
			t.Errorf("below %d: got %q, want %q", tt.below, res.Text(), tt.want)
		}
	}
}
