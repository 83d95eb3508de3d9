package client

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// notificationQueue hands the notifications on the streams of direct requests to the host's handlers as the SDK does:
// one after the other in the order of their arrival, and without holding up the request.
type notificationQueue struct {
	deliver func(method string, params []byte)

	mu      sync.Mutex
	queue   []notification
	bytes   int
	running bool
}

type notification struct {
	method string
	params []byte
}

// size is the memory of a notification that waits, in bytes. The constant makes many empty ones count, too.
func (n notification) size() int { return 128 + len(n.method) + len(n.params) }

// maxNotifications bounds the bytes of notifications that wait for a handler that does not return.
const maxNotifications = 16 << 20

// add adds a notification, unless too many wait.
func (n *notificationQueue) add(method string, params []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	last := notification{method, bytes.Clone(params)}
	if n.bytes+last.size() > maxNotifications {
		return &LimitError{"bytes of notifications at once", maxNotifications}
	}
	n.bytes += last.size()
	n.queue = append(n.queue, last)
	if !n.running {
		n.running = true
		go n.run()
	}
	return nil
}

// run delivers what waits, and ends when nothing does.
func (n *notificationQueue) run() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.queue) > 0 {
		first := n.queue[0]
		n.queue = n.queue[1:]
		n.mu.Unlock()
		n.deliver(first.method, first.params)
		n.mu.Lock()
		n.bytes -= first.size()
	}
	n.queue, n.running = nil, false
}

// notify passes a notification through the middleware and to the handlers of the SDK's client, unless the session has
// ended. It ignores one that the SDK does not know, or cannot read.
func (i *inlineSessions) notify(life context.Context, s *mcp.ClientSession, method string, params []byte) {
	read, known := notifications[method]
	if !known || life.Err() != nil {
		return
	}
	if req, err := read(s, params); err == nil {
		_, _ = i.receive(life, method, req) // a notification has no response
	}
	if life.Err() != nil { // the session may have been forgotten before this
		i.states.Delete(s)
	}
}

// notifications reads the notifications of a server for which the SDK has handlers.
var notifications = map[string]func(*mcp.ClientSession, []byte) (mcp.Request, error){
	"notifications/progress":               readNotification[mcp.ProgressNotificationParams],
	"notifications/message":                readNotification[mcp.LoggingMessageParams],
	"notifications/tools/list_changed":     readNotification[mcp.ToolListChangedParams],
	"notifications/prompts/list_changed":   readNotification[mcp.PromptListChangedParams],
	"notifications/resources/list_changed": readNotification[mcp.ResourceListChangedParams],
	"notifications/resources/updated":      readNotification[mcp.ResourceUpdatedNotificationParams],
	"notifications/elicitation/complete":   readNotification[mcp.ElicitationCompleteParams],
}

func readNotification[P any, Ptr interface {
	*P
	mcp.Params
}](s *mcp.ClientSession, params []byte) (mcp.Request, error) {
	p := Ptr(new(P))
	if params != nil {
		if err := json.Unmarshal(params, p); err != nil {
			return nil, err
		}
	}
	return &mcp.ClientRequest[Ptr]{Session: s, Params: p}, nil
}
