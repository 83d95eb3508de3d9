package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
)

// Behind a proxy that gives a request to the wrong one of two servers, the session does not exist. The error says how
// this can be, while the command connects and later.
func TestASessionInAnotherServer(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]int{"the notification that ends the handshake": 2, "the list of tools": 3} {
		t.Run(name, func(t *testing.T) {
			var servers [2]http.Handler
			for i := range servers {
				m := mcp.NewServer(&mcp.Implementation{Name: "one of two", Version: "1"}, nil)
				servers[i] = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, nil)
			}
			var posted atomic.Int32
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				server := servers[0]
				if r.Method == http.MethodPost && int(posted.Add(1)) >= first {
					server = servers[1]
				}
				server.ServeHTTP(w, r)
			}))
			t.Cleanup(proxy.Close)
			code, _, stderr := command(t, "call", proxy.URL, "tool", "--protocol-version", "2025-11-25")
			if code != cli.ExitFailure || strings.Count(stderr, cli.NoSession) != 1 {
				t.Errorf("exit code %d: %s", code, stderr)
			}
		})
	}
}

func TestSecretsOfAnAddressAreNotPrinted(t *testing.T) {
	t.Parallel()
	if _, _, stderr := command(t, "tools", "http://bob:S3cret@127.0.0.1:1/mcp"); strings.Contains(stderr, "S3cret") {
		t.Errorf("printed: %s", stderr)
	}
}

// A page that a server requires is asked for as any other answer is.
func TestAPageThatIsRequired(t *testing.T) {
	t.Parallel()
	m := mcp.NewServer(&mcp.Implementation{Name: "attic", Version: "1"},
		&mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}})
	mcp.AddTool(m, &mcp.Tool{Name: "mail"}, func(context.Context, *mcp.CallToolRequest, struct{}) (
		*mcp.CallToolResult, any, error,
	) {
		return nil, nil, mcp.URLElicitationRequiredError([]*mcp.ElicitParams{
			{Mode: "url", Message: "Log in", URL: "https://login.example/", ElicitationID: "one"}})
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return m }, nil))
	t.Cleanup(web.Close)
	code, stdout, stderr := command(t, "call", web.URL, "mail")
	if code == cli.ExitOK || !strings.Contains(stdout+stderr, "https://login.example/") {
		t.Errorf("exit code %d: %s\n%s", code, stdout, stderr)
	}
}
