package foreign

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
	"github.com/askback-mcp/askback/internal/test/hostile"
)

func fits(t testing.TB, schema, value string) error {
	c, err := Compile(t.Context(), []byte(schema))
	if err != nil {
		return err
	}
	return c.Fits(t.Context(), []byte(value))
}

// A value is checked as far as the schema can be applied; what cannot be applied is said.
func TestFits(t *testing.T) {
	t.Parallel()
	const list = `{"properties":{"next":{"$ref":"#"}},"required":["v"]}`
	wide := `{"allOf":[` + strings.Repeat(`{},`, 9_000) + `{}]}`
	for _, tt := range []struct{ schema, value, unable, misfit string }{
		{`true`, `{}`, "", ""},
		{`false`, `{}`, "", "not"},
		{`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"a":1.5}`, "", "/properties/a"},
		{list, `{"v":1,"next":{"v":2,"next":{"v":3}}}`, "", ""},
		{list, `{"v":1,"next":{"v":2,"next":{}}}`, "", `missing properties: ["v"]`},
		{`{"$id":"https://example.com/a","$ref":"https://example.com/a#/$defs/b%20c~0","$defs":{"b c~":{"type":"null"}}}`,
			`{}`, "", "null"},
		{`{"$ref":"#here","$defs":{"a":{"$anchor":"here","type":"null"}}}`, `{}`, "", "null"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{"type":"null"}},` +
			`"items":[{"$ref":"#/definitions/a","type":"string"}]}`, `[null,7]`, "", ""},
		{`{"properties":{"a":{"pattern":"^(a+)+$"}}}`, `{"a":"` + strings.Repeat("a", 40) + `!"}`, "", "does not match"},

		{`{"type":"object","$ref":"#"}`, `{}`, "references form a circle", ""},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}}}`, `{}`,
			"references form a circle", ""},
		{`{"properties":{"a":{"$ref":"other.json"}}}`, `{}`, "nothing is fetched", ""},
		{`{"$ref":"#/$defs/none"}`, `{}`, `"#/$defs/none" at its root, which is not in it`, ""},
		{`{"$id":"https://example.com/a","$ref":"https://example.com/ab#/$defs/a","$defs":{"a":{}}}`, `{}`,
			"nothing is fetched", ""},
		{`{"$ref":"#/$defs/a","$defs":{"a":{"$id":"https://example.com/a"}}}`, `{}`, `$id at "/$defs/a"`, ""},
		{`{"$dynamicRef":"#a","$dynamicAnchor":"a"}`, `{}`, "$dynamicRef", ""},
		{`{"$schema":"http://json-schema.org/draft-04/schema#"}`, `{}`, "dialect", ""},
		{`{"properties":{"a":{"pattern":"(?=a)"}}}`, `{}`, `pattern at "/properties/a" that cannot be read`, ""},
		{`{"patternProperties":{"` + strings.Repeat("a", mostPatternBytes+1) + `":{}}}`, `{}`, "pattern of more than", ""},
		{`{"allOf":[{"pattern":"(` + strings.Repeat(`\\pL`, 400) + `){1,9}"}]}`, `{}`, "too large together", ""},
		{wide, `{"a":"` + strings.Repeat("x", 5_000) + `"}`, "more than 8388608 steps", ""},
		{`{"patternProperties":{"a":` + wide + `}}`, `{"a":"` + strings.Repeat("x", 5_000) + `"}`,
			"more than 8388608 steps", ""},
		{`{"allOf":[` + strings.Repeat(`[],`, mostSchemas) + `[]]}`, `{}`, "more than 10000 parts", ""},
		{`{"description":"` + strings.Repeat("x", mostBytes) + `"}`, `{}`, "more than 524288 bytes", ""},
		{strings.Repeat(`{"items":`, 70) + `{}` + strings.Repeat(`}`, 70), `{}`, "nested deeper", ""},
		{`{"type":7}`, `{}`, "cannot be read", ""},
		{`{"$defs":{},"definitions":{}}`, `{}`, "cannot be applied", ""},
		{`{}`, `"` + strings.Repeat("x", mostBytes) + `"`, "the value has more than", ""},
		{`{}`, `[1`, "", "invalid JSON"},
		{`{}`, `1e999`, "", "1e999"},
	} {
		err := fits(t, tt.schema, tt.value)
		bound, unable := errors.AsType[*BoundError](err)
		switch {
		case unable && (tt.unable == "" || !strings.Contains(bound.Reason, tt.unable)):
			t.Errorf("%.200s cannot be applied to %.100s: %v, want %q", tt.schema, tt.value, err, tt.unable)
		case !unable && (tt.unable != "" || (err == nil) != (tt.misfit == "")):
			t.Errorf("%.200s of %.100s: %v, want %q", tt.schema, tt.value, err, tt.unable+tt.misfit)
		case err != nil && !unable && !strings.Contains(err.Error(), tt.misfit):
			t.Errorf("%.200s of %.100s: %v, want %q", tt.schema, tt.value, err, tt.misfit)
		}
	}
}

// Whatever the schema, a check ends after so many steps, and takes so much memory in all. One that can be applied is.
func TestHostileSchemasAreBounded(t *testing.T) {
	const mostAllocated = 150 << 20 // most of it is dropped at once
	r := rand.New(rand.NewPCG(1, 2))
	for _, kind := range hostile.Kinds {
		for range 3 {
			schema, value, applies := hostile.Draw(r, kind)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := fits(t, string(schema), string(value))
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > mostAllocated {
				t.Errorf("%s: a check takes %d MB: %.300s", kind, n>>20, schema)
			}
			if _, unable := errors.AsType[*BoundError](err); unable && applies {
				t.Errorf("%s is not applied: %v", kind, err)
			}
			if err != nil && len(err.Error()) > 2<<10 {
				t.Errorf("%s: the reason has %d bytes", kind, len(err.Error()))
			}
		}
	}
}

// The steps of several checks count together, so that they end.
func TestChecksShareTheirSteps(t *testing.T) {
	t.Parallel()
	c := expect.Must(Compile(t.Context(), []byte(`{"allOf":[`+strings.Repeat(`{},`, 1_000)+`{}]}`)))(t)
	for n := 0; ; n++ {
		err := c.Fits(t.Context(), []byte(`{"a":1}`))
		if _, unable := errors.AsType[*BoundError](err); unable && n > 0 {
			return
		}
		if err != nil || n > mostSteps/perLook/1_000 {
			t.Fatalf("check %d: %v", n, err)
		}
	}
}

// FuzzFits lets a stranger write any schema and any value. Nothing panics, and where the schema can be applied the
// verdict is the validator's own of the schema as it came.
func FuzzFits(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, kind := range hostile.Kinds {
		for range 2 {
			if schema, value, _ := hostile.Draw(r, kind); len(schema)+len(value) < 8<<10 {
				f.Add(schema, value)
			}
		}
	}
	for _, schema := range []string{
		`{"$ref":"#/$defs/a~1b%25","$defs":{"a/b%":{"type":"string"}}}`, `{"$ref":"#/items/0","items":[{"type":"null"}]}`,
		`{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#/dependencies/a",` +
			`"dependencies":{"a":{"not":{}},"b":[""]}}`,
		`{"if":{"$ref":"#/then"},"then":{"minProperties":1},"else":{"$ref":"#/then/not"}}`,
		`{"prefixItems":[{"$ref":"#/items"}],"items":{"type":"integer"},"contains":{"const":2},"unevaluatedItems":false}`,
		`{"$id":"https://example.com/a","$ref":"#","properties":{"":{"$ref":"https://example.com/a"}}}`,
		`{"dependentRequired":{"a":["b"]},"dependentSchemas":{"a":{"unevaluatedProperties":false}},"uniqueItems":true}`,
	} {
		f.Add([]byte(schema), []byte(`{"a":[1,"x",{"b":null}],"":"y"}`))
		f.Add([]byte(schema), []byte(`[1,2,[null]]`))
	}
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		if len(schema)+len(value) > 16<<10 || strictjson.Check(value, mostDepth) != nil {
			return
		}
		err := fits(t, string(schema), string(value))
		if _, unable := errors.AsType[*BoundError](err); unable {
			return
		}
		var instance any
		s := new(jsonschema.Schema)
		if json.Unmarshal(value, &instance) != nil || json.Unmarshal(schema, s) != nil {
			return
		}
		resolved, unresolved := s.Resolve(nil)
		if unresolved != nil { // such as for a null in the place of a schema, and a name that is not used
			return
		}
		if own := resolved.Validate(instance); (own == nil) != (err == nil) {
			t.Errorf("%s of %s: %v, and the validator alone says %v", schema, value, err, own)
		}
	})
}

// FuzzTemplate compares any URI with any template.
func FuzzTemplate(f *testing.F) {
	for _, text := range []string{
		"file:///{path}", "a://{+b*}/{c:3}{?d,e}{&f}{#g}", "{", "a://{b:9999}", strings.Repeat("{a}", 17),
		"a://{" + strings.Repeat("b,", 14) + "b*}", "a://é{b}", "%zz", "{;a,b}{.c}{/d*}",
	} {
		f.Add(text, "a://b/%41?c=d#e")
	}
	f.Fuzz(func(t *testing.T, text, uri string) {
		template, err := ParseTemplate(text)
		if (template == nil) == (err == nil) {
			t.Fatalf("%q: %v, %v", text, template, err)
		}
		if err == nil {
			template.Matches(uri)
		}
	})
}

func TestTemplates(t *testing.T) {
	t.Parallel()
	template := expect.Must(ParseTemplate("shop://{kind}/{+path}"))(t)
	for uri, want := range map[string]bool{
		"shop://hat/a/b": true, "shop://": false, "other://hat/a": false,
		"shop://hat/" + strings.Repeat("a", mostURIBytes): false,
	} {
		if template.Matches(uri) != want {
			t.Errorf("%.50s: %t", uri, !want)
		}
	}
	expect.Must(ParseTemplate("a://" + strings.Repeat("b", mostTemplateBytes-len("a://"))))(t)
	for text, want := range map[string]string{
		"a://" + strings.Repeat("b", mostTemplateBytes): "more than 1024 bytes",
		strings.Repeat("{a}", mostVariables+1):          "more than 16 variables",
		"{":                                             "cannot be read",
	} {
		var bound *BoundError
		if _, err := ParseTemplate(text); !errors.As(err, &bound) || !strings.Contains(bound.Reason, want) {
			t.Errorf("%.50s: %v, want %q", text, err, want)
		}
	}
}
