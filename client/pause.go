package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// pause waits, unless the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// jitter varies a duration by a quarter, so that clients that a server turned away together
// do not return together.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
