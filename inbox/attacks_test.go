package inbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/html"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/internal/stored"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// target is what is attacked: carol's question, which two of the group release are asked.
type target struct {
	*office
	name string
}

// Attacks on the question. Each is sent with the identity of somebody who may answer it, as their browser would send
// it, or of somebody who may not. Afterwards the question is as it was, and somebody else answers theirs.
var attacks = []struct {
	says string
	want string // the status of each response, or others with a space between them
	do   func(o *target) *httptest.ResponseRecorder
}{
	// Requests that another site makes a browser send.
	{"a form of another site", "403", func(o *target) *httptest.ResponseRecorder {
		return o.form("alice:release", o.page(), "do=decline", "Sec-Fetch-Site", "cross-site",
			"Origin", "https://evil.example")
	}},
	{"a form of a sibling site", "403", func(o *target) *httptest.ResponseRecorder {
		return o.form("alice:release", o.page(), "do=decline", "Sec-Fetch-Site", "same-site",
			"Origin", "https://x.example.com")
	}},
	{"a form of another site, from an old browser", "403", func(o *target) *httptest.ResponseRecorder {
		return o.form("alice:release", o.page(), "do=decline", "Origin", "https://evil.example")
	}},
	{"a form of the same host, on another port", "403", func(o *target) *httptest.ResponseRecorder {
		return o.form("alice:release", o.page(), "do=decline", "Origin", "https://example.com:8443")
	}},
	{"a form in a sandboxed frame", "403", func(o *target) *httptest.ResponseRecorder {
		return o.form("alice:release", o.page(), "do=decline", "Origin", "null")
	}},
	{"JSON of another site, as a text", "403 415", func(o *target) *httptest.ResponseRecorder {
		o.same(415, o.send("alice:release", "POST", path(o.name, "/answer"), `{"action":"decline"}`,
			"Content-Type", "text/plain"))
		return o.send("alice:release", "POST", path(o.name, "/answer"), `{"action":"decline"}`, "Content-Type", "text/plain",
			"Origin", "https://evil.example")
	}},
	{"JSON of another site, as JSON", "403", func(o *target) *httptest.ResponseRecorder {
		return o.send("alice:release", "POST", path(o.name, "/answer"), `{"action":"decline"}`,
			"Sec-Fetch-Site", "cross-site")
	}},
	{"a question whether another site may", "404 405", func(o *target) *httptest.ResponseRecorder {
		w := o.send("alice:release", "OPTIONS", path(o.name, "/answer"), "", "Origin", "https://evil.example",
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type")
		for name := range w.Header() {
			if strings.HasPrefix(name, "Access-Control-") {
				o.Errorf("the response has %s", name)
			}
		}
		return w
	}},
	{"a list that another site loads", "403", func(o *target) *httptest.ResponseRecorder {
		return o.send("alice:release", "GET", "/api/questions?search=shop", "", "Sec-Fetch-Site", "cross-site",
			"Sec-Fetch-Mode", "no-cors")
	}},
	{"events that another site loads", "403", func(o *target) *httptest.ResponseRecorder {
		return o.send("alice:release", "GET", "/events", "", "Sec-Fetch-Site", "same-site")
	}},
	{"a link that answers", "200", func(o *target) *httptest.ResponseRecorder {
		o.same(404, o.send("alice:release", "GET", path(o.name, "/answer?action=decline"), ""))
		return o.send("alice:release", "GET", o.page()+"?do=decline&action=decline", "")
	}},
	{"a link that says that it is a POST", "200", func(o *target) *httptest.ResponseRecorder {
		return o.send("alice:release", "GET", o.page()+"?_method=POST&do=decline", "", "X-HTTP-Method-Override", "POST")
	}},

	// Somebody whom the question does not concern, through each door.
	{"a forwarded link", "404", func(o *target) *httptest.ResponseRecorder {
		is := o.send("mallory:sales", "GET", o.page(), "")
		none := o.send("mallory:sales", "GET", "/q/"+task.Name("none")+"/q", "")
		if is.Body.String() != none.Body.String() || is.Code != none.Code {
			o.Errorf("%d %s\nand of none %d %s", is.Code, is.Body, none.Code, none.Body)
		}
		return is
	}},
	{"an answer on the page", "404", func(o *target) *httptest.ResponseRecorder {
		return o.form("mallory:sales", o.page(), "do=decline")
	}},
	{"a claim on the page", "404", func(o *target) *httptest.ResponseRecorder {
		return o.form("mallory:sales", o.page(), "do=claim&for=1h")
	}},
	{"an answer of nobody", "401", func(o *target) *httptest.ResponseRecorder {
		o.same(401, o.send("", "POST", path(o.name, "/answer"), accepted))
		return o.form("", o.page(), "do=decline")
	}},
	{"the caller, as one of the group", "403", func(o *target) *httptest.ResponseRecorder {
		o.same(403, o.form("carol:release", o.page(), "do=decline"))
		return o.send("carol:release", "POST", path(o.name, "/answer"), accepted)
	}},
	{"the caller, by a name with a space", "401", func(o *target) *httptest.ResponseRecorder {
		o.in, o.log = newInbox(o.T, o.store, inbox.IdentityFunc(func(*http.Request) (desk.Person, error) {
			return desk.Person{Name: "carol ", Groups: []string{"release"}}, nil
		}))
		return o.send("carol", "POST", path(o.name, "/answer"), accepted)
	}},
	{"an answer that says whose it is", "400", func(o *target) *httptest.ResponseRecorder {
		return o.send("mallory:sales", "POST", path(o.name, "/answer"),
			`{"action":"decline","by":{"name":"alice","groups":["release"]}}`)
	}},
	{"an answer that says its channel", "400", func(o *target) *httptest.ResponseRecorder {
		return o.send("alice:release", "POST", path(o.name, "/answer"), `{"action":"decline","channel":"host"}`)
	}},
	{"a path out of the question", "404", func(o *target) *httptest.ResponseRecorder {
		return o.send("mallory:sales", "GET", "/api/questions/"+o.name+"/..%2F"+o.name+"%2Fq", "")
	}},
	{"a path that leads elsewhere", "307 301 308 404", func(o *target) *httptest.ResponseRecorder {
		w := o.send("alice:release", "GET", "//evil.example/..//q", "")
		if to := w.Header().Get("Location"); strings.HasPrefix(to, "//") || strings.Contains(to, "://") {
			o.Errorf("it leads to %s", to)
		}
		return w
	}},

	// What is too much.
	{"a body of 10 MB", "413", func(o *target) *httptest.ResponseRecorder {
		o.same(413, o.form("alice:release", o.page(), "do=decline&reason="+strings.Repeat("x", 10<<20)))
		return o.send("alice:release", "POST", path(o.name, "/answer"),
			`{"action":"decline","reason":"`+strings.Repeat("x", 10<<20)+`"}`)
	}},
	{"a depth of 100,000", "400", func(o *target) *httptest.ResponseRecorder {
		return o.send("alice:release", "POST", path(o.name, "/answer"),
			`{"action":"accept","content":`+strings.Repeat(`{"a":`, 100_000)+"1"+strings.Repeat("}", 100_000)+"}")
	}},
	{"an answer with a byte that is no text", "400 422", func(o *target) *httptest.ResponseRecorder {
		return o.send("alice:release", "POST", path(o.name, "/answer"), "{\"action\":\"decline\",\"reason\":\"\xff\"}")
	}},
}

func TestAttacks(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.says, func(t *testing.T) {
			t.Parallel()
			o := &target{office: newOffice(t)}
			o.name = o.ask("attacked", asked(2))
			hers := o.ask("hers", asked(1))
			in := o.in
			w := a.do(o)
			if !slices.Contains(strings.Fields(a.want), fmt.Sprint(w.Code)) {
				t.Errorf("%d, want %s: %.300s", w.Code, a.want, w.Body)
			}
			protects(t, w)
			if o.in = in; o.api(200, "bob:release", "POST", path(hers, "/answer"), accepted).Decision == nil {
				t.Error("bob cannot answer")
			}
			q, err := o.Question(t.Context(), o.name, "q", nil)
			if err != nil || q.Status != task.QuestionOpen || len(q.Count)+len(q.Earlier)+len(q.Events) != 0 || q.Claim != nil {
				t.Errorf("the question is %+v, %v", q, err)
			}
		})
	}
}

func (o *target) page() string { return "/q/" + o.name + "/q" }

// form sends a form as somebody.
func (o *target) form(as, at, form string, headers ...string) *httptest.ResponseRecorder {
	o.Helper()
	headers = append([]string{"Content-Type", "application/x-www-form-urlencoded"}, headers...)
	return o.send(as, "POST", at, form, headers...)
}

func (o *target) same(want int, w *httptest.ResponseRecorder) {
	o.Helper()
	if w.Code != want {
		o.Errorf("%d, want %d: %.300s", w.Code, want, w.Body)
	}
}

// protects wants the headers that protect a response in a browser.
func protects(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	h := w.Header()
	for name, want := range map[string]string{
		"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		"Cache-Control": "no-store",
	} {
		if h.Get(name) != want {
			t.Errorf("%d has %s %q, want %q", w.Code, name, h.Get(name), want)
		}
	}
	policy := h.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'",
		"form-action 'self'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("%d has the policy %q, without %s", w.Code, policy, part)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, "data:") {
		t.Errorf("the policy is %q", policy)
	}
}

// No page can be shown in a frame, stored, or made to run what is written into it.
func TestPagesAreProtected(t *testing.T) {
	o := newOffice(t)
	name := o.ask("one", asked(1))
	for _, at := range []string{"/", "/whoami", "/help", "/q/" + name + "/q", "/nowhere", "/api/nowhere", "/api/whoami",
		"/api/openapi.yaml", path(name)} {
		protects(t, o.send("alice:release", "GET", at, ""))
		protects(t, o.send("", "GET", at, ""))
	}
	l, s := serveLocal(t)
	for _, at := range []string{"/auth/", "/auth/local.js", "/auth/nowhere"} {
		r := httptest.NewRequest("GET", at, nil)
		r.Host, r.RemoteAddr = s.Listener.Addr().String(), "127.0.0.1:1"
		in, _ := newInbox(t, new(task.MemoryStore), l)
		protects(t, send(in, r))
	}
}

// Every text that a server or a person controls is a text on the page, and in the API.
func TestStoredScripts(t *testing.T) {
	const script = `"'><script>alert(1)</script><img src=x onerror=alert(1)>{{.}}</textarea></title>` + "\u202e"
	const evil = `<script>alert(1)</script>`
	quoted := expect.Must(json.Marshal(script))(t)
	for place, change := range map[string]func(*stored.Asking, *task.Question){
		"message": func(a *stored.Asking, _ *task.Question) {
			a.Params = fmt.Appendf(nil, `{"message":%s,"requestedSchema":%s}`, quoted, hours)
		},
		"form": func(a *stored.Asking, _ *task.Question) {
			a.Params = fmt.Appendf(nil, `{"message":"m","requestedSchema":{"type":"object","properties":{
				"a":{"type":"string","title":%[1]s,"description":%[1]s,"default":%[1]s},
				"b":{"type":"string","enum":[%[1]s,"x"],"enumNames":[%[1]s,%[1]s]},
				"c":{"type":"string","oneOf":[{"const":%[1]s,"title":%[1]s}]},
				%[1]s:{"type":"string"}}}}`, quoted)
		},
		"preview":  func(a *stored.Asking, _ *task.Question) { a.Preview = script },
		"markdown": func(a *stored.Asking, _ *task.Question) { a.Preview, a.Markdown = script, true },
		"link": func(a *stored.Asking, _ *task.Question) {
			a.Markdown = true
			a.Preview = "[x](javascript:alert(1)) ![y](javascript:alert(1)) <javascript:alert(1)>\n\n" +
				"[z]: data:text/html,<script>"
		},
		"page": func(a *stored.Asking, _ *task.Question) {
			a.Params = fmt.Appendf(nil, `{"mode":"url","message":"m","url":%q}`, `https://x.example/"><script>alert(1)</script>`)
		},
		"page of a script": func(a *stored.Asking, _ *task.Question) {
			a.Params = json.RawMessage(`{"mode":"url","message":"m","url":"javascript:alert(1)"}`)
		},
		"author's key": func(a *stored.Asking, _ *task.Question) { a.Key = script },
		"key":          func(_ *stored.Asking, q *task.Question) { q.Key = script },
		"group":        func(_ *stored.Asking, q *task.Question) { q.For = append(q.For, "group:"+script) },
		"rest":         func(*stored.Asking, *task.Question) {},
	} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			q := asked(3, change, within(time.Hour))
			name := o.askFor("one", task.Task{ID: "one", Principal: script, Target: script},
				fmt.Sprintf(`{%[1]s:%[1]s}`, quoted), q)
			o.in, o.log = newInbox(t, o.store, inbox.IdentityFunc(func(*http.Request) (desk.Person, error) {
				return desk.Person{Name: "al" + script, Groups: []string{"release", script}}, nil
			}))
			at := name + "/" + url.PathEscape(q.Key)
			answer := fmt.Sprintf(`{"action":"accept","content":{"hour":9,"a":%[1]s},"reason":%[1]s}`, quoted)
			o.send("x", "POST", "/api/questions/"+at+"/answer", answer)
			o.send("x", "POST", "/api/questions/"+at+"/answer",
				fmt.Sprintf(`{"action":"accept","content":{"hour":9},"reason":"%s"}`, strings.ReplaceAll(evil, `"`, `\"`)))
			o.send("x", "POST", "/api/questions/"+at+"/claim", `{"seconds":60}`)
			for _, page := range []string{"/", "/whoami", "/q/" + at, "/?search=" + url.QueryEscape(script)} {
				w := o.send("x", "GET", page, "")
				if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
					t.Fatalf("%s: %d %s", page, w.Code, w.Body)
				}
				harmless(t, w.Body.String())
			}
			w := o.send("x", "GET", "/api/questions/"+at, "")
			if text := w.Body.String(); w.Header().Get("Content-Type") != "application/json" || strings.ContainsAny(text, "<>") {
				t.Errorf("%v: %s", w.Header(), text)
			}
		})
	}
}

// harmless wants no element or attribute on a page that runs anything but the scripts of the inbox.
func harmless(t *testing.T, page string) {
	t.Helper()
	root := expect.Must(html.Parse(strings.NewReader(page)))(t)
	for n := range root.Descendants() {
		switch {
		case n.Type != html.ElementNode:
			continue
		case slices.Contains([]string{"img", "iframe", "object", "embed", "style", "svg", "math", "base"}, n.Data),
			n.Data == "script" && n.FirstChild != nil:
			t.Errorf("the page has <%s>", n.Data)
		}
		for _, a := range n.Attr {
			u, err := url.Parse(a.Val)
			isURL := slices.Contains([]string{"href", "src", "action", "formaction"}, a.Key)
			local := err == nil && u.Scheme == "" && u.Host == ""
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || isURL && err != nil || isURL && !local &&
				(n.Data != "a" || u.Scheme != "https" && u.Scheme != "http") {
				t.Errorf("the page has <%s %s=%q>", n.Data, a.Key, a.Val)
			}
		}
	}
}

// After signing in nobody is led to another site, whatever a link said.
func TestOpenRedirects(t *testing.T) {
	l, s := serveLocal(t)
	b := serveBehind(t, nil)
	for _, to := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, `\\evil.example`,
		"/\t/evil.example", "javascript:alert(1)", "evil.example", "https:evil.example", "/%0d%0aLocation: x",
		"/\r\nSet-Cookie: a=b", "http:///x",
		"/auth/logout", "?x", "", "/" + strings.Repeat("x", 3000), "///evil.example", "/./\\evil"} {
		for name, web := range map[string]*httptest.Server{"local": s, "oidc": b.web} {
			who := newBrowser(t, web)
			form := url.Values{"token": {token(t, l.URL())}, "return": {to}}
			method, at := "POST", "/auth/"
			if name == "oidc" {
				method, at, form = "GET", "/auth/?"+url.Values{"return": {to}}.Encode(), nil
			}
			last := ""
			who.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
				if last = r.URL.String(); r.URL.Host != r.Response.Request.URL.Host && !strings.HasPrefix(last, b.provider.URL) &&
					!strings.HasPrefix(last, web.URL) {
					return fmt.Errorf("it leads to %s", last)
				}
				return nil
			}
			res, _ := who.do(method, at, form)
			u, err := url.Parse(last)
			if err != nil || web.URL != u.Scheme+"://"+u.Host || res.Header.Get("Set-Cookie") == "a=b" {
				t.Errorf("%s, %q leads to %s, %v", name, to, last, err)
			}
			who.is("alice" + map[string]string{"local": " release"}[name])
		}
	}
}

// A session that somebody else has put into a browser does not become its user's.
func TestFixation(t *testing.T) {
	b := serveBehind(t, nil)
	mallory, alice := newBrowser(t, b.web), newBrowser(t, b.web)
	b.set(func() { b.claims["sub"] = "mallory" })
	b.signIn(mallory)
	mallory.is("mallory")
	planted := *mallory.cookie("__Host-askback-inbox")
	alice.setCookie(&planted)
	b.set(func() { b.claims["sub"] = "alice" })
	b.signIn(alice)
	alice.is("alice")
	if alice.cookie("__Host-askback-inbox").Value == planted.Value {
		t.Error("the session is the one that was planted")
	}
	mallory.is("mallory")
	b.signIn(alice)
	alice.is("alice")
}

// A cookie is what the inbox has sealed as a session, once, and nothing else.
func TestForgedSessions(t *testing.T) {
	keys := expect.Must(seal.NewRing(seal.NewKey(time.Now())))(t)
	b := serveBehind(t, func(o *inbox.OIDCOptions) { o.Keys = keys })
	other := serveBehind(t, func(o *inbox.OIDCOptions) { o.Keys = keys }) // another inbox with the same keys
	alice, elsewhere := newBrowser(t, b.web), newBrowser(t, other.web)
	b.signIn(alice)
	other.signIn(elsewhere)
	own := alice.cookie("__Host-askback-inbox").Value
	get := func(cookies ...string) int {
		r := httptest.NewRequest("GET", "/api/whoami", nil)
		for _, c := range cookies {
			r.AddCookie(&http.Cookie{Name: "__Host-askback-inbox", Value: c})
		}
		return send(b.web.Config.Handler, r).Code
	}
	now := time.Now()
	sealed := func(binding seal.Binding) string {
		text := expect.Must(keys.Seal(binding, []byte(`{"name":"alice"}`), now, now.Add(time.Hour)))(t)
		return text
	}
	unstarted := newBrowser(t, b.web)
	unstarted.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	unstarted.do("GET", "/auth/", nil)
	for says, cookies := range map[string][]string{
		"no session": {}, "an empty one": {""}, "a text": {`{"name":"alice"}`}, "two": {own, own},
		"a changed one":              {own[:len(own)-2] + "AA"},
		"the one of another inbox":   {elsewhere.cookie("__Host-askback-inbox").Value},
		"the one of signing in":      {unstarted.cookie("__Host-askback-login").Value},
		"a state of a server's call": {sealed(seal.Binding{Audience: "shop", Principal: "alice", Method: "tools/call"})},
	} {
		expect.Equal(t, says, get(cookies...), http.StatusUnauthorized)
	}
	expect.Equal(t, "the status of her own", get(own), http.StatusOK)
	expect.Check(t, keys.Replace(keys.RevokeBefore(now.Add(2*time.Second))))
	expect.Equal(t, "a revoked one", get(own), http.StatusUnauthorized)
}

// A session ends when it was said to end, whatever the browser keeps.
func TestExpiredSession(t *testing.T) {
	keys := expect.Must(seal.NewRing(seal.NewKey(time.Now())))(t)
	b := serveBehind(t, func(o *inbox.OIDCOptions) { o.Keys, o.Session = keys, time.Hour })
	alice := newBrowser(t, b.web)
	for left, want := range map[time.Duration]string{time.Minute: "alice", -time.Millisecond: "401"} {
		now := time.Now()
		sealed, err := keys.Seal(seal.Binding{Audience: "inbox " + b.web.URL, Method: "session"}, []byte(`{"name":"alice"}`),
			now.Add(left-time.Hour), now.Add(left))
		expect.Check(t, err)
		alice.setCookie(&http.Cookie{Name: "__Host-askback-inbox", Value: sealed, Path: "/", Secure: true})
		alice.is(want)
	}
	fresh := newBrowser(t, b.web)
	res, _ := fresh.do("GET", "/auth/", nil)
	for fresh.CheckRedirect = nil; res.Request.Response != nil && res.Header.Get("Set-Cookie") == ""; {
		res = res.Request.Response // the one that signs in
	}
	if c := res.Header.Get("Set-Cookie"); !strings.Contains(strings.Join(res.Header.Values("Set-Cookie"), "\n"),
		"__Host-askback-inbox=") || !strings.HasSuffix(c, "HttpOnly; Secure; SameSite=Lax") {
		t.Errorf("the cookies are %q", res.Header.Values("Set-Cookie"))
	}
}

// What comes back from the provider belongs to the browser that was sent there, once.
func TestReplayedSignIns(t *testing.T) {
	b := serveBehind(t, nil)
	stop := func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/auth/callback" {
			return http.ErrUseLastResponse
		}
		return nil
	}
	back := func(who *browser) string { // signs in at the provider, and keeps the way back
		who.CheckRedirect = stop
		res, _ := who.do("GET", "/auth/", nil)
		who.CheckRedirect = nil
		u, err := url.Parse(res.Header.Get("Location"))
		if err != nil || u.Path != "/auth/callback" {
			t.Fatalf("%v, %v", u, err)
		}
		return u.RequestURI()
	}
	refused := func(who *browser, at, says string) {
		t.Helper()
		if res, page := who.do("GET", at, nil); res.StatusCode < 400 || strings.Contains(page, "script>alert") {
			t.Errorf("%s: %s at %s", says, res.Status, res.Request.URL)
		}
		who.is("401")
	}
	mallory, alice := newBrowser(t, b.web), newBrowser(t, b.web)
	hers := back(mallory)
	refused(alice, hers, "a way back in a browser that was not sent away")
	own := back(alice)
	u, err := url.Parse(own)
	expect.Check(t, err)
	with := func(name, value string) string {
		q := u.Query()
		q.Set(name, value)
		return "/auth/callback?" + q.Encode()
	}
	other := expect.Must(url.Parse(hers))(t)
	refused(alice, with("state", other.Query().Get("state")), "the state of somebody else")
	refused(alice, with("state", ""), "no state")
	refused(alice, with("iss", "https://evil.example"), "another issuer")
	own = back(alice)
	if u, err = url.Parse(own); err != nil {
		t.Fatal(err)
	}
	refused(alice, with("code", other.Query().Get("code")), "the code of somebody else")
	own = back(alice)
	if u, err = url.Parse(own); err != nil {
		t.Fatal(err)
	}
	refused(alice, with("error", "<script>alert(1)</script>"), "an error with a script")
	own = back(alice)
	kept := *alice.cookie("__Host-askback-login")
	if res, _ := alice.do("GET", own, nil); res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	alice.is("alice")
	again := newBrowser(t, b.web)
	again.setCookie(&kept)
	refused(again, own, "a way back that was used, with the cookie")
	alice.do("GET", own, nil)
	alice.is("alice")
}

// Nobody is signed out by another site, or by a link.
func TestForeignLogOuts(t *testing.T) {
	b := serveBehind(t, nil)
	alice := newBrowser(t, b.web)
	b.signIn(alice)
	alice.do("GET", "/auth/logout", nil)
	alice.is("alice")
	if res, _ := alice.do("POST", "/auth/logout", url.Values{}, "Sec-Fetch-Site", "cross-site"); res.StatusCode != 403 {
		t.Error(res.Status)
	}
	alice.is("alice")
}

// A page in a browser reaches the local inbox neither by a name of its own, nor from another machine.
func TestLocalRebinding(t *testing.T) {
	l, s := serveLocal(t)
	in, _ := newInbox(t, new(task.MemoryStore), l)
	alice := newBrowser(t, s)
	alice.do("POST", "/auth/", url.Values{"token": {token(t, l.URL())}})
	cookie := alice.cookie("askback-inbox-")
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	get := func(host, peer, path string) int {
		r := httptest.NewRequest("GET", path, nil)
		r.Host, r.RemoteAddr = host, peer
		r.AddCookie(cookie)
		return send(in, r).Code
	}
	for _, host := range []string{"evil.example", fmt.Sprintf("evil.example:%d", at.Port()), "127.0.0.1", "localhost",
		"127.0.0.1:1", fmt.Sprintf("localhost.evil.example:%d", at.Port()), fmt.Sprintf("127.0.0.1.nip.io:%d", at.Port()),
		fmt.Sprintf("0.0.0.0:%d", at.Port()), ""} {
		if a, b := get(host, "127.0.0.1:1", "/api/whoami"), get(host, "127.0.0.1:1", "/auth/"); a != 401 || b != 421 {
			t.Errorf("%q: %d, %d", host, a, b)
		}
	}
	for _, peer := range []string{"192.0.2.1:1", "[2001:db8::1]:1", "@", ""} {
		if a, b := get(at.String(), peer, "/api/whoami"), get(at.String(), peer, "/auth/"); a != 401 || b != 421 {
			t.Errorf("%q: %d, %d", peer, a, b)
		}
	}
	for _, host := range []string{at.String(), fmt.Sprintf("localhost:%d", at.Port())} {
		expect.Equal(t, fmt.Sprintf("%q", host), get(host, "127.0.0.1:1", "/api/whoami"), 200)
	}
	if _, err := inbox.NewLocal(desk.Person{Name: "alice"}, netAddr("0.0.0.0:80")); err == nil {
		t.Error("a listener on all addresses is local")
	}
	if _, err := inbox.NewLocal(desk.Person{}, netAddr("127.0.0.1:80")); err == nil {
		t.Error("nobody is a user")
	}
}

type netAddr string

func (netAddr) Network() string  { return "tcp" }
func (a netAddr) String() string { return string(a) }

// One person who sends answers without a pause is slowed down, and nobody else is.
func TestCrowdOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t)
		name := o.ask("one", asked(2))
		served := 0
		for i := range 100 {
			w := o.send("mallory:release", "POST", path(name, "/answer"),
				fmt.Sprintf(`{"action":"accept","content":{"hour":%d}}`, i%24))
			if w.Code == http.StatusOK {
				served++
			} else if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
				t.Fatalf("%d: %s", w.Code, w.Body)
			}
		}
		expect.Equal(t, "answers of one person in a second", served, 10)
		o.api(200, "alice:release", "POST", path(name, "/answer"), accepted)
		o.api(200, "mallory:release", "GET", path(name), "")
		time.Sleep(time.Second)
		o.api(200, "mallory:release", "POST", path(name, "/answer"), accepted)
	})
}

// slowBody is a body of which nothing comes until it is closed.
type slowBody struct{ end chan struct{} }

func (b slowBody) Read([]byte) (int, error) { <-b.end; return 0, errors.New("the connection is gone") }
func (slowBody) Close() error               { return nil }

// One person whose requests take long has a few of them at once, and others are served.
func TestCrowdOfSlowRequests(t *testing.T) {
	o := newOffice(t)
	name := o.ask("one", asked(1))
	end, done := make(chan struct{}), make(chan int)
	const crowd = 40
	for range crowd {
		go func() {
			r := httptest.NewRequest("POST", path(name, "/answer"), nil)
			r.Body, r.ContentLength = io.NopCloser(slowBody{end}), 100
			r.Header.Set("As", "mallory:release")
			done <- send(o.in, r).Code
		}()
	}
	refused := 0
	for range crowd - 10 { // of one second ten may begin, and of two twenty, of which sixteen run
		expect.Equal(t, "<-done", <-done, http.StatusTooManyRequests)
		if refused++; refused == crowd-16 {
			break
		}
	}
	o.api(200, "alice:release", "POST", path(name, "/answer"), accepted)
	close(end)
	for range crowd - refused {
		<-done
	}
	o.api(200, "mallory:release", "GET", path(name), "")
}

// A body that is not sent whole is given up, and its connection with it.
func TestSlowBody(t *testing.T) { bubble(t, testSlowBody) }

func testSlowBody(o *street) {
	name := o.ask("one", asked(1))
	conn := o.dial()
	began := time.Now()
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nAs: mallory:release\r\n"+
		"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{", path(name, "/answer")); err != nil {
		o.Fatal(err)
	}
	var text bytes.Buffer
	if _, err := io.Copy(&text, conn); err != nil {
		o.Fatal(err)
	}
	if !strings.HasPrefix(text.String(), "HTTP/1.1 408 ") || time.Since(began) > 15*time.Second {
		o.Errorf("after %v: %s", time.Since(began), &text)
	}
	o.api(200, "alice:release", "POST", path(name, "/answer"), accepted)
}
