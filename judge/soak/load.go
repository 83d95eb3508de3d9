package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/askback-mcp/askback/judge/process"
)

// kind is one kind of load. Each of its clients repeats it, with a pause in between.
type kind struct {
	name    string
	clients int
	pause   time.Duration
	once    func(c *client, ctx context.Context) error

	done   atomic.Int64
	failed atomic.Pointer[error] // the first
}

// mixedLoad are the kinds of load of a soak.
func mixedLoad() []*kind {
	return []*kind{
		{name: "calls", clients: 3, pause: 10 * time.Millisecond, once: (*client).interaction},
		{name: "calls abandoned", clients: 1, pause: 20 * time.Millisecond, once: func(c *client, ctx context.Context) error {
			return c.Call(ctx, "tools/call", ask, nil)
		}},
		{name: "sessions", clients: 2, pause: 50 * time.Millisecond, once: func(c *client, ctx context.Context) error {
			return c.inSession(ctx, false)
		}},
		{name: "sessions abandoned", clients: 1, pause: pause, once: func(c *client, ctx context.Context) error {
			return c.inSession(ctx, true)
		}},
		{name: "tasks", clients: 2, pause: 50 * time.Millisecond, once: func(c *client, ctx context.Context) error {
			return c.wholeTask(ctx, false)
		}},
		{name: "tasks abandoned", clients: 1, pause: pause, once: func(c *client, ctx context.Context) error {
			return c.wholeTask(ctx, true)
		}},
		{name: "subscriptions", clients: 2, pause: 200 * time.Millisecond, once: (*client).subscribeForAMoment},
		{name: "slow readers", clients: 2, pause: 200 * time.Millisecond, once: (*client).readSlowly},
		{name: "bodies half-sent", clients: 1, pause: pause, once: func(c *client, ctx context.Context) error {
			ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
			defer cancel()
			if err := c.halfSent(ctx, 1<<20, 1<<19, func() {}); !errors.Is(err, context.DeadlineExceeded) {
				return err
			}
			return nil
		}},
	}
}

// pause is the pause of a client that leaves something behind.
const pause = 500 * time.Millisecond

func (c *client) subscribeForAMoment(ctx context.Context) error {
	id, err := c.begin(ctx, map[string]any{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.listen(ctx, []string{id})
	if err != nil {
		return err
	}
	defer stream.Close()
	_, err = stream.Next() // the task's state
	return err
}

func (c *client) readSlowly(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.talk(ctx)
	if err != nil {
		return err
	}
	defer stream.Close()
	for range 5 {
		if _, err := io.ReadFull(stream, make([]byte, 4<<10)); err != nil {
			return err
		}
		_ = process.Sleep(ctx, 200*time.Millisecond)
	}
	return nil // the client goes away in the middle of the stream
}

// apply puts all kinds of load on the subject until ctx is done. Wait returns when it has ended.
func apply(ctx context.Context, s *process.Server, load []*kind) (wait func()) {
	var all sync.WaitGroup
	for _, k := range load {
		for i := range k.clients {
			all.Go(func() {
				c := newClient(s, fmt.Sprintf("%s %d", k.name, i))
				defer c.close()
				for ctx.Err() == nil {
					k.run(ctx, c)
				}
			})
		}
	}
	return all.Wait
}

func (k *kind) run(ctx context.Context, c *client) {
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := k.once(c, limited); err == nil {
		k.done.Add(1)
	} else if ctx.Err() == nil {
		k.failed.CompareAndSwap(nil, &err)
	}
	_ = process.Sleep(ctx, k.pause)
}
