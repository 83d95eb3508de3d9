package client

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/client/internal/tap"
)

// subscription holds the reports of a server about one task, on a stream that the client
// opens (SEP-2663, "Task Status Notifications").
type subscription struct {
	*Session
	id    string
	wake  chan struct{}   // receives after each change; has room for one
	ended context.Context // done when the last report is that the task has ended
	end   context.CancelFunc

	mu           sync.Mutex
	acknowledged bool
	agreed       bool  // the server reports about this task
	latest       *Task // the last report that was not taken
}

func newSubscription(s *Session, id string) *subscription {
	n := &subscription{Session: s, id: id, wake: make(chan struct{}, 1)}
	n.ended, n.end = context.WithCancel(context.Background())
	return n
}

// receive takes a notification. It ignores reports about other tasks, those that cannot be
// read and those after the end: the client requests the status itself now and then.
func (n *subscription) receive(method string, params []byte) {
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
		t, err := parseTask(params, n.Server(), &n.opts.Limits)
		if err != nil || t.ID != n.id || !n.agreed || n.ended.Err() != nil {
			return
		}
		if n.latest = t; t.Ended() {
			n.end()
		}
	default:
		return
	}
	n.signal()
}

// reports tells whether the server reports changes.
func (n *subscription) reports() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.agreed
}

// signal wakes the reader of the reports.
func (n *subscription) signal() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// take takes the last report, or nil.
func (n *subscription) take() *Task {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.latest
	n.latest = nil
	return t
}

// reset notes the end of a stream, and returns what its server had acknowledged.
func (n *subscription) reset() (acknowledged, agreed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	acknowledged, agreed = n.acknowledged, n.agreed
	n.acknowledged, n.agreed = false, false
	n.signal()
	return acknowledged, agreed
}

// subscribe opens the stream about the task, and again when it ends, until stop is called.
func (n *subscription) subscribe(ctx context.Context, d TaskDialect) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		ever := false
		reopen(ctx, func() (again bool) {
			_, err := n.exchange(ctx, d, &tap.Exchange{Method: "subscriptions/listen", Notify: n.receive},
				&taskParams{Notifications: &taskNotifications{TaskIDs: []string{n.id}}})
			acknowledged, agreed := n.reset()
			never := hasCode(err, jsonrpc.CodeMethodNotFound) || acknowledged && !agreed
			if never {
				n.silent.Store(true)
			}
			// A server that reported once will report again, even if it is away for some time.
			ever = ever || agreed
			return ever && !never && ctx.Err() == nil
		})
	})
	return func() { cancel(); wg.Wait() }
}
