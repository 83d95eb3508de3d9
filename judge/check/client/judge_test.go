package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func judged(t *testing.T, fault string, opts options) *findings.Report {
	t.Helper()
	opts.command = []string{os.Args[0], "planted", fault, "{url}"}
	if opts.timeout == 0 {
		opts.timeout = 20 * time.Second
	}
	report := expect.Must(run(t.Context(), opts))(t)
	return report
}

// A correct client passes every probe.
func TestCorrectClient(t *testing.T) {
	t.Parallel()
	report := judged(t, "none", options{person: "accepts"})
	expect.Equal(t, "it stopped", report.Stopped, "")
	for _, v := range report.Verdicts {
		if v.Level != findings.Pass {
			t.Errorf("%s: %s: %s (%s)", v.Probe, v.Level, v.Reason, v.Remedy)
		}
	}
	if len(report.Verdicts) < 40 || report.Name != "planted none" || report.Kind != "client" {
		t.Errorf("got %d verdicts on %q, a %s", len(report.Verdicts), report.Name, report.Kind)
	}
	t.Logf("%d requests in %v", report.Requests, report.Took)
}

// Each planted fault is found by the probe that is meant.
func TestPlantedFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault, probe string
		level        findings.Level
	}{
		{"reencode", "client-state-unchanged", findings.Fail},
		{"trim", "client-state-unchanged", findings.Fail},
		{"nostate", "client-state-unchanged", findings.Fail},
		{"cut", "client-state-long", findings.Fail},
		{"noempty", "client-state-empty", findings.Fail},
		{"keepstate", "client-state-none", findings.Fail},
		{"elsewhere", "client-state-elsewhere", findings.Fail},
		{"ended", "client-state-ended", findings.Fail},
		{"sameid", "client-id", findings.Fail},
		{"arguments", "client-params", findings.Warn},
		{"forget", "client-capabilities", findings.Warn},
		{"headers", "client-headers", findings.Fail},
		{"onekey", "client-keys", findings.Fail},
		{"proto", "client-keys-proto", findings.Fail},
		{"otherkey", "client-keys-proto", findings.Fail},
		{"kind", "client-kinds", findings.Fail},
		{"stale", "client-stale-answers", findings.Fail},
		{"unfit", "client-schema", findings.Warn},
		{"undeclared", "client-undeclared", findings.Warn},
		{"unknown", "client-unknown-kind", findings.Warn},
		{"fetch", "client-url-fetched", findings.Fail},
		{"ref", "client-schema-fetched", findings.Warn},
		{"declines", "client-person", findings.Note},
		{"endless", "client-rounds", findings.Warn},
		{"hammer", "client-pause", findings.Warn},
		{"hang", "client-empty-round", findings.Warn},
		{"anytype", "client-type-unknown", findings.Warn},
		{"notype", "client-type-absent", findings.Warn},
		{"anyid", "client-response-id", findings.Warn},
		{"repair", "client-text-invalid", findings.Note},
		{"crash", "client-result-huge", findings.Warn},
		{"crash", "client-result-deep", findings.Warn},
		{"again", "client-response-lost", findings.Warn},
		{"twice", "client-response-twice", findings.Warn},
		{"fallback", "client-fallback", findings.Note},
		{"redirect", "client-redirect-state", findings.Warn},
		{"token", "client-redirect-token", findings.Warn},
		{"fast", "client-task-poll", findings.Warn},
		{"taskagain", "client-task-once", findings.Warn},
		{"scope", "client-task-key", findings.Warn},
		{"taskname", "client-task-name", findings.Fail},
		{"taskstate", "client-task-state", findings.Fail},
		{"pollon", "client-task-end", findings.Warn},
	} {
		t.Run(c.fault+" "+c.probe, func(t *testing.T) {
			t.Parallel()
			opts := options{probes: []string{c.probe}, timeout: 10 * time.Second}
			if c.probe == "client-person" {
				opts.person = "none"
			}
			if c.fault == "hang" {
				opts.timeout = 2 * time.Second
			}
			report := judged(t, c.fault, opts)
			if len(report.Verdicts) != 1 {
				t.Fatalf("got %d verdicts", len(report.Verdicts))
			}
			v := report.Verdicts[0]
			if v.Probe != c.probe || v.Level != c.level || v.Mend == "" {
				t.Errorf("%s: got %s, want %s: %s (%s) %s", v.Probe, v.Level, c.level, v.Reason, v.Remedy, report.Stopped)
			}
		})
	}
}

// A client that never connects is not judged, which is no pass.
func TestSilentClient(t *testing.T) {
	t.Parallel()
	report := judged(t, "silent", options{})
	if report.Judged() || report.Stopped == "" || len(report.Verdicts) < 40 {
		t.Errorf("got %d verdicts, of which some are judged: %v; it stopped: %q",
			len(report.Verdicts), report.Judged(), report.Stopped)
	}
}

// No state and no token is in a report, even if the client shows them.
func TestReportsHaveNoSecrets(t *testing.T) {
	t.Parallel()
	random := regexp.MustCompile(`[A-Z2-7]{26}`)
	for fault, want := range map[string]string{"loud": "cannot answer … of …", "trim": "bytes were sent"} {
		text := expect.Must(json.Marshal(judged(t, fault, options{probes: []string{"client-state-unchanged"}})))(t)
		if secret := random.Find(text); secret != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("%s: the report has %q, or not %q: %s", fault, secret, want, text)
		}
	}
}

// A command without {url} gets the URL as its last argument.
func TestCommands(t *testing.T) {
	t.Parallel()
	report, err := run(t.Context(), options{
		command: []string{os.Args[0], "planted", "none"}, probes: []string{"client-id"},
	})
	if err != nil || len(report.Verdicts) != 1 || report.Verdicts[0].Level != findings.Pass {
		t.Errorf("got %+v, %v", report, err)
	}
}

// What runs too long is killed with its children, and floods end in time.
func TestClientsAreStopped(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "alive")
	began := time.Now()
	report := expect.Must(run(t.Context(), options{
		command: []string{"sh", "-c", "(while :; do echo >" + mark + "; sleep 0.05; done) & wait", "sh"},
		timeout: time.Second,
	}))(t)
	if report.Judged() || time.Since(began) > 10*time.Second {
		t.Errorf("it took %v, and something is judged: %v", time.Since(began), report.Judged())
	}
	expect.Check(t, os.Remove(mark))
	for until := time.Now().Add(500 * time.Millisecond); time.Now().Before(until); {
		if _, err := os.Stat(mark); err == nil {
			t.Fatal("a child of the client is alive")
		}
	}
}
