package tap

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// holding is a context that counts who waits for its end.
type holding struct {
	context.Context
	held int
}

func (h *holding) Done() <-chan struct{} { return make(chan struct{}) }
func (h *holding) AfterFunc(func()) func() bool {
	h.held++
	return func() bool { h.held--; return true }
}

func TestAnsweredRequestsAreForgotten(t *testing.T) {
	here, there := mcp.NewInMemoryTransports()
	server := expect.Must(there.Connect(t.Context()))(t)
	conn := expect.Must(Transport(here, config).Connect(t.Context()))(t)
	id, _ := jsonrpc.MakeID("1")
	ctx := &holding{Context: (&Exchange{Method: "tasks/get"}).Context(t.Context())}
	go func() { // the server answers
		msg, err := server.Read(t.Context())
		if req, ok := msg.(*jsonrpc.Request); ok && err == nil {
			err = server.Write(t.Context(), &jsonrpc.Response{ID: req.ID, Result: json.RawMessage(`{}`)})
		}
		if err != nil {
			t.Error(err)
		}
	}()
	if err := conn.Write(ctx, &jsonrpc.Request{ID: id, Method: CustomMethod, Params: json.RawMessage(`{}`)}); err != nil ||
		ctx.held != 1 {
		t.Fatalf("held %d times, %v", ctx.held, err)
	}
	if _, err := conn.Read(t.Context()); err != nil || ctx.held != 0 {
		t.Errorf("held %d times, %v", ctx.held, err)
	}
}

// A question that gets no response is not answered with an error, and is no longer counted.
func TestNoResponseIsSent(t *testing.T) {
	here, there := mcp.NewInMemoryTransports()
	server, err := there.Connect(t.Context())
	expect.Check(t, err)
	conn := expect.Must(Transport(here, config).Connect(t.Context()))(t)
	for _, name := range []string{"parked", "answered"} {
		id, _ := jsonrpc.MakeID(name)
		written := make(chan error, 1)
		go func() { // the server asks
			written <- server.Write(t.Context(),
				&jsonrpc.Request{ID: id, Method: "elicitation/create", Params: json.RawMessage(`{}`)})
		}()
		expect.Must(conn.Read(t.Context()))(t)
		expect.Check(t, <-written)
	}
	parked, _ := jsonrpc.MakeID("parked")
	answered, _ := jsonrpc.MakeID("answered")
	expect.Check(t, conn.Write(t.Context(), &jsonrpc.Response{ID: parked, Error: NoResponse}))
	written := make(chan error, 1)
	go func() {
		written <- conn.Write(t.Context(), &jsonrpc.Response{ID: answered, Result: json.RawMessage(`{}`)})
	}()
	first, err := server.Read(t.Context())
	if got, ok := first.(*jsonrpc.Response); err != nil || !ok || got.ID != answered {
		t.Errorf("the server gets %v, %v", first, err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if n := len(conn.(*connection).asked.sizes); n > 0 {
		t.Errorf("%d questions are counted", n)
	}
}
