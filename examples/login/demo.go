package main

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/askback-mcp/askback/seal"
)

// service stands for the calendar: an authorization server whose page lets everybody in, and an API. It is for
// trying the server and for its tests.
type service struct {
	mu     sync.Mutex
	codes  map[string]string // the PKCE challenge of each code
	tokens map[string]bool
}

const demoClient, demoSecret = "askback", "only for the demo"

func (s *service) handler() http.Handler {
	s.codes, s.tokens = make(map[string]string), make(map[string]bool)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /authorize", s.authorize)
	mux.HandleFunc("POST /token", s.token)
	mux.HandleFunc("GET /next", s.next)
	return mux
}

func (s *service) authorize(w http.ResponseWriter, r *http.Request) {
	back, err := url.Parse(r.FormValue("redirect_uri"))
	if err != nil || r.FormValue("client_id") != demoClient || r.FormValue("code_challenge_method") != "S256" {
		http.Error(w, "the request is not one of the client", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	code := rand.Text()
	s.codes[code] = r.FormValue("code_challenge")
	back.RawQuery = url.Values{"code": {code}, "state": {r.FormValue("state")}}.Encode()
	http.Redirect(w, r, back.String(), http.StatusSeeOther)
}

func (s *service) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	challenge := s.codes[r.FormValue("code")]
	delete(s.codes, r.FormValue("code"))
	w.Header().Set("Content-Type", "application/json")
	id, secret, _ := r.BasicAuth()
	if unescaped, err := url.QueryUnescape(secret); err != nil || id != demoClient || unescaped != demoSecret ||
		challenge == "" || challenge != oauth2.S256ChallengeFromVerifier(r.FormValue("code_verifier")) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_grant"}`)
		return
	}
	token := rand.Text()
	s.tokens[token] = true
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, token)
}

func (s *service) next(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var token string
	if _, err := fmt.Sscanf(r.Header.Get("Authorization"), "Bearer %s", &token); err != nil || !s.tokens[token] {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	fmt.Fprint(w, "Your next meeting is at ten.")
}

// configureDemo configures a server that is reached at base, as is its calendar.
func (c *calendar) configureDemo(base string) (err error) {
	c.public, c.api = base, base+"/service/next"
	c.oauth = oauth2.Config{
		ClientID: demoClient, ClientSecret: demoSecret, RedirectURL: base + "/callback",
		Endpoint: oauth2.Endpoint{AuthURL: base + "/service/authorize", TokenURL: base + "/service/token",
			AuthStyle: oauth2.AuthStyleInHeader},
	}
	c.keys, err = seal.NewRing(seal.NewKey(time.Now()))
	return err
}

// withDemo is the proxy of the demo, before the server and its calendar.
func withDemo(server http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/service/", http.StripPrefix("/service", new(service).handler()))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-User") == "" {
			r.Header.Set("X-User", "ada")
		}
		server.ServeHTTP(w, r)
	})
	return mux
}
