// Package egress sends requests to addresses that strangers have chosen. What a request can reach is decided when it
// connects, on the resolved address, so that no name and no redirect leads inside:
//
//	client := egress.New(nil)
//	status, body, err := client.Do(req)
package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

const (
	connectTimeout = 5 * time.Second
	bodyTimeout    = time.Second
	longestBody    = 4 << 10 // of a response, as it is read
)

// ErrAddress says that an address is not for strangers to choose.
var ErrAddress = errors.New("the address is not globally routable")

// Client sends requests. It follows no redirect, and reads the beginning of a response.
type Client struct{ http http.Client }

// New returns a client on a transport. Nil is one that connects to globally routable addresses only, with TLS as the
// system trusts it, and without the proxy of the environment.
func New(transport http.RoundTripper) *Client {
	if transport == nil {
		transport = guarded(new(net.Dialer))
	}
	return &Client{http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// guarded has a dialer check each address that it is about to connect to.
func guarded(d *net.Dialer) *http.Transport {
	d.Timeout = connectTimeout
	d.Control = func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || !routable(at.Addr()) {
			return ErrAddress
		}
		return nil
	}
	return &http.Transport{
		DialContext: d.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: connectTimeout, DisableCompression: true,
		MaxResponseHeaderBytes: 16 << 10, MaxIdleConns: 256, MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second,
	}
}

// Do sends a request, for as long as its context lasts, and returns the status and the beginning of the body, as far as
// that came soon.
func (c *Client) Do(r *http.Request) (status int, body []byte, err error) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	res, err := c.http.Do(r.WithContext(ctx))
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	defer time.AfterFunc(bodyTimeout, cancel).Stop()
	body, _ = io.ReadAll(io.LimitReader(res.Body, longestBody))
	return res.StatusCode, body, nil
}

// routable reports whether an address is one of the global unicast addresses, and in none of the special blocks, of the
// IPv4 and IPv6 Special-Purpose Address Registries of IANA. Addresses of IPv6 that have one of IPv4 in them are refused
// whatever that is: a gateway on the way could unpack it.
func routable(a netip.Addr) bool {
	if a.Zone() != "" || a.Is6() && !a.Is4In6() && !global6.Contains(a) || !a.IsValid() {
		return false
	}
	a = a.Unmap()
	for _, block := range special {
		if block.Contains(a) {
			return false
		}
	}
	return true
}

var global6 = netip.MustParsePrefix("2000::/3")

// special are the blocks that are not reached. Of IPv6 it has only what is in 2000::/3.
var special = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
	"168.63.129.16/32", // the platform of Azure, seen from each of its machines
	"2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}
