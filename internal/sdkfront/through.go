package sdkfront

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
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/wire"
)

// throughServer serves a request by the SDK's server, in a session of its own that ends with it. That is for what the
// server's own middleware has to see, and for subscriptions.
func (f *Front) throughServer(ctx context.Context, r *Request) (*call.Outcome, error) {
	var rawID any
	_ = json.Unmarshal(r.ID, &rawID) // checked JSON
	id, err := jsonrpc.MakeID(rawID)
	if err != nil {
		return nil, err
	}
	c := &single{
		id:       r.ID,
		request:  make(chan *jsonrpc.Request, 1),
		response: make(chan *jsonrpc.Response, 1),
		closed:   make(chan struct{}),
		gone:     ctx.Done(),
		client:   r.Client,
	}
	c.request <- &jsonrpc.Request{ID: id, Method: r.Method, Params: r.Params, Extra: &r.Extra}
	r.origin, r.refusal = ctx, nil
	session, err := f.Server.Connect(ctx, f.Transport(c, nil, nil), nil)
	if err != nil {
		return nil, err
	}
	defer session.Close()
	select {
	case res := <-c.response:
		if r.refusal != nil {
			return nil, r.refusal
		}
		if res.Error != nil {
			return nil, res.Error
		}
		return &call.Outcome{Encoded: withIsError(r.Method, res.Result)}, nil
	case <-ctx.Done(): // of which the handler is told, if it runs: nobody knows here
		r.Ran.Store(true)
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

// single is the client's end of a session with one request. It implements [mcp.Transport], too.
type single struct {
	id       []byte // of the request
	request  chan *jsonrpc.Request
	response chan *jsonrpc.Response
	gone     <-chan struct{} // the client is, which cancels the request
	client   Client

	close  sync.Once
	closed chan struct{}
}

func (c *single) Connect(context.Context) (mcp.Connection, error) { return c, nil }
func (c *single) SessionID() string                               { return "" }

func (c *single) Read(context.Context) (jsonrpc.Message, error) {
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

func (c *single) Write(_ context.Context, msg jsonrpc.Message) error {
	switch m := msg.(type) {
	case *jsonrpc.Response:
		select {
		case c.response <- m:
		default: // the response to the one request is there already
		}
	case *jsonrpc.Request:
		if !m.IsCall() && c.client.TakesEvents() {
			return c.client.Notify(m.Method, m.Params)
		}
	}
	return nil
}

func (c *single) Close() error {
	c.close.Do(func() { close(c.closed) })
	return nil
}
