package check

import (
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/check/planted"
	"github.com/askback-mcp/askback/internal/rawclient/transcript"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// The transcript of a finding shows it again on another server with the fault, and fails on a correct one.
func TestFindingsAreReplayed(t *testing.T) {
	t.Parallel()
	for fault, probe := range map[string]string{
		"plain-base64": "state-forged", "any-state": "state-made-up", "mac-short": "state-changed",
		"mac-optional": "state-cut", "principal-unbound": "state-principal", "arguments-unbound": "state-arguments",
		"undeclared": "ask-undeclared", "schema-ignored": "answers-schema", "declined": "answers-declined",
		"task-get-open": "task-get", "task-update-open": "task-update", "task-cancel-open": "task-cancel",
		"task-listen-open": "task-subscribe", "task-list-open": "task-list", "task-undeclared": "task-undeclared-get",
		"task-answered-twice": "task-answered-twice", "task-answered-late": "task-after-end",
		"task-cancelled-late": "task-terminal", "task-no-result": "task-result", "task-text-result": "task-result",
		"task-unknown": "task-missing", "task-one-key": "task-key",
		"http-method": "http-method", "http-name": "http-name", "http-version": "http-version",
		"http-origin": "http-origin", "http-rebinding": "http-rebinding", "http-duplicate": "http-duplicate",
		"http-utf8": "http-utf8", "http-depth": "http-depth", "load-body": "load-body",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			web := httptest.NewServer(planted.New(planted.Options{Fault: fault}))
			defer web.Close()
			defer web.CloseClientConnections() // a subscription would keep it open
			same := httptest.NewServer(planted.New(planted.Options{Fault: fault}))
			defer same.Close()
			defer same.CloseClientConnections()
			correct := httptest.NewServer(planted.New(planted.Options{}))
			defer correct.Close()
			report, err := runPatiently(t.Context(), Options{Server: Endpoint{URL: web.URL, Header: bearer(planted.Alice)},
				Second: bearer(planted.Bob), Allow: []string{"*"}, MaxRequests: 5000, Only: []string{probe}, Load: true})
			expect.Check(t, err)
			found := false
			for _, v := range report.Verdicts {
				if !v.Level.AtLeast(findings.Note) {
					continue
				}
				found = true
				text, err := transcript.Parse(probe, []byte(v.Transcript))
				if err != nil {
					t.Fatalf("%v\n%s", err, v.Transcript)
				}
				player := transcript.Player{URLs: map[string]string{"A": same.URL}, First: bearer(planted.Alice),
					Second: bearer(planted.Bob)}
				if err := text.Play(t.Context(), player); err != nil {
					t.Errorf("%s: %v\n%s", v.Target, err, v.Transcript)
				}
				player.URLs["A"] = correct.URL
				failure := new(transcript.Failure)
				if err := text.Play(t.Context(), player); !errors.As(err, &failure) {
					t.Errorf("%s: on a correct server: %v\n%s", v.Target, err, v.Transcript)
				}
			}
			if !found {
				t.Errorf("no finding: %+v", report.Verdicts)
			}
		})
	}
}
