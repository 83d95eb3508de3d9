package client

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sameOrigin sends requests to the origin of one endpoint, and refuses all others. A redirect,
// or the endpoint that a server of 2024-11-05 names, would take answers, requestState, session
// and headers to a host that nobody chose.
type sameOrigin struct {
	base     http.RoundTripper // nil means http.DefaultTransport
	endpoint *url.URL
}

// atOrigin binds a transport of the SDK that speaks HTTP to the origin of its endpoint, also
// inside a mcp.LoggingTransport. It returns a copy; any other transport is returned as it is.
func atOrigin(t mcp.Transport) (_ mcp.Transport, err error) {
	switch t := t.(type) {
	case *mcp.StreamableClientTransport:
		own := *t
		own.HTTPClient, err = boundTo(t.Endpoint, t.HTTPClient)
		return &own, err
	case *mcp.SSEClientTransport:
		own := *t
		own.HTTPClient, err = boundTo(t.Endpoint, t.HTTPClient)
		return &own, err
	case *mcp.LoggingTransport:
		own := *t
		own.Transport, err = atOrigin(t.Transport)
		return &own, err
	}
	return t, nil
}

// boundTo returns a copy of a client, which may be nil, that speaks only to the origin of an
// endpoint.
func boundTo(endpoint string, c *http.Client) (*http.Client, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	own := http.Client{}
	if c != nil {
		own = *c
	}
	own.Transport = &sameOrigin{own.Transport, u}
	return &own, nil
}

func (t *sameOrigin) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.EqualFold(req.URL.Scheme, t.endpoint.Scheme) ||
		!strings.EqualFold(req.URL.Hostname(), t.endpoint.Hostname()) || port(req.URL) != port(t.endpoint) {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, fmt.Errorf("the server redirects to another origin, %.200q, which would get answers, requestState and headers: "+
			"this is not followed; connect to that origin if it is the right one",
			(&url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host}).String())
	}
	return cmp.Or(t.base, http.DefaultTransport).RoundTrip(req)
}

// port is the port of a URL, given or implied.
func port(u *url.URL) string {
	implied := map[string]string{"http": "80", "https": "443"}[strings.ToLower(u.Scheme)]
	return cmp.Or(u.Port(), implied)
}
