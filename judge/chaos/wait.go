package main

import (
	"context"
	"time"
)

// sleep returns false if ctx was done before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// pause is how long a customer waits between two looks, and after a failure.
const pause = 200 * time.Millisecond
