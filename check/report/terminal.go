package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/foreign"
)

// TextOptions say how a report is written for a terminal.
type TextOptions struct {
	Width     int    // columns; zero means 80
	Colour    bool   // the terminal shows colors
	Directory string // where the transcripts are, by their TranscriptNames; empty if they are not written
}

// Text writes a report for a terminal: the verdict, the findings, what asks, what passed, and what was not judged.
func Text(r *findings.Report, o TextOptions) string {
	if o.Width == 0 {
		o.Width = 80
	}
	t := &text{options: o}
	t.head(r)
	t.findings(r)
	t.accepted(r)
	if len(r.Targets) > 0 {
		t.title("What asks")
	}
	for _, k := range kinds(r) {
		t.wrap("", "  ", strings.Join(k.targets, ", "))
		t.wrap(dim, "    ", k.about)
	}
	if all := passed(r); len(all) > 0 {
		t.title("Passed")
		t.rows(r, "  ", all)
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
	findings.Pass: {"", "1;32"},
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
	level, word, words := headline(r)
	t.b.WriteString(t.style(cmp.Or(label[level].look, bold), word) + "  ")
	t.hang(bold, "      ", words)
	if len(r.Verdicts) > 0 {
		t.wrap("", "", coverage(r))
	}
	t.wrap("", "", scope(r))
	if r.Stopped != "" {
		t.wrap(label[findings.Warn].look, "", "The run ended early: "+r.Stopped)
	}
	if len(r.Targets) == 0 && r.Kind == "server" {
		t.wrap("", "", "Nothing was found that asks.")
	}
}

func (t *text) findings(r *findings.Report) {
	for _, p := range problems(r) {
		l := label[p.Level]
		t.b.WriteString("\n" + t.style(l.look, l.word) + "  ")
		t.hang(bold, "      ", p.Title)
		t.wrap(dim, "      ", strings.Join(compact(p.Probe, rule(p.Verdict), p.proofs()), " · "))
		t.sights(r, p.sights)
		if p.cause != "" {
			t.fact("Cause", p.cause+", above")
		}
		t.fact("Harm", p.Harm)
		t.fact("Mend", p.Mend)
		t.again(r, p)
	}
}

// mostSights is how many sights of one finding a terminal shows. They often differ in a number only.
const mostSights = 3

func (t *text) sights(r *findings.Report, all []*sight) {
	var rest []string
	for i, s := range all {
		if i >= mostSights-1 && len(all) > mostSights {
			rest = append(rest, s.targets()...)
			continue
		}
		t.fact("On", where(r, s.targets()))
		t.fact("Seen", s.reason)
	}
	if len(rest) > 0 {
		t.fact("Also on", where(r, rest))
		t.fact("", "with other values, which --json shows")
	}
}

// again says how a finding is shown again. The transcripts of its other targets are beside the first. A client has no
// transcripts, and its scenario is played again.
func (t *text) again(r *findings.Report, p *problem) {
	if r.Kind == "client" {
		t.fact("Again", "the same command with --probe "+p.Probe)
		return
	}
	files := slices.DeleteFunc(p.cases(), func(c occurrence) bool { return c.file == "" })
	if t.options.Directory == "" || len(files) == 0 {
		return
	}
	t.fact("Again", replayCommand(r, filepath.Join(t.options.Directory, files[0].file)))
	if others := len(files) - 1; others > 0 {
		t.fact("", fmt.Sprintf("and %s beside that one", plural(others, "transcript")))
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
		t.rows(r, "    ", g.verdicts)
	}
}

func (t *text) rows(r *findings.Report, indent string, verdicts []findings.Verdict) {
	for _, row := range rows(verdicts) {
		t.b.WriteString(indent)
		t.hang(dim, indent+"  ", where(r, row.targets)+": "+strings.Join(row.probes, ", "))
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

// replayCommand plays a transcript again. A program has no address that the command could name.
func replayCommand(r *findings.Report, file string) string {
	words := []string{"askback", "replay", shellWord(file)}
	if strings.Contains(r.Subject, "://") {
		words = append(words, shellWord(r.Subject))
	}
	return strings.Join(words, " ")
}

// shellWord quotes a text for a shell, if it needs that.
func shellWord(text string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@%+,", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
