package inbox_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// provider is a strict OpenID provider whose every user is signed in already. Tests change what it says.
type provider struct {
	*httptest.Server

	mu       sync.Mutex
	key      *ecdsa.PrivateKey
	keyID    string
	claims   map[string]any        // of the next ID token, besides those that are required
	userInfo map[string]any        // nil has the subject of the claims only
	sent     url.Values            // the parameters of the last authorization
	codes    map[string]url.Values // what each code was given for
	down     bool
	moved    map[string]string // where a path redirects to, with 307
	ended    url.Values        // the parameters of the last log-out
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{codes: make(map[string]url.Values), claims: map[string]any{"sub": "alice"}}
	p.rotate(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize",
			"token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys", "userinfo_endpoint": p.URL + "/userinfo",
			"end_session_endpoint": p.URL + "/end", "id_token_signing_alg_values_supported": []string{"ES256"}})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
			{Key: &p.key.PublicKey, KeyID: p.keyID, Algorithm: "ES256", Use: "sig"}}})
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", func(w http.ResponseWriter, _ *http.Request) {
		if p.userInfo == nil {
			reply(w, map[string]any{"sub": p.claims["sub"]})
			return
		}
		reply(w, p.userInfo)
	})
	mux.HandleFunc("GET /end", func(_ http.ResponseWriter, r *http.Request) { p.ended = r.URL.Query() })
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		if to := p.moved[r.URL.Path]; to != "" {
			http.Redirect(w, r, to, http.StatusTemporaryRedirect)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// set changes what the provider does.
func (p *provider) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// rotate gives the provider another key.
func (p *provider) rotate(t *testing.T) {
	key := expect.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	p.set(func() { p.key, p.keyID = key, rand.Text() })
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func (p *provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("response_type") != "code" || q.Get("client_id") != "inbox" || q.Get("code_challenge_method") != "S256" ||
		q.Get("state") == "" || q.Get("nonce") == "" || !strings.HasPrefix(q.Get("scope"), "openid ") {
		http.Error(w, "not a strict request: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	code := rand.Text()
	p.sent, p.codes[code] = q, q
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {p.URL}}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusFound)
}

func (p *provider) token(w http.ResponseWriter, r *http.Request) {
	code := r.PostFormValue("code")
	asked, ok := p.codes[code]
	delete(p.codes, code) // it can be redeemed once
	id, secret, _ := r.BasicAuth()
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	switch {
	case !ok, id != "inbox", secret != "s3cret", r.PostFormValue("redirect_uri") != asked.Get("redirect_uri"),
		base64.RawURLEncoding.EncodeToString(challenge[:]) != asked.Get("code_challenge"):
		w.WriteHeader(http.StatusBadRequest)
		reply(w, map[string]string{"error": "invalid_grant"})
		return
	}
	claims := map[string]any{"iss": p.URL, "aud": "inbox", "nonce": asked.Get("nonce"),
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range p.claims {
		claims[name] = value
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256,
		Key: jose.JSONWebKey{Key: p.key, KeyID: p.keyID}}, nil)
	if err != nil {
		panic(err)
	}
	signed, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		panic(err)
	}
	reply(w, map[string]any{"access_token": "access", "token_type": "Bearer", "id_token": signed})
}

// behind is an inbox behind a provider, and its log.
type behind struct {
	*provider
	web *httptest.Server
	log *logBuffer
}

// serveBehind serves an inbox whose people sign in at a provider.
func serveBehind(t *testing.T, change func(*inbox.OIDCOptions)) *behind {
	t.Helper()
	keys := expect.Must(seal.NewRing(seal.NewKey(time.Now())))(t)
	b := &behind{provider: newProvider(t), web: httptest.NewUnstartedServer(nil)}
	b.web.StartTLS()
	t.Cleanup(b.web.Close)
	b.log = new(logBuffer)
	o := inbox.OIDCOptions{Issuer: b.provider.URL, ClientID: "inbox", ClientSecret: "s3cret",
		URL: b.web.URL + "/", Keys: keys, NameClaim: "sub", GroupsClaim: "groups",
		Logger: slog.New(slog.NewTextHandler(b.log, nil))}
	if change != nil {
		change(&o)
	}
	who := expect.Must(inbox.NewOIDC(&o))(t)
	b.web.Config.Handler, _ = newInbox(t, new(task.MemoryStore), who)
	return b
}

// signIn signs a browser in, and reports whether it is somebody afterwards.
func (b *behind) signIn(who *browser) (*http.Response, string) {
	who.Helper()
	return who.do("GET", "/auth/?return="+url.QueryEscape("/whoami"), nil)
}

// Somebody who opens a page comes back to it as whom the provider says.
func TestOIDCSignIn(t *testing.T) {
	b := serveBehind(t, nil)
	b.set(func() { b.claims["groups"] = []string{"release", "oncall"} })
	alice := newBrowser(t, b.web)
	alice.is("401")
	res, page := alice.do("GET", "/whoami?x=1", nil)
	if res.Request.URL.RequestURI() != "/whoami?x=1" || !strings.Contains(page, "alice") {
		t.Fatalf("%s at %s: %s\n%s", res.Status, res.Request.URL, page, b.log)
	}
	alice.is("alice release oncall")
	expect.Equal(t, "the scope", b.sent.Get("scope"), "openid profile email")

	// A log-out ends the session here, and leads to the provider.
	kept := *alice.cookie("__Host-askback-inbox")
	res, page = alice.do("POST", "/auth/logout", url.Values{}, "Sec-Fetch-Site", "same-origin")
	at, leads := strings.CutPrefix(res.Header.Get("Refresh"), "0; url=")
	if !strings.Contains(page, "signed out") || !leads || !strings.HasPrefix(at, b.provider.URL+"/end?") {
		t.Errorf("%v: %s", res.Header, page)
	}
	alice.is("401")
	alice.setCookie(&kept)
	alice.is("401")
	if res, err := http.Get(at); err != nil || b.ended.Get("client_id") != "inbox" || b.ended.Get("id_token_hint") == "" {
		t.Errorf("the provider is told %v: %v", b.ended, err)
	} else {
		res.Body.Close()
	}
}

// The claims give the name and the groups as the operator says, from the ID token or from the UserInfo.
func TestOIDCClaims(t *testing.T) {
	many := make([]string, 200)
	for i := range many {
		many[i] = fmt.Sprint("group-", i)
	}
	for _, c := range []struct {
		name, claim, prefix string
		keep                []string
		claims, userInfo    map[string]any
		want, log           string // who it is, or why it is nobody
	}{
		{name: "the subject", claim: "sub", claims: map[string]any{}, want: "alice"},
		{name: "with a prefix", claim: "sub", prefix: "https://issuer ", claims: map[string]any{},
			want: "https://issuer alice"},
		{name: "another claim", claim: "https://x.example/name", claims: map[string]any{"https://x.example/name": "Alice Ä"},
			want: "Alice Ä"},
		{name: "one group", claim: "sub", claims: map[string]any{"groups": "release"}, want: "alice release"},
		{name: "a verified address", claim: "email", claims: map[string]any{"email": "a@x.example", "email_verified": true},
			want: "a@x.example"},
		{name: "a verified address, as a text", claim: "email",
			claims: map[string]any{"email": "a@x.example", "email_verified": "true"}, want: "a@x.example"},
		{name: "an address that anybody can enter", claim: "email", claims: map[string]any{"email": "a@x.example"},
			log: "not verified"},
		{name: "an address that is not verified", claim: "email",
			claims: map[string]any{"email": "a@x.example", "email_verified": false}, log: "not verified"},
		{name: "no such claim", claim: "upn", claims: map[string]any{}, log: `the claim \"upn\"`},
		{name: "a name that is a number", claim: "n", claims: map[string]any{"n": 7}, log: "not a text"},
		{name: "groups that are numbers", claim: "sub", claims: map[string]any{"groups": []int{1}}, log: "not an array"},
		{name: "200 groups", claim: "sub", claims: map[string]any{"groups": many}, log: "in 200 groups"},
		{name: "200 groups, of which two are kept", claim: "sub", keep: []string{"group-7", "group-9", "other"},
			claims: map[string]any{"groups": many}, want: "alice group-7 group-9"},
		{name: "groups that are elsewhere", claim: "sub",
			claims: map[string]any{"_claim_names": map[string]string{"groups": "src1"},
				"_claim_sources": map[string]any{"src1": map[string]string{"endpoint": "https://x.example"}}},
			log: "so many groups"},
		{name: "from the UserInfo", claim: "preferred_username", claims: map[string]any{},
			userInfo: map[string]any{"sub": "alice", "preferred_username": "al", "groups": []string{"release"}},
			want:     "al release"},
		{name: "from the UserInfo of somebody else", claim: "preferred_username", claims: map[string]any{},
			userInfo: map[string]any{"sub": "bob", "preferred_username": "bob"}, log: "another subject"},
		{name: "an address of the ID token that the UserInfo says is verified", claim: "email",
			claims:   map[string]any{"email": "victim@x.example"},
			userInfo: map[string]any{"sub": "alice", "email": "a@x.example", "email_verified": true}, log: "not verified"},
		{name: "an address of the UserInfo that the ID token says is verified", claim: "email",
			claims:   map[string]any{"email_verified": true},
			userInfo: map[string]any{"sub": "alice", "email": "victim@x.example"}, log: "not verified"},
		{name: "a verified address of the UserInfo", claim: "email", claims: map[string]any{"email_verified": false},
			userInfo: map[string]any{"sub": "alice", "email": "a@x.example", "email_verified": true}, want: "a@x.example"},
		{name: "the ID token before the UserInfo", claim: "sub", claims: map[string]any{},
			userInfo: map[string]any{"sub": "alice", "groups": []string{"release"}}, want: "alice release"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := serveBehind(t, func(o *inbox.OIDCOptions) { o.NameClaim, o.NamePrefix, o.Keep = c.claim, c.prefix, c.keep })
			b.set(func() {
				c.claims["sub"] = "alice"
				b.claims, b.userInfo = c.claims, c.userInfo
			})
			alice := newBrowser(t, b.web)
			b.signIn(alice)
			if c.log == "" {
				alice.is(c.want)
			} else if alice.is("401"); !strings.Contains(b.log.String(), c.log) {
				t.Errorf("the log is %s, want %q", b.log, c.log)
			}
		})
	}
}

// What the provider says is checked: an ID token that is not for this sign-in signs nobody in.
func TestOIDCRefusesTokens(t *testing.T) {
	for name, c := range map[string]struct {
		claims map[string]any
		log    string
	}{
		"of another client": {map[string]any{"aud": "other"}, "audience"},
		"for several, by another one": {map[string]any{"aud": []string{"inbox", "other"}, "azp": "other"},
			`for the client \"other\"`},
		"for this one, by another": {map[string]any{"azp": "other"}, `for the client \"other\"`},
		"by what is no text":       {map[string]any{"azp": []string{"inbox"}}, "for the client"},
		"for several, by nobody":   {map[string]any{"aud": []string{"inbox", "other"}}, "for the client"},
		"of another issuer":        {map[string]any{"iss": "https://evil.example"}, "different provider"},
		"expired":                  {map[string]any{"exp": time.Now().Add(-2 * time.Minute).Unix()}, "expired"},
		"of the future":            {map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}, "not before"},
		"of another sign-in":       {map[string]any{"nonce": "another"}, "nonce of another"},
		"without a nonce":          {map[string]any{"nonce": nil}, "nonce of another"},
		"of another access token":  {map[string]any{"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}, "access token hash"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := serveBehind(t, nil)
			b.set(func() { c.claims["sub"] = "alice"; b.claims = c.claims })
			alice := newBrowser(t, b.web)
			if res, page := b.signIn(alice); res.StatusCode != http.StatusForbidden || strings.Contains(page, c.log) {
				t.Errorf("%s: %s", res.Status, page)
			}
			if alice.is("401"); !strings.Contains(b.log.String(), c.log) {
				t.Errorf("the log is %s, want %q", b.log, c.log)
			}
			b.set(func() { b.claims = map[string]any{"sub": "bob"} })
			bob := newBrowser(t, b.web)
			b.signIn(bob)
			bob.is("bob") // is served all the same
		})
	}
}

// A token that has just expired by this clock is taken, because clocks differ.
func TestOIDCClockSkew(t *testing.T) {
	b := serveBehind(t, nil)
	b.set(func() { b.claims["exp"] = time.Now().Add(-30 * time.Second).Unix() })
	alice := newBrowser(t, b.web)
	b.signIn(alice)
	alice.is("alice")
}

// The provider may be away at the start, and change its keys later.
func TestOIDCProviderIsAway(t *testing.T) {
	b := serveBehind(t, nil)
	b.set(func() { b.down = true })
	alice := newBrowser(t, b.web)
	res, page := b.signIn(alice)
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") != "5" ||
		!strings.Contains(page, "cannot be reached") || !strings.Contains(b.log.String(), "discover") {
		t.Fatalf("%s: %s\n%s", res.Status, page, b.log)
	}
	b = serveBehind(t, nil)
	b.signIn(newBrowser(t, b.web))
	b.rotate(t)
	bob := newBrowser(t, b.web)
	b.set(func() { b.claims["sub"] = "bob" })
	b.signIn(bob)
	bob.is("bob")
	b.set(func() { b.down = true })
	bob.is("bob") // needs no provider
	if res, _ := b.signIn(newBrowser(t, b.web)); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("while it is down: %s", res.Status)
	}
}

// While the provider is silent those who sign in wait for it, and nobody else does.
func TestOIDCProviderIsSilent(t *testing.T) {
	b := serveBehind(t, nil)
	b.mu.Lock() // the provider answers nothing
	waiting := make(chan int)
	for range 3 {
		go func() {
			res, _ := b.signIn(newBrowser(t, b.web))
			waiting <- res.StatusCode
		}()
	}
	if res, page := newBrowser(t, b.web).do("POST", "/auth/logout", url.Values{}); res.StatusCode != http.StatusOK {
		t.Errorf("a log-out meanwhile: %s: %s", res.Status, page)
	}
	b.mu.Unlock()
	for range 3 {
		expect.Equal(t, "somebody who waited gets", <-waiting, http.StatusOK)
	}
}

// No request to the provider follows a redirect to another origin, which would get the secret, the code or a token.
func TestOIDCRedirects(t *testing.T) {
	for _, path := range []string{"/.well-known/openid-configuration", "/keys", "/token", "/userinfo"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			got := make(chan string, 10)
			other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got <- fmt.Sprint(r.Header, string(body))
			}))
			defer other.Close()
			b := serveBehind(t, nil)
			b.set(func() { b.moved = map[string]string{path: other.URL} })
			alice := newBrowser(t, b.web)
			b.signIn(alice)
			alice.is("401")
			if len(got) > 0 {
				t.Errorf("another origin gets %s", <-got)
			}
			if !strings.Contains(b.log.String(), "redirects from") {
				t.Errorf("the log is %s", b.log)
			}

			b = serveBehind(t, nil) // within the origin it is followed
			b.set(func() { b.moved = map[string]string{path: "/moved" + path} })
			b.signIn(newBrowser(t, b.web))
			if !strings.Contains(b.log.String(), "404") {
				t.Errorf("the log is %s", b.log)
			}
		})
	}
}

// held is a transport on which the codes of strangers wait until the end of the test.
type held struct {
	waiting chan struct{}
	end     chan struct{}
}

func (h *held) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if strings.Contains(string(body), "code=bogus") {
			h.waiting <- struct{}{}
			<-h.end
			return nil, errors.New("the test is over")
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// Whoever has the provider redeem codes that it takes long for keeps nobody else from signing in, be they behind the
// same proxy: 300 sign-ins of one address wait, and somebody else signs in.
func TestOIDCCrowd(t *testing.T) {
	h := &held{make(chan struct{}, 300), make(chan struct{})}
	b := serveBehind(t, func(o *inbox.OIDCOptions) {
		o.HTTPClient = &http.Client{Transport: h}
		o.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	})
	defer close(h.end)
	stranger := newBrowser(t, b.web)
	stranger.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, _ := stranger.do("GET", "/auth/", nil)
	at := expect.Must(url.Parse(res.Header.Get("Location")))(t)
	back := "/auth/callback?code=bogus&state=" + at.Query().Get("state")
	cookie := stranger.cookie("__Host-askback-login")
	for range 300 {
		go func() {
			r := httptest.NewRequest("GET", back, nil)
			r.RemoteAddr = "127.0.0.1:1"
			r.Header.Set("X-Forwarded-For", "198.51.100.1, 203.0.113.7") // of which the proxy has written the last
			r.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value})
			b.web.Config.Handler.ServeHTTP(httptest.NewRecorder(), r)
		}()
	}
	for range 64 {
		<-h.waiting
	}
	for range 15 {
		alice := newBrowser(t, b.web)
		if res, page := b.signIn(alice); res.StatusCode != http.StatusOK {
			t.Fatalf("somebody else gets %s: %s", res.Status, page)
		}
		alice.is("alice")
	}
	if n := len(h.waiting); n > 0 {
		t.Errorf("%d more of the strangers' codes are with the provider", n)
	}
}

// Strangers do not fill the log: whatever somebody sends who is not signed in, it gets a line in some seconds.
func TestOIDCStrangersAndTheLog(t *testing.T) {
	b := serveBehind(t, nil)
	stranger := newBrowser(t, b.web)
	for range 50 {
		if res, _ := stranger.do("GET", "/auth/callback?state=x&code=y", nil); res.StatusCode != http.StatusBadRequest {
			t.Fatal(res.Status)
		}
	}
	if n := strings.Count(b.log.String(), "could not sign in"); n == 0 || n > 5 {
		t.Errorf("the log has %d lines of 50 requests", n)
	}
}

// Options that would sign in whom they should not are refused.
func TestOIDCMistakes(t *testing.T) {
	keys := expect.Must(seal.NewRing(seal.NewKey(time.Now())))(t)
	for want, change := range map[string]func(*inbox.OIDCOptions){
		"Issuer is missing":       func(o *inbox.OIDCOptions) { o.Issuer = "" },
		"ClientID is missing":     func(o *inbox.OIDCOptions) { o.ClientID = "" },
		"URL is missing":          func(o *inbox.OIDCOptions) { o.URL = "" },
		"NameClaim is missing":    func(o *inbox.OIDCOptions) { o.NameClaim = "" },
		"Keys has no key":         func(o *inbox.OIDCOptions) { o.Keys = new(seal.Ring) },
		"Session is -1s":          func(o *inbox.OIDCOptions) { o.Session = -time.Second },
		`Issuer is "http://id.ex`: func(o *inbox.OIDCOptions) { o.Issuer = "http://id.example.com" },
		`URL is "http://inbox.e`:  func(o *inbox.OIDCOptions) { o.URL = "http://inbox.example.com" },
		`URL is "javascript:`:     func(o *inbox.OIDCOptions) { o.URL = "javascript:alert(1)" },
	} {
		o := inbox.OIDCOptions{Issuer: "https://id.example.com", ClientID: "inbox", URL: "https://inbox.example.com",
			NameClaim: "sub", Keys: keys}
		change(&o)
		expect.Fails(t, "the error", expect.Err(inbox.NewOIDC(&o)), want)
	}
	if _, err := inbox.NewOIDC(nil); err == nil {
		t.Error("no options are no error")
	}
}
