package bridge_test

import (
	"context"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A call that the server makes a task is one of the bridge, too: no request of the host waits for it.
func TestATaskOfTheServerIsOneOfTheBridge(t *testing.T) {
	t.Parallel()
	front := newFront(t, newBehind(t).url)
	var created rawclient.Result
	params := map[string]any{"name": "later", "arguments": map[string]any{"item": "hat"}}
	err := (&rawclient.Client{URL: front.url}).Call(t.Context(), "tools/call", params, &created)
	if err != nil || created.TaskID == "" {
		t.Errorf("the call returns %+v, %v; want a task", created, err)
	}
}

// Hosts in sessions see what the server logs for their calls, from the level that they want.
func TestHostsInSessionsSeeTheLog(t *testing.T) {
	t.Parallel()
	shop := newBehind(t)
	mcp.AddTool(shop.mcp, &mcp.Tool{Name: "log"},
		func(ctx context.Context, req *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			for _, level := range []mcp.LoggingLevel{"debug", "warning"} {
				if err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: level, Data: "the shop closes"}); err != nil {
					return nil, nil, err
				}
			}
			return nil, nil, nil
		})
	logged := make(chan mcp.LoggingLevel, 10)
	s := host(t, newFront(t, shop.url).url, "2025-11-25", client.Options{SDK: mcp.ClientOptions{
		LoggingMessageHandler: func(_ context.Context, req *mcp.LoggingMessageRequest) { logged <- req.Params.Level },
	}})
	expect.Check(t, s.SDK().SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}))
	call(t, s, "log", nil)
	select {
	case level := <-logged:
		expect.Equal(t, "the host sees a message of level", level, "warning")
	case <-time.After(2 * time.Minute):
		t.Error("the host sees nothing")
	}
}
