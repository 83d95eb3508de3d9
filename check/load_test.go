package check

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// loaded runs one probe with a load, on a server that has this time to get over it.
func loaded(t *testing.T, h http.Handler, probe string, quiet time.Duration) (findings.Verdict, *findings.Report) {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	report, err := runPatiently(t.Context(), Options{
		Server: Endpoint{URL: web.URL, Header: bearer(planted.Alice)}, Second: bearer(planted.Bob),
		Allow: []string{"*"}, Only: []string{probe}, Load: true, quiet: quiet,
	})
	expect.Check(t, err)
	if len(report.Verdicts) != 1 {
		t.Fatalf("%+v", report)
	}
	return report.Verdicts[0], report
}

func TestLoads(t *testing.T) {
	t.Parallel()
	for _, probe := range []string{"load-body", "load-answers", "load-half", "load-abandoned"} {
		t.Run(probe, func(t *testing.T) {
			t.Parallel()
			v, report := loaded(t, planted.New(planted.Options{Fault: probe}), probe, time.Second)
			if v.Level != findings.Warn {
				t.Errorf("%s %s; %s", v.Level, v.Reason, report.Stopped)
			}
			if probe == "load-half" {
				return // it takes longer to give up than the time that it has here
			}
			v, report = loaded(t, planted.New(planted.Options{}), probe, time.Second)
			if v.Level != findings.Pass || report.Stopped != "" {
				t.Errorf("a correct server: %s %s; %s", v.Level, v.Reason, report.Stopped)
			}
		})
	}
}

func TestWithoutPermissionNoLoadIsSent(t *testing.T) {
	t.Parallel()
	report := judged(t, "", "load")
	for _, v := range report.Verdicts {
		if v.Level != findings.NotJudged || !strings.Contains(v.Remedy, "--load") {
			t.Errorf("%s: %s %s", v.Probe, v.Level, v.Remedy)
		}
	}
	expect.Equal(t, "verdicts", len(report.Verdicts), 4)
}

// A server that gives up on half a body has done what it should.
func TestHalfABodyThatIsGivenUp(t *testing.T) {
	t.Parallel()
	server := planted.New(planted.Options{Fault: "load-half"})
	v, _ := loaded(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		body, err := io.ReadAll(req.Body)
		if err != nil {
			w.WriteHeader(http.StatusRequestTimeout)
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		req.Body = io.NopCloser(bytes.NewReader(body))
		server.ServeHTTP(w, req)
	}), "load-half", time.Minute)
	if v.Level != findings.Pass {
		t.Errorf("%s: %s", v.Level, v.Reason)
	}
}

// A server that serves nobody while it waits for half a body keeps others out, also if it gives up on that in the end.
func TestHalfABodyThatKeepsOthersOut(t *testing.T) {
	t.Parallel()
	server := planted.New(planted.Options{Fault: "load-half"})
	var reading, refused atomic.Int32
	enough := make(chan struct{})
	v, _ := loaded(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		reading.Add(1)
		var group sync.WaitGroup
		read := make(chan struct{})
		give := enough
		if refused.Load() >= 4 {
			give = nil
		}
		group.Go(func() {
			select {
			case <-give:
				_ = http.NewResponseController(w).SetReadDeadline(time.Now())
			case <-read:
			}
		})
		body, err := io.ReadAll(req.Body)
		close(read)
		group.Wait()
		others := reading.Add(-1)
		switch {
		case err != nil:
			w.WriteHeader(http.StatusRequestTimeout)
		case others > 0 && refused.Add(1) <= 4:
			w.WriteHeader(http.StatusServiceUnavailable)
			if refused.Load() == 4 {
				close(enough)
			}
		default:
			req.Body = io.NopCloser(bytes.NewReader(body))
			server.ServeHTTP(w, req)
		}
	}), "load-half", time.Second)
	if v.Level != findings.Warn {
		t.Errorf("%s: %s", v.Level, v.Reason)
	}
}

// A server that refuses a load with 503 is right, and is judged by what it does afterwards.
func TestARefusedLoadDoesNotEndTheRun(t *testing.T) {
	t.Parallel()
	server := planted.New(planted.Options{})
	var calls atomic.Int32
	limited := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		alice := strings.HasSuffix(req.Header.Get("Authorization"), planted.Alice)
		if req.ContentLength > 1<<20 || alice && req.Header.Get("Mcp-Method") == "tools/call" && calls.Add(1) > 40 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		server.ServeHTTP(w, req)
	})
	for _, probe := range []string{"load-body", "load-abandoned"} {
		v, report := loaded(t, limited, probe, time.Second)
		if v.Level != findings.Pass || report.Stopped != "" {
			t.Errorf("%s: %s %s; %s", probe, v.Level, v.Reason, report.Stopped)
		}
	}
}
