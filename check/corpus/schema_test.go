package corpus_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback/check/corpus"
	"github.com/askback-mcp/askback/internal/test/expect"
)

func readSchema(t *testing.T) *jsonschema.Resolved {
	t.Helper()
	var schema jsonschema.Schema
	expect.Check(t, json.Unmarshal(corpus.Schema, &schema))
	resolved := expect.Must(schema.Resolve(nil))(t)
	return resolved
}

func TestLinesFitTheSchema(t *testing.T) {
	t.Parallel()
	schema, n := readSchema(t), 0
	for line := range bytes.Lines(corpus.Lines) {
		n++
		var probe any
		if err := json.Unmarshal(line, &probe); err != nil {
			t.Errorf("line %d: %v", n, err)
		} else if err := schema.Validate(probe); err != nil {
			t.Errorf("line %d: %v\n%s", n, err, line)
		}
	}
	if n != len(corpus.Probes()) || n < 30 {
		t.Errorf("%d lines, %d probes", n, len(corpus.Probes()))
	}
}

// The schema refuses what a line must not have.
func TestTheSchemaIsClosed(t *testing.T) {
	t.Parallel()
	schema := readSchema(t)
	for name, change := range map[string][2]string{
		"an unknown member":           {`"family"`, `"else": 1, "family"`},
		"an unknown member of a step": {`{"do": "call"`, `{"else": 1, "do": "call"`},
		"an unknown family":           {`"family": "state"`, `"family": "states"`},
		"an unknown need":             {`"second"`, `"third"`},
		"a need twice":                {`"second"`, `"state"`},
		"an unknown operation":        {`"do": "answer"`, `"do": "ask"`},
		"an unknown identity":         {`"as": "second"`, `"as": "third"`},
		"an unknown proof":            {`"canary"`, `"feeling"`},
		"a level that is no finding":  {`"canary": "fail"`, `"canary": "pass"`},
		"an unknown keyword":          {`"keyword": "MUST"`, `"keyword": "must"`},
		"a clause, and hardening":     {`"keyword": "MUST"`, `"keyword": "hardening"`},
		"no clause, and a MUST":       {`"clause": "EL-28", `, ``},
		"a clause that is no ID":      {`"EL-28"`, `"EL-28a"`},
		"neither steps nor reads":     {`"steps"`, `"headers"`},
		"steps and reads":             {`"steps"`, `"reads": "kind", "steps"`},
		"no step that is judged":      {`"judged": true, `, ``},
		"two steps that are judged":   {`"do": "call"`, `"judged": true, "do": "call"`},
		"no title":                    {`"title"`, `"titel"`},
		"an empty mend":               {`"mend": "Put`, `"mend": "", "x": "Put`},
	} {
		at := slices.IndexFunc(bytes.SplitAfter(corpus.Lines, []byte("\n")), func(line []byte) bool {
			return bytes.HasPrefix(line, []byte(`{"id": "state-principal"`))
		})
		line := string(bytes.SplitAfter(corpus.Lines, []byte("\n"))[at])
		changed := strings.Replace(line, change[0], change[1], 1)
		var probe any
		if err := json.Unmarshal([]byte(changed), &probe); err != nil || changed == line {
			t.Errorf("%s: not a change of the line: %v", name, err)
		} else if schema.Validate(probe) == nil {
			t.Errorf("%s: no complaint about\n%s", name, changed)
		}
	}
}

// Each word that the schema permits is explained on a page and used by a probe, and the pages explain no others.
func TestWordsAreExplainedAndUsed(t *testing.T) {
	t.Parallel()
	var schema struct {
		Properties struct {
			Family   struct{ Enum []string }
			Needs    struct{ Items struct{ Enum []string } }
			Reads    struct{ Enum []string }
			Verdicts struct {
				PropertyNames        struct{ Enum []string }
				AdditionalProperties struct{ Enum []string }
			}
		}
		Defs struct {
			Step, Reply struct {
				Properties map[string]struct{ Enum []string }
			}
		} `json:"$defs"`
	}
	expect.Check(t, json.Unmarshal(corpus.Schema, &schema))
	permitted := words{}
	permitted.add("family", schema.Properties.Family.Enum...)
	permitted.add("needs", schema.Properties.Needs.Items.Enum...)
	permitted.add("reads", schema.Properties.Reads.Enum...)
	permitted.add("verdicts", schema.Properties.Verdicts.PropertyNames.Enum...)
	for member, of := range schema.Defs.Step.Properties {
		permitted.add("steps "+member, of.Enum...)
	}
	for member, of := range schema.Defs.Reply.Properties {
		permitted.add("serve "+member, of.Enum...)
	}

	used := words{}
	for _, p := range corpus.Probes() {
		used.add("family", p.Family)
		used.add("needs", p.Needs...)
		used.add("reads", p.Reads)
		used.add("verdicts", slices.Collect(maps.Keys(p.Verdicts))...)
		for _, s := range p.Steps {
			for member, word := range map[string]string{
				"do": s.Do, "as": s.As, "at": s.At, "target": s.Target, "arguments": s.Arguments, "state": s.State,
				"answers": s.Answers, "round": s.Round, "capabilities": s.Capabilities, "wait": s.Wait, "task": s.Task,
				"send": s.Send,
			} {
				used.add("steps "+member, word)
			}
		}
		for _, r := range p.Serve {
			used.add("serve ask", r.Ask)
			used.add("serve state", r.State)
			used.add("serve fault", r.Fault)
			used.add("serve task", r.Task)
		}
	}

	page := ""
	for _, name := range []string{"README.md", "clients.md"} {
		text := expect.Must(os.ReadFile(name))(t)
		page += string(text)
	}
	explained, section := words{}, ""
	heading := regexp.MustCompile("^## `(\\w+)`$")
	row := regexp.MustCompile("^\\| `([\\w-]+)` \\|(?: `([\\w-]+)` \\|)? \\w")
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			section = ""
		}
		if found := heading.FindStringSubmatch(line); found != nil {
			section = found[1]
		} else if found := row.FindStringSubmatch(line); found != nil && section != "" {
			if found[2] == "" {
				explained.add(section, found[1])
			} else {
				explained.add(section+" "+found[1], found[2])
			}
		}
	}
	expect.Diff(t, "the schema (-) and the pages (+) have other words", permitted.sorted(), explained.sorted())
	expect.Diff(t, "the schema (-) and the probes (+) have other words", permitted.sorted(), used.sorted())
	for _, level := range schema.Properties.Verdicts.AdditionalProperties.Enum {
		if !strings.Contains(page, "`"+level+"`") {
			t.Errorf("no page explains the level %s", level)
		}
	}
	for _, of := range []map[string]struct{ Enum []string }{schema.Defs.Step.Properties, schema.Defs.Reply.Properties} {
		for member := range of {
			if !strings.Contains(page, "`"+member+"`") {
				t.Errorf("no page explains the member %s", member)
			}
		}
	}
}

// words are the words by the member that has them.
type words map[string]map[string]bool

func (w words) add(member string, all ...string) {
	for _, word := range all {
		if word == "" {
			continue
		}
		if w[member] == nil {
			w[member] = map[string]bool{}
		}
		w[member][word] = true
	}
}

func (w words) sorted() map[string][]string {
	sorted := map[string][]string{}
	for member, all := range w {
		sorted[member] = slices.Sorted(maps.Keys(all))
	}
	return sorted
}
