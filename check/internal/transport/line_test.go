package transport

import (
	"net/http"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestATokenGoesToItsOriginOnly(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		own, other string
		want       bool
	}{
		{"https://a.example/mcp", "https://a.example/other", true},
		{"https://a.example/mcp", "https://b.example/mcp", false},
		{"https://a.example/mcp", "http://a.example/mcp", false},
		{"https://a.example/mcp", "https://a.example:8443/mcp", false},
		{"https://a.example/mcp", "http://127.0.0.1:8080/mcp", false},
		{"http://127.0.0.1:8080/mcp", "http://127.0.0.1:8081/mcp", true},
		{"http://127.0.0.1:8080/mcp", "https://b.example/mcp", false},
	} {
		for _, at := range []string{"replica", "elsewhere"} {
			l, err := New(Options{URL: test.own, Header: http.Header{"Authorization": {"Bearer a-token"}},
				Second: http.Header{"Authorization": {"Bearer another"}}, Replica: test.other, Elsewhere: test.other,
				Local: strings.Contains(test.own, "127.0.0.1")})
			expect.Check(t, err)
			for _, as := range []string{"", "second"} {
				if got := l.client(as, at).Header != nil; got != test.want {
					t.Errorf("from %s to %s at %s: %t", test.own, at, test.other, got)
				}
			}
			if l.client("", "").Header.Get("Authorization") != "Bearer a-token" {
				t.Error("the server itself does not get its token")
			}
			l.Close()
		}
	}
}
