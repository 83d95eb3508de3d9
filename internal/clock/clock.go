// Package clock has the clock of an instance, which may be wrong by minutes and may be set at any time.
//
// It is for words, for logs and for what clients carry. Whatever is stored is judged by the clock of the store, which
// is one for all instances; and what passes in one process is measured with [time.Since], which no setting of a clock
// changes.
package clock

import (
	"context"
	"time"
)

type offKey struct{}

// Now reads the clock of the instance that ctx belongs to.
func Now(ctx context.Context) time.Time {
	if off, wrong := ctx.Value(offKey{}).(func() time.Duration); wrong {
		return time.Now().Round(0).Add(off()) // without the monotonic reading, because off may change
	}
	return time.Now()
}

// WithOff returns the context of an instance whose clock is off by what the function returns. It is for tests, whose
// instances would all have the same clock.
func WithOff(ctx context.Context, off func() time.Duration) context.Context {
	return context.WithValue(ctx, offKey{}, off)
}
