package sdkfront

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/tasks"
	"github.com/askback-mcp/askback/internal/wire"
)

// Transport returns t with what the protocol and our handlers need beyond the SDK's: lines
// that are no messages are answered, parameters are exact, tasks are subscribed to. Stopped is done when the server
// ends the connection. End ends the waits of its requests, when the input of lines has ended. Both may be nil.
func (f *Front) Transport(t mcp.Transport, stopped <-chan struct{}, end func()) mcp.Transport {
	return &transport{lines(t, f.Calls.Limits, stopped, end), f}
}

type transport struct {
	mcp.Transport
	front *Front
}

func (t *transport) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &connection{Connection: conn, front: t.front, open: make(map[jsonrpc.ID]*subscription)}
	c.life, c.end = context.WithCancel(context.WithoutCancel(ctx))
	return c, nil
}

type connection struct {
	mcp.Connection
	front *Front

	life context.Context // until the connection is closed
	end  context.CancelFunc
	all  sync.WaitGroup // goroutines that send notifications

	announced atomic.Int32

	mu   sync.Mutex
	open map[jsonrpc.ID]*subscription // the subscriptions that are served here
}

func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := c.Connection.Read(ctx)
		if err != nil {
			return msg, err
		}
		switch m := msg.(type) {
		case *jsonrpc.Response:
			if fault := c.strict(m.Result); fault != nil {
				return &jsonrpc.Response{ID: m.ID, Error: fault}, nil // what was asked fails
			}
		case *jsonrpc.Request:
			if fault := c.strict(m.Params); fault != nil {
				if m.IsCall() {
					c.refuse(ctx, m.ID, fault)
				}
				continue
			}
			if fault := unspoken(m); fault != nil {
				c.refuse(ctx, m.ID, fault)
				continue
			}
			switch m.Method {
			case tasks.MethodListen:
				if !c.listen(ctx, m) {
					continue
				}
			case wire.StreamEvents:
				if !c.stream(ctx, m) {
					continue
				}
			case "notifications/cancelled":
				c.cancelled(m.Params)
			}
			return c.carryParams(m), nil
		}
		return msg, nil
	}
}

// unspoken returns the error for a request that names a revision in its _meta which this server does not know, where
// the SDK would serve it.
func unspoken(req *jsonrpc.Request) *jsonrpc.Error {
	if !req.IsCall() {
		return nil
	}
	meta := strictjson.Get(req.Params, "_meta")
	version, ok := strictjson.String(strictjson.Get(meta, mcp.MetaKeyProtocolVersion))
	if known := mcp.SupportedProtocolVersions(); ok && !slices.Contains(known, version) {
		return wire.UnsupportedVersion(version, known)
	}
	return nil
}

// strict checks the params or the result of a message, like a member of an HTTP request's body.
func (c *connection) strict(member []byte) *jsonrpc.Error {
	if len(member) == 0 {
		return nil
	}
	if err := strictjson.Check(member, c.front.Calls.Limits.Depth-1); err != nil {
		return wire.Errorf(jsonrpc.CodeParseError, "parse error: %v", err)
	}
	return nil
}

// carryParams lets the exact parameters of a request for one of our handlers travel with it.
func (c *connection) carryParams(req *jsonrpc.Request) *jsonrpc.Request {
	if wire.MayAsk(req.Method) && c.front.Serves(c.life, req.Method, req.Params) {
		req.Params = Carry(req.Params, nil)
	}
	return req
}
