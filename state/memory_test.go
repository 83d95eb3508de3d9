package state_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

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
			if err := store.PutState(t.Context(), fmt.Sprint(i), fmt.Sprint(i%7), nil, time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
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
			if err := store.PutState(t.Context(), fmt.Sprint(i), "call", nil, time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	})
}
