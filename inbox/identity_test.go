package inbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

// openDesk returns a desk on a store.
func openDesk(t *testing.T, s task.Store) *desk.Desk {
	t.Helper()
	d := expect.Must(desk.Open(s, nil))(t)
	return d
}

// newInbox returns an inbox on a store, and its log.
func newInbox(t *testing.T, s task.Store, who inbox.Identity) (*inbox.Inbox, *logBuffer) {
	t.Helper()
	log := new(logBuffer)
	in, err := inbox.New(openDesk(t, s), &inbox.Options{Identity: who, Logger: slog.New(slog.NewTextHandler(log, nil))})
	expect.Check(t, err)
	return in, log
}

// logBuffer is what was logged.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// send gives a request to a handler.
func send(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// whoIs asks an inbox who sent a request. The answer is "401" and so on if it is refused.
func whoIs(t *testing.T, h http.Handler, r *http.Request) string {
	t.Helper()
	r.Method, r.URL.Path = http.MethodGet, "/api/whoami"
	w := send(h, r)
	if w.Code != http.StatusOK {
		return w.Result().Status[:3]
	}
	var p struct {
		Name   string
		Groups []string
	}
	expect.Check(t, json.Unmarshal(w.Body.Bytes(), &p))
	return strings.Join(append([]string{p.Name}, p.Groups...), " ")
}

type principal struct{}

// Behind the operator's own middleware people are whom it has put into the context.
func TestIdentityOfMiddleware(t *testing.T) {
	in, log := newInbox(t, new(task.MemoryStore), inbox.IdentityFunc(func(r *http.Request) (desk.Person, error) {
		p, ok := r.Context().Value(principal{}).(desk.Person)
		if !ok {
			return p, errors.New("the middleware was left out")
		}
		return p, nil
	}))
	as := func(p desk.Person) *http.Request {
		return httptest.NewRequest("GET", "/", nil).WithContext(context.WithValue(t.Context(), principal{}, p))
	}
	alice := desk.Person{Name: "alice", Groups: []string{"release", "oncall"}}
	expect.Equal(t, "whoIs(t, in, as(alice))", whoIs(t, in, as(alice)), "alice release oncall")
	expect.Equal(t, "without the middleware", whoIs(t, in, httptest.NewRequest("GET", "/", nil)), "401")
	for _, p := range []desk.Person{{}, {Name: " alice"}, {Name: "a\x00"}, {Name: strings.Repeat("a", 257)},
		{Name: "alice", Groups: make([]string, 65)}, {Name: "alice", Groups: []string{"release "}}} {
		if got := whoIs(t, in, as(p)); got != "401" {
			t.Errorf("%.80v is %s", p, got)
		}
	}
	if !strings.Contains(log.String(), "the middleware was left out") {
		t.Errorf("the log is %s", log)
	}
}

func TestTrustedHeader(t *testing.T) {
	h := inbox.TrustedHeader{Name: "X-Auth-User", Groups: "X-Auth-Groups", Trusted: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.7/32"), netip.MustParsePrefix("fd00::/64"),
	}}
	kept, unix, semicolon := h, h, h
	kept.Keep = []string{"release"}
	unix.UnixSocket = true
	semicolon.Separator = ";"
	const proxy = "10.0.0.7:5123"
	for _, c := range []struct {
		name, peer string
		identity   inbox.TrustedHeader
		header     http.Header
		want       string
	}{
		{"the proxy", proxy, h, http.Header{"X-Auth-User": {"alice"}, "X-Auth-Groups": {"release, oncall ,"}},
			"alice release oncall"},
		{"the proxy, by IPv6", "[fd00::1]:443", h, http.Header{"X-Auth-User": {"alice"}}, "alice"},
		{"the proxy, by a mapped address", "[::ffff:10.0.0.7]:443", h, http.Header{"X-Auth-User": {"alice"}}, "alice"},
		{"another separator", proxy, semicolon, http.Header{"X-Auth-User": {"alice"}, "X-Auth-Groups": {"a,b;c"}},
			"alice a,b c"},
		{"only what is kept", proxy, kept, http.Header{"X-Auth-User": {"alice"}, "X-Auth-Groups": {"oncall,release"}},
			"alice release"},
		{"no name", proxy, h, http.Header{"X-Auth-Groups": {"release"}}, "401"},
		{"anybody else", "10.0.0.8:5123", h, http.Header{"X-Auth-User": {"alice"}}, "401"},
		{"who forwards for the proxy", "10.0.0.8:5123", h,
			http.Header{"X-Auth-User": {"alice"}, "X-Forwarded-For": {"10.0.0.7"}, "X-Real-Ip": {"10.0.0.7"}}, "401"},
		{"a name twice", proxy, h, http.Header{"X-Auth-User": {"alice", "bob"}}, "401"},
		{"groups twice", proxy, h, http.Header{"X-Auth-User": {"alice"}, "X-Auth-Groups": {"release", "oncall"}}, "401"},
		{"a name with an underscore", proxy, h, http.Header{"X-Auth-User": {"alice"}, "X_auth_user": {"bob"}}, "401"},
		{"groups with an underscore", proxy, h, http.Header{"X-Auth-User": {"alice"}, "X_auth-Groups": {"release"}}, "alice"},
		{"a socket that is not said", "@", h, http.Header{"X-Auth-User": {"alice"}}, "401"},
		{"a socket", "@", unix, http.Header{"X-Auth-User": {"alice"}}, "alice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, _ := newInbox(t, new(task.MemoryStore), c.identity)
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr, r.Header = c.peer, c.header
			expect.Equal(t, "whoIs(t, in, r)", whoIs(t, in, r), c.want)
		})
	}
}

// What would believe everybody, or nobody, is the operator's mistake, and found at the start.
func TestTrustedHeaderMistakes(t *testing.T) {
	all := []netip.Prefix{netip.MustParsePrefix("10.0.0.7/32")}
	for want, h := range map[string]inbox.TrustedHeader{
		"Name is missing":     {Trusted: all},
		"both the name":       {Name: "X-User", Groups: "x-user", Trusted: all},
		"Trusted is empty":    {Name: "X-User"},
		"not valid":           {Name: "X-User", Trusted: make([]netip.Prefix, 1)},
		"which is everybody":  {Name: "X-User", Trusted: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}},
		"::/0, which is ever": {Name: "X-User", Trusted: []netip.Prefix{netip.MustParsePrefix("::/0")}},
	} {
		_, err := inbox.New(openDesk(t, new(task.MemoryStore)), &inbox.Options{Identity: h})
		expect.Fails(t, fmt.Sprint(h), err, want)
	}
}

// browser is somebody with cookies of their own, who follows redirects.
type browser struct {
	*testing.T
	*http.Client
	base string
}

func newBrowser(t *testing.T, s *httptest.Server) *browser {
	t.Helper()
	jar := expect.Must(cookiejar.New(nil))(t)
	return &browser{t, &http.Client{Transport: s.Client().Transport, Jar: jar}, s.URL}
}

// do sends a request, and returns the response with its text.
func (b *browser) do(method, path string, form url.Values, headers ...string) (*http.Response, string) {
	b.Helper()
	r, err := http.NewRequestWithContext(b.Context(), method, b.base+path, strings.NewReader(form.Encode()))
	expect.Check(b, err)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	if h := r.Header.Get("Host"); h != "" {
		r.Host = h
	}
	res := expect.Must(b.Do(r))(b)
	defer res.Body.Close()
	text := expect.Must(io.ReadAll(res.Body))(b)
	return res, string(text)
}

func (b *browser) is(want string) {
	b.Helper()
	res, text := b.do("GET", "/api/whoami", nil)
	got := res.Status[:3]
	if res.StatusCode == http.StatusOK {
		var p struct {
			Name   string
			Groups []string
		}
		expect.Check(b, json.Unmarshal([]byte(text), &p))
		got = strings.Join(append([]string{p.Name}, p.Groups...), " ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.Error(diff)
	}
}

// cookie returns the cookie whose name begins like this.
func (b *browser) cookie(name string) *http.Cookie {
	b.Helper()
	at := expect.Must(url.Parse(b.base))(b)
	for _, c := range b.Jar.Cookies(at) {
		if strings.HasPrefix(c.Name, name) {
			return c
		}
	}
	return nil
}

func (b *browser) setCookie(c *http.Cookie) {
	b.Helper()
	at := expect.Must(url.Parse(b.base))(b)
	b.Jar.SetCookies(at, []*http.Cookie{c})
}
