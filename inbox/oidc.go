package inbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/internal/throttle"
	"github.com/askback-mcp/askback/seal"
)

// OIDCOptions configure [NewOIDC].
type OIDCOptions struct {
	// Issuer is the URL of the provider, as it writes it itself: https, or http on this machine. It is required.
	Issuer string
	// ClientID is the provider's name for this inbox. It is required.
	ClientID string
	// ClientSecret is the secret that the provider gave it. Empty means a public client, which PKCE protects alone.
	ClientSecret string
	// URL is the address of the inbox, such as "https://inbox.example.com". It is required. The provider must know
	// URL + "/auth/callback" as a redirect URI.
	URL string

	// NameClaim is the claim with the name of the person. It is required, because the name must be the one that
	// Options.Principal of package askback gives the same person: "sub" where that takes the subject of a token. With
	// "email" the provider must say that the address is verified.
	NameClaim string
	// NamePrefix stands before the claim in the name, such as the issuer and a space.
	NamePrefix string
	// GroupsClaim is the claim with the groups, an array of texts or one text. Empty means that nobody is in a group.
	GroupsClaim string
	// Keep are the groups that questions can be for. Others are left out. Nil keeps all; then somebody in more than 64
	// is refused.
	Keep []string
	// Scopes are requested besides "openid". Nil means "profile" and "email". Some providers have one for the groups.
	Scopes []string

	// Keys seal the cookies. Instances behind one address share them. It is required. seal.Ring.RevokeBefore ends all
	// sessions.
	Keys *seal.Ring
	// Session is the time for which somebody stays signed in, with the groups of the sign-in. Zero means
	// 8 hours.
	Session time.Duration

	// Proxies are the addresses of the proxies in front, whose X-Forwarded-For is believed: a bound keeps the people of
	// one address from taking all places at the provider. Nil means none, and then people behind a proxy are one peer.
	Proxies []netip.Prefix

	// HTTPClient is used for requests to the provider. It follows no redirect to another origin, which would get the
	// secret, codes and tokens. Nil means one with a timeout of 10 seconds.
	HTTPClient *http.Client
	// Logger gets why somebody could not sign in. Nil means slog.Default.
	Logger *slog.Logger
}

const (
	defaultSession = 8 * time.Hour
	loginTime      = 10 * time.Minute // from the redirect to the provider until the way back
	providerTime   = 10 * time.Second
	retryTime      = 5 * time.Second // between two attempts to discover a provider that does not answer
	clockSkew      = time.Minute
	mostProvider   = 1 << 20 // bytes of a response of the provider

	mostExchanges     = 128 // that wait for the provider at once
	mostExchangesEach = 64  // of one peer
	mostQueue         = 1024
	queueTime         = 30 * time.Second
)

// OIDC is an [Identity] by OpenID Connect: people sign in at a provider, with the authorization code flow and PKCE.
// It is safe for concurrent use.
type OIDC struct {
	OIDCOptions
	sessions sessions
	client   *http.Client
	log      *slog.Logger
	waiting  turns // to redeem a code

	attempts singleflight.Group // to discover the provider

	mu       sync.Mutex
	provider *provider
	failure  error // of the last attempt
	failed   time.Time
}

// provider is the provider as its discovery document describes it.
type provider struct {
	*oidc.Provider
	verifier   *oidc.IDTokenVerifier
	endSession string // the address of RP-initiated logout, or empty
}

// NewOIDC returns the identity. The error is for options that cannot be used. The provider is discovered when somebody
// signs in for the first time, again and again until it answers; [OIDC.Discover] does it at once.
func NewOIDC(opts *OIDCOptions) (*OIDC, error) {
	if opts == nil {
		opts = new(OIDCOptions)
	}
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("inbox: OpenID Connect: %w", err)
	}
	o := &OIDC{OIDCOptions: *opts, client: new(http.Client), log: opts.Logger,
		waiting: turns{places: mostExchanges, each: mostExchangesEach, queue: mostQueue}}
	o.URL = strings.TrimSuffix(o.URL, "/")
	if o.log == nil {
		o.log = slog.Default()
	}
	o.log = throttle.New(o.log) // strangers can write to it
	if o.Scopes == nil {
		o.Scopes = []string{"profile", "email"}
	}
	if o.Session == 0 {
		o.Session = defaultSession
	}
	if o.client.Timeout = providerTime; o.HTTPClient != nil {
		*o.client = *o.HTTPClient
	}
	// Also around a client of the operator: one that follows every redirect would send the secret wherever a provider
	// that was taken over points.
	o.client.Transport = boundedTransport{o.client.Transport}
	o.client.CheckRedirect = atOrigin(o.client.CheckRedirect)
	o.sessions = sessions{
		ring: o.Keys, cookie: hostPrefix + "askback-inbox", secure: true, audience: "inbox " + o.URL, length: o.Session,
	}
	return o, nil
}

func (o *OIDCOptions) check() error {
	for _, f := range []struct{ name, value string }{
		{"Issuer", o.Issuer}, {"ClientID", o.ClientID}, {"URL", o.URL}, {"NameClaim", o.NameClaim},
	} {
		if f.value == "" {
			return fmt.Errorf("the option %s is missing", f.name)
		}
	}
	for _, f := range []struct{ name, value string }{{"Issuer", o.Issuer}, {"URL", o.URL}} {
		if !isSecure(f.value) {
			return fmt.Errorf("the option %s is %q: want an https:// URL, or http:// on this machine", f.name, f.value)
		}
	}
	switch {
	case o.Keys == nil || len(o.Keys.Keys()) == 0:
		return errors.New("the option Keys has no key: make one with 'askback keys new'")
	case o.Session != 0 && o.Session < time.Minute:
		return fmt.Errorf("the option Session is %v: want at least a minute", o.Session)
	}
	return nil
}

// isSecure reports whether nobody on the way can read or change a request to a URL, which has nothing but a host and a
// path.
func isSecure(address string) bool {
	u, err := url.Parse(address)
	return err == nil && u.User == nil && u.RawQuery == "" && u.Fragment == "" && isEncrypted(u)
}

// isEncrypted reports whether the way to a URL is encrypted, or does not leave this machine.
func isEncrypted(u *url.URL) bool {
	if u.Scheme != "http" {
		return u.Scheme == "https" && u.Host != ""
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && ip.IsLoopback()
}

// atOrigin refuses redirects to another origin. It leaves the others to next, which may be nil.
func atOrigin(next func(*http.Request, []*http.Request) error) func(*http.Request, []*http.Request) error {
	origin := func(u *url.URL) string {
		port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
		return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
	}
	return func(r *http.Request, via []*http.Request) error {
		from, to := origin(via[len(via)-1].URL), origin(r.URL)
		switch {
		case from != to:
			return fmt.Errorf("the provider redirects from %.100s to %.100s, which would get secrets: this is not followed",
				from, to)
		case next != nil:
			return next(r, via)
		case len(via) >= 10:
			return errors.New("the provider redirects too often")
		}
		return nil
	}
}

// boundedTransport refuses addresses to which the way is not encrypted, and responses that are too large to be a
// provider's.
type boundedTransport struct{ next http.RoundTripper }

func (t boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !isEncrypted(r.URL) {
		return nil, fmt.Errorf("the address %.100s of the provider is not https", r.URL.Redacted())
	}
	next := t.next
	if next == nil {
		next = http.DefaultTransport
	}
	res, err := next.RoundTrip(r)
	if err == nil {
		res.Body = http.MaxBytesReader(nil, res.Body, mostProvider)
	}
	return res, err
}

// Person implements [Identity].
func (o *OIDC) Person(r *http.Request) (desk.Person, error) { return o.sessions.person(r) }

// Discover asks the provider for its configuration, unless it has been asked before. An error is no reason not to
// serve: people who are signed in do not need the provider, and the next one who signs in asks again.
func (o *OIDC) Discover(ctx context.Context) error {
	_, err := o.discover(ctx)
	return err
}

// known returns the provider or, for a while after an attempt, why it is not known. Without both an attempt is due.
func (o *OIDC) known() (*provider, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.provider == nil && o.failure != nil && time.Since(o.failed) < retryTime {
		return nil, o.failure
	}
	return o.provider, nil
}

// discover returns the provider. Requests that need it at the same time wait for one attempt.
func (o *OIDC) discover(ctx context.Context) (*provider, error) {
	if p, err := o.known(); p != nil || err != nil {
		return p, err
	}
	attempt := o.attempts.DoChan("", func() (any, error) {
		if p, err := o.known(); p != nil || err != nil {
			return p, err
		}
		// The attempt outlives the request that began it, because others wait for it.
		p, err := o.find(context.WithoutCancel(ctx))
		o.mu.Lock()
		defer o.mu.Unlock()
		o.provider, o.failure, o.failed = p, err, time.Now()
		return p, err
	})
	select {
	case made := <-attempt:
		return made.Val.(*provider), made.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// find asks the provider how it is used.
func (o *OIDC) find(ctx context.Context) (*provider, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, o.client), providerTime)
	defer cancel()
	found, err := oidc.NewProvider(ctx, o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", o.Issuer, err)
	}
	p := &provider{Provider: found}
	p.verifier = found.VerifierContext(ctx, &oidc.Config{
		// The provider's clock may differ: a token that expired less than a minute ago passes.
		ClientID: o.ClientID, Now: func() time.Time { return time.Now().Add(-clockSkew) },
	})
	var more struct {
		EndSession string `json:"end_session_endpoint"`
	}
	if err := found.Claims(&more); err == nil && isSecure(more.EndSession) {
		p.endSession = more.EndSession
	}
	return p, nil
}

// ServeHTTP signs people in and out.
func (o *OIDC) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "GET /auth/":
		o.begin(w, r)
	case "GET /auth/callback":
		o.finish(w, r)
	case "POST /auth/logout":
		o.logOut(w, r)
	default:
		serveAuthAsset(w, r)
	}
}

// login is a sign-in that has begun. The browser keeps it, sealed, so that a sign-in that nobody finishes costs the
// inbox nothing, and every instance can finish it.
type login struct {
	State    string `json:"state"`    // ties the way back to this browser: nobody can sign somebody else in
	Nonce    string `json:"nonce"`    // ties the ID token to this sign-in
	Verifier string `json:"verifier"` // ties the code to this sign-in (PKCE)
	Return   string `json:"return"`
}

func (o *OIDC) loginCookie() string { return hostPrefix + "askback-login" }

func (o *OIDC) config(p *provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: o.ClientID, ClientSecret: o.ClientSecret, Endpoint: p.Endpoint(),
		RedirectURL: o.URL + "/auth/callback", Scopes: append([]string{oidc.ScopeOpenID}, o.Scopes...),
	}
}

// begin sends the browser to the provider.
func (o *OIDC) begin(w http.ResponseWriter, r *http.Request) {
	p, err := o.discover(r.Context())
	if err != nil {
		o.unavailable(w, r, err)
		return
	}
	l := login{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(),
		Return: localPath(r.URL.Query().Get("return")),
	}
	payload, err := json.Marshal(l)
	now, sealed := time.Now(), ""
	if err == nil {
		sealed, err = o.Keys.Seal(o.sessions.binding("login"), payload, now, now.Add(loginTime))
	}
	if err != nil {
		o.refuse(w, r, http.StatusInternalServerError, "The sign-in could not begin.", err)
		return
	}
	o.sessions.set(w, o.loginCookie(), sealed, loginTime)
	http.Redirect(w, r, o.config(p).AuthCodeURL(l.State, oidc.Nonce(l.Nonce), oauth2.S256ChallengeOption(l.Verifier)),
		http.StatusSeeOther)
}

// finish signs in somebody who comes back from the provider.
func (o *OIDC) finish(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	l, err := o.pending(r, q.Get("state"))
	if err != nil {
		if _, signedIn := o.Person(r); signedIn == nil { // in another tab
			redirect(w, "/")
			return
		}
		o.refuse(w, r, http.StatusBadRequest, "This sign-in is over, or another one has taken its place.", err)
		return
	}
	o.sessions.set(w, o.loginCookie(), "", -time.Second) // whatever follows, another attempt begins anew
	switch iss := q.Get("iss"); {                        // RFC 9207
	case iss != "" && iss != o.Issuer:
		err = fmt.Errorf("the answer comes from the issuer %.100q", iss)
	case q.Get("error") != "":
		err = fmt.Errorf("the provider refused: %.100q %.300q", q.Get("error"), q.Get("error_description"))
	case q.Get("code") == "":
		err = errors.New("the provider sent no code")
	}
	if err != nil {
		o.refuse(w, r, http.StatusForbidden, "The provider did not sign you in.", err)
		return
	}
	// Anybody can begin a sign-in and invent a code, and each code costs a request to the provider. So peers take turns.
	peer := peerOf(r, o.Proxies)
	ctx, cancel := context.WithTimeout(r.Context(), queueTime)
	defer cancel()
	if err := o.waiting.take(ctx, peer); err != nil {
		o.unavailable(w, r, fmt.Errorf("the queue for the provider: %w", err))
		return
	}
	defer o.waiting.leave(peer)
	p, err := o.discover(r.Context())
	if err != nil {
		o.unavailable(w, r, err)
		return
	}
	s, err := o.exchange(oidc.ClientContext(r.Context(), o.client), p, q.Get("code"), l)
	if err == nil {
		err = o.sessions.begin(w, s)
	}
	if _, away := errors.AsType[net.Error](err); away {
		o.unavailable(w, r, err)
		return
	}
	if err != nil {
		o.refuse(w, r, http.StatusForbidden, "The inbox cannot tell from the provider's answer who you are.", err)
		return
	}
	redirect(w, l.Return)
}

// pending returns the login that the browser has begun, if it is the one with this state.
func (o *OIDC) pending(r *http.Request, state string) (l login, err error) {
	opened, err := o.sessions.open(r, o.loginCookie(), "login")
	if err != nil {
		return l, err
	}
	if err := json.Unmarshal(opened.Payload, &l); err != nil {
		return l, err
	}
	if subtle.ConstantTimeCompare([]byte(l.State), []byte(state)) == 0 {
		return l, errors.New("the state belongs to another browser")
	}
	return l, nil
}

// exchange redeems a code, and returns the session of who has it.
func (o *OIDC) exchange(ctx context.Context, p *provider, code string, l login) (s session, err error) {
	token, err := o.config(p).Exchange(ctx, code, oauth2.VerifierOption(l.Verifier))
	if err != nil {
		return s, fmt.Errorf("redeem the code: %w", err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return s, errors.New("the provider sent no ID token")
	}
	id, err := p.verifier.Verify(ctx, raw)
	if err != nil {
		return s, fmt.Errorf("the ID token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(l.Nonce)) == 0 {
		return s, errors.New("the ID token has the nonce of another sign-in")
	}
	if id.AccessTokenHash != "" { // the access token, which fetches the UserInfo, was issued with this ID token
		if err := id.VerifyAccessToken(token.AccessToken); err != nil {
			return s, fmt.Errorf("the ID token: %w", err)
		}
	}
	told, more, err := o.claims(ctx, p, id, token)
	if err != nil {
		return s, err
	}
	who, err := o.read(told, more)
	if err == nil {
		err = checkPerson(who)
	}
	return session{Name: who.Name, Groups: who.Groups, IDToken: raw}, err
}

// claims returns the claims of an ID token and, if it lacks one that is needed, those of the UserInfo endpoint.
func (o *OIDC) claims(ctx context.Context, p *provider, id *oidc.IDToken, token *oauth2.Token) (told, more claims,
	err error) {
	if err := id.Claims(&told); err != nil {
		return nil, nil, fmt.Errorf("the claims: %w", err)
	}
	// OpenID Connect Core, section 3.1.3.7
	if azp := told.text("azp"); (told.has("azp") || len(id.Audience) > 1) && azp != o.ClientID {
		return nil, nil, fmt.Errorf("the ID token is for the client %.100q", azp)
	}
	if told.has(o.NameClaim) && (o.GroupsClaim == "" || told.has(o.GroupsClaim)) || p.UserInfoEndpoint() == "" {
		return told, nil, nil
	}
	info, err := p.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return nil, nil, fmt.Errorf("the UserInfo: %w", err)
	}
	if info.Subject != id.Subject { // OpenID Connect Core, section 5.3.2
		return nil, nil, errors.New("the UserInfo is about another subject than the ID token")
	}
	if err := info.Claims(&more); err != nil {
		return nil, nil, fmt.Errorf("the UserInfo: %w", err)
	}
	return told, more, nil
}

// claims are the claims about a person.
type claims map[string]json.RawMessage

func (c claims) has(name string) bool { _, ok := c[name]; return ok }

// text returns a claim that is a text, or "".
func (c claims) text(name string) string {
	var text string
	_ = json.Unmarshal(c[name], &text) // any other value leaves it empty
	return text
}

// keepsElsewhere reports whether a claim is at another address (OpenID Connect Core, section 5.6.2).
func (c claims) keepsElsewhere(claim string) bool {
	var names map[string]string
	_ = json.Unmarshal(c["_claim_names"], &names)
	_, elsewhere := names[claim]
	return elsewhere
}

// read returns the person of an ID token and a UserInfo. A name and its verification come from the same source, and so
// do the groups: from the ID token or, if it lacks the claim, from the UserInfo. With mixed sources, "email_verified"
// of one address could vouch for another.
func (o *OIDC) read(told, more claims) (p desk.Person, err error) {
	of := func(claim string) claims {
		if told.has(claim) || !more.has(claim) {
			return told
		}
		return more
	}
	source := of(o.NameClaim)
	name := source.text(o.NameClaim)
	switch {
	case name == "":
		return p, fmt.Errorf("the claim %q, which has the name, is missing or not a text", o.NameClaim)
	case o.NameClaim == "email" && string(source["email_verified"]) != "true" && source.text("email_verified") != "true":
		return p, errors.New(`the claim "email" is not verified: the provider must say "email_verified": true beside it`)
	}
	p.Name = o.NamePrefix + name
	if o.GroupsClaim == "" {
		return p, nil
	}
	groups := of(o.GroupsClaim)
	switch {
	case !groups.has(o.GroupsClaim) && (told.keepsElsewhere(o.GroupsClaim) || more.keepsElsewhere(o.GroupsClaim)):
		return p, fmt.Errorf("the person is in so many groups that the provider keeps the claim %q elsewhere: have it name "+
			"only the groups that are assigned to this inbox", o.GroupsClaim)
	case !groups.has(o.GroupsClaim):
		return p, nil
	}
	if one := groups.text(o.GroupsClaim); one != "" {
		p.Groups = []string{one}
	} else if err := json.Unmarshal(groups[o.GroupsClaim], &p.Groups); err != nil {
		return p, fmt.Errorf("the claim %q, which has the groups, is not an array of texts", o.GroupsClaim)
	}
	p.Groups = keep(p.Groups, o.Keep)
	return p, nil
}

// logOut ends the session here and, if the provider can do that, leads the browser there (OpenID Connect RP-Initiated
// Logout, section 2). A redirect would be one of a form, which the policy of the pages forbids to go elsewhere.
func (o *OIDC) logOut(w http.ResponseWriter, r *http.Request) {
	of := o.sessions.end(w, r)
	page := authPage{Done: true}
	if p, err := o.known(); err == nil && p != nil && p.endSession != "" {
		q := url.Values{"client_id": {o.ClientID}}
		if of.IDToken != "" {
			q.Set("id_token_hint", of.IDToken)
		}
		page.Provider = p.endSession + "?" + q.Encode()
		w.Header().Set("Refresh", "0; url="+page.Provider)
	}
	showAuth(w, http.StatusOK, page)
}

func (o *OIDC) unavailable(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("Retry-After", fmt.Sprint(int(retryTime/time.Second)))
	o.refuse(w, r, http.StatusServiceUnavailable, "The provider cannot be reached now. Try again in a moment.", err)
}

// refuse shows the person words without the reason, which could help somebody who guesses, and logs the reason.
func (o *OIDC) refuse(w http.ResponseWriter, r *http.Request, status int, words string, err error) {
	o.log.WarnContext(r.Context(), "inbox: somebody could not sign in", "error", fmt.Sprintf("%.1000v", err))
	showAuth(w, status, authPage{Problem: words, Return: "/"})
}
