package inbox

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/question"
)

// signIn is an [Identity] by which people sign in at the inbox itself: what comes to /auth/ is served by it, and the
// browser of somebody who is not known is sent to /auth/?return=PATH.
type signIn interface {
	Identity
	http.Handler
}

// errSignedOut reports that a request has no session at all, like the first one of everybody. It is not worth a log
// line.
var errSignedOut = errors.New("nobody has signed in")

// mostGroups is the number of groups of a person that a desk looks at.
const mostGroups = 64

// checkPerson reports what a desk would refuse about a person, so that the log has the reason before anything is asked.
func checkPerson(p desk.Person) error {
	if !question.IsName(p.Name) {
		return fmt.Errorf("the name %.80q cannot be a person's: it needs 1 to %d bytes, without control characters and "+
			"space around it", p.Name, question.MaxName)
	}
	if len(p.Groups) > mostGroups {
		return fmt.Errorf("%q is in %d groups, and at most %d are looked at: keep only the groups that questions are for",
			p.Name, len(p.Groups), mostGroups)
	}
	for _, g := range p.Groups {
		if !question.IsName(g) {
			return fmt.Errorf("%q is in a group with the name %.80q, which cannot be one", p.Name, g)
		}
	}
	return nil
}

// TrustedHeader is an [Identity] for an inbox behind a proxy that signs people in and says in headers of the request
// who they are. The headers are believed only if the proxy is the peer of the connection. From anybody else, and if one
// of them is there twice, the request is refused.
//
// The proxy must remove the headers that a client sends. It must keep the Host of the request, which protects against
// requests that other sites make people send.
type TrustedHeader struct {
	// Name is the header with the name of the person, such as "X-Auth-Request-User". It is required.
	Name string
	// Groups is the header with the groups of the person. Empty means that nobody is in a group.
	Groups string
	// Separator stands between two groups. Empty means a comma. Space around a group does not belong to it.
	Separator string
	// Keep are the groups that questions can be for. Others are left out. Nil keeps all; then somebody in more than 64
	// is refused.
	Keep []string
	// Trusted are the addresses of the proxy. The connection must come from one of them.
	Trusted []netip.Prefix
	// UnixSocket trusts the peers of a listener on a Unix domain socket. The permissions of the socket say who they are.
	UnixSocket bool
}

// check returns an error for fields that cannot be used.
func (h TrustedHeader) check() error {
	switch {
	case h.Name == "":
		return errors.New("TrustedHeader.Name is missing: say which header has the name of the person")
	case strings.EqualFold(h.Name, h.Groups):
		return fmt.Errorf("TrustedHeader: the header %q cannot have both the name and the groups", h.Name)
	case len(h.Trusted) == 0 && !h.UnixSocket:
		return errors.New("TrustedHeader.Trusted is empty: say which addresses the proxy has, such as 10.0.0.7/32")
	}
	for _, p := range h.Trusted {
		if !p.IsValid() {
			return errors.New("TrustedHeader.Trusted has a prefix that is not valid: make it with netip.ParsePrefix")
		}
		if p.Bits() == 0 {
			return fmt.Errorf("TrustedHeader.Trusted has %v, which is everybody: name the proxy alone", p)
		}
	}
	return nil
}

// Person implements [Identity].
func (h TrustedHeader) Person(r *http.Request) (p desk.Person, err error) {
	if err := h.check(); err != nil {
		return p, err
	}
	if !h.trusts(r.RemoteAddr) {
		return p, fmt.Errorf("the connection comes from %.60q, which is not the proxy", r.RemoteAddr)
	}
	if p.Name, err = onlyHeader(r, h.Name); err != nil {
		return p, err
	}
	if p.Name == "" {
		return p, fmt.Errorf("the proxy has sent no header %s", h.Name)
	}
	groups := ""
	if h.Groups != "" {
		if groups, err = onlyHeader(r, h.Groups); err != nil {
			return p, err
		}
	}
	separator := h.Separator
	if separator == "" {
		separator = ","
	}
	var all []string
	for g := range strings.SplitSeq(groups, separator) {
		if g = strings.TrimSpace(g); g != "" {
			all = append(all, g)
		}
	}
	p.Groups = keep(all, h.Keep)
	return p, nil
}

func (h TrustedHeader) trusts(peer string) bool {
	if h.UnixSocket && (peer == "@" || peer == "") { // net/http writes a peer without an address so
		return true
	}
	a, err := netip.ParseAddrPort(peer)
	return err == nil && slices.ContainsFunc(h.Trusted, func(p netip.Prefix) bool {
		return p.Contains(a.Addr().Unmap().WithZone(""))
	})
}

// onlyHeader returns the value of a header that a request has at most once. A name with an underscore in place of a
// dash is another header here, and the same one to some proxies, so it counts, too.
func onlyHeader(r *http.Request, name string) (string, error) {
	var found []string
	dashed := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "_", "-")) }
	for key, values := range r.Header {
		if dashed(key) == dashed(name) {
			found = append(found, values...)
		}
	}
	if len(found) > 1 {
		return "", fmt.Errorf("the header %s is there %d times: the proxy must remove what a client sends", name,
			len(found))
	}
	return r.Header.Get(name), nil
}

// keep returns the groups that can be asked. Nil keeps all.
func keep(groups, kept []string) []string {
	if kept == nil {
		return groups
	}
	return slices.DeleteFunc(groups, func(g string) bool { return !slices.Contains(kept, g) })
}
