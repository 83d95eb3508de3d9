package inbox

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/inbox"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/seal"
	"github.com/askback-mcp/askback/task"
)

// withGroups is the storage of a provider that also names groups.
type withGroups struct{ *storage.Storage }

func (s withGroups) SetUserinfoFromToken(ctx context.Context, u *oidc.UserInfo, id, subject, origin string) error {
	if err := s.Storage.SetUserinfoFromToken(ctx, u, id, subject, origin); err != nil {
		return err
	}
	u.AppendClaims("groups", []string{"release", "oncall"})
	return nil
}

// startProvider starts the certified provider of zitadel/oidc, with a client for an inbox at a URL.
func startProvider(t *testing.T, inboxURL string) *httptest.Server {
	t.Helper()
	web := httptest.NewUnstartedServer(nil)
	issuer := "http://" + web.Listener.Addr().String()
	storage.RegisterClients(storage.WebClient("inbox", "s3cret", inboxURL+"/auth/callback"))
	store := withGroups{storage.NewStorage(storage.NewUserStore(issuer))}
	web.Config.Handler = exampleop.SetupServer(issuer, store, nil, false)
	web.Start()
	t.Cleanup(web.Close)
	return web
}

// person is a browser of somebody.
type person struct {
	*testing.T
	client *http.Client
}

func newPerson(t *testing.T, transport http.RoundTripper) *person {
	t.Helper()
	jar := expect.Must(cookiejar.New(nil))(t)
	return &person{t, &http.Client{Transport: transport, Jar: jar}}
}

// get opens a page, or sends a form to it, and returns where that leads and what is there.
func (p *person) get(at string, form url.Values) (*http.Response, string) {
	p.Helper()
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r := expect.Must(http.NewRequestWithContext(p.Context(), method, at, body))(p)
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res := expect.Must(p.client.Do(r))(p)
	defer res.Body.Close()
	text := expect.Must(io.ReadAll(res.Body))(p)
	return res, string(text)
}

var loginID = regexp.MustCompile(`name="id" value="([^"]*)"`)

// Somebody signs in at a provider that others have written, and is led back to where they wanted to be. A log-out ends
// the session at both.
func TestSignInAtAProvider(t *testing.T) {
	front := httptest.NewUnstartedServer(nil)
	front.StartTLS()
	t.Cleanup(front.Close)
	provider := startProvider(t, front.URL)
	keys := expect.Must(seal.NewRing(seal.NewKey(time.Now())))(t)
	who := expect.Must(inbox.NewOIDC(&inbox.OIDCOptions{Issuer: provider.URL, ClientID: "inbox", ClientSecret: "s3cret",
		URL: front.URL, NameClaim: "preferred_username", GroupsClaim: "groups", Keys: keys}))(t)
	expect.Check(t, who.Discover(t.Context()))
	d := expect.Must(desk.Open(new(task.MemoryStore), nil))(t)
	opts := &inbox.Options{Identity: who, Logger: slog.New(slog.DiscardHandler)}
	front.Config.Handler = expect.Must(inbox.New(d, opts))(t)

	p := newPerson(t, front.Client().Transport)
	res, page := p.get(front.URL+"/whoami?from=here", nil)
	id := loginID.FindStringSubmatch(page)
	if id == nil || res.Request.URL.Host != strings.TrimPrefix(provider.URL, "http://") {
		t.Fatalf("%s at %s: %s", res.Status, res.Request.URL, page)
	}
	sign := func(password string) (*http.Response, string) {
		return p.get(provider.URL+"/login/username",
			url.Values{"id": {id[1]}, "username": {"test-user2"}, "password": {password}})
	}
	if res, page := sign("wrong"); res.Request.URL.Path != "/login/username" {
		t.Fatalf("with a wrong password it is %s: %s", res.Request.URL, page)
	}
	if res, page := sign("verysecure"); res.Request.URL.String() != front.URL+"/whoami?from=here" {
		t.Fatalf("%s at %s: %s", res.Status, res.Request.URL, page)
	}
	_, text := p.get(front.URL+"/api/whoami", nil)
	var is struct {
		Name   string
		Groups []string
	}
	if err := json.Unmarshal([]byte(text), &is); err != nil || is.Name != "test-user2" || len(is.Groups) != 2 {
		t.Errorf("it is %s, %v", text, err)
	}

	res, _ = p.get(front.URL+"/auth/logout", url.Values{})
	at, ok := strings.CutPrefix(res.Header.Get("Refresh"), "0; url=")
	if !ok {
		t.Fatalf("the log-out leads nowhere: %v", res.Header)
	}
	if res, page := p.get(at, nil); res.StatusCode != http.StatusOK || !strings.Contains(page, "signed out successfully") {
		t.Errorf("%s: %s", res.Status, page)
	}
	if res, _ := p.get(front.URL+"/api/whoami", nil); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("after the log-out it is %s", res.Status)
	}
}
