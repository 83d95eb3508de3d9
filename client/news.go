package client

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/client/internal/tap"
)

const methodListen = "subscriptions/listen"

// news holds what a server reports about one task by itself, on a stream that the client
// opens (SEP-2663, "Task Status Notifications").
type news struct {
	id    string
	parse func(raw []byte) (*Task, error)
	wake  chan struct{} // receives after each change; has room for one

	mu           sync.Mutex
	acknowledged bool
	agreed       bool  // the server reports about this task
	latest       *Task // the last report that was not taken
}

// receive takes a notification. It ignores reports about other tasks and those that cannot
// be read: the client requests the status itself now and then.
func (n *news) receive(method string, params []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch method {
	case tap.MethodAcknowledged:
		var agreed struct {
			Notifications taskNotifications `json:"notifications"`
		}
		_ = json.Unmarshal(params, &agreed) // else nothing was agreed
		n.acknowledged, n.agreed = true, slices.Contains(agreed.Notifications.TaskIDs, n.id)
	case tap.MethodTask:
		if !n.agreed {
			return
		}
		t, err := n.parse(params)
		if err != nil || t.ID != n.id {
			return
		}
		n.latest = t
	default:
		return
	}
	n.signal()
}

// reports tells whether the server reports changes. It may be called on nil.
func (n *news) reports() bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.agreed
}

// signal says that there is something to take.
func (n *news) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// end returns the task if the last report is that it has ended, or nil.
func (n *news) end() *Task {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.latest == nil || !n.latest.Ended() {
		return nil
	}
	return n.latest
}

// take takes the last report, or nil.
func (n *news) take() *Task {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.latest
	n.latest = nil
	return t
}

// reset notes the end of a stream, and returns what its server had acknowledged.
func (n *news) reset() (acknowledged, agreed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	acknowledged, agreed = n.acknowledged, n.agreed
	n.acknowledged, n.agreed = false, false
	n.signal()
	return acknowledged, agreed
}

// subscribe opens the stream about a task, and again when it ends, until stop is called.
func (s *Session) subscribe(ctx context.Context, d TaskDialect, id string) (_ *news, stop func()) {
	n := &news{id: id, wake: make(chan struct{}, 1), parse: func(raw []byte) (*Task, error) {
		return parseTask(raw, s.Server(), &s.opts.Limits)
	}}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		const shortest, longest = time.Second, time.Minute
		wait, ever := shortest, false
		for {
			began := time.Now()
			_, err := s.exchange(ctx, d, &tap.Exchange{Method: methodListen, Notify: n.receive},
				&taskParams{Notifications: &taskNotifications{TaskIDs: []string{id}}})
			acknowledged, agreed := n.reset()
			never := hasCode(err, jsonrpc.CodeMethodNotFound) || acknowledged && !agreed
			if never {
				s.silent.Store(true)
			}
			// A server that reported once will report again, even if it is away for some time.
			if ever = ever || agreed; !ever || never || ctx.Err() != nil {
				return
			}
			if time.Since(began) > longest {
				wait = shortest
			}
			if pause(ctx, wait) != nil {
				return
			}
			wait = min(2*wait, longest)
		}
	}()
	return n, func() { cancel(); <-done }
}
