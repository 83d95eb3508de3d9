// Command login is an MCP server whose tool needs the user's account at another service: a calendar. The tool asks the
// user by URL to log in there, waits for the callback of the browser, and goes on.
//
//	go run ./examples/login -demo     # with a calendar of its own, to try it
//
// Without -demo its environment says where it runs and where the calendar is: see configure. It stands behind a proxy
// that signs in the people at their browsers and verifies the tokens of MCP clients. For both the proxy sets the header
// X-User, and removes one that is sent to it. Nothing but the proxy may reach the server's address.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/oauth2"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/drain"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
	"github.com/askback-mcp/askback/task/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	demo := flag.Bool("demo", false, "bring a calendar, and take everybody without the header X-User for ada")
	flag.Parse()
	addr := cmp.Or(os.Getenv("ADDR"), "127.0.0.1:8080")
	c := &calendar{patience: 20 * time.Second}
	if *demo {
		err = c.configureDemo("http://" + addr)
	} else {
		err = c.configure(ctx)
	}
	if err != nil {
		return err
	}
	store, err := sqlite.Open(ctx, cmp.Or(os.Getenv("STORE"), "login.db")) // for several machines task/postgres
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c.store = store
	handler, err := c.handler()
	if err != nil {
		return err
	}
	if *demo {
		handler = withDemo(handler)
	}
	listener, err := drain.Listen(addr)
	if err != nil {
		return err
	}
	log.Printf("listening on http://%s/mcp", listener.Addr())
	return drain.Serve(ctx, listener, &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}, nil)
}

// configure reads the environment. The client of OAuth is registered at the calendar with PUBLIC_URL/callback.
func (c *calendar) configure(ctx context.Context) (err error) {
	var missing []string
	get := func(name string) string {
		if os.Getenv(name) == "" {
			missing = append(missing, name)
		}
		return os.Getenv(name)
	}
	c.public = strings.TrimSuffix(get("PUBLIC_URL"), "/") // of this server, such as https://mcp.example.com
	c.api = get("CALENDAR_API_URL")
	c.oauth = oauth2.Config{
		ClientID: get("CALENDAR_CLIENT_ID"), ClientSecret: get("CALENDAR_CLIENT_SECRET"),
		Endpoint: oauth2.Endpoint{AuthURL: get("CALENDAR_AUTHORIZE_URL"), TokenURL: get("CALENDAR_TOKEN_URL")},
		Scopes:   strings.Fields(os.Getenv("CALENDAR_SCOPES")), RedirectURL: c.public + "/callback",
	}
	if len(missing) > 0 {
		return fmt.Errorf("the environment lacks %s; try the server with -demo", strings.Join(missing, ", "))
	}
	c.keys, err = seal.File(cmp.Or(os.Getenv("KEYS"), "askback.keys")).Load(ctx) // the same keys on every instance
	return err
}

// toCalendar is the client for the calendar. It follows no redirect, which would take secrets and tokens with it.
var toCalendar = &http.Client{
	Timeout:       20 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// calendar lets a tool read the calendars of its callers.
type calendar struct {
	public   string        // where browsers reach this server
	api      string        // tells the next meeting
	oauth    oauth2.Config // at the calendar
	keys     *seal.Ring    // seal links and access tokens
	store    state.Store   // keeps sealed access tokens; all instances share it
	patience time.Duration // how long one request waits for a callback; less than a host waits for a response
}

// handler serves MCP at /mcp, and the page that the user opens.
func (c *calendar) handler() (http.Handler, error) {
	srv, err := askback.New(mcp.NewServer(&mcp.Implementation{Name: "calendar", Version: "1.0.0"}, nil), &askback.Options{
		Keys:      c.keys,
		Principal: func(_ context.Context, extra *mcp.RequestExtra) (string, error) { return user(extra.Header) },
	})
	if err != nil {
		return nil, err
	}
	c.register(srv)
	at, err := url.Parse(c.public)
	if err != nil || at.Host == "" {
		return nil, fmt.Errorf("PUBLIC_URL is %q: want where browsers reach this server, such as https://mcp.example.com",
			c.public)
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", srv.HTTPHandler(&askback.HTTPOptions{AllowedHosts: []string{at.Host}}))
	mux.HandleFunc("GET /login", c.serveLogin)
	mux.HandleFunc("GET /callback", c.serveCallback)
	return mux, nil
}

// user returns who sent a request, as the proxy says.
func user(h http.Header) (string, error) {
	if names := h.Values("X-User"); len(names) == 1 && names[0] != "" {
		return names[0], nil
	}
	return "", errors.New("the proxy has not set the header X-User")
}

func (c *calendar) register(srv *askback.Server) {
	askback.AddTool(srv, &mcp.Tool{Name: "next_meeting", Description: "Say when the next meeting is"},
		func(ctx context.Context, call *askback.Call, _ struct{}) (string, error) {
			if err := c.login(ctx, call); err != nil {
				return "", err
			}
			return askback.Do(ctx, call, "meeting", func(ctx context.Context) (string, error) {
				return c.nextMeeting(ctx, call.Principal())
			})
		})
}

// login returns nil once the caller has logged in to the calendar. No step returns the access token, because the result
// of a step travels through the client.
func (c *calendar) login(ctx context.Context, call *askback.Call) error {
	page, err := askback.Do(ctx, call, "page", func(ctx context.Context) (string, error) { // the same page each time
		token, err := c.token(ctx, call.Principal())
		if token != nil || err != nil {
			return "", err // logged in already
		}
		return c.loginPage(call.Principal())
	})
	if page == "" || err != nil {
		return err
	}
	if err := askback.ElicitURL(call, "login", "Log in to your calendar, so that it can be read.", page); err != nil {
		return err
	}
	for try := range 3 { // the user has agreed to open the page, and is perhaps still typing
		done, err := askback.Do(ctx, call, fmt.Sprint("wait ", try), func(ctx context.Context) (bool, error) {
			return c.wait(ctx, call.Principal())
		})
		if done || err != nil {
			return err
		}
		err = askback.Approve(call, fmt.Sprint("finished ", try), askback.Question{
			Message: "You have not logged in to your calendar yet. Go on once you have.",
		})
		if err != nil {
			return err
		}
	}
	return errors.New("nobody has logged in to the calendar: call the tool again")
}

// linkFor binds the link of a login page to its user: the link opens for nobody else, and for ten minutes.
func linkFor(user string) seal.Binding {
	return seal.Binding{Audience: "calendar login", Principal: user}
}

// loginPage returns the URL of a user's login page. Nobody can guess it or read in it whose it is.
func (c *calendar) loginPage(user string) (string, error) {
	now := time.Now()
	link, err := c.keys.Seal(linkFor(user), nil, now, now.Add(10*time.Minute))
	return c.public + "/login?link=" + url.QueryEscape(link), err
}

// verifierCookie has the PKCE verifier, which proves to the calendar that the callback comes from the browser that
// opened the login page.
const verifierCookie = "calendar_login"

// serveLogin sends the browser on to the calendar, if it is the caller's.
func (c *calendar) serveLogin(w http.ResponseWriter, r *http.Request) {
	link := r.FormValue("link")
	if c.opens(w, r, link) == "" {
		return
	}
	verifier := oauth2.GenerateVerifier()
	http.SetCookie(w, c.cookie(verifier, 600))
	http.Redirect(w, r, c.oauth.AuthCodeURL(link, oauth2.S256ChallengeOption(verifier)), http.StatusSeeOther)
}

// serveCallback takes the code with which the calendar sends the browser back.
func (c *calendar) serveCallback(w http.ResponseWriter, r *http.Request) {
	user := c.opens(w, r, r.FormValue("state"))
	if user == "" {
		return
	}
	verifier, err := r.Cookie(verifierCookie)
	http.SetCookie(w, c.cookie("", -1)) // is good for one callback
	switch {
	case err != nil:
		http.Error(w, "The login did not begin in this browser. Open the login page again.", http.StatusForbidden)
		return
	case r.FormValue("error") != "":
		http.Error(w, "The calendar has not let you in. Open the login page again.", http.StatusForbidden)
		return
	}
	ctx := context.WithValue(r.Context(), oauth2.HTTPClient, toCalendar)
	token, err := c.oauth.Exchange(ctx, r.FormValue("code"), oauth2.VerifierOption(verifier.Value))
	if err == nil {
		err = c.keep(ctx, user, token)
	}
	if err != nil {
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok { // whose text has the whole response
			err = fmt.Errorf("the calendar refused the code: %q", refused.ErrorCode)
		}
		log.Printf("logging in to the calendar: %v", err)
		http.Error(w, "The login has failed. Open the login page again.", http.StatusBadGateway)
		return
	}
	_, _ = io.WriteString(w, "You are logged in. Close this window.\n")
}

// opens returns who sent a request, if the link is theirs. Otherwise it answers the request, and returns "".
func (c *calendar) opens(w http.ResponseWriter, r *http.Request, link string) string {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("X-Frame-Options", "DENY")
	user, err := user(r.Header)
	if err != nil {
		http.Error(w, "Sign in first.", http.StatusUnauthorized)
		return ""
	}
	if _, err := c.keys.Open(link, linkFor(user), time.Now()); err != nil {
		log.Printf("%q opened a login page that is refused: %s", user, reason(err))
		http.Error(w, "This page is somebody else's, or it has expired. Call the tool yourself.", http.StatusForbidden)
		return ""
	}
	return user
}

// reason says in a word why something sealed does not open.
func reason(err error) string {
	if refused, ok := errors.AsType[*seal.OpenError](err); ok {
		return string(refused.Reason)
	}
	return err.Error()
}

func (c *calendar) cookie(value string, age int) *http.Cookie {
	return &http.Cookie{Name: verifierCookie, Value: value, Path: "/callback", MaxAge: age, HttpOnly: true,
		Secure: strings.HasPrefix(c.public, "https:"), SameSite: http.SameSiteLaxMode}
}

// tokenOf binds an access token to its user, and tokenID is where it is kept.
func tokenOf(user string) seal.Binding {
	return seal.Binding{Audience: "calendar token", Principal: user}
}

func tokenID(user string) string {
	sum := sha256.Sum256([]byte("calendar token of " + user))
	return hex.EncodeToString(sum[:])
}

// keep keeps an access token until it expires: then the user logs in again.
func (c *calendar) keep(ctx context.Context, user string, token *oauth2.Token) error {
	now := time.Now()
	expires := token.Expiry
	if expires.IsZero() || expires.After(now.Add(24*time.Hour)) {
		expires = now.Add(24 * time.Hour)
	}
	payload, err := json.Marshal(token.AccessToken)
	if err != nil {
		return err
	}
	sealed, err := c.keys.Seal(tokenOf(user), payload, now, expires)
	if err != nil {
		return err
	}
	return c.store.PutState(ctx, tokenID(user), "", []byte(sealed), expires)
}

// token returns the access token of a user, or nil.
func (c *calendar) token(ctx context.Context, user string) (*oauth2.Token, error) {
	sealed, err := c.store.GetState(ctx, tokenID(user))
	if sealed == nil || err != nil {
		return nil, err
	}
	opened, err := c.keys.Open(string(sealed), tokenOf(user), time.Now())
	if err != nil {
		log.Printf("%q has to log in to the calendar again: %s", user, reason(err)) // its key has been retired, for example
		return nil, nil
	}
	token := new(oauth2.Token)
	return token, json.Unmarshal(opened.Payload, &token.AccessToken)
}

// wait reports whether the user logs in soon. The callback may reach another instance.
func (c *calendar) wait(ctx context.Context, user string) (bool, error) {
	tick := time.NewTicker(min(500*time.Millisecond, c.patience))
	defer tick.Stop()
	for end := time.Now().Add(c.patience); ; {
		if token, err := c.token(ctx, user); token != nil || err != nil {
			return err == nil, err
		}
		if !time.Now().Before(end) {
			return false, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
}

// nextMeeting asks the calendar.
func (c *calendar) nextMeeting(ctx context.Context, user string) (string, error) {
	token, err := c.token(ctx, user)
	if err != nil {
		return "", err
	}
	if token == nil {
		return "", errors.New("the login to the calendar has ended: call the tool again")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.api, nil)
	if err != nil {
		return "", err
	}
	token.SetAuthHeader(req)
	res, err := toCalendar.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("the calendar answered %s", res.Status)
	}
	return string(body), err
}
