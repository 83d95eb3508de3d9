package check

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// checkOnce checks a server whose tools act once for each city.
func checkOnce(t *testing.T, o planted.Options, p Plan, only ...string) *findings.Report {
	t.Helper()
	o.ActsOnce = true
	if p.Calls == nil {
		p.Calls = map[string]PlannedCall{}
	}
	for _, name := range []string{"move", "thank", "connect", "summarize", "export"} {
		p.Calls[name] = PlannedCall{Never: true} // they are like the others
	}
	web := httptest.NewServer(planted.New(o))
	t.Cleanup(web.Close)
	p.Replica = web.URL
	report, err := runPatiently(t.Context(), Options{
		Server: Endpoint{URL: web.URL, Header: bearer(planted.Alice)}, Second: bearer(planted.Bob),
		Allow: []string{"*"}, MaxRequests: 20000, Only: only, Plan: p,
	})
	expect.Check(t, err)
	return report
}

// Whatever is wrong with a server is found as well if its tools act once.
func TestFaultsOfToolsThatActOnce(t *testing.T) {
	t.Parallel()
	for _, fault := range planted.Faults {
		family, _, _ := strings.Cut(fault.Probe, "-")
		switch {
		case family != "state" && family != "answers":
			continue
		case slices.Contains([]string{"state-expired", "state-other-server", "state-replica"}, fault.Probe): // need more
			continue
		case fault.Probe == "state-twice" || fault.Probe == "state-after-end": // acting once mends them
			continue
		}
		t.Run(fault.Name, func(t *testing.T) {
			t.Parallel()
			plan := Plan{Calls: map[string]PlannedCall{"redeem": {Once: true}}}
			found := false
			report := checkOnce(t, planted.Options{Fault: fault.Name}, plan, fault.Probe)
			for _, v := range report.Verdicts {
				found = found || string(v.Level) == fault.Level
			}
			if !found {
				t.Errorf("%s is not found: %s", fault.Probe, report.Stopped)
				for _, v := range report.Verdicts {
					t.Logf("%-10s %-20s %-30s %s", v.Level, v.Probe, v.Target, v.Reason)
				}
			}
		})
	}
}

// A state that is an argument of the call is no signature, whatever the argument looks like.
func TestStatesThatAreArguments(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"id", "id-compared", "bare-compared"} {
		for _, format := range []string{"uuid", "email"} {
			t.Run(fault+" "+format, func(t *testing.T) {
				t.Parallel()
				report := checkOnce(t, planted.Options{Fault: fault, Format: format}, Plan{}, "state-forged", "state-changed")
				forged := 0
				for _, v := range report.Verdicts {
					if !strings.HasPrefix(v.Target, "tools/call") {
						continue
					}
					if v.Level == findings.Pass {
						t.Errorf("%s %s: passes: %s", v.Probe, v.Target, v.Reason)
					}
					if v.Probe == "state-forged" && v.Level == findings.Fail {
						forged++
					}
				}
				if forged < 3 {
					t.Errorf("%d states are forged: %+v", forged, report.Verdicts)
				}
			})
		}
	}
}

// A correct server whose tools act once has no finding, and is judged.
func TestCorrectToolsThatActOnce(t *testing.T) {
	t.Parallel()
	for _, seal := range []string{"aead", "hmac", "counted"} {
		t.Run(seal, func(t *testing.T) {
			t.Parallel()
			report := checkOnce(t, planted.Options{Seal: seal}, Plan{Calls: map[string]PlannedCall{"redeem": {Once: true}}},
				"state", "answers")
			if n := report.Count(findings.Pass); n < 70 {
				t.Errorf("%d probes passed", n)
			}
			for _, v := range report.Verdicts {
				if v.Level.AtLeast(findings.Warn) {
					t.Errorf("%s %s: %s by %s: %s\n%s", v.Probe, v.Target, v.Level, v.Proof, v.Reason, v.Transcript)
				}
			}
		})
	}
}

// What has to be there, and serves one call, comes from the file.
func TestArgumentsThatAreUsedUp(t *testing.T) {
	t.Parallel()
	var cities []string
	var values []any
	for i := range 120 {
		cities = append(cities, fmt.Sprintf("order-%03d", i))
		values = append(values, cities[i])
	}
	server := planted.Options{Fault: "id", Known: cities}
	one := PlannedCall{Arguments: map[string]any{"city": cities[0]}}
	report := checkOnce(t, server, Plan{Calls: map[string]PlannedCall{"tools/call greet": one}}, "state-forged")
	for _, v := range report.Verdicts {
		if v.Target == "tools/call greet" && (v.Level != findings.NotJudged || !strings.Contains(v.Remedy, "useUp")) {
			t.Errorf("one argument: %s %s: %s; %s", v.Probe, v.Level, v.Reason, v.Remedy)
		}
	}
	one.UseUp = map[string][]any{"city": values}
	for n, want := range map[int]findings.Level{120: findings.Fail, 3: findings.NotJudged} {
		one.UseUp["city"] = values[:n]
		report := checkOnce(t, server, Plan{Calls: map[string]PlannedCall{"tools/call greet": one}}, "state-forged")
		for _, v := range report.Verdicts {
			if v.Target == "tools/call greet" && v.Level != want {
				t.Errorf("%d arguments: %s %s: %s; %s", n, v.Probe, v.Level, v.Reason, v.Remedy)
			}
		}
	}
}
