package askback_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/internal/harness"
)

// who tells who calls and with what.
func who(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "who", InputSchema: map[string]any{"type": "object"}},
		func(ctx context.Context, call *askback.Call, in map[string]any) (string, error) {
			return fmt.Sprint(call.Principal(), in), nil
		})
}

// headers adds headers to the requests of a client.
type headers struct{ set map[string]string }

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range h.set {
		r.Header[name] = []string{value}
	}
	return http.DefaultTransport.RoundTrip(r)
}

func TestPrincipalComesFromTheToken(t *testing.T) {
	var got []string
	h := harness.NewServer(t, nil, func(srv *askback.Server) {
		askback.AddTool(srv, &mcp.Tool{Name: "who"}, func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			got = append(got, call.Principal())
			return "", nil
		})
	}).HTTPHandler(nil)
	verify := func(ctx context.Context, token string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: "user-" + token, Expiration: time.Now().Add(time.Hour)}, nil
	}
	harness.Request{Target: "who"}.Send(t, h)
	harness.Request{Target: "who", Header: http.Header{"Authorization": {"Bearer 7"}}}.Send(t, auth.RequireBearerToken(verify, nil)(h))
	if len(got) != 2 || got[0] != "" || got[1] != "user-7" {
		t.Errorf("principals %q", got)
	}
}

// No header of a session's request stands in for its body or its caller.
func TestHeadersCannotReplaceABody(t *testing.T) {
	srv := harness.NewServer(t, &askback.Options{Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) {
		return extra.Header.Get("X-User"), nil
	}}, who)
	web := httptest.NewServer(srv.HTTPHandler(nil))
	defer web.Close()
	for _, name := range []string{"Askback-Exact-Params", "askback exact params"} {
		transport := &mcp.StreamableClientTransport{Endpoint: web.URL, HTTPClient: &http.Client{Transport: headers{map[string]string{
			"X-User": "alice", strings.ReplaceAll(name, " ", "-"): `{"name":"who","arguments":{"x":"header"}}`,
		}}}}
		session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).
			Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "who", Arguments: map[string]any{"x": "body"}})
		session.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := res.Content[0].(*mcp.TextContent).Text; got != "alicemap[x:body]" {
			t.Errorf("header %q: got %q", name, got)
		}
	}
}

// A connection that says who the caller is keeps that through Connect.
func TestConnectKeepsTheCaller(t *testing.T) {
	srv := harness.NewServer(t, nil, who)
	here, there := mcp.NewInMemoryTransports()
	if _, err := srv.Connect(t.Context(), identified{there}, nil); err != nil {
		t.Fatal(err)
	}
	session, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "who"})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Content[0].(*mcp.TextContent).Text; got != "alicemap[]" {
		t.Errorf("got %q", got)
	}
}

type identified struct{ mcp.Transport }

func (i identified) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := i.Transport.Connect(ctx)
	return identifiedConnection{conn}, err
}

type identifiedConnection struct{ mcp.Connection }

func (c identifiedConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	if req, ok := msg.(*jsonrpc.Request); ok {
		req.Extra = &mcp.RequestExtra{TokenInfo: &auth.TokenInfo{UserID: "alice"}}
	}
	return msg, err
}
