package harness

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/task"
)

// CutOff is a store that a process loses its connection to, as if it were killed.
type CutOff struct {
	task.Store
	Off atomic.Bool
}

func (c *CutOff) err() error {
	if c.Off.Load() {
		return errors.New("no connection")
	}
	return nil
}

// Get implements [task.Store].
func (c *CutOff) Get(ctx context.Context, id string) (*task.Task, error) {
	if err := c.err(); err != nil {
		return nil, err
	}
	return c.Store.Get(ctx, id)
}

// Claim implements [task.Store].
func (c *CutOff) Claim(
	ctx context.Context, after string, load []task.Load, lease time.Duration, limit int,
) ([]*task.Claimed, error) {
	if err := c.err(); err != nil {
		return nil, err
	}
	return c.Store.Claim(ctx, after, load, lease, limit)
}

// Append implements [task.Store].
func (c *CutOff) Append(ctx context.Context, id string, claim task.Claim, there int, entry []byte) error {
	if err := c.err(); err != nil {
		return err
	}
	return c.Store.Append(ctx, id, claim, there, entry)
}

// Renew implements [task.Store].
func (c *CutOff) Renew(ctx context.Context, leases []task.Leased, lease time.Duration) ([]task.Renewed, error) {
	if err := c.err(); err != nil {
		return nil, err
	}
	return c.Store.Renew(ctx, leases, lease)
}

// Update implements [task.Store].
func (c *CutOff) Update(ctx context.Context, t *task.Task, u task.Update) error {
	if err := c.err(); err != nil {
		return err
	}
	return c.Store.Update(ctx, t, u)
}
