package corpus_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// The clauses of the revision in docs/proof/clauses.tsv and the probes agree in both directions.
func TestProbesAndClausesAgree(t *testing.T) {
	t.Parallel()
	for _, complaint := range checkClauses(readClauses(t), corpus.Probes(), readScenarios(t)) {
		t.Error(complaint)
	}
}

func readClauses(t *testing.T) string {
	t.Helper()
	data := expect.Must(os.ReadFile("../../docs/proof/clauses.tsv"))(t)
	return string(data)
}

// readScenarios returns the page that lists the scenarios of the official suite.
func readScenarios(t *testing.T) string {
	t.Helper()
	data := expect.Must(os.ReadFile("../../judge/conformance/README.md"))(t)
	return string(data)
}

// The check finds each kind of fault in the tables and in the probes.
func TestProbesAndClausesThatDisagreeAreSeen(t *testing.T) {
	t.Parallel()
	doc, scenarios := readClauses(t), readScenarios(t)
	row := regexp.MustCompile(`(?m)^MR-16\t.*\n`).FindString(doc)
	if row == "" {
		t.Fatal("there is no row MR-16")
	}
	cell := func(n int, text string) string {
		cells := strings.Split(strings.TrimSuffix(row, "\n"), "\t")
		cells[n-1] = text
		return strings.Replace(doc, row, strings.Join(cells, "\t")+"\n", 1)
	}
	for name, c := range map[string]struct{ doc, complaint string }{
		"a row is gone":                {strings.Replace(doc, row, "", 1), "want MR-16"},
		"a row is there twice":         {strings.Replace(doc, row, row+row, 1), "want MR-17"},
		"a row without an ID":          {strings.Replace(doc, "\nMR-16\t", "\n\t", 1), "without an ID"},
		"a cell is missing":            {strings.Replace(doc, row, "MR-16\tMUST\tclause\n", 1), "cells"},
		"an empty cell":                {cell(3, ""), "empty"},
		"another keyword":              {cell(2, "SHOULD"), "says"},
		"a keyword twice":              {cell(2, "MUST ×2"), "says"},
		"a place in our code":          {cell(5, "`internal/call`"), "empty"},
		"an unknown keyword":           {cell(2, "perhaps"), "keyword"},
		"a part that is a whole":       {cell(2, "MUST (part)"), "says"},
		"a probe that is not there":    {cell(6, "`ask-empty`, `ask-nothing`"), "no probe ask-nothing"},
		"a scenario that is not there": {cell(6, "`ask-empty`, `conformance: nothing`"), "no scenario nothing"},
		"a row without its probe":      {cell(6, "`ask-kind`"), "ask-empty is not in the row"},
		"no judge and no reason":       {cell(6, "somebody"), "neither"},
		"a mention of no row":          {cell(3, "As MR-99"), "MR-99"},
		"a section is gone":            {strings.Replace(doc, "\nHT\t", "\nXY\t", 1), "sections"},
		"a count that is wrong":        {strings.Replace(doc, "MUST NOT 8, SHOULD 5", "MUST NOT 7, SHOULD 5", 1), "says 7"},
	} {
		if c.doc == doc {
			t.Errorf("%s: the page is as it was", name)
		}
		wantComplaint(t, name, checkClauses(c.doc, corpus.Probes(), scenarios), c.complaint)
	}
	for name, c := range map[string]struct {
		change    func(*corpus.Probe)
		complaint string
	}{
		"an ID that two probes have":  {func(p *corpus.Probe) { p.ID = "ask-kind" }, "twice"},
		"a clause that is not there":  {func(p *corpus.Probe) { p.Clause = "MR-99" }, "no clause MR-99"},
		"a clause of another probe":   {func(p *corpus.Probe) { p.Clause = "MR-7" }, "not in the row"},
		"a keyword of another clause": {func(p *corpus.Probe) { p.Keyword = "SHOULD" }, "the clause says MUST"},
		"a clause, and hardening":     {func(p *corpus.Probe) { p.Keyword = "hardening" }, "the clause says MUST"},
		"no clause, and a MUST":       {func(p *corpus.Probe) { p.Clause = "" }, "hardening"},
		"a failure without a MUST": {func(p *corpus.Probe) {
			p.ID, p.Clause, p.Keyword = "state-credentials", "", "hardening"
		}, "only a MUST"},
	} {
		probes := corpus.Probes()
		at := slices.IndexFunc(probes, func(p corpus.Probe) bool { return p.ID == "ask-empty" })
		c.change(&probes[at])
		wantComplaint(t, name, checkClauses(doc, probes, scenarios), c.complaint)
	}
}

func wantComplaint(t *testing.T, name string, complaints []string, want string) {
	t.Helper()
	if !slices.ContainsFunc(complaints, func(c string) bool { return strings.Contains(c, want) }) {
		t.Errorf("%s: no complaint of %q among %q", name, want, complaints)
	}
}

var (
	clauseKeywords = []string{"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "REQUIRED", "should", "will"}

	clauseID      = regexp.MustCompile(`^(MR|EL|TK|HT)(?:-\d+)?$`)
	earlierID     = regexp.MustCompile(`^(P1|S|P2|T|ST|EV)(?:-\d+)?$`) // of other documents than the revision
	clauseMention = regexp.MustCompile(`\b(?:MR|EL|TK|HT)-\d+\b`)
	clauseKeyword = regexp.MustCompile(`^(.+?)(?: ×(\d)| \((part)\))?$`)
	codeSpan      = regexp.MustCompile("`([^`]+)`")
	probeID       = regexp.MustCompile(`^(?:ask|state|answers|task|http|load|client)-[a-z-]+$`)
)

// A clause is a row of the tables.
type clause struct {
	keyword string
	probes  []string
}

// checkClauses returns the faults of the tables, and of the probes beside them.
func checkClauses(doc string, probes []corpus.Probe, scenarios string) (complaints []string) {
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	known := map[string]bool{}
	for _, p := range probes {
		if known[p.ID] {
			complain("the probe %s is there twice", p.ID)
		}
		known[p.ID] = true
	}

	var section string
	var sections []string
	clauses := map[string]clause{}
	next := 0
	said, found := map[string]int{}, map[string]int{}
	end := func() {
		for _, keyword := range clauseKeywords {
			if said[keyword] != found[keyword] {
				complain("%s: the count says %d %s, the rows have %d", section, said[keyword], keyword, found[keyword])
			}
		}
	}
	for i, line := range strings.Split(strings.TrimSuffix(doc, "\n"), "\n") {
		cells := strings.Split(line, "\t")
		id, of := cells[0], clauseID.FindStringSubmatch(cells[0])
		switch {
		case i == 0 || earlierID.MatchString(id):
			continue
		case of == nil:
			complain("a row without an ID: %.60s", line)
			continue
		case len(cells) != 6:
			complain("%s has %d cells, want 6", id, len(cells))
			continue
		case id == of[1]: // a document, with the counts of its keywords
			end()
			section, next = id, 1
			sections = append(sections, section)
			clear(found)
			said = countsOf(cells[1], complain)
			continue
		}
		if want := fmt.Sprintf("%s-%d", section, next); id != want {
			complain("the row %s stands where we want %s", id, want)
		}
		next++
		for i, cell := range cells { // the fifth is for code of ours, which these clauses do not name
			if strings.TrimSpace(cell) != cell || (cell == "") != (i == 4) {
				complain("%s: cell %d is empty and should not be, or the other way round", id, i+1)
			}
		}
		keyword := clauseKeyword.FindStringSubmatch(cells[1])
		if keyword == nil || !slices.Contains(clauseKeywords, keyword[1]) {
			complain("%s: %q is not a keyword", id, cells[1])
			continue
		}
		switch {
		case keyword[2] != "":
			times, _ := strconv.Atoi(keyword[2])
			found[keyword[1]] += times
		case keyword[3] == "": // a part is counted with its row
			found[keyword[1]]++
		}
		c := clause{keyword: keyword[1]}
		judged := strings.HasPrefix(cells[5], "No probe")
		for _, span := range codeSpan.FindAllStringSubmatch(cells[5], -1) {
			if scenario, ok := strings.CutPrefix(span[1], "conformance: "); ok {
				if !strings.Contains(scenarios, "\n| "+scenario+" ") {
					complain("%s: there is no scenario %s", id, scenario)
				}
				judged = true
			} else if probeID.MatchString(span[1]) {
				if !known[span[1]] {
					complain("%s: there is no probe %s", id, span[1])
				}
				c.probes, judged = append(c.probes, span[1]), true
			}
		}
		if !judged {
			complain("%s has neither a probe or scenario that judges it nor a reason why it has no probe", id)
		}
		clauses[id] = c
	}
	end()
	if got := strings.Join(sections, " "); got != "MR EL TK HT" {
		complain("the sections are %s, want MR EL TK HT", got)
	}
	for _, mention := range clauseMention.FindAllString(doc, -1) {
		if _, ok := clauses[mention]; !ok {
			complain("%s is mentioned, and there is no such row", mention)
		}
	}

	for _, p := range probes {
		c, ok := clauses[p.Clause]
		switch {
		case p.Clause == "":
			c.keyword = "hardening"
		case !ok:
			complain("the probe %s: there is no clause %s", p.ID, p.Clause)
			continue
		case !slices.Contains(c.probes, p.ID):
			complain("the probe %s is not in the row %s", p.ID, p.Clause)
		}
		if p.Keyword != c.keyword {
			complain("the probe %s says %s, the clause says %s", p.ID, p.Keyword, c.keyword)
		}
		for proof, level := range p.Verdicts {
			if level == findings.Fail && c.keyword != "MUST" && c.keyword != "MUST NOT" {
				complain("the probe %s fails by %s, and only a MUST may", p.ID, proof)
			}
		}
	}
	return complaints
}

// countsOf reads how many of each keyword a document has, as in "MUST 13, SHOULD 5".
func countsOf(cell string, complain func(format string, args ...any)) map[string]int {
	counts := make(map[string]int)
	for part := range strings.SplitSeq(cell, ", ") {
		last := strings.LastIndexByte(part, ' ')
		n, err := strconv.Atoi(part[last+1:])
		if last < 0 || err != nil {
			complain("the count %q is not a keyword and a number", part)
			continue
		}
		counts[part[:last]] += n
	}
	return counts
}
