package tap

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
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
	server, err := there.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := Transport(here, config).Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
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
	if err := conn.Write(ctx, &jsonrpc.Request{ID: id, Method: CustomMethod, Params: json.RawMessage(`{}`)}); err != nil || ctx.held != 1 {
		t.Fatalf("held %d times, %v", ctx.held, err)
	}
	if _, err := conn.Read(t.Context()); err != nil || ctx.held != 0 {
		t.Errorf("held %d times, %v", ctx.held, err)
	}
}
