package checkreport

import (
	"cmp"
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

// The types of SARIF 2.1.0, with the members that a report needs. A library of the whole format would be larger than
// the command.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool         `json:"tool"`
		Invocations []sarifInvocation `json:"invocations"`
		Taxonomies  []sarifComponent  `json:"taxonomies"`
		Results     []sarifResult     `json:"results"`
		Properties  map[string]string `json:"properties"`
	}
	sarifTool struct {
		Driver sarifComponent `json:"driver"`
	}
	sarifComponent struct {
		Name                string               `json:"name"`
		Organization        string               `json:"organization,omitempty"`
		Version             string               `json:"version,omitempty"`
		InformationURI      string               `json:"informationUri"`
		Rules               []*sarifRule         `json:"rules,omitempty"`
		Taxa                []sarifTaxon         `json:"taxa,omitempty"`
		SupportedTaxonomies []sarifComponentName `json:"supportedTaxonomies,omitempty"`
	}
	sarifComponentName struct {
		Name string `json:"name"`
	}
	sarifTaxon struct {
		ID string `json:"id"`
	}
	sarifRule struct {
		ID                   string              `json:"id"`
		ShortDescription     sarifMessage        `json:"shortDescription"`
		FullDescription      sarifMessage        `json:"fullDescription"`
		Help                 sarifMessage        `json:"help"`
		HelpURI              string              `json:"helpUri"`
		DefaultConfiguration sarifConfiguration  `json:"defaultConfiguration"`
		Relationships        []sarifRelationship `json:"relationships,omitempty"`
		Properties           sarifTags           `json:"properties"`
	}
	sarifConfiguration struct {
		Level string `json:"level"`
	}
	sarifRelationship struct {
		Target sarifReference `json:"target"`
		Kinds  []string       `json:"kinds"`
	}
	sarifReference struct {
		ID        string             `json:"id"`
		Component sarifComponentName `json:"toolComponent"`
	}
	sarifTags struct {
		Tags []string `json:"tags"`
	}
	sarifMessage struct {
		Text string `json:"text"`
	}
	sarifInvocation struct {
		Successful    bool                `json:"executionSuccessful"`
		Started       string              `json:"startTimeUtc"`
		Ended         string              `json:"endTimeUtc"`
		Notifications []sarifNotification `json:"toolExecutionNotifications,omitempty"`
	}
	sarifNotification struct {
		Level   string       `json:"level"`
		Message sarifMessage `json:"message"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Kind         string            `json:"kind"`
		Level        string            `json:"level"`
		Message      sarifMessage      `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
		Properties   map[string]string `json:"properties,omitempty"`
	}
	sarifLocation struct {
		Physical sarifPhysical  `json:"physicalLocation"`
		Logical  []sarifLogical `json:"logicalLocations"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind"`
	}
)

// The names of the taxonomies, and where they are.
const (
	home        = "https://github.com/askback-mcp/askback"
	clauses     = "MCP clauses"
	clausesPage = home + "/blob/main/docs/proof/clauses.tsv"
	aisvs       = "OWASP AISVS"
)

// SARIF writes the findings that count in the Static Analysis Results Interchange Format 2.1.0. Code scanning makes an
// alert of each result, even of one that has passed, is not judged or is suppressed.
func SARIF(r *findings.Report) (string, error) {
	rules := newSARIFRules(r)
	run := sarifRun{
		Tool: sarifTool{Driver: sarifComponent{
			Name: "askback check", InformationURI: home, Rules: rules.list,
			SupportedTaxonomies: []sarifComponentName{{Name: clauses}, {Name: aisvs}},
		}},
		Invocations: []sarifInvocation{invocation(r)},
		Taxonomies: []sarifComponent{
			{Name: clauses, Version: "2026-07-28", InformationURI: clausesPage, Taxa: rules.taxa(clauses)},
			{Name: aisvs, Organization: "OWASP", Version: "1.0", InformationURI: "https://github.com/OWASP/AISVS",
				Taxa: rules.taxa(aisvs)},
		},
		Results:    []sarifResult{},
		Properties: map[string]string{"subject": r.Subject, "revision": r.Revision},
	}
	for _, v := range r.Verdicts {
		if isFinding(v) && v.Accepted == "" {
			run.Results = append(run.Results, rules.result(v))
		}
	}
	return indented(sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0",
		Runs: []sarifRun{run}})
}

// message escapes what SARIF reads in the text of a message: links, and braces, which mark arguments.
func message(text string) sarifMessage {
	text = foreign.Line(text, maxWords)
	return sarifMessage{strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "{", "{{", "}", "}}").Replace(text)}
}

func invocation(r *findings.Report) sarifInvocation {
	const layout = "2006-01-02T15:04:05.000Z"
	i := sarifInvocation{Successful: r.Stopped == "", Started: r.Started.UTC().Format(layout),
		Ended: r.Started.Add(max(r.Took, 0)).UTC().Truncate(time.Millisecond).Format(layout)}
	if r.Stopped != "" {
		i.Notifications = append(i.Notifications, sarifNotification{"error", message("The run ended early: " + r.Stopped)})
	}
	for _, remark := range r.Remarks {
		i.Notifications = append(i.Notifications, sarifNotification{"warning", message("Baseline: " + remark)})
	}
	return i
}

// sarifRules are the probes of the corpus, and the probes of the report that are not in it.
type sarifRules struct {
	list  []*sarifRule
	index map[string]int
}

func newSARIFRules(r *findings.Report) *sarifRules {
	rules := &sarifRules{index: make(map[string]int)}
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
	rule := &sarifRule{
		ID: p.ID, ShortDescription: message(p.Title), FullDescription: message(p.Harm), Help: message(p.Mend),
		HelpURI: clausesPage, DefaultConfiguration: sarifConfiguration{"warning"},
		Properties: sarifTags{Tags: compact("security", p.Family, p.Keyword)},
	}
	for _, level := range p.Verdicts {
		if level == findings.Fail {
			rule.DefaultConfiguration.Level = "error"
		}
	}
	if p.Clause != "" {
		rule.relate(p.Clause, clauses)
	}
	for _, id := range p.AISVS {
		rule.relate(id, aisvs)
	}
	s.list = append(s.list, rule)
}

func (r *sarifRule) relate(id, taxonomy string) {
	r.Relationships = append(r.Relationships, sarifRelationship{
		Target: sarifReference{id, sarifComponentName{taxonomy}}, Kinds: []string{"relevant"}})
}

// taxa lists what the rules relate to in a taxonomy, sorted.
func (s *sarifRules) taxa(taxonomy string) []sarifTaxon {
	var all []sarifTaxon
	for _, rule := range s.list {
		for _, r := range rule.Relationships {
			if r.Target.Component.Name == taxonomy {
				all = append(all, sarifTaxon{r.Target.ID})
			}
		}
	}
	slices.SortFunc(all, func(a, b sarifTaxon) int { return cmp.Compare(a.ID, b.ID) })
	return slices.Compact(all)
}

func (s *sarifRules) result(v findings.Verdict) sarifResult {
	mark := fingerprint(v)
	result := sarifResult{
		RuleID: v.Probe, RuleIndex: s.index[v.Probe], Kind: "fail", Level: sarifLevels[v.Level],
		Message:   message(v.Title + ": " + strings.Join(compact(v.Reason, v.Remedy), "; ")),
		Locations: []sarifLocation{location(v)},
		// Code scanning knows a finding again by the first.
		Fingerprints: map[string]string{"primaryLocationLineHash": mark, "askbackCheck/v1": mark},
		Properties:   make(map[string]string),
	}
	for name, value := range map[string]string{"dimension": v.Dimension, "proof": v.Proof} {
		if value != "" {
			result.Properties[name] = value
		}
	}
	return result
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
func location(v findings.Verdict) sarifLocation {
	path := "endpoint"
	if method, name, _ := strings.Cut(v.Target, " "); v.Target != "" {
		path = url.PathEscape(foreign.Line(method, 200)) + "/" + url.PathEscape(foreign.Line(name, 200))
		path = strings.Replace(path, "%2F", "/", 1) // of the method, such as tools/call
	}
	return sarifLocation{Physical: sarifPhysical{Artifact: sarifArtifact{path}, Region: sarifRegion{1}},
		Logical: []sarifLogical{{Name: foreign.Line(place(v), 400), Kind: "function"}}}
}
