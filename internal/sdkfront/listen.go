package sdkfront

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/fault"
	"github.com/askback-mcp/askback/internal/gate"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
)

const (
	listensPerConn   = 16 // subscriptions on a connection of whole messages, with streams of events
	announcedPerConn = 64 // tasks that one session is told of unasked
)

// subscription is a subscription to tasks or the types of events, or a stream of events, on a connection of whole
// messages.
type subscription struct {
	*tasks.Listening
	c      *connection
	ctx    context.Context
	cancel context.CancelFunc

	ended    bool            // all its tasks have
	response jsonrpc.Message // of the SDK, which waits for that
}

// Listen begins a subscription of [tasks.ListensHere], if the gate lets its caller through. A panic becomes an error,
// so that the subscription gives back its shares.
func (f *Front) Listen(ctx context.Context, id, params []byte,
	extra *mcp.RequestExtra) (l *tasks.Listening, err error) {
	panicked := fault.Safely(func() error {
		l, err = f.passListen(ctx, id, params, extra)
		return nil
	})
	if panicked != nil {
		return nil, logPanic(ctx, f.Log, tasks.MethodListen, panicked)
	}
	return l, err
}

func (f *Front) passListen(
	ctx context.Context, id, params []byte, extra *mcp.RequestExtra,
) (l *tasks.Listening, err error) {
	meta, _ := wire.ParseMeta(strictjson.Get(params, "_meta"))
	from := gate.Origin{ID: id, Version: meta.Version, Transport: transportOf(extra), Meta: &meta}
	err = f.Gate.Pass(ctx, gate.Access{Method: tasks.MethodListen, Extra: extra}, from, nil,
		func(ctx context.Context, p gate.Passage) (err error) {
			l, err = f.Tasks.Listen(ctx, p.Principal, id, params)
			return err
		})
	f.requestOf(ctx).refuse(err)
	if err == nil && f.watched() {
		l.Others = true // which the SDK answers: its middleware sees the request
	}
	return l, err
}

// watched reports whether there is middleware besides our own.
func (f *Front) watched() bool { return f.chained.Load() || !f.direct() }

// listen takes over a subscription of [tasks.ListensHere]. It reports whether the SDK is to see the request, too.
func (c *connection) listen(ctx context.Context, req *jsonrpc.Request) (pass bool) {
	if c.front.Tasks == nil || !tasks.ListensHere(req.Params) {
		return true
	}
	id, err := json.Marshal(req.ID.Raw())
	if err != nil {
		return true
	}
	extra, _ := req.Extra.(*mcp.RequestExtra)
	own := c.reserve(ctx, req)
	if own == nil {
		return false
	}
	prepare := func() bool {
		l, err := c.front.Listen(own.ctx, id, req.Params, extra)
		if err != nil {
			c.unlisten(req.ID)
			c.refuse(c.life, req.ID, fault.Wire(err))
			return false
		}
		c.mu.Lock() // answers of all kinds look at it
		defer c.mu.Unlock()
		own.Listening = l
		return true
	}
	if tasks.OnlyHere(req.Params) && !c.front.watched() {
		c.start(func() { // looking the tasks up must not hold up other requests
			defer c.unlisten(req.ID)
			if !prepare() || c.notify(own.ctx, tasks.MethodAcknowledged, own.Acknowledge(nil)) != nil {
				return
			}
			if c.follow(own) == nil {
				_ = c.Connection.Write(own.ctx, &jsonrpc.Response{ID: req.ID, Result: c.front.Tasks.Result(own.Listening)})
			}
			c.endExpired(req.ID, own)
		})
		return false
	}
	return prepare() // it goes on when the SDK acknowledges
}

// reserve begins a subscription. If there are too many, it has refused the request.
func (c *connection) reserve(ctx context.Context, req *jsonrpc.Request) *subscription {
	own := &subscription{c: c}
	extra, _ := req.Extra.(*mcp.RequestExtra)
	own.ctx, own.cancel = gate.WhileTokenLasts(c.life, extra)
	c.mu.Lock()
	full := len(c.open) >= listensPerConn || c.open[req.ID] != nil
	if !full {
		c.open[req.ID] = own
	}
	c.mu.Unlock()
	if full {
		own.cancel()
		c.refuse(ctx, req.ID, wire.Errorf(jsonrpc.CodeInvalidRequest, "too many subscriptions: one connection may have %d "+
			"to events, or each to up to %d tasks", listensPerConn, tasks.PerListen))
		return nil
	}
	return own
}

func (c *connection) refuse(ctx context.Context, id jsonrpc.ID, fault *jsonrpc.Error) {
	_ = c.Connection.Write(ctx, &jsonrpc.Response{ID: id, Error: fault}) // the connection's end is noticed reading
}

func (c *connection) follow(l *subscription) error {
	return c.front.Tasks.Follow(l.ctx, l.Listening, l.Notify)
}

// endExpired ends a subscription whose caller's token has expired.
func (c *connection) endExpired(id jsonrpc.ID, l *subscription) {
	if cause := context.Cause(l.ctx); fault.Of(cause) == fault.Unavailable {
		c.refuse(c.life, id, fault.Wire(cause))
		c.unlisten(id)
	}
}

func (c *connection) notify(ctx context.Context, method string, params []byte) error {
	return c.Connection.Write(ctx, &jsonrpc.Request{Method: method, Params: params})
}

// unlisten ends a subscription's part that is about tasks.
func (c *connection) unlisten(id jsonrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.open[id]; l != nil {
		l.cancel()
		delete(c.open, id)
	}
}

// cancelled ends the subscription that a notification of that name is about.
func (c *connection) cancelled(params []byte) {
	var raw any
	if json.Unmarshal(strictjson.Get(params, "requestId"), &raw) != nil {
		return
	}
	if id, err := jsonrpc.MakeID(raw); err == nil {
		c.unlisten(id)
	}
}

// Write adds the tasks to the SDK's acknowledgment of a subscription, and ends them with it.
func (c *connection) Write(ctx context.Context, msg jsonrpc.Message) error {
	switch m := msg.(type) {
	case *jsonrpc.Response:
		if c.holdResponse(m) {
			return nil
		}
		c.unlisten(m.ID)
		if err := c.Connection.Write(ctx, msg); err != nil {
			return err
		}
		c.announce(ctx, m)
		return nil
	case *jsonrpc.Request:
		if m.Method != tasks.MethodAcknowledged {
			break
		}
		var params struct {
			Notifications json.RawMessage `json:"notifications"`
			Meta          map[string]any  `json:"_meta"`
		}
		if json.Unmarshal(m.Params, &params) != nil {
			break
		}
		id, err := jsonrpc.MakeID(params.Meta[mcp.MetaKeySubscriptionID])
		c.mu.Lock()
		l := c.open[id]
		ours := err == nil && l != nil && l.Listening != nil
		c.mu.Unlock()
		if !ours {
			break
		}
		if err := c.notify(ctx, tasks.MethodAcknowledged, l.Acknowledge(params.Notifications)); err != nil {
			return err
		}
		c.start(func() {
			if c.follow(l) != nil {
				c.endExpired(id, l)
				return
			}
			c.mu.Lock()
			l.ended = true
			response := l.response
			c.mu.Unlock()
			if response != nil {
				_ = c.Write(c.life, response) // which ends the subscription's own context
			}
		})
		return nil
	}
	return c.Connection.Write(ctx, msg)
}

// holdResponse holds back the SDK's answer to a subscription whose tasks have not ended, as when it agreed to nothing
// else.
func (c *connection) holdResponse(res *jsonrpc.Response) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.open[res.ID]
	if l == nil || l.Listening == nil || !l.Others || l.ended || res.Error != nil {
		return false
	}
	l.response = res
	return true
}

// announce tells the client of a session before 2026-07-28, unasked, how the task stands
// that its call became (2025-11-25, "Task Status Notification").
func (c *connection) announce(ctx context.Context, res *jsonrpc.Response) {
	created := strictjson.Get(res.Result, "task")
	id, ok := strictjson.String(strictjson.Get(created, "taskId"))
	if !ok || c.front.Tasks == nil || strictjson.Get(res.Result, "_meta") != nil { // a modern result says who answers
		return
	}
	if c.announced.Add(1) > announcedPerConn { // nobody may rely on being told
		c.announced.Add(-1)
		return
	}
	c.start(func() {
		defer c.announced.Add(-1)
		_ = c.front.Tasks.Announce(c.life, id,
			func(params []byte) error { return c.notify(c.life, tasks.MethodStatus, params) })
	})
}

// start runs f in a goroutine for which Close waits, unless the connection is closed.
func (c *connection) start(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() == nil {
		c.all.Go(f)
	}
}

func (c *connection) Close() error {
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	err := c.Connection.Close()
	c.all.Wait()
	return err
}
