package gate

import (
	"context"
	"time"

	"github.com/askback-mcp/askback/internal/fault"
)

// lifetime is the context of a request that is a whole call. It ends with the call's time to live, which counts anew
// after a question with a deadline.
type lifetime struct {
	context.Context
	ttl   time.Duration
	timer *time.Timer
}

type lifetimeKey struct{}

// Value implements [context.Context].
func (l *lifetime) Value(key any) any {
	if key == (lifetimeKey{}) {
		return l
	}
	return l.Context.Value(key)
}

// withLifetime bounds a context by a time to live, whose name its cause tells.
func withLifetime(ctx context.Context, name string, ttl time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	l := &lifetime{Context: ctx, ttl: ttl}
	l.timer = time.AfterFunc(ttl, func() { cancel(fault.TimeLimit(name, ttl)) })
	return l, func() {
		l.timer.Stop()
		cancel(nil)
	}
}

// Unhurried stops the time to live of a call while a question with a deadline is open. It begins anew when counts is
// called. Outside of sessions, where the call is more than its request, both do nothing.
func Unhurried(ctx context.Context) (counts func()) {
	l, ok := ctx.Value(lifetimeKey{}).(*lifetime)
	if !ok {
		return func() {}
	}
	l.timer.Stop()
	return func() { l.timer.Reset(l.ttl) }
}
