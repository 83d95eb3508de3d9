package webhook_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askback-mcp/askback/desk"
	"github.com/askback-mcp/askback/desk/webhook"
	"github.com/askback-mcp/askback/task"
)

var secret = "whsec_" + base64.StdEncoding.EncodeToString([]byte("thirty-two bytes that are random"))

var notice = desk.Notice{
	ID: "NAME.KEY.asked", Kind: task.NoticeAsked, Time: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC),
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
	hook, err := webhook.New(server.URL, secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := hook.Send(t.Context(), notice); err != nil {
		t.Fatal(err)
	}
	const want = `{"type":"question.asked","timestamp":"2026-11-23T09:00:00Z","data":{"id":"NAME.KEY.asked",` +
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
			if err != nil {
				t.Fatal(err)
			}
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
	hook, err := webhook.New("http://127.0.0.1:1/", secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := hook.Send(ctx, notice); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
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
	} {
		if _, err := webhook.New(c.address, c.secret, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q, %q: %v", c.address, c.secret, err)
		}
	}
}
