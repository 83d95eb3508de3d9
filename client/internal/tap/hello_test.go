package tap

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// A server that is not there for its probe is not waited for a second time, by initialize.
func TestAProbeThatWasSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		web := &roundTripper{config: &config, asked: newUnanswered(&config),
			base: roundTrip(func(req *http.Request) (*http.Response, error) {
				tries++
				return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody, Request: req}, nil
			})}
		x := &Exchange{Hello: new(Hello)}
		for _, c := range []struct {
			method string
			tries  int
		}{{MethodDiscover, mostTries}, {methodInitialize, 1}} {
			req, err := http.NewRequestWithContext(x.Context(t.Context()), http.MethodPost, "http://example.com",
				strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"`+c.method+`"}`))
			expect.Check(t, err)
			tries = 0
			if res, err := web.RoundTrip(req); err != nil {
				t.Fatal(err)
			} else {
				res.Body.Close()
			}
			if tries != c.tries || !x.Hello.Spent() {
				t.Errorf("%s was sent %d times, want %d; spent is %v", c.method, tries, c.tries, x.Hello.Spent())
			}
		}
	})
}
