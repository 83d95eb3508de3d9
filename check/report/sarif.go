package report

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/foreign"
)

// The names of the taxonomies, and where they are.
const (
	home        = "https://github.com/askback-mcp/askback"
	clauses     = "MCP clauses"
	clausesPage = home + "/blob/main/docs/proof/clauses.tsv"
	aisvs       = "OWASP AISVS"
)

// An object is a JSON object of SARIF 2.1.0. Types for all of them would be longer than the code that fills them.
type object = map[string]any

// SARIF writes the findings that count in the Static Analysis Results Interchange Format 2.1.0. Code scanning makes an
// alert of each result, even of one that has passed, is not judged or is suppressed.
func SARIF(r *findings.Report) (string, error) {
	rules := newSARIFRules(r)
	results := []object{}
	for _, v := range r.Verdicts {
		if isFinding(v) && v.Accepted == "" {
			results = append(results, rules.result(v))
		}
	}
	run := object{
		"tool": object{"driver": object{
			"name": "askback check", "informationUri": home, "rules": rules.list,
			"supportedTaxonomies": []object{{"name": clauses}, {"name": aisvs}},
		}},
		"invocations": []object{invocation(r)},
		"taxonomies": []object{
			{"name": clauses, "version": "2026-07-28", "informationUri": clausesPage, "taxa": rules.taxa(clauses)},
			{"name": aisvs, "organization": "OWASP", "version": "1.0", "informationUri": "https://github.com/OWASP/AISVS",
				"taxa": rules.taxa(aisvs)},
		},
		"results":    results,
		"properties": object{"subject": r.Subject, "revision": r.Revision},
	}
	return indented(object{"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []object{run}})
}

// message escapes what SARIF reads in the text of a message: links, and braces, which mark arguments.
func message(text string) object {
	text = foreign.Line(text, maxWords)
	return object{"text": strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "{", "{{", "}", "}}").Replace(text)}
}

func invocation(r *findings.Report) object {
	const layout = "2006-01-02T15:04:05.000Z"
	notifications := []object{}
	if r.Stopped != "" {
		notifications = append(notifications,
			object{"level": "error", "message": message("The run ended early: " + r.Stopped)})
	}
	for _, remark := range r.Remarks {
		notifications = append(notifications, object{"level": "warning", "message": message("Baseline: " + remark)})
	}
	return object{"executionSuccessful": r.Stopped == "", "startTimeUtc": r.Started.UTC().Format(layout),
		"endTimeUtc":                 r.Started.Add(max(r.Took, 0)).UTC().Truncate(time.Millisecond).Format(layout),
		"toolExecutionNotifications": notifications}
}

// sarifRules are the probes of the corpus, and the probes of the report that are not in it.
type sarifRules struct {
	list  []object
	index map[string]int
	named map[string][]string // the IDs that rules relate to, by taxonomy
}

func newSARIFRules(r *findings.Report) *sarifRules {
	rules := &sarifRules{index: make(map[string]int), named: make(map[string][]string)}
	for _, p := range corpus.Probes() {
		rules.add(p)
	}
	for _, v := range r.Verdicts {
		rules.add(corpus.Probe{ID: v.Probe, Title: v.Title, Clause: v.Clause, Keyword: v.Keyword, Harm: v.Harm,
			Mend: v.Mend})
	}
	return rules
}

func (s *sarifRules) add(p corpus.Probe) {
	if _, ok := s.index[p.ID]; ok {
		return
	}
	s.index[p.ID] = len(s.list)
	level := "warning"
	for _, l := range p.Verdicts {
		if l == findings.Fail {
			level = "error"
		}
	}
	relationships := []object{}
	relate := func(id, taxonomy string) {
		s.named[taxonomy] = append(s.named[taxonomy], id)
		relationships = append(relationships, object{
			"target": object{"id": id, "toolComponent": object{"name": taxonomy}}, "kinds": []string{"relevant"}})
	}
	if p.Clause != "" {
		relate(p.Clause, clauses)
	}
	for _, id := range p.AISVS {
		relate(id, aisvs)
	}
	s.list = append(s.list, object{
		"id": p.ID, "shortDescription": message(p.Title), "fullDescription": message(p.Harm), "help": message(p.Mend),
		"helpUri": clausesPage, "defaultConfiguration": object{"level": level}, "relationships": relationships,
		"properties": object{"tags": compact("security", p.Family, p.Keyword)},
	})
}

// taxa lists what the rules relate to in a taxonomy, sorted.
func (s *sarifRules) taxa(taxonomy string) []object {
	all := []object{}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(s.named[taxonomy]))) {
		all = append(all, object{"id": id})
	}
	return all
}

func (s *sarifRules) result(v findings.Verdict) object {
	mark := fingerprint(v)
	properties := object{}
	for name, value := range map[string]string{"dimension": v.Dimension, "proof": v.Proof} {
		if value != "" {
			properties[name] = value
		}
	}
	return object{
		"ruleId": v.Probe, "ruleIndex": s.index[v.Probe], "kind": "fail", "level": sarifLevels[v.Level],
		"message":   message(v.Title + ": " + strings.Join(compact(v.Reason, v.Remedy), "; ")),
		"locations": []object{location(v)},
		// Code scanning knows a finding again by the first.
		"partialFingerprints": object{"primaryLocationLineHash": mark, "askbackCheck/v1": mark},
		"properties":          properties,
	}
}

// sarifLevels are the words of SARIF for the levels of findings.
var sarifLevels = map[findings.Level]string{
	findings.Fail: "error", findings.Warn: "warning", findings.Note: "note",
}

// fingerprint names a finding. It stays the same on another host, and when the texts change.
func fingerprint(v findings.Verdict) string {
	method, name, _ := strings.Cut(v.Target, " ")
	sum := sha256.Sum256([]byte(strings.Join([]string{v.Probe, method, name, v.Dimension}, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// location names the target of a verdict. The path of a file that does not exist makes code scanning show the name.
func location(v findings.Verdict) object {
	path := "endpoint"
	if method, name, _ := strings.Cut(v.Target, " "); v.Target != "" {
		path = url.PathEscape(foreign.Line(method, 200)) + "/" + url.PathEscape(foreign.Line(name, 200))
		path = strings.Replace(path, "%2F", "/", 1) // of the method, such as tools/call
	}
	return object{
		"physicalLocation": object{"artifactLocation": object{"uri": path}, "region": object{"startLine": 1}},
		"logicalLocations": []object{{"fullyQualifiedName": foreign.Line(place(v), 400), "kind": "function"}},
	}
}
