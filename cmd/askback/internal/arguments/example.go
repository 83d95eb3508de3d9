package arguments

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback/cmd/askback/internal/cli"
	"github.com/askback-mcp/askback/internal/foreign"
)

// SampleContent makes an example of a form's content.
func SampleContent(schema json.RawMessage) string {
	top, err := foreign.ReadSchema(schema)
	if err != nil {
		return "{…}"
	}
	first := func(s *jsonschema.Schema) any {
		if len(s.Enum) > 0 {
			return s.Enum[0]
		}
		for _, option := range slices.Concat(s.OneOf, s.AnyOf) {
			if option.Const != nil {
				return *option.Const
			}
		}
		return "…"
	}
	names := top.Required
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(top.Properties))
	}
	var members []string
	for _, name := range names {
		p := cmp.Or(top.Properties[name], &jsonschema.Schema{})
		var value any
		switch {
		case p.Default != nil:
			value = p.Default
		case p.Type == "integer" || p.Type == "number":
			value = 1
		case p.Type == "boolean":
			value = true
		case p.Type == "array":
			value = []any{first(cmp.Or(p.Items, &jsonschema.Schema{}))}
		default:
			value = first(p)
		}
		members = append(members, cli.Compact(name)+":"+cli.Compact(value))
	}
	return "{" + strings.Join(members, ",") + "}"
}
