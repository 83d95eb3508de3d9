package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/desk/webhook"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/task"
)

var secret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("thirty-two bytes that are random"))

var notice = desk.Notice{
	ID: "NAME-KEY-asked-1", Kind: task.NoticeAsked, Time: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC),
	Name: "NAME", Key: "approve", Target: "deploy", Principal: "carol", Message: "Deploy 4.2?",
	For: []string{"group:release"}, Votes: 2, Asked: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC),
}

func TestWhatIsSent(t *testing.T) {
	var got http.Header
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header
		body, _ = io.ReadAll(r.Body)
	}))
	defer server.Close()
	hook := expect.Must(webhook.New(server.URL, secret, nil))(t)
	expect.Check(t, hook.Send(t.Context(), notice))
	const want = `{"type":"question.asked","timestamp":"2026-11-23T09:00:00Z","data":{"id":"NAME-KEY-asked-1",` +
		`"kind":"asked","time":"2026-11-23T09:00:00Z","name":"NAME","key":"approve","target":"deploy",` +
		`"principal":"carol","message":"Deploy 4.2?","for":["group:release"],"votes":2,"asked":"2026-11-23T09:00:00Z"}}`
	if string(body) != want {
		t.Errorf("the body is\n%s\nwant\n%s", body, want)
	}
	if got.Get("webhook-id") != notice.ID || !strings.HasPrefix(got.Get("webhook-signature"), "v1,") {
		t.Errorf("the headers are %v", got)
	}
}

// A notice that the receiver did not take is an error, which tells neither the address nor the secret. A redirect is
// not followed.
func TestANoticeThatIsNotTaken(t *testing.T) {
	for name, serve := range map[string]http.HandlerFunc{
		"refused":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"redirected": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"repeated":   func(w http.ResponseWriter, r *http.Request) { reason(w, r.URL.Path) },
		"cut off":    func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		t.Run(name, func(t *testing.T) {
			var elsewhere atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				elsewhere.Store(elsewhere.Load() || r.URL.Path == "/elsewhere")
				serve(w, r)
			}))
			defer server.Close()
			hook, err := webhook.New(server.URL+"/token-in-path", secret, nil)
			expect.Check(t, err)
			err = hook.Send(t.Context(), notice)
			if err == nil || strings.Contains(err.Error(), "token-in-path") || strings.Contains(err.Error(), secret) {
				t.Errorf("the error is %v", err)
			}
			if elsewhere.Load() {
				t.Error("the redirect was followed")
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	hook := expect.Must(webhook.New("http://127.0.0.1:1/", secret, nil))(t)
	expect.Is(t, "the error", hook.Send(ctx, notice), context.Canceled)
}

// reason answers with a reason phrase of its own.
func reason(w http.ResponseWriter, phrase string) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 404 "+phrase+"\r\nContent-Length: 0\r\n\r\n")
}

// A client that follows redirects would get a page in place of the receiver's word, and the notice would be lost.
func TestNoClientFollowsARedirect(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Redirect(w, r, "/signin", http.StatusFound)
		}
	}))
	defer server.Close()
	hook := expect.Must(webhook.New(server.URL, secret, &webhook.Options{Client: server.Client()}))(t)
	expect.Fails(t, "the error", hook.Send(t.Context(), notice), "302")
	if server.Client().CheckRedirect != nil {
		t.Error("the operator's client was changed")
	}
}

// Nothing is sent to a receiver whose certificate nobody has signed.
func TestACertificateThatIsNotTrusted(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the notice has arrived")
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	hook, err := webhook.New(server.URL+"/token-in-path", secret, nil)
	expect.Check(t, err)
	err = hook.Send(t.Context(), notice)
	if err == nil || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), "token-in-path") {
		t.Errorf("the error is %v", err)
	}
}

// The receiver has taken the notice with its status. A body that never ends holds nothing up.
func TestABodyThatNeverEnds(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	hook := expect.Must(webhook.New(server.URL, secret, nil))(t)
	if err := hook.Send(t.Context(), notice); err != nil {
		t.Error(err)
	}
}

// A secret is rotated in three steps: the sender learns the next one, the receiver switches, the sender forgets.
func TestTwoSecrets(t *testing.T) {
	for _, c := range []struct {
		sender, receiver string
		want             bool
	}{
		{secret, secret, true},
		{secret + " " + next, secret, true},
		{secret + " " + next, next, true},
		{secret + " " + next, next + "\n" + secret + "\n", true},
		{next, secret + " " + next, true},
		{secret + " " + next, other, false},
		{next, secret, false},
	} {
		_, err := webhook.Receive(sent(t, c.sender), c.receiver)
		if (err == nil) != c.want {
			t.Errorf("from %s to %s: %v", c.sender, c.receiver, err)
		}
		if err != nil && strings.Contains(err.Error(), "whsec_d") {
			t.Errorf("the error has a secret: %v", err)
		}
	}
}

// What a program sends after SetSecrets has the new signatures. Secrets that cannot be used change nothing.
func TestSecretsWithoutARestart(t *testing.T) {
	var got *http.Request
	server := httptest.NewServer(keep(&got))
	defer server.Close()
	hook := expect.Must(webhook.New(server.URL, secret, nil))(t)
	expect.Check(t, hook.SetSecrets(next))
	if err := hook.SetSecrets("whsec_!"); err == nil {
		t.Error("a secret that is none was taken")
	}
	expect.Check(t, hook.Send(t.Context(), notice))
	if _, err := webhook.Receive(got, next); err != nil {
		t.Error(err)
	}
}

func TestWhatAReceiverRefuses(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"no signature":        func(r *http.Request) { r.Header.Del("webhook-signature") },
		"two forged":          func(r *http.Request) { r.Header.Set("webhook-signature", "v1,"+forged+" v1,"+forged) },
		"another version":     func(r *http.Request) { replace(r, "webhook-signature", "v1,", "v2,") },
		"one that is cut off": func(r *http.Request) { replace(r, "webhook-signature", "=", "") },
		"another ID":          func(r *http.Request) { replace(r, "webhook-id", "asked", "decided") },
		"a later time":        func(r *http.Request) { r.Header.Set("webhook-timestamp", seconds(time.Minute)) },
		"a time without a signature, long ago": func(r *http.Request) {
			r.Header.Set("webhook-timestamp", seconds(-time.Hour))
		},
		"no time":      func(r *http.Request) { r.Header.Del("webhook-timestamp") },
		"another body": func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("{}")) },
		"a huge body":  func(r *http.Request) { r.Body = io.NopCloser(io.LimitReader(endless{}, 2<<20)) },
	} {
		t.Run(name, func(t *testing.T) {
			r := sent(t, secret)
			change(r)
			if n, err := webhook.Receive(r, secret); err == nil || n.ID != "" {
				t.Errorf("got %v, %v", n, err)
			}
		})
	}
	r := sent(t, secret)
	r.Header.Set("webhook-signature", "v1,"+forged+" "+r.Header.Get("webhook-signature"))
	got, err := webhook.Receive(r, next+" "+secret)
	if diff := cmp.Diff(notice, got); err != nil || diff != "" {
		t.Errorf("a true signature beside a forged one: %v\n%s", err, diff)
	}
}

// A request that was recorded is refused later, although its signature is right.
func TestAReplayedNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var replayed *http.Request
		hook, err := webhook.New("http://receiver", secret, &webhook.Options{Client: &http.Client{Transport: wire(func(
			r *http.Request) {
			replayed = r.Clone(context.Background())
			replayed.Body, _ = r.GetBody()
		})}})
		expect.Check(t, err)
		expect.Check(t, hook.Send(t.Context(), notice))
		time.Sleep(6 * time.Minute)
		expect.Fails(t, "the error", expect.Err(webhook.Receive(replayed, secret)), "clocks")
	})
}

// A body that is signed is still foreign: another program may have the secret.
func TestASignedBodyThatIsNoNotice(t *testing.T) {
	for _, body := range []string{"", "[]", "{}", `{"data":{"id":"OTHER"}}`} {
		if _, err := webhook.Receive(signed("NAME", []byte(body)), secret); err == nil {
			t.Errorf("%s was taken", body)
		}
	}
	if _, err := webhook.Receive(signed("NAME", []byte(`{"data":{"id":"NAME"}}`)), secret); err != nil {
		t.Error(err)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add("NAME", "1764000000", "v1,"+forged, []byte("{}"))
	f.Add("", "-9223372036854775808", " v1,, ,", []byte(nil))
	f.Add("NAME", seconds(0), "v1,"+forged, []byte(`{"data":{"id":"NAME"}}`))
	f.Fuzz(func(t *testing.T, id, at, signatures string, body []byte) {
		r := signed(id, body)
		if n, err := webhook.Receive(r, secret); err == nil && n.ID != id {
			t.Errorf("the ID is %q, want %q", n.ID, id)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.Header.Set("webhook-timestamp", at)
		r.Header.Set("webhook-signature", signatures)
		if _, err := webhook.Receive(r, secret); err == nil {
			t.Error("a notice that nobody has signed was taken")
		}
	})
}

// signed returns a request as Standard Webhooks has it.
func signed(id string, body []byte) *http.Request {
	at := seconds(0)
	mac := hmac.New(sha256.New, []byte("thirty-two bytes that are random"))
	fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
	r := httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(body))
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", at)
	r.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return r
}

var (
	next  = "whsec_" + base64.StdEncoding.EncodeToString([]byte("thirty-two bytes that come next!"))
	other = "whsec_" + base64.StdEncoding.EncodeToString([]byte("thirty-two bytes of another key!"))

	forged = base64.StdEncoding.EncodeToString(make([]byte, 32))
)

// sent returns the request with which the notice arrives.
func sent(t *testing.T, secrets string) (r *http.Request) {
	t.Helper()
	server := httptest.NewServer(keep(&r))
	defer server.Close()
	hook := expect.Must(webhook.New(server.URL, secrets, nil))(t)
	expect.Check(t, hook.Send(t.Context(), notice))
	return r
}

// keep keeps a request with its body.
func keep(kept **http.Request) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*kept = r.Clone(context.Background())
		(*kept).Body = io.NopCloser(bytes.NewReader(body))
	}
}

func replace(r *http.Request, header, before, after string) {
	r.Header.Set(header, strings.Replace(r.Header.Get(header), before, after, 1))
}

// seconds returns the header of a time from now.
func seconds(from time.Duration) string { return strconv.FormatInt(time.Now().Add(from).Unix(), 10) }

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return copy(p, "{"), nil }

// wire sees the requests, and accepts them.
type wire func(*http.Request)

func (w wire) RoundTrip(r *http.Request) (*http.Response, error) {
	w(r)
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
}

func TestNew(t *testing.T) {
	for _, c := range []struct{ address, secret, want string }{
		{"hooks.example.com", secret, "absolute URL"},
		{"ftp://hooks.example.com", secret, "absolute URL"},
		{"https:///x", secret, "absolute URL"},
		{"https://hooks.example.com", "", "whsec_"},
		{"https://hooks.example.com", strings.TrimPrefix(secret, "whsec_"), "whsec_"},
		{"https://hooks.example.com", "whsec_c2hvcnQ=", "24 to 64"},
		{"https://hooks.example.com", "whsec_!", "base64"},
		{"https://hooks.example.com", secret + " whsec_!", "base64"},
		{"https://hooks.example.com", secret + " " + secret + " " + secret, "or two"},
	} {
		if _, err := webhook.New(c.address, c.secret, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %q: %v", c.address, c.secret, err)
		}
	}
}
