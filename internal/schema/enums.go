package schema

import (
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/askback-mcp/askback/internal/wire"
)

// enums are the enums of strings in a schema. The full validator compares values one by one, so that a long list of
// values against a long enum takes minutes. They are checked here instead, and the validator gets a schema without
// them. A nil *enums checks nothing.
type enums struct {
	values  map[string]bool // nil: any
	listed  string          // The values as an error lists them.
	members map[string]*enums
	others  *enums // the members that are not named
	items   *enums
}

// takeEnums returns the enums of a schema, and a copy of the schema without them. It leaves conditional parts alone,
// and schemas with references, because these may lead to any part.
func takeEnums(s *jsonschema.Schema) (*enums, *jsonschema.Schema) {
	if data, err := s.MarshalJSON(); err != nil || strings.Contains(string(data), `"$ref"`) ||
		strings.Contains(string(data), `"$dynamicRef"`) {
		return nil, s
	}
	rest := s.CloneSchemas()
	return take(rest), rest
}

// take removes the enums from a schema. It returns nil if there are none.
func take(s *jsonschema.Schema) *enums {
	if s == nil {
		return nil
	}
	e := new(enums)
	found := false
	if values := stringValues(s); values != nil {
		e.values, e.listed = values, listed(s.Enum)
		s.Enum, found = nil, true
	}
	for name, property := range s.Properties {
		m := take(property)
		if e.members == nil {
			e.members = make(map[string]*enums)
		}
		e.members[name] = m // nil, too, so that the name is known
		found = found || m != nil
	}
	if len(s.PatternProperties) == 0 { // a pattern may apply to the others
		e.others = take(s.AdditionalProperties)
	}
	if len(s.PrefixItems) == 0 {
		e.items = take(s.Items)
	}
	if !found && e.others == nil && e.items == nil {
		return nil
	}
	return e
}

// stringValues returns the values of an enum of strings alone, or nil.
func stringValues(s *jsonschema.Schema) map[string]bool {
	if len(s.Enum) == 0 {
		return nil
	}
	values := make(map[string]bool, len(s.Enum))
	for _, v := range s.Enum {
		text, ok := v.(string)
		if !ok {
			return nil
		}
		values[text] = true
	}
	return values
}

// listed returns values for an error, and cuts a long list.
func listed(values []any) string {
	const most = 20
	var b strings.Builder
	for i, v := range values[:min(len(values), most)] {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", v)
	}
	if len(values) > most {
		fmt.Fprintf(&b, ", … (%d in all)", len(values))
	}
	return b.String()
}

// check returns an error for a decoded value at a path that is not among the values of its enum.
func (e *enums) check(value any, path string) error {
	if e == nil {
		return nil
	}
	if text, ok := value.(string); e.values != nil && (!ok || !e.values[text]) {
		return fmt.Errorf("validating %s: enum: %s is not one of %s", path, wire.Cut(fmt.Sprint(value), 100), e.listed)
	}
	switch v := value.(type) {
	case map[string]any:
		for name, value := range v {
			at, named := e.members[name]
			sub := path + "/properties/" + name
			if !named {
				at, sub = e.others, path+"/additionalProperties"
			}
			if at == nil {
				continue
			}
			if err := at.check(value, sub); err != nil {
				return err
			}
		}
	case []any:
		for _, value := range v {
			if err := e.items.check(value, path+"/items"); err != nil {
				return err
			}
		}
	}
	return nil
}
