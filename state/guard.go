package state

import (
	"context"
	"sync"
	"time"
)

// Guard remembers which requestStates were used. All instances behind one endpoint need to share its memory:
// [MemoryGuard] is for one process, and the Stores of task/sqlite and task/postgres have one for several;
// task/storetest has a suite for others. (basic/patterns/mrtr, server requirement 5)
type Guard interface {
	// Use marks the state id as used and reports whether it had not been used before. It may forget the id after
	// expires, which is seal.MaxClockSkew after the state's own expiry, when no instance accepts the state any more.
	// An error refuses the request with an internal error. It is called concurrently.
	Use(ctx context.Context, id string, expires time.Time) (fresh bool, err error)
}

// MemoryGuard is a [Guard] for a service of one process. It forgets when the process ends, so a server with a
// MemoryGuard refuses states from before its start: no call continues after a restart, and instances behind one
// endpoint refuse each other's states. The zero value is ready to use. It holds about 100 bytes for every state that
// was used and whose time has not come to be forgotten.
type MemoryGuard struct {
	mu    sync.Mutex
	used  map[string]time.Time // The expiry of each ID.
	purge int                  // the size at which the expired are looked for
}

// Use implements [Guard].
func (g *MemoryGuard) Use(_ context.Context, id string, expires time.Time) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, used := g.used[id]; used {
		return false, nil
	}
	if g.used == nil {
		g.used = make(map[string]time.Time)
	}
	if len(g.used) >= g.purge {
		now := time.Now()
		for id, expires := range g.used {
			if !expires.After(now) {
				delete(g.used, id)
			}
		}
		g.purge = max(1024, 2*len(g.used)) // Then looking costs a constant time per use.
	}
	g.used[id] = expires
	return true, nil
}
