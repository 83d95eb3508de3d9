package bridge

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/askback-mcp/askback/bridge/internal/legacy"
)

// ShortTimes shortens, for the bridges of a test from here on, how long a call waits for a session and for the process
// that has its session, and how often the task of an open call is looked at.
func ShortTimes(t testing.TB, pool, holder, watch time.Duration) {
	before := times
	times = legacy.Times{Pool: pool, Holder: holder, Watch: watch}
	t.Cleanup(func() { times = before })
}

// Open returns a bridge that has started.
func Open(ctx context.Context, opts *Options) (*Bridge, error) {
	b, err := New(opts)
	if err != nil {
		return nil, err
	}
	if err := b.Start(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Refresh reads the lists of all servers anew.
func (b *Bridge) Refresh(ctx context.Context) error {
	for _, u := range b.front.servers {
		if err := u.refresh(ctx); err != nil {
			return err
		}
	}
	return nil
}
