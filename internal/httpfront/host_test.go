package httpfront

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// The name that a request gives the server counts only together with the address that it reached.
func TestHostNames(t *testing.T) {
	const local, public = "127.0.0.1", "192.168.1.7"
	named := &Options{AllowedHosts: []string{"mcp.example.com"}}
	open := &Options{Streamable: mcp.StreamableHTTPOptions{DisableLocalhostProtection: true}}
	for _, c := range []struct {
		says    string
		opts    *Options
		address string
		host    string
		passes  bool
	}{
		{"a local server by its name", &Options{}, local, "localhost:8080", true},
		{"a local server by its address", &Options{}, local, "[::1]:8080", true},
		{"a local server by another name", &Options{}, local, "mcp.example.com", false},
		{"a local server by another name, without the protection", open, local, "mcp.example.com", true},
		{"a named server by its name", named, public, "mcp.example.com", true},
		{"a named server by its name, behind a local proxy", named, local, "mcp.example.com", true},
		{"a named server by a local name", named, local, "localhost:8080", true},
		{"a named server by another name", named, public, "other.example.com", false},
		// Rebinding, or a request that a proxy was made to send, may give a local name to a public address.
		{"a named public server by a local name", named, public, "localhost", false},
		{"a named public server by a local name and port", named, public, "LOCALHOST:8080", false},
		{"a named public server by a local address", named, public, "127.0.0.1:8080", false},
		{"a public server without a name by a local name", &Options{}, public, "localhost:8080", true},
	} {
		h, err := newHosts(c.opts.TrustedOrigins, c.opts.AllowedHosts, !c.opts.Streamable.DisableLocalhostProtection)
		expect.Check(t, err)
		r := httptest.NewRequest(http.MethodPost, "http://"+c.host+"/mcp", nil)
		address := net.Addr(&net.TCPAddr{IP: net.ParseIP(c.address), Port: 8080})
		r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, address))
		if refused := h.check(r); (refused == nil) != c.passes {
			t.Errorf("%s: %v, want it to pass: %v", c.says, refused, c.passes)
		}
	}
}
