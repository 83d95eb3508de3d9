// Package bridge puts a server made with this library in front of MCP servers that ask, so that their calls survive a
// restart and their questions reach people who do not sit in front of the host.
//
//	host ──▶ askback.Server ──▶ internal/calls: one call, and its approvals
//	                            internal/rounds, or internal/legacy before 2026-07-28 ──▶ internal/upstream
//
// A call that asks nothing passes through, and nothing of it is stored. See docs/bridge.md.
package bridge

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/bridge/internal/calls"
	"github.com/askback-mcp/askback/bridge/internal/legacy"
	"github.com/askback-mcp/askback/bridge/internal/names"
	"github.com/askback-mcp/askback/bridge/internal/rounds"
	"github.com/askback-mcp/askback/bridge/internal/upstream"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/consent"
	"github.com/askback-mcp/askback/internal/raw"
)

// Bridge is a server in front of others. It is safe for concurrent use.
type Bridge struct {
	opts   Options
	log    *slog.Logger
	mcp    *mcp.Server
	server *askback.Server
	front  front
	guard  guard
	rules  func(context.Context, *consent.ToolCall) *consent.Verdict // or nil
	// instance tells the processes of a fleet apart.
	instance string
}

// New returns a bridge, which answers hosts from then on. Start connects it to the servers behind. Close ends the
// connections.
func New(opts *Options) (*Bridge, error) {
	b := &Bridge{opts: *opts, log: cmp.Or(opts.Server.Logger, slog.Default()), instance: rand.Text()}
	if opts.Server.Keys == nil || opts.Server.Tasks == nil || opts.Server.Desk == nil {
		return nil, errors.New("bridge: Options.Server needs Keys, Tasks and Desk")
	}
	if len(opts.Servers) == 0 {
		return nil, errors.New("bridge: there is no server to stand in front of")
	}
	if decides := opts.Server.Desk.Rules; decides != nil {
		if opts.Approve != nil {
			return nil, errors.New("bridge: Options has Approve, and the Desk has Rules: want one of them")
		}
		b.rules = func(ctx context.Context, c *consent.ToolCall) *consent.Verdict {
			return (*consent.Verdict)(decides(ctx, (*askback.ToolCall)(c)))
		}
		own := *opts.Server.Desk
		own.Rules, b.opts.Server.Desk = nil, &own // they know the servers behind, and not this one
	}
	schemes := make([]names.Scheme, len(opts.Servers))
	for i, s := range opts.Servers {
		schemes[i] = names.Scheme{Server: s.Name, Prefix: s.Prefix, Most: s.NameLength,
			Choices: [2]*names.Choice{(*names.Choice)(&b.opts.Servers[i].Tools), (*names.Choice)(&b.opts.Tools)}}
		if err := schemes[i].Check(); err != nil {
			return nil, fmt.Errorf("bridge: the server %q: %w", s.Name, err)
		}
	}
	requests := &requests{&b.front, opts.Server.Principal}
	b.mcp = mcp.NewServer(opts.Implementation, &mcp.ServerOptions{ // retell replaces what the SDK would offer
		Logger: opts.SDKLogger, Capabilities: &mcp.ServerCapabilities{Logging: new(mcp.LoggingCapabilities)},
		HasTools: true, HasPrompts: true, HasResources: true, CompletionHandler: requests.complete,
		SubscribeHandler: requests.subscribe, UnsubscribeHandler: requests.unsubscribe,
	})
	var err error
	if b.server, err = askback.New(b.mcp, &b.opts.Server); err != nil {
		return nil, err
	}
	b.server.AddResultTool()
	seen := &catalog{tools: newShelf(kindTool, b.mcp.RemoveTools), prompts: newShelf(kindPrompt, b.server.RemovePrompts)}
	seen.resources.freed = b.listOthers
	b.front.catalog, b.front.early = seen, newEarly(opts.Lists)
	for i := range opts.Servers {
		b.front.servers = append(b.front.servers, b.newBehind(i, schemes))
	}
	if len(opts.Servers) == 1 {
		seen.only = b.front.servers[0].Server
	}
	b.guard = guard{approve: (*calls.Approval)(opts.Approve), tools: (*names.Choice)(&b.opts.Tools), log: b.log,
		servers: b.front.servers, catalog: seen, early: b.front.early}
	if err := b.passEvents(); err != nil {
		return nil, err
	}
	raw.Around(b.server, b.front.receiving)
	return b, nil
}

// newBehind returns one of the servers, which is not connected yet.
func (b *Bridge) newBehind(i int, schemes []names.Scheme) *behind {
	s, tasks := b.opts.Servers[i], b.opts.Server.Tasks
	u := &behind{Server: calls.NewServer(s.Identity), Name: s.Name, index: i, scheme: schemes[i], catalog: b.front.catalog,
		front: b.server, store: tasks.Store, approval: (*calls.Approval)(b.opts.Approve)}
	u.lists.poke, u.lists.lost = make(chan struct{}, 1), make(chan struct{}, 1)
	u.reviewed = func(ctx context.Context) {
		if b.front.early.isOver() { // before that, others are still read
			b.guard.review(ctx)
		}
	}
	for j := range schemes {
		if j != i {
			u.others = append(u.others, schemes[j].Before())
		}
	}
	u.relay = relay{mcp: b.mcp, name: s.Name, offers: func(uri string) bool { return u.catalog.ofURI(uri) == u.Server }}
	u.Rules, u.Named = b.rules, cmp.Or(s.Name, s.Identity)
	u.Title, u.Guard, u.Log = cmp.Or(s.Name, "the server behind the bridge"), &b.guard, b.log
	u.MostKept = int(cmp.Or(tasks.TaskBytes, 16<<20) / 4)
	u.Conn = upstream.New(upstream.Options{
		Connect: s.Connect, Version: s.Version, Several: len(schemes) > 1,
		Changed: u.lists.changed, Lost: func() { signal(u.lists.lost) },
		Client: client.Options{
			Implementation: b.opts.Implementation,
			Limits:         client.Limits{MessageBytes: b.opts.MessageBytes, Rounds: mostPages, CallTTL: rounds.AtRest},
			SDK: mcp.ClientOptions{
				Logger: b.log, ResourceUpdatedHandler: u.relay.resourceUpdated, LoggingMessageHandler: u.relay.logged,
			},
		},
	})
	u.relay.life = u.Conn.Life
	u.sessions = legacy.New(legacy.Options{Conn: u.Conn, Most: b.opts.Sessions, Apart: s.SessionPerCall,
		Instance: b.instance, Lease: cmp.Or(tasks.Lease, 10*time.Second), Times: times})
	u.Legacy, u.Rounds = u.sessions, &rounds.Rounds{Keys: b.opts.Server.Keys, Send: u.sessions.Send}
	return u
}

// times are other ones in tests.
var times legacy.Times

// listOthers has all other servers listed again.
func (b *Bridge) listOthers(than *calls.Server) {
	for _, u := range b.front.servers {
		if u.Server != than {
			u.lists.changed()
		}
	}
}

// Ready returns an error before Start has returned, while no call is passed on because no tool matches the patterns of
// Approval.Tools, and the errors of askback.Server.Ready.
func (b *Bridge) Ready(ctx context.Context) error {
	if !b.front.early.isOver() {
		return errors.New("bridge: the servers behind have not said yet what they offer")
	}
	if reason := b.guard.refusal.Load(); reason != nil && !b.guard.proven.Load() {
		return fmt.Errorf("bridge: %s", *reason)
	}
	return b.server.Ready(ctx)
}

// Start connects to the servers, and offers what they offer. It returns when those that are there have said it: one
// must be there, and others may come later. It is called once, and before the tasks of the bridge are run.
func (b *Bridge) Start(ctx context.Context) error {
	defer b.front.early.over()
	if err := b.connect(ctx); err != nil {
		reason := "its servers did not start"
		b.guard.refusal.Store(&reason)
		return err
	}
	b.guard.review(ctx)
	for _, u := range b.front.servers {
		if u.missing != nil {
			b.log.ErrorContext(ctx, "bridge: a server is missing; its tools appear when it is there", "server", u.Title,
				"error", u.missing)
		}
		if u.unlisted != nil {
			b.log.ErrorContext(ctx, "bridge: a list of a server cannot be read; it is tried again", "server", u.Title,
				"error", u.unlisted)
		}
		u.follow()
	}
	return nil
}

// connect begins with all servers at once. A server that fails is missing from then on. Without any there is no bridge.
func (b *Bridge) connect(ctx context.Context) error {
	if len(b.front.servers) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cmp.Or(b.opts.Start, 15*time.Second))
		defer cancel()
	}
	var all sync.WaitGroup
	for _, u := range b.front.servers {
		all.Go(func() { u.missing = u.begin(ctx) })
	}
	all.Wait()
	var failed []error
	for _, u := range b.front.servers {
		if u.missing != nil {
			failed = append(failed, fmt.Errorf("%s: %w", u.Title, u.missing))
		}
	}
	if len(failed) == len(b.front.servers) {
		return errors.Join(failed...)
	}
	return nil
}

// Server returns the bridge's own server. Its tasks are run by its RunTasks.
func (b *Bridge) Server() *askback.Server { return b.server }

// Close ends the connections to the servers behind, after Start has returned.
func (b *Bridge) Close() error {
	b.front.early.over()
	failed := make([]error, len(b.front.servers))
	var all sync.WaitGroup
	for i, u := range b.front.servers {
		all.Go(func() {
			u.lists.stop()
			u.sessions.Close()
			failed[i] = u.Conn.Close()
		})
	}
	all.Wait()
	return errors.Join(failed...)
}
