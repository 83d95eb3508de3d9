package inbox

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/seal"
)

// Local is an [Identity] for the one user of a machine. It serves loopback connections only, whose Host is a loopback
// name with the port of the listener, so that no site can reach it through a name of its own. The user opens the URL
// that [Local.URL] returns; its token is exchanged once for a session of 8 hours.
//
// Cookies do not tell ports apart: a server of somebody else on the same machine gets the cookie from a browser that
// visits it. On a machine that others use, choose another identity.
type Local struct {
	person   desk.Person
	at       netip.AddrPort
	sessions sessions

	mu      sync.Mutex
	token   string // the one that can be exchanged; empty if every one was used
	expires time.Time
}

// tokenTime is the time in which the token of a URL can be exchanged.
const tokenTime = 5 * time.Minute

// NewLocal returns the identity of a person behind a listener. It is an error if the listener can be reached from
// elsewhere, or if the person has no name.
func NewLocal(p desk.Person, listener net.Addr) (*Local, error) {
	a, err := netip.ParseAddrPort(listener.String())
	if err != nil || !a.Addr().Unmap().IsLoopback() {
		return nil, fmt.Errorf("inbox: a local inbox listens on a loopback address such as 127.0.0.1, and not on %v",
			listener)
	}
	if p.Name == "" {
		return nil, errors.New("inbox: a local inbox needs the name of its user")
	}
	ring, err := seal.NewRing(seal.NewKey(time.Now())) // a restart ends all sessions
	if err != nil {
		return nil, fmt.Errorf("inbox: the keys of sessions: %w", err)
	}
	return &Local{person: p, at: a, sessions: sessions{
		ring: ring, cookie: fmt.Sprintf("askback-inbox-%d", a.Port()), audience: "local inbox", length: defaultSession,
	}}, nil
}

// URL returns the address that signs the user in. It works once, for 5 minutes, and ends the one before. Its token is
// in the fragment, which browsers do not send, so it is in no log and in no Referer.
func (l *Local) URL() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.token, l.expires = rand.Text(), time.Now().Add(tokenTime)
	return fmt.Sprintf("http://%s/auth/#%s", l.at, l.token)
}

// exchange reports whether a token is the token of the URL. It is then used up.
func (l *Local) exchange(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token == "" || time.Now().After(l.expires) || subtle.ConstantTimeCompare([]byte(l.token), []byte(token)) == 0 {
		return false
	}
	l.token = ""
	return true
}

// reach refuses a request that does not come from this machine, or for another host. A site whose name leads to
// 127.0.0.1 (DNS rebinding) makes browsers on this machine connect, but with its own name as the Host.
func (l *Local) reach(r *http.Request) error {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !peer.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("the connection comes from %.60q, which is not this machine", r.RemoteAddr)
	}
	if r.Host != l.at.String() && r.Host != fmt.Sprintf("localhost:%d", l.at.Port()) {
		return fmt.Errorf("the request is for the host %.60q, which is not %v", r.Host, l.at)
	}
	return nil
}

// Person implements [Identity].
func (l *Local) Person(r *http.Request) (desk.Person, error) {
	if err := l.reach(r); err != nil {
		return desk.Person{}, err
	}
	if _, _, err := l.sessions.read(r); err != nil {
		return desk.Person{}, err
	}
	return l.person, nil
}

// ServeHTTP signs the user in and out.
func (l *Local) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := l.reach(r); err != nil {
		http.Error(w, "Open this page at 127.0.0.1 and on this machine.", http.StatusMisdirectedRequest)
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /auth/":
		showAuth(w, http.StatusOK, authPage{Token: true, Return: localPath(r.URL.Query().Get("return"))})
	case "POST /auth/":
		if !l.exchange(r.PostFormValue("token")) {
			showAuth(w, http.StatusForbidden, authPage{Token: true, Return: localPath(r.PostFormValue("return")),
				Problem: "This token is not valid. It works once, within five minutes. " +
					"Ask the inbox for another: 'askback inbox open'."})
			return
		}
		if err := l.sessions.begin(w, session{Name: l.person.Name}); err != nil {
			http.Error(w, "The session could not be made.", http.StatusInternalServerError)
			return
		}
		redirect(w, localPath(r.PostFormValue("return")))
	case "POST /auth/logout":
		l.sessions.end(w, r)
		showAuth(w, http.StatusOK, authPage{Done: true})
	default:
		serveAuthAsset(w, r)
	}
}
