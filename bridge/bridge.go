// Package bridge puts a server made with this library in front of MCP servers that ask, so that their calls survive a
// restart and their questions reach people who do not sit in front of the host.
//
// The tools of the bridge are the tools of the servers behind it. Each handler is a loop over the rounds of one call:
//
//	host ──▶ askback.Server ──▶ tool.go: one round ──▶ server.go: client.Session.Send ──▶ a server behind
//	                            ask.go: its questions, each as an ask
//	                            record.go: what the journal keeps of a round
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
	"github.com/askback-mcp/askback/internal/raw"
	"github.com/askback-mcp/askback/seal"
)

// Options configure a [Bridge].
type Options struct {
	// Implementation says who the bridge is, to hosts and to the servers behind.
	Implementation *mcp.Implementation

	// Server are the options of the bridge's own server. Keys are required: they also seal what is kept of the state of
	// the servers behind. Tasks and Desk are required, too: calls wait there.
	Server askback.Options

	// Servers are the servers behind, at least one. Of resources with one URI, the first server's is offered.
	Servers []Server

	// Start is how long the bridge waits for a server that is one of several. Zero means 15 seconds. A server that is not
	// there by then is tried again, and its tools appear later.
	Start time.Duration

	// Lists is how long a host's list waits for servers that start, from New on. Zero means 5 seconds. The list is then
	// without what these servers offer, and the host is told when that has changed.
	Lists time.Duration

	// Sessions bounds, for each server before 2026-07-28, the sessions of callers, besides the one for its lists. Zero
	// means 32. Every caller has a share of them.
	Sessions int

	// MessageBytes bounds one message of a server behind, in bytes. Zero means 16 MiB.
	MessageBytes int64

	// SDKLogger receives what the SDK's server logs. Nil means nothing.
	SDKLogger *slog.Logger

	// Tools says which tools of all servers are offered.
	Tools Choice

	// Approve says which calls a person approves before they are passed on, or is nil.
	Approve *Approval
}

// Server is a server behind a bridge.
type Server struct {
	// Name names the server to people, and in logs. Empty means the name that it has given itself.
	Name string

	// Prefix stands before the names of the server's tools and prompts. An underscore follows it, unless it ends with one,
	// a hyphen or a dot. Empty means that they keep their names.
	Prefix string

	// Tools says which tools of this server are offered.
	Tools Choice

	// NameLength bounds the names that hosts see, in bytes: some hosts take 64. Zero means 128. A name that is cut ends
	// with a digest.
	NameLength int

	// Identity tells the server from any other, such as its address or its command line. Stored calls belong to it, and
	// a server with another identity does not get them.
	Identity string

	// Connect returns a transport to the server. It is called again after its connection has ended, and for
	// each further session with a server before 2026-07-28.
	Connect func() (mcp.Transport, error)

	// Version is the revision of the protocol to speak with the server. Empty means the newest that both know. Some
	// libraries speak 2026-07-28 with handlers that can ask only inside their open calls, as before it.
	Version string

	// SessionPerCall gives each call of a tool at a server before 2026-07-28 a session of its own, and a program one
	// process for each, in place of one session for everything that its caller does. Then calls that ask do not wait for
	// each other.
	SessionPerCall bool
}

// Bridge is a server in front of others. It is safe for concurrent use.
type Bridge struct {
	opts    Options
	keys    *seal.Ring
	log     *slog.Logger
	mcp     *mcp.Server
	server  *askback.Server
	servers []*upstream
	tools   *shelf
	prompts *shelf
	owners  owners
	guard   guard
	early   *early
	// instance tells the processes of a fleet apart.
	instance string
}

// New returns a bridge, which answers hosts from then on. Start connects it to the servers behind. Close ends the
// connections.
func New(opts *Options) (*Bridge, error) {
	b := &Bridge{opts: *opts, keys: opts.Server.Keys, log: cmp.Or(opts.Server.Logger, slog.Default()),
		instance: rand.Text()}
	if b.keys == nil || opts.Server.Tasks == nil || opts.Server.Desk == nil {
		return nil, errors.New("bridge: Options.Server needs Keys, Tasks and Desk")
	}
	if len(opts.Servers) == 0 {
		return nil, errors.New("bridge: there is no server to stand in front of")
	}
	for _, s := range opts.Servers {
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("bridge: the server %q: %w", s.Name, err)
		}
	}
	b.mcp = mcp.NewServer(b.opts.Implementation, b.serverOptions())
	var err error
	if b.server, err = askback.New(b.mcp, &b.opts.Server); err != nil {
		return nil, err
	}
	askback.AddResultTool(b.server)
	b.tools = newShelf(kindTool, b.mcp.RemoveTools)
	b.prompts = newShelf(kindPrompt, b.server.RemovePrompts)
	for i, s := range opts.Servers {
		b.servers = append(b.servers, newUpstream(b, i, s))
	}
	b.early = newEarly(opts.Lists)
	raw.Around(b.server, b.receiving)
	return b, nil
}

// Start connects to the servers, and offers what they offer. It returns when those that are there have said it: one
// must be there, and others may come later. It is called once, and before the tasks of the bridge are run.
func (b *Bridge) Start(ctx context.Context) error {
	defer b.early.over()
	if err := b.connect(ctx); err != nil {
		reason := "its servers did not start"
		b.guard.refusal.Store(&reason)
		return err
	}
	b.review(ctx)
	for _, u := range b.servers {
		if u.missing != nil {
			b.log.ErrorContext(ctx, "bridge: a server is missing; its tools appear when it is there", "server", u.title,
				"error", u.missing)
		}
		if u.unlisted != nil {
			b.log.ErrorContext(ctx, "bridge: a list of a server cannot be read; it is tried again", "server", u.title,
				"error", u.unlisted)
		}
		u.follow()
	}
	return nil
}

// connect begins with all servers at once. A server that fails is missing from then on. Without any there is no bridge.
func (b *Bridge) connect(ctx context.Context) error {
	if len(b.servers) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, cmp.Or(b.opts.Start, 15*time.Second))
		defer cancel()
	}
	var all sync.WaitGroup
	for _, u := range b.servers {
		all.Go(func() { u.missing = u.begin(ctx) })
	}
	all.Wait()
	var failed []error
	for _, u := range b.servers {
		if u.missing != nil {
			failed = append(failed, fmt.Errorf("%s: %w", u.title, u.missing))
		}
	}
	if len(failed) == len(b.servers) {
		return errors.Join(failed...)
	}
	return nil
}

// Server returns the bridge's own server. Its tasks are run by its RunTasks.
func (b *Bridge) Server() *askback.Server { return b.server }

// Close ends the connections to the servers behind, after Start has returned.
func (b *Bridge) Close() error {
	b.early.over()
	failed := make([]error, len(b.servers))
	var all sync.WaitGroup
	for i, u := range b.servers {
		all.Go(func() {
			u.lists.stop()
			failed[i] = u.behind.close()
		})
	}
	all.Wait()
	return errors.Join(failed...)
}
