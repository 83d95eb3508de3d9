package form

import (
	"strings"
	"testing"

	"github.com/askback-mcp/askback/internal/test/expect"
)

func TestParseAcceptsTheSpecificationsShapes(t *testing.T) {
	for _, property := range []string{
		specString, specNumber, specBoolean, specChoice, specTitledChoice, specChoices, specTitledChoices,
		strings.Replace(specNumber, `"number"`, `"integer"`, 1),
		`{"type":"string"}`,
		`{"type":"string","enum":["a","b"],"enumNames":["A","B"],"default":"b"}`,
		`{"default":[],"items":{"enum":["a",""],"type":"string"},"type":"array"}`,
		`{"type":"integer","minimum":-9223372036854775808,"maximum":18446744073709551615}`,
		`{"type":"string","title":"","description":"\u00e9\"<&>"}`,
	} {
		schema := ` { "required" : ["x"], "properties": {"x": ` + property + `, "b": {"type": "boolean"}}, "type": "object",
			"$schema": "https://json-schema.org/draft/2020-12/schema" } `
		s, err := Parse([]byte(schema))
		if err != nil {
			t.Errorf("%s: %v", property, err)
			continue
		}
		expect.Equal(t, property, sameJSON(t, schema, string(s.JSON())), "")
		again, err := Parse(s.JSON())
		if err != nil || string(again.JSON()) != string(s.JSON()) {
			t.Errorf("%s: JSON() does not survive Parse: %v", property, err)
		}
	}
}

func TestParseOrdersWhatTheAuthorWrote(t *testing.T) {
	s, err := Parse([]byte(`{"required":["b", "a"],"properties":{"b":{"title":"B", "type":"string"},` +
		`"a":{"type":"integer"},"c":{"type":"boolean"}},"type":"object"}`))
	expect.Check(t, err)
	want := `{"type":"object","properties":{"b":{"type":"string","title":"B"},"a":{"type":"integer"},` +
		`"c":{"type":"boolean"}},"required":["b","a"]}`
	expect.Equal(t, "string(s.JSON())", string(s.JSON()), want)
	if s, err = Parse([]byte(`{"type":"object","properties":{},"required":[]}`)); err != nil ||
		string(s.JSON()) != `{"type":"object","properties":{}}` {
		t.Errorf("empty form: %s, %v", s.JSON(), err)
	}
}

func TestParseKeepsNothingOfItsArgument(t *testing.T) {
	schema := []byte(`{"type":"object","properties":{"a":{"type":"integer","minimum":10,"default":12}}}`)
	s, err := Parse(schema)
	expect.Check(t, err)
	clear(schema)
	clean, err := s.Check(nil)
	if string(clean) != `{"a":12}` || err != nil {
		t.Errorf("%s, %v", clean, err)
	}
	if _, err = s.Check([]byte(`{"a":9}`)); err == nil || err.Error() != "a: must be at least 10" {
		t.Error(err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, test := range []struct{ schema, want string }{
		{``, "invalid JSON at offset 0: unexpected end"},
		{`{`, "invalid JSON at offset 1: unexpected end"},
		{"{\"type\":\"object\",\"properties\":{\"\xff\":{}}}", "invalid JSON at offset 32: invalid UTF-8"},
		{`[]`, "must be an object"},
		{`null`, "must be an object"},
		{`true`, "must be an object"},
		{`{}`, `type: must be "object"`},
		{`{"type":["object"],"properties":{}}`, `type: must be "object"`},
		{`{"type":"object"}`, "properties: missing"},
		{`{"type":"object","properties":[]}`, "properties: must be an object"},
		{`{"type":"object","properties":{},"type":"object"}`, `has "type" twice`},
		{`{"type":"object","properties":{},"$schema":1}`, "$schema: must be a string"},
		{`{"type":"object","properties":{},"additionalProperties":false}`,
			`"additionalProperties" is not allowed: a form has only $schema, type, properties and required`},
		{`{"type":"object","properties":{},"required":"a"}`, "required: must be an array"},
		{`{"type":"object","properties":{},"required":[1]}`, "required: element 0: must be a string"},
		{`{"type":"object","properties":{},"required":["a"]}`, `required: there is no property "a"`},
		{`{"type":"object","properties":{"a":{"type":"string"}},"required":["a","a"]}`, `required: "a" is there twice`},
		{`{"type":"object","properties":{"a":{"type":"string"},"\u0061":{"type":"string"}}}`, `properties: has "a" twice`},
		{`{"type":"object","properties":{"a":{"type":"string"},"a":`, "invalid JSON at offset 53: duplicate member name"},
		{`{"type":"object","type":"object",]`, `invalid JSON at offset 17: duplicate member name`},
		{`{"type":"object","properties":{"a":{"type":"string","title":"\ud800"}}}`,
			"invalid JSON at offset 61: lone surrogate"},
	} {
		refuses(t, test.schema, test.want)
	}
	for _, test := range []struct{ property, want string }{
		{`true`, "must be an object"},
		{`{}`, `type: must be "string", "number", "integer", "boolean", or "array"`},
		{`{"type":"object","properties":{}}`, "a form is flat"},
		{`{"type":["string","null"]}`, `an optional property is left out of "required"`},
		{`{"type":"null"}`, "type: must be"},
		{`{"type":"string","pattern":"a"}`, "pattern: not allowed on a string, which may have title, description, default, " +
			"minLength, maxLength, format"},
		{`{"type":"string","$ref":"#"}`, "$ref: not allowed"},
		{`{"type":"string","const":"a"}`, "const: not allowed"},
		{`{"type":"string","minLength":1,"minLength":1}`, `has "minLength" twice`},
		{`{"type":"string","minLength":"1"}`, "minLength: must be a whole number"},
		{`{"type":"string","maxLength":-1}`, "maxLength: must be a whole number"},
		{`{"type":"string","format":"time"}`, `format: "time" is not one of`},
		{`{"type":"string","format":null}`, "format: must be a string"},
		{`{"type":"string","title":1}`, "title: must be a string"},
		{`{"type":"string","description":{}}`, "description: must be a string"},
		{`{"type":"string","default":1}`, "default: must be a string"},
		{`{"type":"string","default":null}`, "default: must be a string"},
		{`{"type":"number","minimum":"1"}`, "minimum: must be a number"},
		{`{"type":"number","exclusiveMinimum":1}`, "exclusiveMinimum: not allowed on a number"},
		{`{"type":"number","multipleOf":2}`, "multipleOf: not allowed on a number"},
		{`{"type":"number","minimum":2,"maximum":1}`, "maximum: 1 is outside 2…"},
		{`{"type":"integer","maximum":18446744073709551616}`, "maximum: 18446744073709551616 is outside"},
		{`{"type":"integer","default":1.5}`, "default: must be a whole number"},
		{`{"type":"boolean","enum":[true]}`, "enum: not allowed on a boolean"},
		{`{"type":"boolean","default":"true"}`, "default: must be true or false"},
		{`{"type":"string","enum":[]}`, "enum: must have at least one value"},
		{`{"type":"string","enum":null}`, "enum: must be an array"},
		{`{"type":"string","enum":["a",1]}`, "enum: element 1: must be a string"},
		{`{"type":"string","enum":["a","\u0061"]}`, `enum: has the value "a" twice`},
		{`{"type":"string","enum":["a"],"enumNames":["A","B"]}`, "enumNames: has 2 names for 1 values"},
		{`{"type":"string","enum":["a"],"enumNames":"A"}`, "enumNames: must be an array"},
		{`{"type":"string","enumNames":["A"]}`, "enumNames: not allowed on a string"},
		{`{"type":"string","enum":["a"],"oneOf":[{"const":"a","title":"A"}]}`, "oneOf: not allowed on a single-select enum"},
		{`{"type":"string","enum":["a"],"minLength":1}`, "minLength: not allowed on a single-select enum"},
		{`{"type":"string","enum":["a"],"default":"b"}`, "default: must be one of a"},
		{`{"type":"string","oneOf":[]}`, "oneOf: must have at least one value"},
		{`{"type":"string","oneOf":["a"]}`, "oneOf: element 0: must be an object"},
		{`{"type":"string","oneOf":[{"const":"a"}]}`, `oneOf: element 0: must be {"const": …, "title": …}`},
		{`{"type":"string","oneOf":[{"const":1,"title":"A"}]}`, "oneOf: element 0: const: must be a string"},
		{`{"type":"string","oneOf":[{"const":"a","title":"A","type":"string"}]}`, "oneOf: element 0: must be"},
		{`{"type":"array"}`, "items: missing"},
		{`{"type":"array","default":[]}`, "items: missing"},
		{`{"type":"array","items":{"type":"string"}}`, `items: must be {"type": "string", "enum": […]} or {"anyOf"`},
		{`{"type":"array","items":{"type":"object","properties":{}}}`, "items: must be"},
		{`{"type":"array","items":{"type":"integer","enum":[1]}}`, "items: must be"},
		{`{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}],"x":1}}`, "items: must be"},
		{`{"type":"array","items":[]}`, "items: must be an object"},
		{`{"type":"array","uniqueItems":true,"items":{"type":"string","enum":["a"]}}`,
			"uniqueItems: not allowed on a multi-select enum"},
		{`{"type":"array","minItems":2,"items":{"type":"string","enum":["a"]}}`, "minItems: 2 is more than the 1 values"},
		{`{"type":"array","default":["b"],"items":{"type":"string","enum":["a"]}}`, "default: must hold nothing but a"},
	} {
		refuses(t, `{"type":"object","properties":{"p":`+test.property+`}}`, `property "p": `, test.want)
	}
}

func refuses(t *testing.T, schema string, want ...string) {
	t.Helper()
	s, err := Parse([]byte(schema))
	if err == nil {
		t.Errorf("%s: no error but %s", schema, s.JSON())
		return
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s:\n got %v\nwant %s", schema, err, part)
		}
	}
}
