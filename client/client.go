// Package client is the client's side of tools that ask back: it calls a server's tools, prompts and resources,
// answers what they ask, and drives the rounds to the end.
//
//	c := client.New(&client.Options{
//		Form: func(ctx context.Context, q *client.Question) (*mcp.ElicitResult, error) {
//			return askTheUser(ctx, q) // q.Server asks q.Message, q.Schema
//		},
//	})
//	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url}, nil)
//	…
//	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "close_bug", Arguments: args})
//
// It stands on the client and the transports of the official Go SDK, and speaks to servers of every revision: from
// 2026-07-28 on by Multi Round-Trip Requests, and before that inside their session. Over HTTP the calls by rounds go
// past the SDK's client, which costs several times more. A client declares the capabilities that it has handlers for,
// and refuses to answer anything else.
//
// A handler that has no answer at hand returns [ErrPark]. The call then ends with a [*PendingError], whose [Pending]
// can be stored as JSON. Another process, on another machine, a day later, continues it with [Session.Resume].
//
// A server may make a call a task, which runs by itself and may outlive everybody who
// waits for it. [Session.CallTool] waits for it. [Session.StartTask] returns it, and its ID
// is all that the other methods for tasks need.
//
// Servers are not trusted: rounds, questions, message sizes, pauses and the time of a
// whole call are bounded by [Limits].
package client

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client/internal/streamable"
	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/wire"
)

// Client makes connections that share their handlers. It is safe for concurrent use.
type Client struct {
	opts   Options
	sdk    *mcp.Client
	inline inlineSessions
	older  olderEndpoints
}

// New returns a client. Nil options are the zero Options: a client that answers nothing.
func New(opts *Options) *Client {
	c := &Client{opts: *cmp.Or(opts, new(Options))}
	c.opts.Limits.setDefaults()
	c.inline.opts = &c.opts
	sdk := c.opts.SDK
	sdk.MultiRoundTrip = &mcp.MultiRoundTripOptions{Disabled: true}
	sdk.Capabilities = c.opts.capabilities()
	sdk.ElicitationHandler, sdk.CreateMessageHandler, sdk.CreateMessageWithToolsHandler = nil, nil, nil
	c.sdk = mcp.NewClient(c.opts.implementation(), &sdk)
	c.sdk.AddReceivingMiddleware(c.inline.answer)
	c.sdk.AddSendingMiddleware(probe, hideExtensions, c.inline.learnHeaders)
	if err := mcp.AddSendingCustomMethod[*taskParams, *rawResult](c.sdk, tap.CustomMethod); err != nil {
		panic(err) // the SDK has a method of this name
	}
	return c
}

// hideExtensions declares no extension of 2026-07-28 in sessions of earlier revisions.
func hideExtensions(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if params, ok := req.GetParams().(*mcp.InitializeParams); ok && params.Capabilities != nil {
			caps := *params.Capabilities
			caps.Extensions = nil
			params.Capabilities = &caps
		}
		return next(ctx, method, req)
	}
}

// Connect connects over a transport of the SDK, such as mcp.StreamableClientTransport
// or mcp.CommandTransport. Nil options choose the newest revision that both sides speak.
// Over the SDK's HTTP transports, also in a mcp.LoggingTransport, everything goes to the
// origin of the Endpoint: a redirect to another scheme, host or port fails the request. One
// within the origin is followed if it keeps the method, as 307 and 308 do. Calls go at once
// where the redirect led before: a call that is redirected fails, because it may have run.
// A server that answers 429 or 5xx, or refuses connections, is asked again for up to 20
// seconds. The client remembers endpoints that do not speak 2026-07-28.
// (basic/versioning, "Backward Compatibility")
func (c *Client) Connect(ctx context.Context, t mcp.Transport, opts *mcp.ClientSessionOptions) (*Session, error) {
	web, ok := t.(*mcp.StreamableClientTransport)
	if !ok || opts != nil && opts.ProtocolVersion != "" {
		return c.connect(ctx, t, opts)
	}
	if c.older.has(web.Endpoint) {
		s, err := c.connect(ctx, t, &mcp.ClientSessionOptions{ProtocolVersion: sessionVersions[0]})
		if err == nil || ctx.Err() != nil {
			return s, err
		}
		c.older.set(web.Endpoint, false)
	}
	s, err := c.connect(ctx, t, opts)
	c.older.set(web.Endpoint, err == nil && s.legacy() && s.probed)
	return s, err
}

func (c *Client) connect(ctx context.Context, t mcp.Transport, opts *mcp.ClientSessionOptions) (*Session, error) {
	s := &Session{opts: &c.opts}
	t, err := atOrigin(t)
	if err != nil {
		return nil, fmt.Errorf("connecting: %w", err)
	}
	web, _ := t.(*mcp.StreamableClientTransport)
	if web != nil {
		s.endpoint = web.Endpoint
		if web.OAuthHandler != nil {
			once := &authorizeOnce{OAuthHandler: web.OAuthHandler}
			defer once.connected.Store(true)
			web.OAuthHandler = once
		}
	}
	observed, authorized := observedOf(t)
	wired, cut := context.WithCancel(context.Background())
	connecting := context.AfterFunc(ctx, func() { time.AfterFunc(closeTime, cut) })
	config := tap.Config{
		MessageBytes: c.opts.Limits.MessageBytes,
		Depth:        c.opts.Limits.Depth,
		Questions:    c.opts.Limits.Questions,
		Unanswered:   unanswered,
		Limit:        func(limit string, most int64) error { return &LimitError{limit, most} },
		Broken:       func(reason string) error { return &ProtocolError{reason} },
		Life:         wired,
		Echo:         c.opts.Drafts,
	}
	hello := &tap.Hello{Web: web != nil}
	begins := &tap.Exchange{Hello: hello}
	if s.sdk, err = c.sdk.Connect(begins.Context(ctx), tap.Transport(t, config), opts); err != nil {
		connecting()
		cut()
		return nil, fmt.Errorf("connecting: %w", hello.Refusal(err))
	}
	if !connecting() {
		cut()
		_ = s.sdk.Close() // the context's end is the reason
		return nil, fmt.Errorf("connecting: %w", context.Cause(ctx))
	}
	if authorized {
		observed.session = s.sdk.ID()
	}
	s.cut, s.observer = cut, observer{c.opts.Observe, s.sdk, observed}
	initialized, _ := begins.Result() // nil if the session began without that request
	s.takes, s.probed = takesTasks(initialized), !hello.Spent()
	s.inline = c.inline.of(s.sdk)
	s.inline.web.Store(web != nil)
	s.forget = func() { c.inline.states.Delete(s.sdk) }
	s.life, s.end = context.WithCancelCause(context.WithoutCancel(ctx))
	if res := s.sdk.InitializeResult(); web != nil && res != nil && res.ProtocolVersion == wire.Version {
		s.direct = newDirect(&streamable.Endpoint{
			URL: web.Endpoint, Client: web.HTTPClient, OAuth: web.OAuthHandler, Life: s.life, Config: config,
		}, s.opts, s.inline, func(method string, params []byte) { c.inline.notify(s.life, s.sdk, method, params) })
	}
	return s, nil
}
