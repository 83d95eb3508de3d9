package client

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client/internal/tap"
)

// sameOrigin sends requests to the origin of one endpoint, and refuses all others. A redirect, or the endpoint that a
// server of 2024-11-05 names, would take answers, requestState, session and headers to a host that nobody chose.
type sameOrigin struct {
	base     http.RoundTripper // nil means http.DefaultTransport
	endpoint *url.URL
	// moved is the URL to which the endpoint redirects, within the origin, or nil. Calls go there at once, because a call
	// follows no redirect: it would be sent twice.
	moved atomic.Pointer[url.URL]
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

// boundTo returns a copy of a client, which may be nil, that speaks only to the origin of an endpoint.
func boundTo(endpoint string, c *http.Client) (*http.Client, error) {
	u, err := url.Parse(endpoint)
	if err != nil { // the error repeats the URL and its password
		return nil, errors.New("the endpoint is not a well-formed URL")
	}
	own := *cmp.Or(c, new(http.Client))
	bound := &sameOrigin{base: own.Transport, endpoint: u}
	own.Transport = bound
	check := own.CheckRedirect
	own.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		switch {
		case check != nil:
			if err := check(req, via); err != nil {
				return err
			}
		case len(via) >= maxRedirects:
			return fmt.Errorf("the server redirects more than %d times", maxRedirects)
		}
		if first := via[0]; req.Method != first.Method && origin(req.URL) == origin(u) {
			return fmt.Errorf("the server redirects to %.200q with HTTP status %s, after which HTTP sends a GET in place of "+
				"the %s: connect to that URL, or have the server redirect with 307 or 308",
				req.URL.Path, req.Response.Status, first.Method)
		} else if req.Method == http.MethodPost && origin(req.URL) == origin(u) {
			bound.moved.Store(req.URL)
			if d := tap.DeliveryOf(req.Context()); d != nil && d.Once {
				return fmt.Errorf("the server redirects the call to %.200q with HTTP status %s, and a call is not sent twice: the "+
					"next one goes there", req.URL.Path, req.Response.Status)
			}
		}
		return nil
	}
	return &own, nil
}

// maxRedirects is the number that net/http follows.
const maxRedirects = 10

func (t *sameOrigin) RoundTrip(req *http.Request) (*http.Response, error) {
	same := req.URL.Scheme == t.endpoint.Scheme && req.URL.Host == t.endpoint.Host // It nearly always is.
	if to := req.URL; !same && origin(to) != origin(t.endpoint) {
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, fmt.Errorf("the server redirects to another origin, %.200q, which would get answers, requestState and "+
			"headers: this is not followed; connect to that origin if it is the right one", origin(to))
	}
	base := cmp.Or(t.base, http.DefaultTransport)
	d := tap.DeliveryOf(req.Context())
	if d == nil || req.Method != http.MethodPost {
		res, err := base.RoundTrip(req)
		if same && err == nil && req.Method == http.MethodPost && res.StatusCode < 300 && req.URL.Path == t.endpoint.Path {
			t.moved.Store(nil)
		}
		return res, err
	}
	if moved := t.moved.Load(); moved != nil && d.Once {
		req = req.Clone(req.Context())
		req.URL, req.Host = moved, ""
	}
	return d.RoundTrip(base, req)
}

// origin is the scheme, host and port of a URL. The port may be implied.
func origin(u *url.URL) string {
	scheme := strings.ToLower(u.Scheme)
	implied := map[string]string{"http": "80", "https": "443"}[scheme]
	return scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), cmp.Or(u.Port(), implied))
}
