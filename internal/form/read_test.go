package form

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

// Every form of the field is read, in its order, with a field for each property that a form can have.
func TestRead(t *testing.T) {
	data := expect.Must(os.ReadFile("testdata/field.json"))(t)
	var forms []struct {
		From, Shown, Refused string
		Schema, Takes        json.RawMessage
	}
	expect.Check(t, json.Unmarshal(data, &forms))
	if len(forms) < 40 {
		t.Fatalf("%d forms", len(forms))
	}
	for _, f := range forms {
		s, err := Read(f.Schema)
		if err != nil {
			t.Errorf("%s: %v", f.From, err)
			continue
		}
		var shown []string
		for _, p := range s.Properties() {
			text := p.Name + ":" + p.Type
			if p.Options != nil {
				text += "*"
			}
			if p.Default != nil {
				text += "=" + string(p.Default)
			}
			shown = append(shown, text)
		}
		if got := strings.Join(shown, " "); got != f.Shown {
			t.Errorf("%s is shown as %q, want %q", f.From, got, f.Shown)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, f.Schema); err != nil || compact.String() != string(s.JSON()) {
			t.Errorf("%s is sent as %s", f.From, s.JSON())
		}
		if _, err := s.Check(f.Takes); f.Takes != nil && err != nil {
			t.Errorf("%s does not take %s: %v", f.From, f.Takes, err)
		}
		if _, err := s.Check([]byte(f.Refused)); f.Refused != "" && err == nil {
			t.Errorf("%s takes %s", f.From, f.Refused)
		}
	}
}

// What is no form is refused, and nothing makes the reader panic, or a form whose defaults it refuses itself.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}}}`,
		`{"$defs":{"C":{"enum":["a","b"]}},"properties":{"c":{"$ref":"#/$defs/C"},"d":{"$ref":"#"}},"required":["c",7]}`,
		`{"properties":{"a":{"type":"array","items":{"title":"X","enum":["x"]},"minItems":2,"default":["y"]},"b":7}}`,
		`{"properties":{"a":{"type":["integer","null"],"minimum":5,"maximum":1},"b":{"oneOf":[{"const":1}]}}}`,
	} {
		f.Add([]byte(seed), []byte(`{"a":null,"b":[1],"c":"a"}`))
	}
	f.Fuzz(func(t *testing.T, schema, content []byte) {
		s, err := Read(schema)
		if err != nil {
			return
		}
		for _, p := range s.Properties() {
			if p.compiled.rule == nil && p.Default != nil {
				if _, problem := p.Check(p.Default); problem != "" {
					t.Errorf("the default %s %s", p.Default, problem)
				}
			}
		}
		_ = s.Plain()
		if clean, err := s.Check(content); err == nil && !json.Valid(clean) {
			t.Errorf("%s", clean)
		}
	})
}

// A property that no form has is shown as JSON, with its title.
func TestAPropertyThatNoFormHas(t *testing.T) {
	s := expect.Must(Read([]byte(`{"type":"object","properties":{"a":{"type":"object","title":"A"},` +
		`"b":{"type":"string","enum":[1],"title":"B"}}}`)))(t)
	for i, title := range []string{"A", "B"} {
		if p := s.Properties()[i]; p.Title != title || p.Type != "json" {
			t.Errorf("%q of the type %q, want %q", p.Title, p.Type, title)
		}
	}
}

// Whose answer breaks a rule of a stranger's form reads the rule.
func TestABrokenRuleIsNamed(t *testing.T) {
	for schema, want := range map[string]string{
		`"type":"number","exclusiveMinimum":1,"multipleOf":2`: `exclusiveMinimum 1, multipleOf 2`,
		`"type":"string","pattern":"^x"`:                      `pattern "^x"`,
	} {
		s, err := Read([]byte(`{"type":"object","properties":{"a":{` + schema + `}}}`))
		expect.Check(t, err)
		answer := `{"a":1}`
		if strings.Contains(schema, "string") {
			answer = `{"a":"y"}`
		}
		if _, err = s.Check([]byte(answer)); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: the error is %v", schema, err)
		}
	}
}
