package client

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/strictjson"
)

const (
	methodCancelled = "notifications/cancelled"
	methodListen    = "subscriptions/listen"
	methodListening = "notifications/subscriptions/acknowledged"
	methodTaskNews  = "notifications/tasks"
)

// news is what a server tells about one task by itself, on a stream that the client opens
// (SEP-2663, "Task Status Notifications").
type news struct {
	id    string
	depth int
	parse func(raw []byte) (*Task, error)
	wake  chan struct{} // has room for one

	mu     sync.Mutex
	heard  bool  // the server acknowledged
	agreed bool  // and tells about this task
	latest *Task // what it told last, until taken
}

// ends takes a message on the stream over HTTP. It reports whether it is the response that
// ends the stream, which alone the SDK is to see.
func (n *news) ends(message, id []byte) bool {
	if strictjson.Check(message, n.depth+2) != nil || strictjson.TypeOf(message) != strictjson.TypeObject {
		return false
	}
	if method, ok := strictjson.String(strictjson.Get(message, "method")); ok {
		if strictjson.Get(message, "id") == nil {
			n.hear(method, strictjson.Get(message, "params"))
		}
		return false
	}
	return answers(message, id)
}

// hear takes a notification. Those about other tasks, and what is no task, are ignored: the
// client looks for itself now and then.
func (n *news) hear(method string, params []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch method {
	case methodListening:
		var agreed struct {
			Notifications taskNotifications `json:"notifications"`
		}
		_ = json.Unmarshal(params, &agreed) // else nothing was agreed
		n.heard, n.agreed = true, slices.Contains(agreed.Notifications.TaskIDs, n.id)
	case methodTaskNews:
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
	n.rouse()
}

// listens reports whether the server tells of changes.
func (n *news) listens() bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.agreed
}

// rouse says that there is something to take.
func (n *news) rouse() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// last is the task, if it was told that it has ended.
func (n *news) last() *Task {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.latest == nil || !n.latest.Ended() {
		return nil
	}
	return n.latest
}

func (n *news) take() *Task {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.latest
	n.latest = nil
	return t
}

// ended notes the end of a stream, and returns what its server had acknowledged.
func (n *news) ended() (heard, agreed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	heard, agreed = n.heard, n.agreed
	n.heard, n.agreed = false, false
	n.rouse()
	return heard, agreed
}

// listen opens the stream about the task, and again when it ends, until stop is called.
func (w *await) listen(ctx context.Context) (stop func()) {
	w.news = &news{id: w.id, depth: w.client.opts.Limits.Depth, parse: w.parseTask, wake: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		const first = time.Second
		pause, ever := first, false
		for {
			began := time.Now()
			_, err := w.exchangeAbout(ctx, w.tasks, &exchange{method: methodListen, news: w.news},
				&taskParams{Notifications: &taskNotifications{TaskIDs: []string{w.id}}})
			heard, agreed := w.news.ended()
			fault, isFault := errors.AsType[*jsonrpc.Error](err)
			never := isFault && fault.Code == jsonrpc.CodeMethodNotFound || heard && !agreed
			if never {
				w.silent.Store(true)
			}
			// Who told once is to tell again, even if it is away for some time.
			if ever = ever || agreed; !ever || never || ctx.Err() != nil {
				return
			}
			if time.Since(began) > backstop {
				pause = first
			}
			if sleep(ctx, pause) != nil {
				return
			}
			pause = min(2*pause, backstop)
		}
	}()
	return func() { cancel(); <-done }
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
