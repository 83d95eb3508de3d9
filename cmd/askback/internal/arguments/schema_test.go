package arguments

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/test/expect"
)

// A schema beyond the limits counts as empty.
func TestSchemasBeyondLimits(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"items":`, cli.MaxDepth+1) + "{}" + strings.Repeat("}", cli.MaxDepth+1)
	for name, schema := range map[string]string{
		"deep": `{"properties":{"p":` + deep + `}}`,
		"long": `{"properties":{"p":{"description":"` + strings.Repeat("x", 1<<20) + `"}}}`,
		"wide": `{"properties":{"p":{"anyOf":[{}` + strings.Repeat(",{}", 10_000) + `]}}}`,
	} {
		if s := ParseSchema(json.RawMessage(schema)); len(s.Properties) > 0 {
			t.Errorf("a schema that is too %s was read", name)
		}
		if text, err := ParseSchema(json.RawMessage(schema)).value(Pair{Key: "p", Value: "1"}); err != nil || text != `"1"` {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
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
		s := ParseSchema(json.RawMessage(tt.schema))
		object, unchecked, err := s.Arguments(t.Context(), "tool", []Pair{{Key: "p", Value: "10", Raw: true}}, nil)
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

// A null in the place of a schema allows everything, and the schemas beside it still count.
func TestNullBesideSchemas(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"properties":{"p":{"anyOf":[null]}}}`:                                      "",
		`{"properties":{"p":{"oneOf":[null,{"type":"integer"}]},"q":{"minimum":2}}}`: "q=1: want at least 2",
	} {
		got := ""
		if err := ParseSchema(json.RawMessage(raw)).check(t.Context(), json.RawMessage(`{"p":"x","q":1}`)); err != nil {
			got = err.Error()
		}
		expect.Equal(t, raw, got, want)
	}
}
