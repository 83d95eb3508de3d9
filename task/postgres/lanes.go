package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// lane is the purpose of a connection. When several lanes wait, the first one is served first.
type lane int

const (
	renewals lane = iota // leases: if they come too late, steps run twice
	workers              // claims, records and all other writes of tasks
	clients              // reads, and everything that can be late: sweeps, notifications
	lanes                // how many there are
)

// connections bounds how many connections each lane uses. Clients have half of them, at least one, and only while
// nothing else waits. The other half is always there for workers.
type connections struct {
	mu      sync.Mutex
	free    int
	clients int // how many more clients may have
	waiting [lanes][]chan struct{}
}

func newConnections(n int) *connections {
	return &connections{free: n, clients: max(1, n/2)}
}

// take waits until its lane may use a connection, for at most half of the time that ctx has left. The other half is for
// the statement: if ctx ends during the statement, the connection is lost, and a new one takes several round trips.
func (c *connections) take(ctx context.Context, l lane) error {
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	turn := make(chan struct{})
	c.mu.Lock()
	c.waiting[l] = append(c.waiting[l], turn)
	c.next()
	c.mu.Unlock()
	select {
	case <-turn:
		return nil
	default:
	}
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	i := slices.Index(c.waiting[l], turn)
	if i >= 0 {
		c.waiting[l] = slices.Delete(c.waiting[l], i, i+1)
	}
	c.mu.Unlock()
	if i < 0 { // its turn has come at this moment
		c.give(l)
	}
	return fmt.Errorf("all connections are in use (pool_max_conns): %w", ctx.Err())
}

// give gives a connection back.
func (c *connections) give(l lane) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free++
	if l == clients {
		c.clients++
	}
	c.next()
}

// next gives the free connections to the calls that wait.
func (c *connections) next() {
	for l := range lanes {
		for len(c.waiting[l]) > 0 && c.free > 0 && (l != clients || c.clients > 0) {
			c.free--
			if l == clients {
				c.clients--
			}
			close(c.waiting[l][0])
			c.waiting[l] = slices.Delete(c.waiting[l], 0, 1)
		}
	}
}
