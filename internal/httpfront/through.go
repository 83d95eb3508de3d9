package httpfront

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/call"
	"github.com/askback-mcp/askback/internal/sdkfront"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// throughSDK serves a request by the SDK's server: one for our handlers or tasks that its middleware has to see, or a
// subscription. The session of the request is its own, and ends with it.
func throughSDK(
	ctx context.Context, sdk *sdkfront.Front, v *visit, req wire.Request,
) (*call.Outcome, error) {
	var rawID any
	_ = json.Unmarshal(req.ID, &rawID) // checked JSON
	id, err := jsonrpc.MakeID(rawID)
	if err != nil {
		return nil, err
	}
	c := &connection{
		id:       req.ID,
		request:  make(chan *jsonrpc.Request, 1),
		response: make(chan *jsonrpc.Response, 1),
		closed:   make(chan struct{}),
		gone:     ctx.Done(),
		stream:   &v.stream,
	}
	c.request <- &jsonrpc.Request{ID: id, Method: req.Method, Params: req.Params, Extra: &v.extra}
	ctx, refusal := sdkfront.WithOrigin(ctx)
	session, err := sdk.Server.Connect(ctx, sdk.Transport(c, nil, nil), nil)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	select {
	case res := <-c.response:
		if refused := refusal(); refused != nil {
			return nil, refused
		}
		if res.Error != nil {
			return nil, res.Error
		}
		return &call.Outcome{Encoded: withIsError(req.Method, res.Result)}, nil
	case <-ctx.Done(): // of which the handler is told, if it runs: nobody knows here
		v.ran.Store(true)
		return nil, context.Cause(ctx)
	}
}

// withIsError adds to a tool's result what the SDK leaves out and the specification's examples have.
func withIsError(method string, result []byte) []byte {
	kind, _ := strictjson.String(strictjson.Get(result, "resultType"))
	if method != wire.CallTool || kind != "complete" || strictjson.Get(result, "isError") != nil {
		return result
	}
	return slices.Concat([]byte(`{"isError":false,`), result[1:])
}

// connection is the client's end of a session with one request. It implements [mcp.Transport], too.
type connection struct {
	id       []byte // of the request
	request  chan *jsonrpc.Request
	response chan *jsonrpc.Response
	gone     <-chan struct{} // the client is, which cancels the request
	stream   *eventStream

	close  sync.Once
	closed chan struct{}
}

func (c *connection) Connect(context.Context) (mcp.Connection, error) { return c, nil }
func (c *connection) SessionID() string                               { return "" }

func (c *connection) Read(context.Context) (jsonrpc.Message, error) {
	select {
	case req := <-c.request:
		return req, nil
	case <-c.gone:
		c.gone = nil
		return &jsonrpc.Request{Method: "notifications/cancelled", Params: fmt.Appendf(nil, `{"requestId":%s}`, c.id)}, nil
	case <-c.closed:
		return nil, io.EOF
	}
}

func (c *connection) Write(_ context.Context, msg jsonrpc.Message) error {
	switch m := msg.(type) {
	case *jsonrpc.Response:
		select {
		case c.response <- m:
		default: // the response to the one request is there already
		}
	case *jsonrpc.Request:
		if !m.IsCall() && c.stream.events {
			return c.stream.notify(m.Method, m.Params)
		}
	}
	return nil
}

func (c *connection) Close() error {
	c.close.Do(func() { close(c.closed) })
	return nil
}
