package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client/internal/tap"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// silentServer is a connection to a server that answers only discovery and the requests for which
// answer has a result.
type silentServer struct {
	in     chan jsonrpc.Message
	closed chan struct{}
	answer func(method string) string
}

func newSilentServer(answer func(method string) string) *silentServer {
	return &silentServer{make(chan jsonrpc.Message, 10), make(chan struct{}), answer}
}

func (s *silentServer) Connect(context.Context) (mcp.Connection, error) { return s, nil }
func (s *silentServer) SessionID() string                               { return "" }
func (s *silentServer) Close() error                                    { close(s.closed); return nil }

func (s *silentServer) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-s.in:
		return m, nil
	case <-s.closed:
		return nil, io.EOF
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *silentServer) Write(_ context.Context, m jsonrpc.Message) error {
	req, ok := m.(*jsonrpc.Request)
	if !ok || !req.IsCall() {
		return nil
	}
	result := s.answer(req.Method)
	if req.Method == "server/discover" {
		result = `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,` +
			`"cacheScope":"private"}`
	}
	if result != "" {
		s.in <- &jsonrpc.Response{ID: req.ID, Result: json.RawMessage(result)}
	}
	return nil
}

// A request about a task ends even if it is never answered.
func TestResponsesAreNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(nil).Connect(t.Context(), newSilentServer(func(string) string { return "" }), nil)
		expect.Check(t, err)
		defer s.Close()
		began := time.Now()
		_, err = s.GetTask(t.Context(), "x")
		if _, away := errors.AsType[*tap.AwayError](err); !away || time.Since(began) != tap.ResponseTime {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}

func TestClosedSessionsAreForgotten(t *testing.T) {
	c := New(nil)
	s := expect.Must(c.Connect(t.Context(), newSilentServer(func(string) string { return `{"content":[]}` }), nil))(t)
	call := func() error {
		_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "t"})
		return err
	}
	expect.Check(t, call())
	s.Close()
	expect.Is(t, "called", call(), mcp.ErrConnectionClosed)
	if _, err := s.GetTask(t.Context(), "x"); !errors.Is(err, mcp.ErrConnectionClosed) {
		t.Errorf("looked: %v", err)
	}
	if _, err := s.WaitTask(t.Context(), "x"); !errors.Is(err, mcp.ErrConnectionClosed) {
		t.Errorf("waited: %v", err)
	}
	c.inline.states.Range(func(any, any) bool { t.Error("a session is kept"); return true })
}
