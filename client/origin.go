package client

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// sameOrigin sends requests to the origin of one endpoint, and refuses all others: a redirect, or the endpoint that a
// server of 2024-11-05 names, would take answers, requestState, session and headers to a host that nobody chose.
type sameOrigin struct {
	base     http.RoundTripper // nil means http.DefaultTransport
	endpoint *url.URL
}

// atOrigin returns a copy of a client, which may be nil, that speaks to the origin of an endpoint only.
func atOrigin(c *http.Client, endpoint string) (*http.Client, error) {
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
