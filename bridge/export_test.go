package bridge

import (
	"context"
	"errors"
	"testing"
	"time"
)

// ShortTimes shortens, for a test, how long a call waits for a session and for the process that has its session.
func ShortTimes(t testing.TB, pool, holder, watch time.Duration) {
	before := []time.Duration{poolTime, holderTime, watchTime}
	poolTime, holderTime, watchTime = pool, holder, watch
	t.Cleanup(func() { poolTime, holderTime, watchTime = before[0], before[1], before[2] })
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
	for _, u := range b.servers {
		if err := u.refresh(ctx); err != nil {
			return err
		}
	}
	return nil
}
