package httpfront

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/askback-mcp/askback/internal/wire"
)

// hosts decides under which names, and for which web pages, a server is reached (basic/transports/streamable-http,
// "Security Warning"). A page whose own name leads to the server, by DNS rebinding, sends that name as its origin
// and as the host, so that only a list of names tells it apart.
type hosts struct {
	origins http.CrossOriginProtection
	trusted map[string]bool // origins
	allowed map[string]bool // hosts in lower case, with or without a port
	local   bool            // a server on a loopback address takes only names of it
}

func newHosts(trusted, allowed []string, local bool) (*hosts, error) {
	h := &hosts{trusted: make(map[string]bool), allowed: make(map[string]bool), local: local}
	for _, origin := range trusted {
		if err := h.origins.AddTrustedOrigin(origin); err != nil {
			return nil, fmt.Errorf("trusted origin: %w", err)
		}
		h.trusted[origin] = true
	}
	for _, host := range allowed {
		if host == "" || strings.ContainsAny(host, "/*@ ") {
			return nil, fmt.Errorf(
				"allowed host %q: want the name of a host, such as mcp.example.com, with or without a port", host)
		}
		h.allowed[strings.ToLower(host)] = true
	}
	return h, nil
}

// check returns the error for a request that comes from a foreign page, or may come from one.
func (h *hosts) check(r *http.Request) *jsonrpc.Error {
	origin := r.Header.Get("Origin")
	onLoopback := onLoopback(r)
	switch {
	case h.allows(r.Host):
	case onLoopback && loopback(r.Host):
	case onLoopback && h.local:
		return wire.Errorf(jsonrpc.CodeInvalidRequest, "forbidden: the Host header is not one of this local server: "+
			"its operator can add it to HTTPOptions.AllowedHosts")
	case len(h.allowed) > 0:
		return wire.Errorf(jsonrpc.CodeInvalidRequest, "forbidden: the Host header is not one of this server: "+
			"its operator can add it to HTTPOptions.AllowedHosts")
	case origin != "" && !h.trusted[origin] && !loopback(r.Host) && !isAddress(r.Host):
		return wire.Errorf(jsonrpc.CodeInvalidRequest, "forbidden: the request comes from a web page, "+
			"under a name that may be the page's own: the server's operator can add the host to HTTPOptions.AllowedHosts, "+
			"or the page to HTTPOptions.TrustedOrigins")
	}
	if r.Method != http.MethodPost { // Check lets GET pass unseen
		r = r.WithContext(r.Context())
		r.Method = http.MethodPost
	}
	if err := h.origins.Check(r); err != nil {
		return wire.Errorf(jsonrpc.CodeInvalidRequest,
			"forbidden: the request comes from another origin, which is not trusted")
	}
	return nil
}

func (h *hosts) allows(host string) bool {
	return len(h.allowed) > 0 && (h.allowed[strings.ToLower(host)] || h.allowed[strings.ToLower(hostname(host))])
}

// onLoopback reports whether a request reached the server by a loopback address.
func onLoopback(r *http.Request) bool {
	switch addr := r.Context().Value(http.LocalAddrContextKey).(type) {
	case nil:
		return false
	case *net.TCPAddr:
		return addr.IP.IsLoopback()
	case net.Addr:
		return loopback(addr.String())
	}
	return false
}

// hostname is the host of "host:port", or of "host" alone.
func hostname(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		return strings.Trim(hostport, "[]")
	}
	return host
}

func loopback(hostport string) bool {
	host := hostname(hostport)
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

func isAddress(hostport string) bool {
	_, err := netip.ParseAddr(hostname(hostport))
	return err == nil
}
