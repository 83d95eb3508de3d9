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

var _ storetest.StateStore = state.Store(nil)

func TestMemoryStore(t *testing.T) {
	storetest.RunStates(t, func(t *testing.T) func(t *testing.T) storetest.StateStore {
		store := new(state.MemoryStore)
		return func(t *testing.T) storetest.StateStore { return store }
	})
}

func TestMemoryStoreForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(state.MemoryStore)
		for i := range 5000 {
			expect.Check(t, store.PutState(t.Context(), fmt.Sprint(i), fmt.Sprint(i%7), nil, time.Now().Add(time.Minute)))
			time.Sleep(time.Second)
		}
		if rows, calls := store.Size(); rows > 1024 || calls > rows {
			t.Errorf("it holds %d states under %d calls, of which 60 have not expired", rows, calls)
		}
	})
}

// Who makes the same call over and over slows nobody down: it took minutes when each state
// of a call was looked for among all.
func TestMemoryStoreWithManyStatesOfACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(state.MemoryStore)
		const many = 1 << 17
		for i := range 2*many + 1 {
			if i == many {
				time.Sleep(time.Hour)
			}
			expect.Check(t, store.PutState(t.Context(), fmt.Sprint(i), "call", nil, time.Now().Add(time.Minute)))
		}
	})
}

// A call whose states have all gone leaves nothing, neither when they are deleted nor when they expire.
func TestMemoryStoreForgetsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(state.MemoryStore)
		put := func(id, call string) {
			expect.Check(t, store.PutState(t.Context(), id, call, nil, time.Now().Add(time.Minute)))
		}
		put("1", "a")
		put("2", "a")
		put("3", "b")
		put("3", "c") // in place of the one of another call
		for _, step := range []struct {
			id          string
			rows, calls int
		}{{"", 3, 2}, {"1", 2, 2}, {"2", 1, 1}, {"2", 1, 1}, {"3", 0, 0}} {
			expect.Check(t, store.DeleteState(t.Context(), step.id))
			if rows, calls := store.Size(); rows != step.rows || calls != step.calls {
				t.Errorf("without %q it holds %d states of %d calls, want %d of %d", step.id, rows, calls, step.rows, step.calls)
			}
		}
		for i := range 5000 {
			put(fmt.Sprint("state ", i), fmt.Sprint("call ", i))
			time.Sleep(time.Second)
		}
		if rows, calls := store.Size(); rows > 1024 || calls != rows {
			t.Errorf("it holds %d states of %d calls", rows, calls)
		}
	})
}
