package checkreport

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/excerpt"
	"github.com/askback-mcp/askback/internal/foreign"
)

// The page is one file: it loads nothing, and its policy allows no script and no style except its own.
var (
	//go:embed html.css
	pageStyle string
	//go:embed html.tmpl
	pageText     string
	pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
		"line": func(words string) string { return foreign.Line(words, maxWords) }, "rule": rule,
		"plural": plural, "inc": func(n int) int { return n + 1 }, "transcript": transcriptText, "place": place,
	}).Parse(pageText))
	pagePolicy = "default-src 'none'; style-src 'sha256-" + hashOf(pageStyle) + "'; base-uri 'none'; form-action 'none'"
)

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// page is what the template shows.
type page struct {
	*findings.Report
	Policy, ClausesPage  string
	Style                template.CSS
	Level                findings.Level
	Word, Words, Covered string
	Scope                string
	Counts               []count
	Problems             []*problem
	AcceptedOnes         []findings.Verdict
	Could, CouldNot      []openGroup
	Kinds                []*kind
	Table                table
}

// A count is a part of the bar. At is where it begins.
type count struct {
	Level     findings.Level
	Name      string
	N, At, Of int
}

// An openGroup is a group of what is not judged, with its rows in words.
type openGroup struct {
	*group
	N    int
	Rows []openRow
}

type openRow struct{ Where, Probes string }

// HTML writes a report as a page for a browser.
func HTML(r *findings.Report) (string, error) {
	p := page{Report: r, Policy: pagePolicy, ClausesPage: clausesPage, Style: template.CSS(pageStyle),
		Covered: coverage(r), Scope: scope(r), Counts: countAll(r), Problems: problems(r), AcceptedOnes: accepted(r),
		Kinds: kinds(r), Table: newTable(r)}
	p.Level, p.Word, p.Words = headline(r)
	for _, g := range notJudged(r) {
		open := openGroup{group: g, N: len(g.verdicts)}
		for _, row := range rows(g.verdicts) {
			open.Rows = append(open.Rows, openRow{where(r, row.targets), strings.Join(row.probes, ", ")})
		}
		if g.Remedy == "" {
			p.CouldNot = append(p.CouldNot, open)
		} else {
			p.Could = append(p.Could, open)
		}
	}
	var b strings.Builder
	if err := pageTemplate.Execute(&b, p); err != nil {
		return "", fmt.Errorf("the report as a page: %w", err)
	}
	return b.String(), nil
}

// levelNames are the words of the page for the levels.
var levelNames = map[findings.Level]string{findings.Fail: "fail", findings.Warn: "warn", findings.Note: "note",
	findings.Pass: "passed", findings.NotJudged: "not judged"}

func countAll(r *findings.Report) (all []count) {
	at := 0
	judged := []findings.Level{findings.Fail, findings.Warn, findings.Note, findings.Pass}
	for _, level := range append(judged, findings.NotJudged) {
		n := r.Count(level)
		all = append(all, count{Level: level, Name: levelNames[level], N: n, At: at})
		at += n
	}
	for i := range all {
		all[i].Of = at
	}
	return all
}

// maxTranscript is how much of a transcript a page shows, in bytes.
const maxTranscript = 64 << 10

func transcriptText(text string) string {
	if len(text) <= maxTranscript {
		return foreign.Text(text)
	}
	return foreign.Text(excerpt.Of(text, maxTranscript)) + "\n… The rest is left out here."
}

// A table has a column for each target, and the probes in the families of the corpus.
type table struct {
	Targets  []string
	Families []family
}

type family struct {
	Name   string
	Probes []tableRow
}

type tableRow struct {
	ID, Title string
	Cells     []cell // of each target; the zero cell is no verdict
}

// A cell is a verdict in one character, and in words for those who do not see it.
type cell struct {
	Level       findings.Level
	Sign, Words string
}

var familyNames = map[string]string{"questions": "What is asked", "state": "The state", "answers": "The answers",
	"tasks": "Tasks", "endpoint": "The endpoint", "load": "What is large, many or long", "client": "The client",
	"": "Others"}

var signs = map[findings.Level]string{findings.Fail: "F", findings.Warn: "W", findings.Note: "N", findings.Pass: "✓",
	findings.NotJudged: "–"}

func newTable(r *findings.Report) (t table) {
	of := make(map[string]string)
	for _, p := range corpus.Probes() {
		of[p.ID] = p.Family
	}
	for _, target := range r.Targets {
		t.Targets = append(t.Targets, target.Method+" "+target.Name)
	}
	for _, v := range r.Verdicts {
		if !slices.Contains(t.Targets, place(v)) {
			t.Targets = append(t.Targets, place(v))
		}
	}
	for _, v := range r.Verdicts {
		name, ok := familyNames[of[v.Probe]]
		if !ok {
			name = of[v.Probe]
		}
		t.set(name, v)
	}
	return t
}

// set puts a verdict into its cell.
func (t *table) set(name string, v findings.Verdict) {
	at := slices.IndexFunc(t.Families, func(f family) bool { return f.Name == name })
	if at < 0 {
		at = len(t.Families)
		t.Families = append(t.Families, family{Name: name})
	}
	f := &t.Families[at]
	at = slices.IndexFunc(f.Probes, func(row tableRow) bool { return row.ID == v.Probe })
	if at < 0 {
		at = len(f.Probes)
		f.Probes = append(f.Probes, tableRow{v.Probe, v.Title, make([]cell, len(t.Targets))})
	}
	c := cell{v.Level, signs[v.Level], levelNames[v.Level]}
	if v.Accepted != "" {
		c.Sign, c.Words = "("+c.Sign+")", c.Words+", accepted"
	}
	f.Probes[at].Cells[slices.Index(t.Targets, place(v))] = c
}

// Replay is the command that plays a transcript again, once it is in its file.
func (p page) Replay(file string) string { return replayCommand(p.Report, file) }

// LevelWord is the word of a finding's level.
func (p page) LevelWord(level findings.Level) string { return label[level].word }
