package check

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// levels are the levels of the verdicts of probes that are judged once.
func levels(r *findings.Report) map[string]findings.Level {
	all := map[string]findings.Level{}
	for _, v := range r.Verdicts {
		all[v.Probe] = v.Level
	}
	return all
}

func TestAMissingHeaderIsAWarning(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"http-method", "http-name", "http-version"} {
		got := levels(judged(t, fault, "endpoint"))
		if got[fault] != findings.Fail || got[fault+"-missing"] != findings.Warn || got["http-duplicate"] != findings.Pass {
			t.Errorf("%s: %v", fault, got)
		}
	}
}

// A program has no headers, and reads bodies all the same.
func TestTheBodiesOfAProgramAreJudged(t *testing.T) {
	t.Parallel()
	for fault, want := range map[string]findings.Level{"": findings.Pass, "http-duplicate": findings.Note} {
		report, err := runPatiently(t.Context(), Options{Server: Endpoint{Program: []string{os.Args[0], "planted", fault}},
			Only: []string{"endpoint"}})
		expect.Check(t, err)
		got := levels(report)
		if got["http-duplicate"] != want || got["http-depth"] != findings.Pass || got["http-name"] != findings.NotJudged {
			t.Errorf("%q: %v; %s", fault, got, report.Stopped)
		}
	}
}

// A server whose results are of an earlier revision has no headers to compare.
func TestAnEarlierRevisionIsNotJudged(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		var m struct{ ID json.RawMessage }
		_ = json.NewDecoder(req.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"tools":[]}}`)
	}))
	t.Cleanup(web.Close)
	report, err := runPatiently(t.Context(), Options{Server: Endpoint{URL: web.URL}, Only: []string{"endpoint"}})
	expect.Check(t, err)
	for probe, level := range levels(report) {
		expect.Equal(t, probe, level, findings.NotJudged)
	}
}

// A body that ends the server is a finding of its probe.
func TestABodyThatEndsTheServer(t *testing.T) {
	t.Parallel()
	server := planted.New(planted.Options{})
	var web *httptest.Server
	web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil || bytes.Contains(body, []byte("[[[[")) {
			_ = web.Listener.Close() // it is closed again at the end
			panic(http.ErrAbortHandler)
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		server.ServeHTTP(w, req)
	}))
	t.Cleanup(web.Close)
	report, err := runPatiently(t.Context(), Options{
		Server: Endpoint{URL: web.URL, Header: bearer(planted.Alice)}, Only: []string{"endpoint"},
	})
	expect.Check(t, err)
	if got := levels(report); got["http-depth"] != findings.Warn || got["http-utf8"] != findings.Pass {
		t.Errorf("%v; %s", got, report.Stopped)
	}
}
