package check

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A server that ends when a person says no has one finding for that.
func TestAServerThatEnds(t *testing.T) {
	t.Parallel()
	server := planted.New(planted.Options{})
	var web *httptest.Server
	web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil || bytes.Contains(body, []byte(`"decline"`)) {
			_ = web.Listener.Close() // it is closed again at the end
			panic(http.ErrAbortHandler)
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		server.ServeHTTP(w, req)
	}))
	t.Cleanup(web.Close)
	report, err := runPatiently(t.Context(), Options{
		Server: Endpoint{URL: web.URL, Header: bearer(planted.Alice)}, Allow: []string{"*"}, MaxRequests: 5000,
	})
	expect.Check(t, err)
	ends := 0
	for _, v := range report.Verdicts {
		if v.Probe == "answers-end" && v.Level == findings.Fail {
			ends++
			if v.Transcript == "" {
				t.Error("the finding has no transcript")
			}
		} else if v.Level == findings.Fail || v.Level == findings.Warn {
			t.Errorf("%s %s: %s: %s", v.Probe, v.Target, v.Level, v.Reason)
		}
	}
	if ends != 1 {
		t.Errorf("%d findings, want 1; stopped: %s", ends, report.Stopped)
	}
}
