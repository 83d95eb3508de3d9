package signedhook_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/askback-mcp/askback/internal/signedhook"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// The signature is the one that the libraries of Standard Webhooks test for.
func TestSign(t *testing.T) {
	key, ok := signedhook.Key(secret)
	if !ok || signedhook.Secret(key) != secret {
		t.Fatalf("the key of the secret is %q, %v", key, ok)
	}
	other := make([]byte, 24)
	h, body, now := make(http.Header), []byte(`{"test": 2432232314}`), time.Unix(1614265330, 0)
	signedhook.Sign(h, [][]byte{key, other}, "msg_p5jXN8AQM9LWM0D4loKWxJek", now, body)
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v1,woH/1mJtZGSMCmpFTxRYbStS24eLLD/oXIYr4PYyZ7g="
	if h.Get("webhook-signature") != want || h.Get("webhook-timestamp") != "1614265330" {
		t.Errorf("the headers are %v", h)
	}
	for name, c := range map[string]struct {
		keys  [][]byte
		after time.Duration
		want  error
	}{
		"one of two keys": {[][]byte{other}, 0, nil}, "five minutes late": {[][]byte{key}, 5 * time.Minute, nil},
		"five minutes early": {[][]byte{key}, -5 * time.Minute, nil},
		"later":              {[][]byte{key}, 301 * time.Second, signedhook.ErrTime},
		"earlier":            {[][]byte{key}, -301 * time.Second, signedhook.ErrTime},
		"another key":        {[][]byte{[]byte("24 bytes of another key.")}, 0, signedhook.ErrSignature},
		"no key":             {nil, 0, signedhook.ErrSignature},
	} {
		if err := signedhook.Verify(h, c.keys, now.Add(c.after), body); err != c.want {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for name, change := range map[string]func(http.Header){
		"another ID":   func(h http.Header) { h.Set("webhook-id", "msg_2") },
		"another time": func(h http.Header) { h.Set("webhook-timestamp", "1614265331") },
		"no time":      func(h http.Header) { h.Del("webhook-timestamp") },
		"no signature": func(h http.Header) { h.Del("webhook-signature") },
		"another kind": func(h http.Header) { h.Set("webhook-signature", "v1a,"+want[3:]) },
	} {
		changed := h.Clone()
		if change(changed); signedhook.Verify(changed, [][]byte{key}, now, body) == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if signedhook.Verify(h, [][]byte{key}, now, append(body, ' ')) == nil {
		t.Error("another body is taken")
	}
}

// A secret has a prefix, and 24 to 64 bytes.
func TestKey(t *testing.T) {
	for n, want := range map[int]bool{0: false, 23: false, 24: true, 64: true, 65: false} {
		if _, ok := signedhook.Key(signedhook.Secret(make([]byte, n))); ok != want {
			t.Errorf("of %d bytes: %v", n, ok)
		}
	}
	for _, bad := range []string{"", secret[6:], "whsec-" + secret[6:], secret + "=", secret[:20] + "\n"} {
		if _, ok := signedhook.Key(bad); ok {
			t.Errorf("%q is taken", bad)
		}
	}
}
