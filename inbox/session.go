package inbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/seal"
)

// session is the content of a cookie of somebody who has signed in.
type session struct {
	Name   string   `json:"name"`
	Groups []string `json:"groups,omitempty"`
	// IDToken tells the provider at log-out whose session ends. It is left out if the cookie would become too large.
	IDToken string `json:"idToken,omitempty"`
}

// sessions makes and reads cookies. The content of a cookie is sealed: only instances with the keys can read or make
// one.
type sessions struct {
	ring     *seal.Ring
	cookie   string // the name; one that begins with __Host- must be secure
	secure   bool
	audience string // sessions of another audience are not valid here
	length   time.Duration

	mu sync.Mutex
	// ended has the IDs of sessions that were logged out here, and when they would have expired: a copied cookie stays
	// valid until then at other instances, which do not know of the log-out.
	ended map[string]time.Time
}

// mostCookie is the size in bytes that every browser takes for a cookie with its name and attributes (RFC 6265bis,
// section 5.6), with room for the latter.
const mostCookie = 4000

const hostPrefix = "__Host-"

func (s *sessions) binding(method string) seal.Binding {
	return seal.Binding{Audience: s.audience, Method: method}
}

// begin gives the browser a session. It is always a new one, so that nobody can plant a session in a browser and share
// it after the sign-in.
func (s *sessions) begin(w http.ResponseWriter, of session) error {
	now := time.Now()
	value, err := s.seal(of, now)
	if err == nil && len(s.cookie)+len(value) > mostCookie && of.IDToken != "" { // log-out works without the hint
		of.IDToken = ""
		value, err = s.seal(of, now)
	}
	if err != nil {
		return err
	}
	if len(s.cookie)+len(value) > mostCookie {
		return fmt.Errorf("the session of %.60q does not fit into a cookie with its %d groups: keep only the groups that "+
			"questions are for", of.Name, len(of.Groups))
	}
	s.set(w, s.cookie, value, s.length)
	return nil
}

func (s *sessions) seal(of session, now time.Time) (string, error) {
	payload, err := json.Marshal(of)
	if err != nil {
		return "", err
	}
	return s.ring.Seal(s.binding("session"), payload, now, now.Add(s.length))
}

// set sets a cookie that lives for a time, or removes it if the time is negative.
func (s *sessions) set(w http.ResponseWriter, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(life / time.Second),
		HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode,
	})
}

// read returns the session of a request, or an error with the reason why it has none.
func (s *sessions) read(r *http.Request) (session, *seal.State, error) {
	var of session
	state, err := s.open(r, s.cookie, "session")
	if err != nil {
		return of, nil, err
	}
	s.mu.Lock()
	_, ended := s.ended[state.ID]
	s.mu.Unlock()
	if ended {
		return of, nil, errors.New("the session was logged out")
	}
	if err := json.Unmarshal(state.Payload, &of); err != nil {
		return of, nil, fmt.Errorf("the session: %w", err)
	}
	return of, state, nil
}

// open opens the one cookie of a name. Two cookies of one name are refused: another path or a server on a sibling host
// could have added one, and which of them comes first is up to the browser.
func (s *sessions) open(r *http.Request, name, method string) (*seal.State, error) {
	cookies := r.CookiesNamed(name)
	switch len(cookies) {
	case 0:
		return nil, errSignedOut
	case 1:
		return s.ring.Open(cookies[0].Value, s.binding(method), time.Now())
	}
	return nil, fmt.Errorf("the request has %d cookies %s", len(cookies), name)
}

// end logs out: the browser loses its cookie, and this process no longer accepts it from anybody.
func (s *sessions) end(w http.ResponseWriter, r *http.Request) session {
	of, state, err := s.read(r)
	s.set(w, s.cookie, "", -time.Second)
	if err != nil {
		return of
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for id, expires := range s.ended {
		if now.After(expires) {
			delete(s.ended, id)
		}
	}
	if s.ended == nil {
		s.ended = make(map[string]time.Time)
	}
	s.ended[state.ID] = state.Expires
	return of
}

func (s *sessions) person(r *http.Request) (desk.Person, error) {
	of, _, err := s.read(r)
	return desk.Person{Name: of.Name, Groups: of.Groups}, err
}
