//go:build !race

package askback_test

import (
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"testing"
)

// The allocations of what servers do most have a maximum. Counted are those of a benchmark less those of the same
// benchmark with a handler that reads the request and writes fixed bytes, so that what the benchmark and net/http's
// types allocate does not count. (The race detector allocates, too, and is left out.)
//
// After a change that saves allocations, "go test -run TestAllocations -v ." prints the new figures: write them here,
// and the maximum as 2 more, which is room for what runs beside the test. A change that needs more says in its message
// why. "go test -run xxx -bench Interaction -memprofile mem.out -memprofilerate 1 ." and then "go tool pprof
// -sample_index alloc_objects -list . mem.out" show where they come from.
func TestAllocations(t *testing.T) {
	type limit struct {
		name     string
		exchange func(testing.TB) *exchange
		measured int
		maximum  int
	}
	limits := []limit{
		{"interaction", interaction, 36, 38},
		{"inline interaction", inlineInteraction, 599, 601},
	}
	// A fleet that waits sends these more often than anything else: one costs no more than an interaction does.
	measured := map[string]int{
		"tasks/get extension working": 11, "tasks/get extension input_required": 27, "tasks/get extension completed": 16,
		"tasks/get proposal working": 12, "tasks/get proposal input_required": 12, "tasks/get proposal completed": 12,
		"tasks/update extension input_required": 38, // an answer to no open question may be late: its row tells
	}
	for _, r := range taskRequests() {
		limits = append(limits, limit{r.String(), r.exchange, measured[r.String()], measured[r.String()] + 2})
	}
	for _, c := range limits {
		t.Run(c.name, func(t *testing.T) {
			defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties pools, which then allocate
			e := c.exchange(t)
			floor := *e
			floor.handler = e.fixed(t)
			got := math.MaxInt
			for try := 0; got > c.maximum && try < 5; try++ { // on a loaded machine what goes on beside it counts for more
				all := testing.AllocsPerRun(200, func() { e.send(t) })
				got = min(got, int(all-testing.AllocsPerRun(200, func() { floor.send(t) })))
			}
			t.Logf("%d allocations; they were %d when the maximum was set to %d", got, c.measured, c.maximum)
			if got > c.maximum {
				t.Errorf("%d allocations, more than the maximum of %d", got, c.maximum)
			}
		})
	}
}

// fixed returns a handler that writes what e's handler writes for each request.
func (e *exchange) fixed(t *testing.T) http.Handler {
	responses := make(map[int][]byte) // by the length of the request
	send := *e
	send.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded := httptest.NewRecorder()
		e.handler.ServeHTTP(recorded, r)
		responses[int(r.ContentLength)] = recorded.Body.Bytes()
		_, _ = w.Write(recorded.Body.Bytes())
	})
	send.send(t)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(responses[len(body)])
	})
}
