package tap

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

type connection struct {
	mcp.Connection
	config *Config
	asked  *unanswered

	mu   sync.Mutex
	open map[jsonrpc.ID]request
}

// request is a request that waits for its response.
type request struct {
	*Exchange
	forget func() bool // releases the request's context
}

// close removes an open request and returns it, or nil.
func (c *connection) close(id jsonrpc.ID) *Exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.open[id]
	if !ok {
		return nil
	}
	delete(c.open, id)
	r.forget()
	return r.Exchange
}

func (c *connection) Write(ctx context.Context, msg jsonrpc.Message) error {
	req, ok := msg.(*jsonrpc.Request)
	x := ExchangeOf(ctx)
	if x != nil && ok && req.Method == methodCancelled {
		if x.Hello != nil { // The probe took too long. It leaves no trace.
			return nil
		}
		defer x.markCancelled()
	}
	if answer, ok := msg.(*jsonrpc.Response); ok {
		defer c.asked.remove(answer.ID)
		if fault, ok := errors.AsType[*jsonrpc.Error](answer.Error); ok && fault.Code == NoResponse.Code {
			return nil
		}
		ctx, cancel := c.config.answering(ctx)
		defer cancel()
		return c.write(ctx, msg)
	}
	if !ok || !req.IsCall() || x == nil || !x.sends(req.Method) {
		return c.write(ctx, msg)
	}
	params, err := x.Inject(req.Params)
	if err != nil {
		return err
	}
	tapped := *req
	tapped.Method, tapped.Params = cmp.Or(x.Method, req.Method), params
	if id, err := json.Marshal(req.ID.Raw()); err == nil {
		x.setRequestID(id)
	}
	c.mu.Lock()
	c.open[req.ID] = request{x, context.AfterFunc(ctx, func() { c.close(req.ID) })}
	c.mu.Unlock()
	if x.Delivery.Once = x.Method == "" && x.Hello == nil; x.Delivery.Once {
		ctx = x.Delivery.Context(ctx)
	}
	err = c.deliver(ctx, &tapped, &x.Delivery)
	if err != nil {
		c.close(req.ID)
	}
	return err
}

// deliver writes a request. A transport that counts its bytes says also that it has written none.
func (c *connection) deliver(ctx context.Context, msg jsonrpc.Message, d *Delivery) error {
	counter, counts := c.Connection.(interface{ Written() int64 })
	before := int64(-1)
	if counts {
		before = counter.Written()
	}
	d.set(true) // and an HTTP transport below knows more
	err := c.write(ctx, msg)
	whole := ctx.Err() == nil && c.config.Life.Err() == nil // else the write may still go on
	if err != nil && whole && counts && counter.Written() == before {
		d.set(false)
	}
	return err
}

// write writes a message for as long as its context and the session last. The SDK would wait for a program that does
// not read its input.
func (c *connection) write(ctx context.Context, msg jsonrpc.Message) error {
	written := make(chan error, 1)
	go func() { written <- c.Connection.Write(ctx, msg) }() // ends with the connection at the latest
	select {
	case err := <-written:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-c.config.Life.Done():
		return mcp.ErrConnectionClosed
	}
}

func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	for err == nil && c.notified(msg) {
		msg, err = c.Connection.Read(ctx)
	}
	if err != nil {
		c.fail(c.reason(err))
		return nil, err
	}
	if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
		if err := c.asked.add(req.ID, len(req.Params)); err != nil {
			c.fail(err)
			return nil, err
		}
		shown := *req
		shown.Params = shielded(req.Method, req.Params, c.config.Depth)
		return &shown, nil
	}
	res, ok := msg.(*jsonrpc.Response)
	if !ok {
		return msg, nil
	}
	x := c.close(res.ID)
	if x == nil {
		return msg, nil
	}
	if res.Error != nil {
		fault, ok := errors.AsType[*jsonrpc.Error](res.Error)
		switch {
		case ok && fault.Code == wire.CodeTooLong:
			_ = x.fail(c.config.bound())
		case ok:
			x.answer(fault)
		}
		return msg, nil
	}
	shown := *res
	if shown.Result, err = x.take(res.Result, c.config); err != nil {
		shown.Error = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: x.fail(err).Error()}
	}
	return &shown, nil
}

// notified passes a notification about tasks or events to the request that subscribed to it, and reports whether the
// message was one. The notification carries that request's id, because all subscriptions share the connection.
func (c *connection) notified(msg jsonrpc.Message) bool {
	req, ok := msg.(*jsonrpc.Request)
	if !ok || req.IsCall() || req.Method != MethodTask && req.Method != MethodAcknowledged &&
		!strings.HasPrefix(req.Method, wire.EventNotifications) {
		return false
	}
	if int64(len(req.Params)) > c.config.MessageBytes || strictjson.Check(req.Params, c.config.Depth) != nil {
		return req.Method != MethodAcknowledged
	}
	var subscription any
	_ = json.Unmarshal(strictjson.Get(strictjson.Get(req.Params, "_meta"), mcp.MetaKeySubscriptionID), &subscription)
	id, err := jsonrpc.MakeID(subscription)
	c.mu.Lock()
	x := c.open[id].Exchange
	c.mu.Unlock()
	if err == nil && x != nil && x.Notify != nil {
		x.Notify(req.Method, req.Params)
		return true
	}
	return req.Method != MethodAcknowledged
}

// reason returns why nothing more can be read, or nil if the server has just ended.
func (c *connection) reason(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, context.Canceled):
		return nil
	case strings.Contains(err.Error(), "maximum line length"): // the SDK has no type for it
		return c.config.tooLarge(mcp.DefaultMaxLineLength)
	}
	return c.config.Broken(fmt.Sprintf("its message cannot be read: %v", err))
}

// fail closes the open requests. It tells them the reason, unless that is nil.
func (c *connection) fail(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.open {
		r.forget()
		if reason != nil {
			_ = r.fail(reason)
		}
	}
	clear(c.open)
}
