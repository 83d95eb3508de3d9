package checkreport

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/askback-mcp/askback/cmd/askback/internal/findings"
	"github.com/askback-mcp/askback/cmd/askback/internal/foreign"
)

// TextOptions say how a report is written for a terminal.
type TextOptions struct {
	Width     int    // columns; zero means 80
	Colour    bool   // the terminal shows colors
	Directory string // where the transcripts are, by their TranscriptNames; empty if they are not written
}

// Text writes a report for a terminal: what was judged, the findings, what passed, and what was not judged.
func Text(r *findings.Report, o TextOptions) string {
	if o.Width == 0 {
		o.Width = 80
	}
	t := &text{options: o}
	t.head(r)
	t.findings(r)
	t.accepted(r)
	if rows := byTarget(passed(r)); len(rows) > 0 {
		t.title("Passed")
		t.rows(rows)
	}
	t.notJudged(r)
	for _, remark := range r.Remarks {
		t.b.WriteByte('\n')
		t.wrap("", "", "Baseline: "+remark)
	}
	t.b.WriteByte('\n')
	t.wrap(bold, "", summary(r))
	return t.b.String()
}

type text struct {
	options TextOptions
	b       strings.Builder
}

// How text looks, in the parameters of SGR.
const (
	bold = "1"
	dim  = "2"
)

// label is how a level is written, and its look.
var label = map[findings.Level]struct{ word, look string }{
	findings.Fail: {"FAIL", "1;31"},
	findings.Warn: {"WARN", "1;33"},
	findings.Note: {"NOTE", "1;36"},
}

func (t *text) style(look, words string) string {
	if !t.options.Colour || look == "" {
		return words
	}
	return "\x1b[" + look + "m" + words + "\x1b[0m"
}

func (t *text) head(r *findings.Report) {
	name := r.Subject
	if r.Name != "" {
		name += " (" + r.Name + ")"
	}
	t.wrap(bold, "", name)
	t.wrap("", "", scope(r))
	if r.Stopped != "" {
		t.wrap(label[findings.Warn].look, "", "The run ended early: "+r.Stopped)
	}
	if len(r.Targets) > 0 {
		t.title("What asks")
	} else if r.Kind == "server" {
		t.wrap("", "", "Nothing was found that asks.")
	}
	for _, target := range r.Targets {
		t.wrap("", "  ", target.Method+" "+target.Name)
		t.wrap(dim, "    ", about(target))
	}
}

func (t *text) findings(r *findings.Report) {
	names := transcriptFiles(r, t.options.Directory)
	for _, v := range found(r) {
		l := label[v.Level]
		t.b.WriteString("\n" + t.style(l.look, l.word) + "  ")
		t.hang(bold, "      ", v.Title)
		t.wrap(dim, "      ", strings.Join(compact(place(v), rule(v), v.Probe, v.Proof), " · "))
		t.fact("Seen", v.Reason)
		t.fact("Suffers", v.Suffers)
		t.fact("Mend", v.Mend)
		if name := names(v); name != "" {
			t.fact("Again", "askback replay "+name)
		}
	}
}

// fact writes one line, or several, behind a word.
func (t *text) fact(word, words string) {
	if words == "" {
		return
	}
	fmt.Fprintf(&t.b, "      %s", t.style(dim, fmt.Sprintf("%-8s ", word)))
	t.hang("", strings.Repeat(" ", 15), words)
}

func (t *text) accepted(r *findings.Report) {
	for i, v := range accepted(r) {
		if i == 0 {
			t.title("Accepted by the baseline")
		}
		t.wrap("", "  ", fmt.Sprintf("%s on %s, %s until %s", v.Probe, place(v), v.Level, v.Expires))
		t.wrap(dim, "    ", v.Accepted)
	}
}

func (t *text) notJudged(r *findings.Report) {
	for i, g := range notJudged(r) {
		if i == 0 {
			t.title("Not judged")
		} else {
			t.b.WriteByte('\n')
		}
		t.wrap("", "  ", g.reason)
		if g.remedy != "" {
			t.wrap("", "  ", "To have it judged: "+g.remedy)
		}
		for _, row := range byTarget(g.verdicts) {
			t.wrap(dim, "    ", row.target+": "+strings.Join(row.probes, ", "))
		}
	}
}

func (t *text) rows(rows []*row) {
	for _, row := range rows {
		t.wrap("", "  ", row.target)
		t.wrap(dim, "    ", strings.Join(row.probes, ", "))
	}
}

func (t *text) title(words string) { t.b.WriteString("\n" + t.style(bold, words) + "\n") }

// wrap writes words in as many lines as they need.
func (t *text) wrap(look, indent, words string) {
	t.b.WriteString(indent)
	t.hang(look, indent, words)
}

// maxWords is the length of any text in a report, in characters. Reasons can quote a server.
const maxWords = 4000

// hang writes words behind what stands on the line, and indents the following lines. It keeps a word that is longer
// than a line, so that it can be copied.
func (t *text) hang(look, indent, words string) {
	var line string
	for word := range strings.FieldsSeq(foreign.Line(words, maxWords)) {
		if line != "" && ansi.StringWidth(indent+line+" "+word) > t.options.Width {
			t.b.WriteString(t.style(look, line) + "\n" + indent)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	t.b.WriteString(t.style(look, line) + "\n")
}

// compact leaves out empty texts.
func compact(texts ...string) []string {
	var all []string
	for _, text := range texts {
		if text != "" {
			all = append(all, text)
		}
	}
	return all
}

// transcriptFiles returns a function that names the file with the transcript of a verdict.
func transcriptFiles(r *findings.Report, directory string) func(findings.Verdict) string {
	names := TranscriptNames(r)
	return func(v findings.Verdict) string {
		for i := range r.Verdicts {
			if directory != "" && names[i] != "" && r.Verdicts[i] == v {
				return filepath.Join(directory, names[i])
			}
		}
		return ""
	}
}
