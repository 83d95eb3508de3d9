package check

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

// runPatiently runs a check that gives up on nothing because the machine is busy.
func runPatiently(ctx context.Context, o Options) (*findings.Report, error) {
	o.patience, o.Timeout = cmp.Or(o.patience, time.Minute), cmp.Or(o.Timeout, 20*time.Minute)
	return Run(ctx, o)
}

// judged runs a check on a server of package planted, with everything that makes its probes judged.
func judged(t *testing.T, fault string, only ...string) *findings.Report {
	t.Helper()
	web := httptest.NewServer(planted.New(planted.Options{Fault: fault}))
	t.Cleanup(web.Close)
	report, err := runPatiently(t.Context(), Options{
		Server: Endpoint{URL: web.URL, Header: bearer(planted.Alice)}, Second: bearer(planted.Bob),
		Allow: []string{"*"}, MaxRequests: 5000, Only: only,
	})
	expect.Check(t, err)
	return report
}

func TestACorrectServerHasNoFindings(t *testing.T) {
	t.Parallel()
	report := judged(t, "")
	for _, v := range report.Verdicts {
		if v.Level == findings.Fail || v.Level == findings.Warn {
			t.Errorf("%s %s: %s by %s: %s\n%s", v.Probe, v.Target, v.Level, v.Proof, v.Reason, v.Transcript)
		}
		t.Logf("%-10s %-20s %-30s %s", v.Level, v.Probe, v.Target, v.Reason)
	}
	t.Logf("%d requests, %v, %s", report.Requests, report.Took, report.Stopped)
}

func TestOnlyTheProbesThatAreNamedRun(t *testing.T) {
	t.Parallel()
	report := judged(t, "", "state-cut", "questions")
	seen := map[string]bool{}
	for _, v := range report.Verdicts {
		seen[v.Probe] = true
	}
	if !seen["state-cut"] || !seen["ask-password"] || seen["state-changed"] || seen["answers-none"] {
		t.Errorf("the verdicts are of %v", seen)
	}
	for _, name := range []string{"state-cup", "client", "client-keys"} {
		o := Options{Server: Endpoint{URL: "http://127.0.0.1/"}, Only: []string{name}}
		if _, err := runPatiently(t.Context(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// A server that goes on without an answer may have a default for it, so that this alone is a suspicion.
func TestAMissingAnswerIsNoControlOfItself(t *testing.T) {
	t.Parallel()
	levels := map[string]findings.Level{}
	for _, v := range judged(t, "missing").Verdicts {
		if v.Target == "tools/call greet" {
			levels[v.Probe] = v.Level
		}
	}
	if levels["answers-none"] != findings.Warn || levels["answers-missing"] != findings.NotJudged {
		t.Errorf("answers-none: %q, answers-missing: %q", levels["answers-none"], levels["answers-missing"])
	}
}
