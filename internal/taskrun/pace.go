package taskrun

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/askback-mcp/askback/task"
)

// How many calls of the store must fit into a setting: see "How fast the database must be" in docs/tasks.md.
const (
	// callsPerLease is for a renewal, which has a third of the lease. It waits for a call that is under way, and may have
	// to check a connection and prepare a statement.
	callsPerLease = 12
	// callsPerTimeout is for a call that needs a new connection, which takes several round trips.
	callsPerTimeout = 10
)

// checkPace warns if the store is too slow for the settings, and says which of them to change. Errors of the store are
// reported where it is used.
func checkPace(ctx context.Context, s safeStore, o *task.Settings) {
	ask := func() (time.Duration, error) {
		begun := time.Now()
		_, _, err := s.Journal(ctx, "", 0)
		if errors.Is(err, task.ErrNotFound) {
			err = nil
		}
		return time.Since(begun), err
	}
	one := time.Duration(math.MaxInt64)
	for range 3 { // the first may have to connect
		took, err := ask()
		if err != nil {
			return
		}
		one = min(one, took)
	}
	switch lease, timeout := callsPerLease*one, callsPerTimeout*one; {
	case lease > o.Lease:
		s.log.WarnContext(ctx, "task: the store is slow for the lease: leases may be lost, and steps run again; raise Lease",
			"a call takes", one, "lease", o.Lease, "at least", lease)
		return
	case timeout > o.StoreTimeout:
		s.log.WarnContext(ctx, "task: the store is slow for the time that its calls have; raise StoreTimeout",
			"a call takes", one, "timeout", o.StoreTimeout, "at least", timeout)
		return
	}
	// All workers may call the store at once. A few of them show how many connections there are.
	some := min(o.Workers, 16)
	var asking sync.WaitGroup
	late := make(chan error, some)
	begun := time.Now()
	for range some {
		asking.Go(func() {
			if _, err := ask(); err != nil {
				late <- err
			}
		})
	}
	asking.Wait()
	all := time.Since(begun) * time.Duration(o.Workers) / time.Duration(some)
	if ctx.Err() == nil && (len(late) > 0 || all > o.Lease/2) {
		s.log.WarnContext(ctx, "task: the store is slow for so many workers; "+
			"raise pool_max_conns in the URL of the database, or lower Workers",
			"a call takes", one, "workers", o.Workers, "one call of each takes", all, "at most", o.Lease/2)
	}
}
