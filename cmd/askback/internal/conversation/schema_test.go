package conversation

import (
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/askback-mcp/askback/client"
	"github.com/askback-mcp/askback/cmd/askback/internal/arguments"
	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/input"
	"github.com/askback-mcp/askback/internal/strictjson"
	"github.com/askback-mcp/askback/internal/test/expect"
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
}

// useSchema uses a server's schema as the command uses the schema of a tool, and of a form.
func useSchema(t *testing.T, schema, key, value string) {
	t.Helper()
	s := arguments.ParseSchema(json.RawMessage(schema))
	_ = s.List()
	for _, p := range []arguments.Pair{{Key: key, Value: value}, {Key: key, Value: value, Raw: true}} {
		if p.Raw && strictjson.Check([]byte(value), cli.MaxDepth) != nil {
			continue
		}
		object, _, err := s.Arguments(t.Context(), "tool", []arguments.Pair{p}, nil)
		if err == nil && strictjson.Check(object, cli.MaxDepth+1) != nil {
			t.Errorf("%s: %s=%s became %s", schema, key, value, object)
		}
	}
	q := &client.Question{Key: "form", Method: input.MethodElicit, Message: "?", Schema: json.RawMessage(schema)}
	_ = Describe(q)
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
		for _, tool := range tools {
			schema := expect.Must(json.Marshal(tool.InputSchema))(t)
			useSchema(t, string(schema), key, value)
		}
	})
}
