package main

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/oauth2"

	"github.com/askback-mcp/askback"
	"github.com/askback-mcp/askback/askbacktest"
	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/state"
)

// newServers returns two instances behind a balancer that sends them requests by turns, and their calendar beside them.
func newServers(t *testing.T) (url string, c *calendar) {
	t.Helper()
	web := httptest.NewUnstartedServer(nil)
	url = "http://" + web.Listener.Addr().String()
	c = &calendar{store: new(state.MemoryStore), patience: 10 * time.Millisecond}
	if err := c.configureDemo(url); err != nil {
		t.Fatal(err)
	}
	var instances [2]http.Handler
	for i := range instances {
		instance := *c // shares the keys and the store
		var err error
		if instances[i], err = instance.handler(); err != nil {
			t.Fatal(err)
		}
	}
	var n atomic.Int64
	mux := http.NewServeMux()
	mux.Handle("/service/", http.StripPrefix("/service", new(service).handler()))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { instances[n.Add(1)%2].ServeHTTP(w, r) })
	web.Config.Handler = mux
	web.Start()
	t.Cleanup(web.Close)
	return url, c
}

// as sends requests as the proxy passes them on for a user.
type as string

func (user as) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if user != "" {
		r.Header.Set("X-User", string(user))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// browser is the browser of somebody who is signed in at the proxy.
func browser(t *testing.T, user string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: as(user), Jar: jar}
}

func open(t *testing.T, b *http.Client, page string) (status int, text string) {
	t.Helper()
	res, err := b.Get(page)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Error(err)
	}
	return res.StatusCode, string(body)
}

// call calls the tool as ada, whose host shows her the pages and questions.
func call(t *testing.T, url string, opts *client.Options) string {
	t.Helper()
	session, err := client.New(opts).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url + "/mcp", HTTPClient: &http.Client{Transport: as("ada")},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	res, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "next_meeting"})
	if err != nil {
		t.Fatal(err)
	}
	return res.Content[0].(*mcp.TextContent).Text
}

// callbackOf opens a login page, and returns where the calendar then sends the browser, which does not go there.
func callbackOf(t *testing.T, b *http.Client, page string) *url.URL {
	t.Helper()
	stops := *b
	stops.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/callback" {
			return http.ErrUseLastResponse
		}
		return nil
	}
	res, err := stops.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	at, err := res.Location()
	if err != nil {
		t.Fatal(err)
	}
	return at
}

const meeting = "Your next meeting is at ten."

// Eve cannot use ada's page. Ada logs in there, and the tool goes on. Then it asks nothing until the token has expired.
func TestLogin(t *testing.T) {
	server, _ := newServers(t)
	opened := 0
	opts := &client.Options{URL: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
		opened++
		if strings.Contains(q.URL, "ada") {
			t.Errorf("the address says whose it is: %s", q.URL)
		}
		if status, text := open(t, browser(t, "eve"), q.URL); status != http.StatusForbidden {
			t.Errorf("eve gets %d: %s", status, text)
		}
		if status, text := open(t, browser(t, "ada"), q.URL); status != http.StatusOK {
			t.Errorf("ada gets %d: %s", status, text)
		}
		return &mcp.ElicitResult{Action: "accept"}, nil
	}}
	for range 2 {
		if got := call(t, server, opts); got != meeting {
			t.Errorf("got %q", got)
		}
	}
	if opened != 1 {
		t.Errorf("%d pages were opened", opened)
	}
}

// Ada's host says at once that she opens the page, and she takes her time there.
func TestASlowLogin(t *testing.T) {
	server, _ := newServers(t)
	page := ""
	got := call(t, server, &client.Options{
		URL: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			page = q.URL
			return &mcp.ElicitResult{Action: "accept"}, nil
		},
		Form: func(_ context.Context, q *client.Question) (*mcp.ElicitResult, error) {
			if q.Key == "finished 1" {
				open(t, browser(t, "ada"), page)
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		},
	})
	if got != meeting {
		t.Errorf("got %q", got)
	}
}

func TestPagesThatAreRefused(t *testing.T) {
	const code = "&code=of+the+attacker"
	for name, attack := range map[string]struct {
		status int
		do     func(t *testing.T, page string, c *calendar) (status int, text string)
	}{
		"of ada, opened by eve": {http.StatusForbidden, func(t *testing.T, page string, _ *calendar) (int, string) {
			return open(t, browser(t, "eve"), page)
		}},
		"without signing in": {http.StatusUnauthorized, func(t *testing.T, page string, _ *calendar) (int, string) {
			return open(t, browser(t, ""), page)
		}},
		"altered": {http.StatusForbidden, func(t *testing.T, page string, _ *calendar) (int, string) {
			return open(t, browser(t, "ada"), page[:len(page)-1])
		}},
		"too late": {http.StatusForbidden, func(t *testing.T, page string, c *calendar) (int, string) {
			link, err := c.keys.Seal(linkFor("ada"), nil, time.Now().Add(-time.Hour), time.Now().Add(-time.Second))
			if err != nil {
				t.Fatal(err)
			}
			return open(t, browser(t, "ada"), c.public+"/login?link="+link)
		}},
		"a requestState": {http.StatusForbidden, func(t *testing.T, page string, c *calendar) (int, string) {
			link, err := c.keys.Seal(seal.Binding{Audience: "calendar", Principal: "ada"}, nil, time.Now(),
				time.Now().Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			return open(t, browser(t, "ada"), c.public+"/login?link="+link)
		}},
		"a callback of eve's login": {http.StatusForbidden, func(t *testing.T, page string, c *calendar) (int, string) {
			ofEve, err := c.loginPage("eve")
			if err != nil {
				t.Fatal(err)
			}
			b := browser(t, "ada")
			callbackOf(t, b, page) // her login has begun
			return open(t, b, strings.Replace(ofEve, "/login?link=", "/callback?state=", 1)+code)
		}},
		"a callback in another browser": {http.StatusForbidden, func(t *testing.T, page string, _ *calendar) (int, string) {
			return open(t, browser(t, "ada"), strings.Replace(page, "/login?link=", "/callback?state=", 1)+code)
		}},
		"a callback with a code of another login": {http.StatusBadGateway,
			func(t *testing.T, page string, c *calendar) (int, string) {
				ofEve, err := c.loginPage("eve")
				if err != nil {
					t.Fatal(err)
				}
				b := browser(t, "ada")
				callback := callbackOf(t, b, page)
				query := callback.Query()
				query.Set("code", callbackOf(t, browser(t, "eve"), ofEve).Query().Get("code"))
				callback.RawQuery = query.Encode()
				return open(t, b, callback.String())
			}},
		"refused by the calendar": {http.StatusForbidden, func(t *testing.T, page string, c *calendar) (int, string) {
			b := browser(t, "ada")
			at, err := url.Parse(c.public + "/callback")
			if err != nil {
				t.Fatal(err)
			}
			b.Jar.SetCookies(at, []*http.Cookie{c.cookie("verifier", 600)})
			return open(t, b, strings.Replace(page, "/login?link=", "/callback?error=access_denied&state=", 1))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := newServers(t)
			page, err := c.loginPage("ada")
			if err != nil {
				t.Fatal(err)
			}
			if status, text := attack.do(t, page, c); status != attack.status {
				t.Errorf("it gets %d, want %d: %s", status, attack.status, text)
			}
			for _, user := range []string{"ada", "eve"} {
				if token, err := c.token(t.Context(), user); token != nil || err != nil {
					t.Errorf("%s has the token %v, %v", user, token, err)
				}
			}
		})
	}
}

// A token in the store opens for its user only.
func TestTokensAreSealed(t *testing.T) {
	_, c := newServers(t)
	if err := c.keep(t.Context(), "ada", &oauth2.Token{AccessToken: "hunter2"}); err != nil {
		t.Fatal(err)
	}
	sealed, err := c.store.GetState(t.Context(), tokenID("ada"))
	if err != nil || len(sealed) == 0 || strings.Contains(string(sealed), "hunter2") {
		t.Fatalf("the store has %q, %v", sealed, err)
	}
	if err := c.store.PutState(t.Context(), tokenID("eve"), "", sealed, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if token, err := c.token(t.Context(), "ada"); err != nil || token.AccessToken != "hunter2" {
		t.Errorf("ada has %v, %v", token, err)
	}
	if token, err := c.token(t.Context(), "eve"); err != nil || token != nil {
		t.Errorf("eve has %v, %v", token, err)
	}
}

// loggingIn is a store in which ada's token appears once the first request, which askbacktest sends twice, has looked
// for it.
type loggingIn struct {
	state.Store
	c      *calendar
	looked int
}

func (s *loggingIn) GetState(ctx context.Context, id string) ([]byte, error) {
	if s.looked++; s.looked == 3 {
		if err := s.c.keep(ctx, "ada", &oauth2.Token{AccessToken: "token"}); err != nil {
			return nil, err
		}
	}
	return s.Store.GetState(ctx, id)
}

// The steps of the tool are safe to repeat, and its questions are the same in every run.
func TestUnit(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer token" {
			t.Errorf("the calendar gets %q", r.Header)
		}
		_, _ = io.WriteString(w, meeting)
	}))
	defer api.Close()
	accept := askbacktest.Accept(nil)
	for name, tt := range map[string]struct {
		logsIn  bool
		answers map[string]askbacktest.Answer
		asked   [][]string
		want    string
	}{
		"she logs in": {true, map[string]askbacktest.Answer{"login": accept}, [][]string{{"login"}}, meeting},
		"she never does": {false, map[string]askbacktest.Answer{
			"login": accept, "finished 0": accept, "finished 1": accept, "finished 2": accept,
		}, [][]string{{"login"}, {"finished 0"}, {"finished 1"}, {"finished 2"}},
			"nobody has logged in to the calendar: call the tool again"},
		"she does not want to": {false, map[string]askbacktest.Answer{"login": askbacktest.Decline()},
			[][]string{{"login"}}, `the user declined to answer the question "login"`},
	} {
		t.Run(name, func(t *testing.T) {
			keys, err := seal.NewRing(seal.NewKey(time.Now()))
			if err != nil {
				t.Fatal(err)
			}
			c := &calendar{public: "https://mcp.example.com", api: api.URL, keys: keys, patience: time.Millisecond,
				store: new(state.MemoryStore)}
			if tt.logsIn {
				c.store = &loggingIn{Store: c.store, c: c}
			}
			res := askbacktest.Run(t, func(srv *askback.Server) { c.register(srv) },
				askbacktest.Call{Tool: "next_meeting", Principal: "ada", Answers: tt.answers})
			if res.Text() != tt.want || !reflect.DeepEqual(res.Asked, tt.asked) {
				t.Errorf("got %q, asked %q", res.Text(), res.Asked)
			}
		})
	}
}
