package bridge

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/bridge/internal/upstream"
)

// AtURL returns a transport to a server at a URL. Every request to it has the headers, and no request to another origin
// is sent: the client refuses such redirects.
func AtURL(endpoint string, header http.Header) mcp.Transport {
	return &mcp.StreamableClientTransport{
		Endpoint: endpoint, HTTPClient: &http.Client{Transport: &headerTransport{header}},
	}
}

// connections are those to servers at URLs. Many calls go to few servers, so all that are idle are kept.
var connections = func() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = t.MaxIdleConns
	return t
}()

// headerTransport adds headers to requests, and names a lack of authorization.
type headerTransport struct{ header http.Header }

func (t *headerTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if len(t.header) > 0 {
		req = req.Clone(req.Context())
		for name, values := range t.header {
			req.Header[name] = values
		}
	}
	res, err := connections.RoundTrip(req)
	if err == nil && res.StatusCode == http.StatusUnauthorized {
		res.Body.Close()
		failed := &AuthorizationError{Sent: t.header.Get("Authorization") != ""}
		if m := resourceMetadata.FindStringSubmatch(strings.Join(res.Header.Values("WWW-Authenticate"), ", ")); m != nil {
			failed.Metadata = m[1] + m[2]
		}
		return nil, failed
	}
	return res, err
}

// ConnectError says that no connection to a server could be made. Its text leaves out what each layer of the client
// adds, which nobody can act on; its field Err has it.
type ConnectError = upstream.ConnectError

// resourceMetadata is where a challenge says who authorizes users (RFC 9728, section 5.1).
var resourceMetadata = regexp.MustCompile(`(?i)resource_metadata\s*=\s*(?:"([^"]*)"|([^\s,"]+))`)

// AuthorizationError says that a server at a URL has refused a request with HTTP status 401. It has not run what the
// request was for.
type AuthorizationError struct {
	Metadata string // where the server says who authorizes its users, or empty
	Sent     bool   // the request had an Authorization header
}

// HTTPStatus returns 401.
func (e *AuthorizationError) HTTPStatus() int { return http.StatusUnauthorized }

func (e *AuthorizationError) Error() string {
	switch {
	case e.Sent:
		return "the server does not accept the bridge's Authorization header (HTTP status 401): is the token expired, or " +
			"for another server?"
	case e.Metadata != "":
		return fmt.Sprintf("the server wants each user's own authorization (HTTP status 401, with the metadata %.200q), and "+
			"the bridge has one for all: give it a token of its own, as the header Authorization, or leave this server to the "+
			"host", e.Metadata)
	}
	return "the server wants credentials (HTTP status 401): give the bridge a header for it, such as Authorization"
}
