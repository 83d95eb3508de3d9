package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// many is a report on tools of these names.
func many(names ...string) *findings.Report {
	r := &findings.Report{Subject: "http://127.0.0.1:8080/mcp", Kind: "server"}
	for _, name := range names {
		r.Targets = append(r.Targets, findings.Target{Method: "tools/call", Name: name, Asks: []string{"roots/list"},
			Rounds: 1, Ended: true})
	}
	return r
}

// add adds a verdict of a probe on tools.
func add(r *findings.Report, probe string, level findings.Level, reason string, names ...string) {
	for _, name := range names {
		v := findings.Verdict{Probe: probe, Level: level, Reason: reason, Title: "The probe " + probe, Keyword: "hardening",
			Target: "tools/call " + name}
		if isFinding(v) {
			v.Transcript = "Title: x\n"
		}
		r.Verdicts = append(r.Verdicts, v)
	}
}

// A report says a thing once, however many targets it concerns.
func TestTextSaysAThingOnce(t *testing.T) {
	t.Parallel()
	all := strings.Split("abcdefgh", "")
	r := many(all...)
	add(r, "clear", findings.Warn, "in round 1", all[:7]...)
	add(r, "clear", findings.Warn, "in round 2", "h")
	add(r, "forged", findings.Fail, "it came back", "b", "c")
	for i, name := range all[:5] {
		add(r, "changed", findings.Warn, fmt.Sprintf("%d were taken", i), name)
	}
	add(r, "kind", findings.Pass, "fine", all...)
	add(r, "empty", findings.Pass, "fine", all...)
	add(r, "forged", findings.NotJudged, "the requests are used up", all[3:]...)
	for i := range r.Verdicts {
		if r.Verdicts[i].Level == findings.NotJudged {
			r.Verdicts[i].Remedy = "more --requests"
		}
	}
	add(r, "twice", findings.NotJudged, "nothing says so", all...)
	golden(t, "testdata/many.golden", Text(r, TextOptions{Directory: "it's here"}))
}

func TestWhere(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ all, on, want string }{
		{"a b", "a b", "tools/call a, tools/call b"},
		{"a b c", "a b c", "everything that asks"},
		{"a b c", "b c", "everything that asks, except tools/call a"},
		{"a b c", "c", "tools/call c"},
		{"a b c", "a b c d", "tools/call a, tools/call b, tools/call c, tools/call d"},
		{"", "a", "tools/call a"},
	} {
		on := strings.Fields(tt.on)
		for i := range on {
			on[i] = "tools/call " + on[i]
		}
		if got := where(many(strings.Fields(tt.all)...), on); got != tt.want {
			t.Errorf("%s of %s: %q, want %q", tt.on, tt.all, got, tt.want)
		}
	}
}

func TestHeadline(t *testing.T) {
	t.Parallel()
	r := many("a", "b")
	var got []string
	for _, level := range []findings.Level{findings.NotJudged, findings.Pass, findings.Note, findings.Warn,
		findings.Fail} {
		add(r, string(level), level, "", "a", "b")
		_, word, words := headline(r)
		got = append(got, word+": "+words)
	}
	for i := range r.Verdicts {
		r.Verdicts[i].Accepted = "known"
	}
	_, word, _ := headline(r)
	r.Stopped = "the server answered 503"
	if level, _, words := headline(r); level != findings.NotJudged || !strings.HasSuffix(words, "ended early") {
		t.Errorf("stopped: %s, %s", level, words)
	}
	want := []string{"NOT JUDGED: nothing could be judged", "NO FINDING: in what was judged",
		"NOTE: no broken requirement, 1 note", "WARN: no broken requirement, 1 warning, 1 note",
		"FAIL: 1 broken requirement, 1 warning, 1 note", "NO FINDING"}
	expect.Diff(t, "the value", want, append(got, word))
}

func TestReplayCommand(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ subject, file, want string }{
		{"http://127.0.0.1:8080/mcp", "found/a.txt", "askback replay found/a.txt http://127.0.0.1:8080/mcp"},
		{"./server", "my files/a.txt", "askback replay 'my files/a.txt'"},
		{"http://h/$(id);x", "it's", `askback replay 'it'\''s' 'http://h/$(id);x'`},
	} {
		if got := replayCommand(&findings.Report{Subject: tt.subject}, tt.file); got != tt.want {
			t.Errorf("%s, want %s", got, tt.want)
		}
	}
}
