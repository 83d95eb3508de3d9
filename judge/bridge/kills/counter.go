package main

import (
	"context"
	"math/rand/v2"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/seal"
)

// The tools of the server behind.
const (
	idempotent = "idempotent" // may be called again
	once       = "once"       // may not
	twice      = "ask_twice"  // may not, and takes effect after each of its two questions
)

// counter is the server behind the bridge. It counts the effects of each call, and is never killed.
type counter struct {
	*httptest.Server

	mu      sync.Mutex
	effects map[string]int // by the call's ID and what is done
}

type arguments struct {
	ID   string `json:"id"`
	Asks bool   `json:"asks"`
}

func startCounter() (*counter, error) {
	c := &counter{effects: make(map[string]int)}
	keys, err := seal.NewRing(seal.NewKey(time.Now()))
	if err != nil {
		return nil, err
	}
	implementation := &mcp.Implementation{Name: "counter", Version: "1"}
	srv, err := askback.New(mcp.NewServer(implementation, nil), &askback.Options{Keys: keys})
	if err != nil {
		return nil, err
	}
	for _, tool := range tools() {
		askback.AddTool(srv, tool, counting(tool.Name, c.count))
	}
	c.Server = httptest.NewServer(srv.HTTPHandler(nil))
	return c, nil
}

func tools() (all []*mcp.Tool) {
	for _, name := range []string{idempotent, once, twice} {
		all = append(all,
			&mcp.Tool{Name: name, Annotations: &mcp.ToolAnnotations{IdempotentHint: name == idempotent}})
	}
	return all
}

// counting is a handler whose effects are no recorded steps: every time that it is sent its last round, they happen.
func counting(
	name string, effect func(ctx context.Context, id, what string) error,
) askback.ToolHandler[arguments, string] {
	return func(ctx context.Context, call *askback.Call, in arguments) (string, error) {
		if in.Asks || name == twice {
			if err := askback.Approve(call, "first", askback.Question{Message: in.ID + ": go on?"}); err != nil {
				return "", err
			}
		}
		if name == twice {
			if call.Round() == 2 {
				if err := effect(ctx, in.ID, "middle"); err != nil {
					return "", err
				}
			}
			if err := askback.Approve(call, "second", askback.Question{Message: in.ID + ": and on?"}); err != nil {
				return "", err
			}
		}
		return "done " + in.ID, effect(ctx, in.ID, "end")
	}
}

// count does what cannot be undone, which takes some time around it.
func (c *counter) count(ctx context.Context, id, what string) error {
	pause(ctx, time.Duration(rand.Int64N(int64(200*time.Millisecond))))
	c.mu.Lock()
	c.effects[id+" "+what]++
	c.mu.Unlock()
	pause(ctx, time.Duration(rand.Int64N(int64(200*time.Millisecond))))
	return nil
}

// counted returns how often the call has done something.
func (c *counter) counted(id, what string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.effects[id+" "+what]
}

// pause waits, and reports whether ctx still goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
