package tap

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Transport returns a transport for one connection, which taps another transport. An HTTP
// transport of the SDK must have an HTTPClient; it is copied.
func Transport(below mcp.Transport, c Config) mcp.Transport {
	web, ok := below.(*mcp.StreamableClientTransport)
	if !ok {
		return &transport{below, &c}
	}
	tapped := *web
	tapped.HTTPClient = &http.Client{
		Transport: &roundTripper{
			config: &c, echoes: newEchoes(&c), asked: newUnanswered(&c), base: follower{web.HTTPClient},
			authorizes: web.OAuthHandler != nil,
		},
		// The follower has already followed the redirects.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	tapped.MaxEventSize = int(c.MessageBytes)
	return &tapped
}

// transport taps a transport of whole messages.
type transport struct {
	mcp.Transport
	config *Config
}

func (t *transport) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{Connection: conn, config: t.config, asked: newUnanswered(t.config),
		open: make(map[jsonrpc.ID]request)}, nil
}

// follower sends each request as the host's client does, with its cookies, its timeout and its rules for redirects, so
// that a tap sees one request, and the response in which the redirects end.
type follower struct{ client *http.Client }

func (f follower) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := f.client.Do(req)
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // the client above names the method and the URL, too
	}
	return res, err
}
