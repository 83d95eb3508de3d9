package httpfront_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/rawclient"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/harness"
)

type ownParams struct{ mcp.ParamsBase }

type ownResult struct{ mcp.ResultBase }

// A method that the server does not know gets the error of the protocol in a session, too, with the request's id. One
// that its author has added is known. Who does not have the session learns nothing of it.
func TestMethodsThatNobodyKnows(t *testing.T) {
	t.Parallel()
	m := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	err := mcp.AddReceivingCustomMethod(m, "own/method", func(context.Context, *mcp.ServerSession, *ownParams) (
		*ownResult, error,
	) {
		return new(ownResult), nil
	})
	expect.Check(t, err)
	srv, err := askback.New(m, &askback.Options{Keys: harness.NewRing(t),
		Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) { return extra.Header.Get("Who"), nil }})
	expect.Check(t, err)
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	for _, version := range []string{"2025-11-25", "2025-06-18", "2025-03-26", rawclient.Modern} {
		c := &rawclient.Client{URL: web.URL}
		if version != rawclient.Modern {
			if c, err = c.Initialize(t.Context(), version); err != nil {
				t.Fatal(err)
			}
		}
		for _, method := range []string{"odd/method", "tasks/list", "tools/List", "notifications/odd"} {
			err := c.Call(t.Context(), method, map[string]any{}, nil)
			if refused, ok := errors.AsType[*rawclient.Error](err); !ok || refused.Code != jsonrpc.CodeMethodNotFound {
				t.Errorf("%s: %s: got %v", version, method, err)
			}
		}
		if err := c.Call(t.Context(), "own/method", map[string]any{}, nil); err != nil {
			t.Errorf("%s: the author's own: %v", version, err)
		}
		if version == rawclient.Modern {
			continue
		}
		for name, value := range map[string]string{"Who": "eve", "Mcp-Session-Id": "another"} {
			c.Header.Set(name, value)
			err := c.Call(t.Context(), "odd/method", nil, nil)
			if refused, ok := errors.AsType[*rawclient.Error](err); !ok || refused.Code == jsonrpc.CodeMethodNotFound {
				t.Errorf("%s: with another %s: %v", version, name, err)
			}
		}
	}
}
