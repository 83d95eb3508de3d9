package postgres

import (
	"context"
	"testing"
	"time"
)

// WatchTimes changes the times of a watch for a test.
func WatchTimes(t *testing.T, answers, silences time.Duration) {
	a, s := answer, silence
	t.Cleanup(func() { answer, silence = a, s })
	answer, silence = answers, silences
}

// Lanes of Connections, for tests.
const (
	Renewals = int(renewals)
	Workers  = int(workers)
	Clients  = int(clients)
)

// Connections are shared by lanes.
type Connections struct{ *connections }

// NewConnections returns so many connections that nobody uses.
func NewConnections(n int) Connections { return Connections{newConnections(n)} }

// Take waits for a connection.
func (c Connections) Take(ctx context.Context, l int) error { return c.take(ctx, lane(l)) }

// Give gives one back.
func (c Connections) Give(l int) { c.give(lane(l)) }
