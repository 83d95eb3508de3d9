package client

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// The bound is below the http.Client of the host, so that it holds for every request of a transport (calls, answers,
// streams, tasks and the end of a session) and whatever redirects the host's own CheckRedirect allows. That one is
// asked as well.
func TestTheBoundHoldsForEveryRequest(t *testing.T) {
	anywhere := func(*http.Request, []*http.Request) error { return nil }
	nowhere := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		for name, c := range map[string]struct {
			check    func(*http.Request, []*http.Request) error
			location string
			status   int // 0 means an error
		}{
			"to another origin":                  {nil, "https://evil.example/got", 0},
			"to another origin, which is fine":   {anywhere, "https://evil.example/got", 0},
			"to http, which is fine":             {anywhere, "http://mcp.example/got", 0},
			"within the origin":                  {nil, "/got", http.StatusOK},
			"within the origin, which is fine":   {anywhere, "/got", http.StatusOK},
			"within the origin, and is not fine": {nowhere, "/got", http.StatusTemporaryRedirect},
			"elsewhere, and is not fine":         {nowhere, "https://evil.example/got", http.StatusTemporaryRedirect},
		} {
			t.Run(method+" "+name, func(t *testing.T) {
				host := &http.Client{CheckRedirect: c.check, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.URL.Host != "mcp.example" || r.URL.Scheme != "https" {
						t.Errorf("%s %s was sent", r.Method, r.URL)
					}
					w := httptest.NewRecorder()
					if r.URL.Path == "/mcp" {
						http.Redirect(w, r, c.location, http.StatusTemporaryRedirect)
					}
					return w.Result(), nil
				})}
				bound, err := boundTo("https://mcp.example/mcp", host)
				expect.Check(t, err)
				req, err := http.NewRequestWithContext(t.Context(), method, "https://mcp.example/mcp", strings.NewReader("{}"))
				expect.Check(t, err)
				res, err := bound.Do(req)
				if c.status == 0 {
					if err == nil {
						t.Errorf("got %s", res.Status)
					}
					return
				}
				if err != nil || res.StatusCode != c.status {
					t.Errorf("got %v, %v", res, err)
				}
			})
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
