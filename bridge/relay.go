package bridge

import (
	"context"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// relay passes on to hosts what one server says by itself.
type relay struct {
	mcp    *mcp.Server           // the bridge's own
	name   string                // of the server, or empty
	offers func(uri string) bool // the server's is the resource that hosts see
	life   context.Context

	updates mailbox
	mu      sync.Mutex
	logs    map[*mcp.ServerSession]*mailbox
}

// resourceUpdated passes on that a resource of this server has changed.
func (r *relay) resourceUpdated(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
	if r.offers(req.Params.URI) {
		r.updates.add(func() {
			_ = r.mcp.ResourceUpdated(r.life, &mcp.ResourceUpdatedNotificationParams{URI: req.Params.URI})
		})
	}
}

// logged passes on what the server logs, to the sessions whose hosts want it. The logger has the server's name.
func (r *relay) logged(_ context.Context, req *mcp.LoggingMessageRequest) {
	params := *req.Params
	if r.name != "" {
		params.Logger = strings.TrimSuffix(r.name+"/"+params.Logger, "/")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	logs := make(map[*mcp.ServerSession]*mailbox)
	for session := range r.mcp.Sessions() {
		box := r.logs[session]
		if box == nil {
			box = new(mailbox)
		}
		box.add(func() { _ = session.Log(r.life, &params) })
		logs[session] = box
	}
	r.logs = logs
}

// mailbox passes on messages one after the other, each by a function that may take long because a host does not read.
// Adding one does not wait: what the server sends to all hosts comes on one connection. It leaves out what comes while
// mostMail messages wait. The zero value is ready to use.
type mailbox struct {
	mu      sync.Mutex
	waiting []func()
	passing bool
}

// mostMail is how many messages wait in a mailbox.
const mostMail = 64

func (m *mailbox) add(pass func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiting) < mostMail {
		m.waiting = append(m.waiting, pass)
	}
	if !m.passing {
		m.passing = true
		go m.pass()
	}
}

// pass passes on what waits, and ends when nothing does.
func (m *mailbox) pass() {
	for {
		m.mu.Lock()
		if len(m.waiting) == 0 {
			m.passing = false
			m.mu.Unlock()
			return
		}
		next := m.waiting[0]
		m.waiting = m.waiting[1:]
		m.mu.Unlock()
		next()
	}
}
