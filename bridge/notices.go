package bridge

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// serverOptions are the options of the bridge's SDK server, which may offer anything: see retell.
func (b *Bridge) serverOptions() *mcp.ServerOptions {
	return &mcp.ServerOptions{
		Logger: b.opts.SDKLogger, Capabilities: &mcp.ServerCapabilities{Logging: new(mcp.LoggingCapabilities)},
		HasTools: true, HasPrompts: true, HasResources: true, CompletionHandler: b.complete,
		SubscribeHandler: b.subscribe, UnsubscribeHandler: b.unsubscribe,
	}
}

// complete asks the server that has the prompt or the template.
func (b *Bridge) complete(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
	params := *req.Params
	params.Meta = nil
	var to *upstream
	if ref := params.Ref; ref != nil && ref.Type == "ref/prompt" {
		if t := b.prompts.of(ref.Name); t != nil {
			own := *ref
			own.Name, params.Ref, to = t.name, &own, t.upstream
		}
	} else if ref != nil {
		if t := b.owners.of(kindTemplate, ref.URI); t != nil {
			to = t.upstream
		} else {
			to = b.ofURI(ref.URI)
		}
	}
	if to == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "no server has what is to be completed"}
	}
	session, err := to.behind.sessionOf(ctx, b.caller(ctx, req.Extra), false)
	if err != nil {
		return nil, err
	}
	return session.SDK().Complete(ctx, &params)
}

// caller names who makes a request, or is empty.
func (b *Bridge) caller(ctx context.Context, extra *mcp.RequestExtra) string {
	if b.opts.Server.Principal == nil {
		return ""
	}
	name, err := b.opts.Server.Principal(ctx, extra)
	if err != nil {
		return ""
	}
	return name
}

// subscriptions are the resources that callers have subscribed to. A caller's later sessions subscribe to them again.
// The zero value is ready to use.
type subscriptions struct {
	mu  sync.Mutex
	all map[string][]string // URIs by caller
}

// mostSubscriptions bounds the subscriptions of one caller.
const mostSubscriptions = 256

func (s *subscriptions) add(caller, uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[string][]string)
	}
	if uris := s.all[caller]; len(uris) < mostSubscriptions && !slices.Contains(uris, uri) {
		s.all[caller] = append(uris, uri)
	}
}

func (s *subscriptions) of(caller string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all[caller])
}

// subscribe subscribes to a resource at its server, for as long as the connection lasts: other hosts may want to be
// told of it, too.
func (b *Bridge) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	to := b.ofURI(req.Params.URI)
	if to == nil {
		return mcp.ResourceNotFoundError(req.Params.URI)
	}
	caller := b.caller(ctx, req.Extra)
	to.behind.subscribed.add(caller, req.Params.URI)
	session, err := to.behind.sessionOf(ctx, caller, false)
	if err != nil {
		return err
	}
	return session.SDK().Subscribe(ctx, &mcp.SubscribeParams{URI: req.Params.URI})
}

// unsubscribe ends nothing at the server: see subscribe. The SDK's server no longer tells this host.
func (b *Bridge) unsubscribe(context.Context, *mcp.UnsubscribeRequest) error { return nil }

// resourceUpdated passes on that a resource of this server has changed.
func (u *upstream) resourceUpdated(_ context.Context, req *mcp.ResourceUpdatedNotificationRequest) {
	if u.ofURI(req.Params.URI) == u {
		u.updates.add(func() {
			_ = u.mcp.ResourceUpdated(u.behind.life, &mcp.ResourceUpdatedNotificationParams{URI: req.Params.URI})
		})
	}
}

// logged passes on what the server logs, to the sessions whose hosts want it. The logger has the server's name.
func (u *upstream) logged(_ context.Context, req *mcp.LoggingMessageRequest) {
	params := *req.Params
	if u.Name != "" {
		params.Logger = strings.TrimSuffix(u.Name+"/"+params.Logger, "/")
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	logs := make(map[*mcp.ServerSession]*mailbox)
	for session := range u.mcp.Sessions() {
		box := u.logs[session]
		if box == nil {
			box = new(mailbox)
		}
		box.add(func() { _ = session.Log(u.behind.life, &params) })
		logs[session] = box
	}
	u.logs = logs
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
