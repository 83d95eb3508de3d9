// Package report shows what a check has found: to a person in a terminal, and to programs. What it shows
// depends on the report alone.
package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/check/findings"
)

func isFinding(v findings.Verdict) bool { return v.Level.AtLeast(findings.Note) }

// place names what a verdict is about.
func place(v findings.Verdict) string {
	if v.Target == "" {
		return "the endpoint"
	}
	return v.Target
}

// rule names what asks for the behavior.
func rule(v findings.Verdict) string {
	if v.Clause == "" {
		return "hardening"
	}
	return v.Keyword + " (" + v.Clause + ")"
}

// headline is the verdict on the whole: a word, and what it counts. A finding on several targets counts once.
func headline(r *findings.Report) (level findings.Level, word, words string) {
	counts := make(map[findings.Level]int)
	for _, p := range problems(r) {
		counts[p.Level]++
	}
	broken := plural(counts[findings.Fail], "broken requirement")
	if counts[findings.Fail] == 0 {
		broken = "no broken requirement"
	}
	rest := []string{broken}
	for _, level := range []findings.Level{findings.Warn, findings.Note} {
		if counts[level] > 0 {
			rest = append(rest, plural(counts[level], map[findings.Level]string{
				findings.Warn: "warning", findings.Note: "note"}[level]))
		}
	}
	words = strings.Join(rest, ", ")
	switch {
	case !r.Judged():
		return findings.NotJudged, "NOT JUDGED", "nothing could be judged"
	case counts[findings.Fail] > 0:
		return findings.Fail, label[findings.Fail].word, words
	case counts[findings.Warn] > 0:
		return findings.Warn, label[findings.Warn].word, words
	case counts[findings.Note] > 0:
		return findings.Note, label[findings.Note].word, words
	case r.Stopped != "":
		return findings.NotJudged, "NO FINDING", "in what was judged before the run ended early"
	default:
		return findings.Pass, "NO FINDING", "in what was judged"
	}
}

// coverage tells how much was judged.
func coverage(r *findings.Report) string {
	open := r.Count(findings.NotJudged)
	return fmt.Sprintf("%d of %d combinations of a probe and a target are judged", len(r.Verdicts)-open, len(r.Verdicts))
}

// summary counts the verdicts in one sentence.
func summary(r *findings.Report) string {
	accepted := len(accepted(r))
	text := fmt.Sprintf("%d fail, %d warn, %d note, %d passed, %d not judged", r.Count(findings.Fail),
		r.Count(findings.Warn), r.Count(findings.Note), r.Count(findings.Pass), r.Count(findings.NotJudged))
	if accepted > 0 {
		text += fmt.Sprintf(", %d accepted by the baseline", accepted)
	}
	if !r.Judged() {
		text += ": nothing could be judged"
	}
	return text + "."
}

// accepted returns the findings that a baseline covers.
func accepted(r *findings.Report) []findings.Verdict {
	return slices.DeleteFunc(slices.Clone(r.Verdicts), func(v findings.Verdict) bool { return v.Accepted == "" })
}

// about tells what a target asks, and how far it was called.
func about(t findings.Target) string {
	text := strings.Join(t.Asks, ", ") + " in " + plural(t.Rounds, "round")
	switch {
	case t.Ended:
	case t.Why != "":
		text += "; not called to its end: " + t.Why
	default:
		text += "; not called to its end"
	}
	return text
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// scope tells how much was done, and in which revision.
func scope(r *findings.Report) string {
	text := fmt.Sprintf("%s in %s", plural(r.Requests, "request"), r.Took.Round(100*time.Millisecond))
	if r.Revision != "" {
		text += ", protocol " + r.Revision
	}
	return text
}

// TranscriptNames returns the name of a file for each verdict that has a transcript, and "" for the others. Names do
// not depend on the subject, so that a later run of the same finding has the same name.
func TranscriptNames(r *findings.Report) []string {
	names := make([]string, len(r.Verdicts))
	taken := make(map[string]bool)
	for i, v := range r.Verdicts {
		if v.Transcript == "" {
			continue
		}
		base := fileName(v.Probe + "-" + v.Target)
		name := base
		for n := 2; taken[strings.ToLower(name)]; n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
		taken[strings.ToLower(name)] = true
		names[i] = name + ".txt"
	}
	return names
}

// fileName keeps of a text what is harmless in the name of a file on every system.
func fileName(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case b.Len() >= 80:
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return cmp.Or(strings.Trim(b.String(), "-"), "finding")
}
