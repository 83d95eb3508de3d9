package state_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task/storetest"
)

// Among many that are soon forgotten, an id that has time left is remembered until the very end of it.
func TestMemoryGuardRemembers(t *testing.T) {
	for _, ttl := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			var g state.MemoryGuard
			expires := time.Now().Add(ttl)
			if fresh, err := g.Use(t.Context(), "kept", expires); !fresh || err != nil {
				t.Fatalf("fresh %v, %v", fresh, err)
			}
			time.Sleep(ttl - time.Millisecond)
			for i := range 10_000 { // so that it looks for the expired, again and again
				expect.Must(g.Use(t.Context(), fmt.Sprint(i), time.Now()))(t)
			}
			if fresh, _ := g.Use(t.Context(), "kept", expires); fresh {
				t.Errorf("an id of %v was forgotten before its time", ttl)
			}
		})
	}
}

func TestMemoryGuard(t *testing.T) {
	storetest.RunGuard(t, func(*testing.T) func(*testing.T) storetest.Guard {
		guard := new(state.MemoryGuard)
		return func(*testing.T) storetest.Guard { return guard }
	})
}

func TestMemoryGuardForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g state.MemoryGuard
		for i := range 10_000 {
			id := fmt.Sprint(i)
			if fresh, err := g.Use(t.Context(), id, time.Now().Add(time.Minute)); !fresh || err != nil {
				t.Fatalf("state %s: fresh %v, %v", id, fresh, err)
			}
			if fresh, _ := g.Use(t.Context(), id, time.Now().Add(time.Minute)); fresh {
				t.Fatalf("state %s was used twice", id)
			}
			time.Sleep(time.Second)
		}
		if size := g.Size(); size > 2048 {
			t.Errorf("it holds %d states, of which 60 have not expired", size)
		}
	})
}
