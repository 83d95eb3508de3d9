package report

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback/check/findings"
	"github.com/askback-mcp/askback/internal/foreign"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// sarifSchema is the schema of the format. Its dialect is older than the one that the validator reads, and differs in
// nothing that the schema uses.
func sarifSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	text := expect.Must(os.ReadFile(installed(t) + "/@microsoft/jest-sarif/lib/schemas/sarif-2.1.0-rtm.5.json"))(t)
	dialect := strings.Replace(string(text), "http://json-schema.org/draft-04/schema#",
		"http://json-schema.org/draft-07/schema#", 1)
	var schema jsonschema.Schema
	expect.Check(t, json.Unmarshal([]byte(dialect), &schema))
	resolved := expect.Must(schema.Resolve(nil))(t)
	return resolved
}

func validate(t *testing.T, schema *jsonschema.Resolved, text string) error {
	t.Helper()
	var v any
	expect.Check(t, json.Unmarshal([]byte(text), &v))
	return schema.Validate(v)
}

func sarifText(t testing.TB, r *findings.Report) string {
	t.Helper()
	text := expect.Must(SARIF(r))(t)
	return text
}

func TestSARIFFitsTheOfficialSchema(t *testing.T) {
	t.Parallel()
	schema := sarifSchema(t)
	stopped := sample()
	stopped.Stopped, stopped.Remarks = "the server answered 503", []string{"an entry has expired"}
	all := map[string]*findings.Report{"a run": sample(), "ended early": stopped, "nothing": {Subject: "./server"}}
	for _, text := range strange {
		all[text] = hostile(text)
	}
	for name, r := range all {
		if err := validate(t, schema, sarifText(t, r)); err != nil {
			t.Errorf("%.60q: %v", name, err)
		}
	}
	for name, wrong := range map[string][2]string{
		"level": {`"level": "error"`, `"level": "fail"`}, "kind": {`"kind": "fail"`, `"kind": "unknown"`},
		"member": {`"ruleIndex"`, `"ruleNumber"`}, "URI": {`"informationUri": "https`, `"informationUri": 1, "x": "https`},
	} {
		text := sarifText(t, sample())
		broken := strings.Replace(text, wrong[0], wrong[1], 1)
		if broken == text || validate(t, schema, broken) == nil {
			t.Errorf("%s: the schema refuses nothing", name)
		}
	}
}

// sarifRun is what the tests read of a run.
type sarifRun struct {
	Tool struct {
		Driver struct {
			Rules []struct {
				ID            string
				Relationships []struct {
					Target struct {
						ID            string
						ToolComponent struct{ Name string }
					}
				}
			}
		}
	}
	Taxonomies []struct {
		Name string
		Taxa []struct{ ID string }
	}
	Results []struct {
		RuleID              string
		RuleIndex           int
		Level               string
		PartialFingerprints map[string]string
	}
}

// read returns the only run of a log.
func read(t *testing.T, text string) (run sarifRun) {
	t.Helper()
	var log struct{ Runs []sarifRun }
	if err := json.Unmarshal([]byte(text), &log); err != nil || len(log.Runs) != 1 {
		t.Fatalf("%d runs, %v", len(log.Runs), err)
	}
	return log.Runs[0]
}

// Code scanning takes each result for an alert: there is no pass, nothing that is not judged, nothing accepted.
func TestSARIFHasTheFindings(t *testing.T) {
	t.Parallel()
	run := read(t, sarifText(t, sample()))
	var got []string
	for _, result := range run.Results {
		if rule := run.Tool.Driver.Rules[result.RuleIndex]; rule.ID != result.RuleID {
			t.Errorf("%s: the rule %s", result.RuleID, rule.ID)
		}
		got = append(got, result.RuleID+" "+result.Level)
	}
	want := []string{"ask-link note", "state-credentials warning", "state-forged error"}
	expect.Diff(t, "the value", want, got)
}

// Each rule names what is in a taxonomy, and each taxonomy has only what a rule names.
func TestSARIFTaxonomies(t *testing.T) {
	t.Parallel()
	run := read(t, sarifText(t, sample()))
	taxa := make(map[string]map[string]bool)
	for _, taxonomy := range run.Taxonomies {
		taxa[taxonomy.Name] = make(map[string]bool)
		for _, taxon := range taxonomy.Taxa {
			taxa[taxonomy.Name][taxon.ID] = false
		}
	}
	for _, rule := range run.Tool.Driver.Rules {
		for _, r := range rule.Relationships {
			if _, ok := taxa[r.Target.ToolComponent.Name][r.Target.ID]; !ok {
				t.Errorf("%s: no taxon %+v", rule.ID, r.Target)
			}
			taxa[r.Target.ToolComponent.Name][r.Target.ID] = true
		}
	}
	for name, ids := range taxa {
		for id, named := range ids {
			if !named {
				t.Errorf("%s: no rule names %s", name, id)
			}
		}
	}
	if !taxa[aisvs]["v1.0-C9.4.4"] || !taxa[clauses]["MR-9"] {
		t.Errorf("the taxonomies: %v", taxa)
	}
}

// The fingerprint of a finding depends on its rule, method, target and dimension, and on nothing else.
func TestFingerprints(t *testing.T) {
	t.Parallel()
	before := findings.Verdict{Probe: "state-forged", Target: "tools/call deploy", Dimension: "integrity"}
	same := before
	same.Level, same.Reason, same.Title, same.Transcript, same.Proof = findings.Fail, "host", "time", "bytes", "canary"
	expect.Equal(t, "the fingerprint depends on more", fingerprint(same), fingerprint(before))
	for name, change := range map[string]func(v *findings.Verdict){
		"the probe":     func(v *findings.Verdict) { v.Probe = "state-cut" },
		"the method":    func(v *findings.Verdict) { v.Target = "prompts/get deploy" },
		"the target":    func(v *findings.Verdict) { v.Target = "tools/call wipe" },
		"the dimension": func(v *findings.Verdict) { v.Dimension = "time" },
	} {
		other := before
		change(&other)
		if fingerprint(other) == fingerprint(before) {
			t.Errorf("the fingerprint does not depend on %s", name)
		}
	}
	elsewhere := sample()
	elsewhere.Subject, elsewhere.Started = "https://tools.example.com/mcp", elsewhere.Started.AddDate(1, 0, 0)
	for i, result := range read(t, sarifText(t, elsewhere)).Results {
		want := read(t, sarifText(t, sample())).Results[i].PartialFingerprints
		expect.Diff(t, "on another host", want, result.PartialFingerprints)
	}
}

// A stranger's text is no link and no argument of a message.
func TestMessagesAreText(t *testing.T) {
	t.Parallel()
	got := message("see [here](http://evil.example) {0} \\[x] \x1b[2J")["text"]
	expect.Equal(t, "the text", got, `see \[here\](http://evil.example) {{0}} \\\[x\] \\x1b\[2J`)
}

// What a message escapes is read as the text that it was.
func FuzzMessage(f *testing.F) {
	for _, text := range strange {
		f.Add(text)
	}
	plain := strings.NewReplacer(`\\`, `\`, `\[`, `[`, `\]`, `]`, `{{`, `{`, `}}`, `}`)
	links := strings.NewReplacer(`\\`, ``, `\[`, ``, `\]`, ``, `{{`, ``, `}}`, ``)
	f.Fuzz(func(t *testing.T, text string) {
		got, _ := message(text)["text"].(string)
		if want := foreign.Line(text, maxWords); want != "" && plain.Replace(got) != want {
			t.Errorf("%q is read as %q", want, plain.Replace(got))
		}
		if strings.ContainsAny(links.Replace(got), "[]{}") {
			t.Errorf("%q has a link or an argument", got)
		}
	})
}
