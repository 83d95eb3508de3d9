package checkreport

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/askback-mcp/askback/check/findings"
)

func TestBadge(t *testing.T) {
	t.Parallel()
	with := func(levels ...findings.Level) *findings.Report {
		r := &findings.Report{}
		for _, level := range levels {
			r.Verdicts = append(r.Verdicts, findings.Verdict{Level: level})
		}
		return r
	}
	accepted := with(findings.Pass, findings.Fail)
	accepted.Verdicts[1].Accepted = "known"
	stopped := with(findings.Pass)
	stopped.Stopped = "the server answered 503"
	for _, tt := range []struct {
		r              *findings.Report
		message, color string
	}{
		{with(), "not judged", "lightgrey"},
		{with(findings.NotJudged), "not judged", "lightgrey"},
		{with(findings.Pass, findings.Note, findings.NotJudged), "1 passed, 1 not judged", "brightgreen"},
		{with(findings.Pass, findings.Warn), "0 fail, 1 warn", "yellow"},
		{with(findings.Fail, findings.Warn), "1 fail, 1 warn", "red"},
		{stopped, "1 passed, ended early", "lightgrey"},
		{accepted, "1 passed, 0 not judged", "brightgreen"},
	} {
		text, err := Badge(tt.r)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"schemaVersion": 1.0, "label": "askback check", "message": tt.message, "color": tt.color}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	want := "[![askback check: 1 fail, 1 warn](https://img.shields.io/badge/askback_check-1_fail%2C_1_warn-red)]" +
		"(https://github.com/askback-mcp/askback)\n"
	if got := BadgeLine(sample()); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
