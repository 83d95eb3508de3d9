package bridge_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

// A server in a session that requires a page has it opened by the host's user, or at the desk, and gets the call again.
// The question at the desk ends when the server is done with the page.
func TestAServerRequiresAPage(t *testing.T) {
	t.Parallel()
	for _, who := range []string{"host", "desk", "nobody", "server"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			var done atomic.Bool
			sessions := make(chan *mcp.ServerSession, 100)
			m := mcp.NewServer(&mcp.Implementation{Name: "attic", Version: "1"},
				&mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}})
			mcp.AddTool(m, &mcp.Tool{Name: "mail"}, func(
				_ context.Context, req *mcp.CallToolRequest, _ struct{},
			) (*mcp.CallToolResult, any, error) {
				if done.Load() {
					return text("sent"), nil, nil
				}
				sessions <- req.Session
				return nil, nil, mcp.URLElicitationRequiredError([]*mcp.ElicitParams{
					{Mode: "url", Message: "Log in", URL: "https://login.example/", ElicitationID: "one"}})
			})
			web := harness.Serve(t, overHTTP(m))
			f := newFront(t, web.URL, patient)
			var opts client.Options
			if who == "host" {
				opts.URL = func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
					done.Store(q.URL == "https://login.example/" && q.Message == "Log in")
					return &mcp.ElicitResult{Action: "accept"}, nil
				}
			}
			h := host(t, f.url, "2025-11-25", opts)
			ended := make(chan struct{})
			var res *mcp.CallToolResult
			var err error
			go func() {
				defer close(ended)
				res, err = h.CallTool(t.Context(), &mcp.CallToolParams{Name: "mail"})
			}()
			open := func() (n int) {
				for range f.desk.Waiting(t.Context(), desk.Waiting{}) {
					n++
				}
				return n
			}
			switch who {
			case "desk":
				eventually(t, "the desk asks", func() bool { return open() == 1 })
				done.Store(true)
				f.answer(t, "ada", desk.Answer{Action: "accept"})
			case "nobody":
				f.answer(t, "ada", desk.Answer{Action: "decline"})
			case "server":
				eventually(t, "the desk asks", func() bool { return open() == 1 })
				session := <-sessions
				for _, id := range []string{"another", "one"} {
					expect.Equal(t, "another page ends the question", open(), 1)
					done.Store(true)
					expect.Check(t,
						session.NotifyElicitationComplete(t.Context(), &mcp.ElicitationCompleteParams{ElicitationID: id}))
				}
			}
			<-ended
			if who == "nobody" {
				if fault, ok := errors.AsType[*jsonrpc.Error](err); !ok || fault.Code != mcp.CodeURLElicitationRequired {
					t.Errorf("%+v, %v", res, err)
				}
				return
			}
			if err != nil || res.Content[0].(*mcp.TextContent).Text != "sent" {
				t.Errorf("%+v, %v", res, err)
			}
			eventually(t, "nothing waits", func() bool { return open() == 0 })
		})
	}
}
