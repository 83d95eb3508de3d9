package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/internal/strictjson"
)

// keywordsOfSchemas are JSON Schema's keywords with schemas in them, as a server may send them with null in their
// place.
var keywordsOfSchemas = []string{
	`"anyOf":[null]`, `"oneOf":[null]`, `"oneOf":[null,{"const":1}]`, `"allOf":[null]`, `"not":null`, `"if":null`,
	`"then":null`, `"prefixItems":[null]`, `"items":null`, `"items":[null]`, `"contains":null`, `"additionalItems":null`,
	`"unevaluatedItems":null`, `"properties":{"p":null}`, `"patternProperties":{"p":null}`,
	`"additionalProperties":null`, `"propertyNames":null`,
	`"dependentSchemas":{"p":null}`, `"dependencies":{"p":null}`, `"$defs":{"p":null}`, `"definitions":{"p":null}`,
	`"contentSchema":null`, `"type":null`, `"enum":[null]`, `"enum":null`, `"const":null`,
	`"default":null`, `"required":[null]`, `"multipleOf":0`,
	`"$ref":"#/$defs/p","$defs":{"p":{"$ref":"#/$defs/p"}}`, `"$dynamicRef":"#"`,
}

// A server's schema with null in the place of schemas is used like any other, wherever the null is.
func TestSchemasWithNull(t *testing.T) {
	t.Parallel()
	for _, keyword := range keywordsOfSchemas {
		for _, schema := range []string{
			`{"type":"object",` + keyword + `}`,
			`{"type":"object","properties":{"p":{` + keyword + `}}}`,
			`{"type":"object","properties":{"p":{"type":"array","items":{` + keyword + `}}}}`,
			`{"type":"object","properties":{"p":{"anyOf":[{` + keyword + `}]}}}`,
		} {
			useSchema(t, schema, "p", `[{"p":1}]`)
		}
	}
	for raw, want := range map[string]string{
		`{"properties":{"p":{"anyOf":[null]}}}`:                                      "",
		`{"properties":{"p":{"oneOf":[null,{"type":"integer"}]},"q":{"minimum":2}}}`: "q=1: want at least 2",
	} {
		got := ""
		if err := parseSchema(json.RawMessage(raw)).check(t.Context(), json.RawMessage(`{"p":"x","q":1}`)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

// A schema beyond the limits counts as empty.
func TestSchemasBeyondLimits(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"items":`, maxDepth+1) + "{}" + strings.Repeat("}", maxDepth+1)
	for name, schema := range map[string]string{
		"deep": `{"properties":{"p":` + deep + `}}`,
		"long": `{"properties":{"p":{"description":"` + strings.Repeat("x", 1<<20) + `"}}}`,
		"wide": `{"properties":{"p":{"anyOf":[{}` + strings.Repeat(",{}", 10_000) + `]}}}`,
	} {
		if s := parseSchema(json.RawMessage(schema)); len(s.Properties) > 0 {
			t.Errorf("a schema that is too %s was read", name)
		}
		if text, err := parseSchema(json.RawMessage(schema)).value(pair{key: "p", value: "1"}); err != nil || text != `"1"` {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}

// useSchema uses a server's schema as the command uses the schema of a tool, and of a form.
func useSchema(t *testing.T, schema, key, value string) {
	t.Helper()
	s := parseSchema(json.RawMessage(schema))
	_ = s.list()
	for _, p := range []pair{{key: key, value: value}, {key: key, value: value, raw: true}} {
		if p.raw && strictjson.Check([]byte(value), maxDepth) != nil {
			continue
		}
		object, _, err := s.arguments(t.Context(), "tool", []pair{p}, nil)
		if err == nil && strictjson.Check(object, maxDepth+1) != nil {
			t.Errorf("%s: %s=%s became %s", schema, key, value, object)
		}
	}
	q := &client.Question{Key: "form", Method: elicitation, Message: "?", Schema: json.RawMessage(schema)}
	_ = describe(q)
	_, _ = answer{text: value, from: "--answer"}.elicit(q)
	_, _ = answer{text: `{"` + key + `":` + value + `}`, from: "--answer"}.elicit(q)
}

// FuzzSchema lets a server list any tools, and a user type any argument.
func FuzzSchema(f *testing.F) {
	for _, keyword := range keywordsOfSchemas {
		f.Add(`{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{"p":{`+keyword+`}}}}]}`, "p", "1")
	}
	f.Add(`{"tools":[null,{"name":"t","inputSchema":{"type":"object",`+keywordsOfSchemas[0]+`}}]}`, "p", `{"a":[1]}`)
	f.Add(`{"tools":[{"name":"","inputSchema":null,"outputSchema":null,"annotations":null},{}]}`, "", "")
	f.Fuzz(func(t *testing.T, list, key, value string) {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return // parsePairs refuses them
		}
		var page mcp.ListToolsResult
		if json.Unmarshal([]byte(list), &page) != nil {
			return
		}
		tools := slices.DeleteFunc(page.Tools, func(tool *mcp.Tool) bool { return tool == nil })
		_ = (&offer{Tools: tools}).text()
		for _, tool := range tools {
			schema, err := json.Marshal(tool.InputSchema)
			if err != nil {
				t.Fatal(err)
			}
			useSchema(t, string(schema), key, value)
		}
	})
}

// Arguments that cannot be checked against their schema are the server's to judge, and the reason is told. A schema
// with references is applied like any other.
func TestSchemasWithReferences(t *testing.T) {
	t.Parallel()
	const definitions = `,"$defs":{"small":{"type":"integer","maximum":9},"box":{"required":["p"]}}`
	for _, tt := range []struct{ schema, wrong, unchecked string }{
		{`{"properties":{"p":{"$ref":"#/$defs/small"}}` + definitions + `}`, "p=10: want a value that this schema", ""},
		{`{"allOf":[{"$ref":"#/$defs/box"}]` + definitions + `}`, "", ""},
		{`{"$ref":"#"}`, "", "references form a circle"},
		{`{"allOf":[{"$ref":"https://example.com/schema"}]}`, "", "nothing is fetched"},
		{`{"properties":{"p":{"pattern":"` + strings.Repeat("a", 3_000) + `"}}}`, "", "pattern of more than"},
	} {
		s := parseSchema(json.RawMessage(tt.schema))
		object, unchecked, err := s.arguments(t.Context(), "tool", []pair{{key: "p", value: "10", raw: true}}, nil)
		if said := fmt.Sprint(err); (err != nil) != (tt.wrong != "") || !strings.Contains(said, tt.wrong) && err != nil {
			t.Errorf("%s: %s, want %q", tt.schema, said, tt.wrong)
		}
		if err != nil {
			continue
		}
		said := fmt.Sprint(unchecked)
		if string(object) != `{"p":10}` || (unchecked != nil) != (tt.unchecked != "") ||
			!strings.Contains(said, tt.unchecked) && unchecked != nil {
			t.Errorf("%s: %s is not checked because %s, want %q", tt.schema, object, said, tt.unchecked)
		}
	}
}
