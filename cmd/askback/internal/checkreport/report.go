// Package checkreport shows what a check has found: to a person in a terminal or a browser, and to programs. What it
// shows depends on the report alone.
package checkreport

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/cmd/askback/internal/findings"
)

// found returns the findings that no baseline covers, the gravest first.
func found(r *findings.Report) []findings.Verdict {
	var all []findings.Verdict
	for _, level := range findings.Levels {
		for _, v := range r.Verdicts {
			if v.Level == level && isFinding(v) && v.Accepted == "" {
				all = append(all, v)
			}
		}
	}
	return all
}

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

// summary counts the verdicts in one sentence.
func summary(r *findings.Report) string {
	var accepted int
	for _, v := range r.Verdicts {
		if v.Accepted != "" {
			accepted++
		}
	}
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

// A group is a list of verdicts that are not judged for the same reason.
type group struct {
	reason, remedy string
	verdicts       []findings.Verdict
}

// notJudged groups what is not judged, the largest group first.
func notJudged(r *findings.Report) []*group {
	var groups []*group
	for _, v := range r.Verdicts {
		if v.Level != findings.NotJudged {
			continue
		}
		at := slices.IndexFunc(groups, func(g *group) bool { return g.reason == v.Reason && g.remedy == v.Remedy })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &group{reason: v.Reason, remedy: v.Remedy})
		}
		groups[at].verdicts = append(groups[at].verdicts, v)
	}
	slices.SortStableFunc(groups, func(a, b *group) int { return len(b.verdicts) - len(a.verdicts) })
	return groups
}

// A row is a target with the probes of one level or group.
type row struct {
	target string
	probes []string
}

// byTarget lists the probes of verdicts by their targets.
func byTarget(verdicts []findings.Verdict) []*row {
	var rows []*row
	for _, v := range verdicts {
		at := slices.IndexFunc(rows, func(r *row) bool { return r.target == place(v) })
		if at < 0 {
			at = len(rows)
			rows = append(rows, &row{target: place(v)})
		}
		rows[at].probes = append(rows[at].probes, v.Probe)
	}
	return rows
}

// passed returns the verdicts that passed.
func passed(r *findings.Report) []findings.Verdict {
	return slices.DeleteFunc(slices.Clone(r.Verdicts), func(v findings.Verdict) bool { return v.Level != findings.Pass })
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
