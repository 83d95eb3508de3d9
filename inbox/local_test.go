package inbox_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// serveLocal serves an inbox for alice on this machine.
func serveLocal(t *testing.T) (*inbox.Local, *httptest.Server) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	l := expect.Must(inbox.NewLocal(desk.Person{Name: "alice", Groups: []string{"release"}}, s.Listener.Addr()))(t)
	s.Config.Handler, _ = newInbox(t, new(task.MemoryStore), l)
	s.Start()
	t.Cleanup(s.Close)
	return l, s
}

// token returns the token of a URL.
func token(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil || len(u.Fragment) < 26 || u.RawQuery != "" {
		t.Fatalf("the URL is %s, %v", address, err)
	}
	return u.Fragment
}

// The token of the URL is exchanged once. The script does it, or the user with the field of the page.
func TestLocalSignIn(t *testing.T) {
	l, s := serveLocal(t)
	alice := newBrowser(t, s)
	alice.is("401")
	res, page := alice.do("GET", "/whoami?a=b", nil) // is led to the page of signing in, which leads back
	if at := res.Request.URL; at.Path != "/auth/" || at.Query().Get("return") != "/whoami?a=b" ||
		!strings.Contains(page, `<label for="token">`) || !strings.Contains(page, `src="local.js"`) {
		t.Fatalf("%s: %s", at, page)
	}
	if res, script := alice.do("GET", "/auth/local.js", nil); !strings.Contains(script, "location.hash") ||
		!strings.Contains(res.Header.Get("Content-Type"), "javascript") {
		t.Errorf("%v: %s", res.Header, script)
	}
	secret := token(t, l.URL())
	res, page = alice.do("POST", "/auth/", url.Values{"token": {secret}, "return": {"/whoami?a=b"}},
		"Sec-Fetch-Site", "same-origin")
	if res.StatusCode != http.StatusOK || res.Request.URL.Path != "/whoami" || !strings.Contains(page, "alice") {
		t.Fatalf("%s: %s", res.Status, page)
	}
	alice.is("alice release")

	// Nobody else can use it again, not even before it has expired, and not in pieces.
	mallory := newBrowser(t, s)
	for _, try := range []string{secret, "", secret[:25], strings.ToLower(secret)} {
		if res, page := mallory.do("POST", "/auth/", url.Values{"token": {try}}); res.StatusCode != http.StatusForbidden ||
			!strings.Contains(page, "not valid") {
			t.Errorf("%q: %s", try, res.Status)
		}
	}
	mallory.is("401")

	// Somebody who has logged out is nobody, and neither is who has kept the cookie.
	kept := alice.cookie("askback-inbox-")
	if _, page := alice.do("POST", "/auth/logout", url.Values{}, "Origin", s.URL); !strings.Contains(page, "signed out") {
		t.Error(page)
	}
	alice.is("401")
	mallory.setCookie(kept)
	mallory.is("401")
	alice.do("POST", "/auth/", url.Values{"token": {token(t, l.URL())}})
	alice.is("alice release")
}

// A token lives five minutes, and until there is another one; a session eight hours.
func TestLocalTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := httptest.NewUnstartedServer(nil)
		defer s.Close()
		l := expect.Must(inbox.NewLocal(desk.Person{Name: "alice"}, s.Listener.Addr()))(t)
		in, _ := newInbox(t, new(task.MemoryStore), l)
		send := func(method, path, form string, cookies ...*http.Cookie) *http.Response {
			r := httptest.NewRequest(method, path, strings.NewReader(form))
			r.Host, r.RemoteAddr = s.Listener.Addr().String(), "127.0.0.1:1"
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			for _, c := range cookies {
				r.AddCookie(c)
			}
			return send(in, r).Result()
		}
		exchange := func(secret string) *http.Response { return send("POST", "/auth/", "token="+secret) }
		old := token(t, l.URL())
		last := token(t, l.URL())
		if res := exchange(old); res.StatusCode != http.StatusForbidden {
			t.Errorf("the token before the last: %s", res.Status)
		}
		time.Sleep(5*time.Minute + time.Millisecond)
		if res := exchange(last); res.StatusCode != http.StatusForbidden {
			t.Errorf("a token after its time: %s", res.Status)
		}
		res := exchange(token(t, l.URL()))
		if res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
			t.Fatal(res.Status)
		}
		c := res.Cookies()[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.MaxAge != 8*60*60 {
			t.Errorf("the cookie is %v", c)
		}
		time.Sleep(8*time.Hour - time.Second)
		if res := send("GET", "/api/whoami", "", c); res.StatusCode != http.StatusOK {
			t.Errorf("before its time is over: %s", res.Status)
		}
		time.Sleep(time.Second)
		if res := send("GET", "/api/whoami", "", c); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("after it: %s", res.Status)
		}
	})
}
