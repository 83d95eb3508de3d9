package report

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/test/expect"
)

const entry = `{"probe": "state-forged", "target": "tools/call deploy", "dimension": "integrity", "level": "fail",
	"reason": "The demo is not reachable.", "expires": "2026-12-31"}`

func parse(t *testing.T, entries ...string) *Baseline {
	t.Helper()
	b := expect.Must(ParseBaseline([]byte(`{"entries": [` + strings.Join(entries, ",") + `]}`)))(t)
	return b
}

// replaced changes the entry, which has the old text.
func replaced(t *testing.T, before, after string) string {
	t.Helper()
	if !strings.Contains(entry, before) {
		t.Fatalf("no %s", before)
	}
	return strings.Replace(entry, before, after, 1)
}

var lastDay = time.Date(2026, 12, 31, 23, 59, 0, 0, time.UTC)

func TestABaselineCoversAFindingUntilItsDate(t *testing.T) {
	t.Parallel()
	r := sample()
	parse(t, entry).Apply(r, lastDay)
	if v := r.Verdicts[5]; v.Accepted != "The demo is not reachable." || v.Expires != "2026-12-31" || r.Remarks != nil {
		t.Errorf("%+v, %q", v, r.Remarks)
	}
	if n := r.Count(findings.Fail); n != 0 || len(accepted(r)) != 2 {
		t.Errorf("%d fail, %d accepted", n, len(accepted(r)))
	}
}

func TestWhatABaselineDoesNotCover(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		entries []string
		now     time.Time
		want    []string
	}{
		"after its date": {[]string{entry}, lastDay.Add(time.Minute), []string{"state-forged on tools/call deploy " +
			"is not covered any more: the entry expired on 2026-12-31"}},
		"an escalation": {[]string{replaced(t, `"fail"`, `"warn"`)}, lastDay, []string{"state-forged on tools/call deploy " +
			"is not covered: the baseline accepts warn, and it is fail"}},
		"another probe": {[]string{replaced(t, "state-forged", "state-cut")}, lastDay,
			[]string{"state-cut on tools/call deploy is in the baseline, and is no finding"}},
		"another target": {[]string{replaced(t, "deploy", "wipe")}, lastDay,
			[]string{"state-forged on tools/call wipe is in the baseline, and is no finding"}},
		"the endpoint": {[]string{replaced(t, `"target": "tools/call deploy", `, "")}, lastDay,
			[]string{"state-forged on the endpoint is in the baseline, and is no finding"}},
		"another dimension": {[]string{replaced(t, "integrity", "time")}, lastDay,
			[]string{"state-forged on tools/call deploy is in the baseline, and is no finding"}},
	} {
		r := sample()
		parse(t, tt.entries...).Apply(r, tt.now)
		if r.Verdicts[5].Accepted != "" || r.Count(findings.Fail) != 1 {
			t.Errorf("%s is covered", name)
		}
		expect.Diff(t, name, tt.want, r.Remarks)
	}
	r := sample()
	parse(t, entry, entry).Apply(r, lastDay)
	if len(r.Remarks) != 1 {
		t.Errorf("the same entry twice: %q", r.Remarks)
	}
}

func TestBaselinesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no reason":       replaced(t, `"reason": "The demo is not reachable.",`, ""),
		"an empty reason": replaced(t, "The demo is not reachable.", " "),
		"no date": replaced(t, `,
	"reason": "The demo is not reachable.", "expires": "2026-12-31"`, `, "reason": "x"`),
		"no such date":       replaced(t, "2026-12-31", "2026-02-30"),
		"no probe":           replaced(t, `"probe": "state-forged", `, ""),
		"no level":           replaced(t, `"level": "fail",`, ""),
		"what is no level":   replaced(t, `"fail"`, `"error"`),
		"what is passed":     replaced(t, `"fail"`, `"pass"`),
		"what is not judged": replaced(t, `"fail"`, `"not-judged"`),
		"an unknown member":  replaced(t, `"probe"`, `"host": "x", "probe"`),
		"a member twice":     replaced(t, `"probe"`, `"probe": "x", "probe"`),
	} {
		if b, err := ParseBaseline([]byte(`{"entries": [` + text + `]}`)); err == nil {
			t.Errorf("%s: %+v", name, b)
		}
	}
}

// A new baseline covers all findings of its report, and nothing that is graver later.
func TestANewBaselineCoversItsReport(t *testing.T) {
	t.Parallel()
	b, err := NewBaseline(sample(), "It is a demo.", "2026-12-31")
	expect.Check(t, err)
	text := expect.Must(b.JSON())(t)
	if b, err = ParseBaseline([]byte(text)); err != nil {
		t.Fatal(err)
	}
	r := sample()
	r.Verdicts[8].Accepted, r.Verdicts[8].Expires = "", ""
	b.Apply(r, lastDay)
	if len(problems(r)) != 0 || r.Remarks != nil || r.Verdicts[8].Expires != "2027-01-31" {
		t.Errorf("%+v, %q", problems(r), r.Remarks)
	}
	for _, wrong := range [][2]string{{"", "2026-12-31"}, {"It is a demo.", ""}, {"It is a demo.", "soon"}} {
		if _, err := NewBaseline(sample(), wrong[0], wrong[1]); err == nil {
			t.Errorf("%q is taken", wrong)
		}
	}
}

// Whatever is read covers no more than it names, and is written as it was read.
func FuzzParseBaseline(f *testing.F) {
	for _, text := range append([]string{`{"entries": [` + entry + `]}`, `{"entries": null}`, "[]", "{}{}"}, strange...) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := ParseBaseline([]byte(text))
		if err != nil {
			return
		}
		r := sample()
		b.Apply(r, lastDay)
		if n := len(r.Remarks) + len(accepted(r)) - 1; len(b.Entries) > 0 && n == 0 {
			t.Errorf("%d entries have no effect", len(b.Entries))
		}
		again := expect.Must(b.JSON())(t)
		if other, err := ParseBaseline([]byte(again)); err != nil || !cmp.Equal(b, other) {
			t.Errorf("%q: %v\n%s", text, err, cmp.Diff(b, other))
		}
	})
}
