package client

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// notices hands the notifications on the streams of direct requests to the host's handlers as the SDK does: one after
// the other in the order of their arrival, and without holding up the request.
type notices struct {
	deliver func(method string, params []byte)

	mu      sync.Mutex
	queue   []notice
	bytes   int
	running bool
}

type notice struct {
	method string
	params []byte
}

// size is how many bytes a notification takes while it waits.
func (n notice) size() int { return 128 + len(n.method) + len(n.params) }

// maxNotices is how many bytes of notifications wait for a handler that does not return.
const maxNotices = 16 << 20

// add adds a notification, unless too many wait.
func (n *notices) add(method string, params []byte) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	last := notice{method, bytes.Clone(params)}
	if n.bytes+last.size() > maxNotices {
		return &LimitError{"bytes of notifications at once", maxNotices}
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
func (n *notices) run() {
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

// notifications reads those of a server that the SDK has handlers for.
var notifications = map[string]func(*mcp.ClientSession, []byte) (mcp.Request, error){
	"notifications/progress":               notification[mcp.ProgressNotificationParams],
	"notifications/message":                notification[mcp.LoggingMessageParams],
	"notifications/tools/list_changed":     notification[mcp.ToolListChangedParams],
	"notifications/prompts/list_changed":   notification[mcp.PromptListChangedParams],
	"notifications/resources/list_changed": notification[mcp.ResourceListChangedParams],
	"notifications/resources/updated":      notification[mcp.ResourceUpdatedNotificationParams],
	"notifications/elicitation/complete":   notification[mcp.ElicitationCompleteParams],
}

func notification[P any, Ptr interface {
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
